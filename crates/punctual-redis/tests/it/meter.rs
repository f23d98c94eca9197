//! What a server has done for a call: how many commands, and how long they kept it.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::time::millis;
use punctual_redis::testing::TestServer;

/// Commands within the functions that one call may take, however many jobs there are.
const WORK_MAX: u64 = 200;

/// Commands of a call that changes jobs: some twenty each for as many as one call takes.
pub(crate) const CHANGES_MAX: u64 = 1_000;

/// Reads what a server has done.
pub(crate) struct Meter {
    connection: redis::Connection,
    works: BTreeMap<&'static str, Vec<Work>>,
    /// Turns of a loop that takes [`BESIDE`] on this machine, if a test reads times.
    turns: Option<u64>,
    beside: Vec<Duration>,
}

/// What calls of ours take, about; a loop that touches no key takes as long after each of them, to
/// show what the machine takes from the server.
const BESIDE: Duration = millis(2);
/// Counts to a number.
const LOOP: &str =
    "local sum = 0 for turn = 1, tonumber(ARGV[1]) do sum = sum + turn end return sum";

#[derive(Debug, Default, Clone, Copy)]
struct Work {
    /// Of each call, those within functions too.
    commands: u64,
    /// How long the longest command kept the server, as its slow log counts.
    longest: Duration,
}

/// An entry of the slow log: number, second, microseconds, words, client, its name.
type Slow = (u64, u64, u64, Vec<Vec<u8>>, String, String);

impl Meter {
    /// Of a server; `times` says whether a test reads how long its calls take.
    pub(crate) fn of(server: &TestServer, times: bool) -> Self {
        server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        let client = redis::Client::open(("127.0.0.1", server.port())).expect("an address");
        let mut meter = Self {
            connection: client.get_connection().expect("it listens"),
            works: BTreeMap::new(),
            turns: None,
            beside: Vec::new(),
        };
        if times {
            const TURNS: u64 = 100_000;
            let mut took: Vec<_> = (0..99).map(|_| meter.loops(TURNS)).collect();
            took.sort_unstable();
            let median = took[took.len() / 2].as_secs_f64();
            meter.turns = Some((TURNS as f64 * BESIDE.as_secs_f64() / median) as u64);
        }
        meter
    }

    /// How long the server is kept by so many turns of a loop that touches nothing.
    fn loops(&mut self, turns: u64) -> Duration {
        self.ask::<()>(&["SLOWLOG", "RESET"]);
        self.ask::<u64>(&["EVAL", LOOP, "0", &turns.to_string()]);
        self.longest()
    }

    /// How long the longest command since the last reset kept the server, but for what the meter
    /// asks itself.
    fn longest(&mut self) -> Duration {
        let slow: Vec<Slow> = self.ask(&["SLOWLOG", "GET", "64"]);
        let ours = slow.iter().filter(|slow| slow.3[0].as_slice() != b"INFO");
        Duration::from_micros(ours.map(|slow| slow.2).max().unwrap_or_default())
    }

    fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut ask = redis::cmd(words[0]);
        ask.arg(&words[1..]);
        ask.query(&mut self.connection).expect("it answers")
    }

    pub(crate) fn commands(&mut self) -> u64 {
        self.counts().iter().map(|(_, count)| count).sum()
    }

    /// How often each command was done.
    fn counts(&mut self) -> Vec<(String, u64)> {
        let reported: String = self.ask(&["INFO", "commandstats"]);
        let lines = reported.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let (number, _) = rest.split_once(',')?;
            Some((name.to_owned(), number.parse().expect("a number")))
        });
        lines.collect()
    }

    /// Does something, and holds each of its calls to its bound.
    pub(crate) async fn bounded<T>(
        &mut self,
        what: &'static str,
        work: impl Future<Output = T>,
    ) -> T {
        self.bounded_by(what, WORK_MAX, work).await
    }

    pub(crate) async fn bounded_by<T>(
        &mut self,
        what: &'static str,
        most: u64,
        work: impl Future<Output = T>,
    ) -> T {
        self.ask::<()>(&["SLOWLOG", "RESET"]);
        let before = self.counts();
        let done = work.await;
        let mut counts = self.counts();
        for (name, count) in &mut counts {
            let known = before.iter().find(|(known, _)| known == name);
            *count -= known.map_or(0, |(_, count)| *count);
        }
        counts.retain(|(_, count)| *count > 0);
        let commands: u64 = counts.iter().map(|(_, count)| count).sum();
        let of_functions = counts.iter().filter(|(name, _)| name.starts_with("fcall"));
        let calls: u64 = of_functions.map(|(_, count)| count).sum();
        let commands = commands.div_ceil(calls.max(1));
        assert!(
            commands <= most,
            "{what} took {commands} commands a call: {counts:?}"
        );
        let longest = self.longest();
        self.works
            .entry(what)
            .or_default()
            .push(Work { commands, longest });
        if let Some(turns) = self.turns {
            let took = self.loops(turns);
            self.beside.push(took);
        }
        done
    }

    /// Reports what it took since the last report.
    pub(crate) fn announce(&mut self) {
        for (verb, works) in std::mem::take(&mut self.works) {
            let commands = works.iter().map(|work| work.commands).max();
            let longest = works.iter().map(|work| work.longest).collect();
            let commands = commands.unwrap_or_default();
            println!("  {verb}: {}, at most {commands} commands", spread(longest));
        }
        if !self.beside.is_empty() {
            let beside = spread(std::mem::take(&mut self.beside));
            println!("  a loop of {BESIDE:?} that touches nothing, after each: {beside}");
        }
    }
}

fn spread(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    format!(
        "{} times, half within {:?}, the longest {:?}, {} over 5 ms",
        took.len(),
        took[took.len() / 2],
        took[took.len() - 1],
        took.iter().filter(|one| **one > millis(5)).count(),
    )
}
