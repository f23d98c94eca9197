//! Many jobs due in the same minute: worked off in slices, whatever the pile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual::conformance::START;
use punctual::engine::{
    Action, Claim, Control, Controlled, Cursor, Edit, Filter, List, ListBy, Select, StatsRequest,
    WorkerId,
};
use punctual::time::{Clock, ManualClock, Timestamp, hours, millis, minutes, seconds};
use punctual::{Due, Engine, Hold, NewJob, State, Unique, UniquePolicy};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

use crate::client::{QUEUE, claim, here};

/// How many, unless `PUNCTUAL_PILE` says otherwise: a million takes a minute or so.
const JOBS: usize = 100_000;
/// Jobs of a call.
const BATCH: usize = 1_000;
/// Commands within the functions that one call may take, however many jobs there are.
const WORK_MAX: u64 = 200;

/// Reads what a server has done.
struct Meter {
    connection: redis::Connection,
    works: BTreeMap<&'static str, Vec<Work>>,
}

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
    fn of(server: &TestServer) -> Self {
        server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        let client = redis::Client::open(("127.0.0.1", server.port())).expect("an address");
        Self {
            connection: client.get_connection().expect("it listens"),
            works: BTreeMap::new(),
        }
    }

    fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut ask = redis::cmd(words[0]);
        ask.arg(&words[1..]);
        ask.query(&mut self.connection).expect("it answers")
    }

    fn commands(&mut self) -> u64 {
        self.counts().iter().map(|(_, count)| count).sum()
    }

    /// Calls of functions.
    fn calls(&mut self) -> u64 {
        let counts = self.counts();
        let calls = counts.iter().filter(|(name, _)| name.starts_with("fcall"));
        calls.map(|(_, count)| count).sum()
    }

    /// How often each command was done.
    fn counts(&mut self) -> Vec<(String, u64)> {
        let told: String = self.ask(&["INFO", "commandstats"]);
        let lines = told.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let (number, _) = rest.split_once(',')?;
            Some((name.to_owned(), number.parse().expect("a number")))
        });
        lines.collect()
    }

    /// Does something, and holds each of its calls to its bound.
    async fn bounded<T>(&mut self, what: &'static str, work: impl Future<Output = T>) -> T {
        self.bounded_by(what, WORK_MAX, work).await
    }

    async fn bounded_by<T>(
        &mut self,
        what: &'static str,
        most: u64,
        work: impl Future<Output = T>,
    ) -> T {
        self.ask::<()>(&["SLOWLOG", "RESET"]);
        let before = (self.commands(), self.calls());
        let done = work.await;
        let calls = (self.calls() - before.1).max(1);
        let commands = (self.commands() - before.0).div_ceil(calls);
        assert!(commands <= most, "{what} took {commands} commands a call");
        let slow: Vec<Slow> = self.ask(&["SLOWLOG", "GET", "64"]);
        let ours = slow.iter().filter(|slow| slow.3[0].as_slice() != b"INFO");
        let longest = Duration::from_micros(ours.map(|slow| slow.2).max().unwrap_or_default());
        self.works
            .entry(what)
            .or_default()
            .push(Work { commands, longest });
        done
    }
}

struct Pile {
    server: TestServer,
    engine: RedisEngine,
    clock: ManualClock,
    meter: Meter,
}

impl Pile {
    async fn new() -> Self {
        let server = TestServer::start();
        let clock = ManualClock::new(START);
        let options: Options = server.address().parse().expect("a good address");
        let engine = RedisEngine::connect_with_clock(options, clock.clone()).await;
        Self {
            engine: engine.expect("the server is there"),
            meter: Meter::of(&server),
            clock,
            server,
        }
    }

    async fn enqueue(&mut self, jobs: usize, minute: Timestamp) {
        let apart = minutes(1).as_micros() as usize;
        for first in (0..jobs).step_by(BATCH) {
            let batch = (first..jobs.min(first + BATCH)).map(|number| NewJob {
                due: Due::At(minute + Duration::from_micros((number * apart / jobs) as u64)),
                ..NewJob::new(QUEUE, vec![b'x'; 100])
            });
            let jobs = batch.collect();
            let namespace = here();
            let sent = self.engine.enqueue(&namespace, jobs);
            self.meter.bounded("enqueue", sent).await.expect("enqueue");
        }
    }

    async fn set_time(&self, now: Timestamp) {
        self.engine
            .set_time(now)
            .await
            .expect("the server is there");
        self.clock.set(now);
    }

    /// All that time has brought about, slice by slice.
    async fn maintain(&mut self) {
        loop {
            let duties = self.engine.maintain();
            let done = self
                .meter
                .bounded("maintain", duties)
                .await
                .expect("maintain");
            let slice = self.engine.info().await.expect("info").limits.sweep;
            assert!(done.moved <= slice, "{} in one slice", done.moved);
            if done.next.is_none_or(|next| next > self.clock.now()) {
                return;
            }
        }
    }

    /// Claims and completes what is due; how many.
    async fn work_off(&mut self) -> usize {
        let mut done = 0;
        loop {
            let claimed = claim(&self.engine, BATCH);
            let pages = self.meter.bounded("claim", claimed).await.expect("claim");
            if pages.is_empty() {
                return done;
            }
            for page in pages {
                let early = page.jobs.iter().filter(|job| job.due > self.clock.now());
                assert_eq!(early.count(), 0);
                done += page.jobs.len();
                let settled = page.complete(&self.engine);
                assert!(self.meter.bounded("settle", settled).await.expect("settle"));
            }
        }
    }

    /// Cancels all that wait; how many.
    async fn purge(&mut self) -> usize {
        let (mut cursor, mut cancelled) = (None, 0);
        loop {
            let purge = Control::Purge {
                queue: QUEUE.into(),
                cursor,
                limit: BATCH,
            };
            let namespace = here();
            let purged = self.engine.control(&namespace, purge);
            let purged = self.meter.bounded_by("purge", CHANGES_MAX, purged).await;
            let Controlled::Purged {
                matched,
                cursor: next,
                ..
            } = purged.expect("purge")
            else {
                panic!("a purge answers what it has purged");
            };
            cancelled += matched;
            cursor = next;
            if cursor.is_none() {
                return cancelled;
            }
        }
    }

    /// What it took, for who looks.
    fn tell(&mut self, what: &str) {
        let memory = self.server.cli(&["INFO", "memory"]);
        let memory = memory
            .lines()
            .find(|line| line.starts_with("used_memory_human"));
        println!("{what}: {}", memory.unwrap_or_default());
        for (verb, works) in std::mem::take(&mut self.meter.works) {
            let commands = works.iter().map(|work| work.commands).max();
            let mut longest: Vec<_> = works.iter().map(|work| work.longest).collect();
            longest.sort_unstable();
            println!(
                "  {verb}: {} times, half within {:?}, the longest {:?}, {} over 5 ms, at most {} commands",
                works.len(),
                longest[works.len() / 2],
                longest[works.len() - 1],
                longest.iter().filter(|one| **one > millis(5)).count(),
                commands.unwrap_or_default()
            );
        }
    }
}

#[tokio::test]
async fn a_pile_due_in_one_minute_is_worked_off_in_slices() {
    let told = std::env::var("PUNCTUAL_PILE").ok();
    let jobs = told.map_or(JOBS, |told| told.parse().expect("a number of jobs"));
    let mut pile = Pile::new().await;
    let minute = START + hours(1);
    pile.enqueue(jobs, minute).await;
    pile.tell("enqueued");
    pile.set_time(START + minutes(55)).await;
    pile.maintain().await;
    pile.tell("near");
    pile.set_time(minute + seconds(30)).await;
    let first = pile.work_off().await;
    pile.tell("half of it");
    assert!(
        first >= jobs / 2 && first < jobs / 2 + BATCH,
        "{first} of {jobs}"
    );
    pile.set_time(minute + minutes(1)).await;
    assert_eq!(pile.work_off().await, jobs - first);
    pile.tell("all");
    pile.set_time(minute + minutes(10)).await;
    pile.maintain().await;
    pile.tell("forgotten");
}

/// Pages of a list that are looked at, from its first on.
const PAGES: usize = 20;
/// Commands for a page of a list: its index, and a look at each of its packs.
const LIST_MAX: u64 = 200;
/// Commands of a call that changes jobs: some twenty each for as many as one call takes.
const CHANGES_MAX: u64 = 1_000;

/// Half of the jobs are ready, half due within an hour; a page of 1,000 is the most that can be asked for.
#[tokio::test]
async fn whoever_looks_at_a_large_queue_or_changes_it_does_so_in_slices() {
    let told = std::env::var("PUNCTUAL_PILE").ok();
    let jobs = told.map_or(JOBS, |told| told.parse().expect("a number of jobs")) / 2;
    let mut pile = Pile::new().await;
    let here = here();
    pile.enqueue(jobs, START).await;
    pile.enqueue(jobs, START + hours(1)).await;
    pile.set_time(START + minutes(1)).await;
    pile.maintain().await;
    for page in claim(&pile.engine, BATCH).await.expect("claim") {
        assert!(page.complete(&pile.engine).await.expect("settle"));
    }
    claim(&pile.engine, BATCH).await.expect("claim");
    pile.tell("before");

    let states = [
        ("list ready", Some(State::Ready)),
        ("list scheduled", Some(State::Scheduled)),
        ("list active", Some(State::Active)),
        ("list completed", Some(State::Completed)),
        ("search all", None),
    ];
    for (what, state) in states {
        for text in [None, Some("y".into())] {
            let mut list = List {
                by: state.map_or(ListBy::All, |state| ListBy::State {
                    queue: QUEUE.into(),
                    state,
                }),
                filter: Filter {
                    text,
                    ..Filter::default()
                },
                cursor: None,
                limit: BATCH,
                payloads: true,
            };
            for _ in 0..PAGES {
                let listed = pile.engine.list(&here, list.clone());
                let listed = pile.meter.bounded_by(what, LIST_MAX, listed).await;
                list.cursor = listed.expect(what).cursor;
                if list.cursor.is_none() {
                    break;
                }
            }
            if state == Some(State::Scheduled) {
                let cursor = list.cursor.expect("there are more");
                assert_eq!(cursor.0[6], b'p', "a long list is not sorted for each page");
            }
        }
    }
    let everything = StatsRequest {
        queues: Vec::new(),
        history: true,
        due: true,
    };
    let stats = pile.engine.stats(&here, everything);
    pile.meter.bounded("stats", stats).await.expect("stats");
    pile.meter
        .bounded("info", pile.engine.info())
        .await
        .expect("info");
    pile.tell("looked at");

    for (what, state, action) in [
        ("run now", State::Scheduled, Action::RunNow),
        ("cancel scheduled", State::Scheduled, Action::Cancel),
        ("cancel ready", State::Ready, Action::Cancel),
    ] {
        for dry_run in [true, false] {
            let mut select = Filtered::of(state);
            for _ in 0..PAGES {
                let edited = pile.engine.edit(
                    &here,
                    Edit {
                        select: select.next(),
                        action,
                        dry_run,
                    },
                );
                let name = if dry_run { "dry run" } else { what };
                let edited = pile.meter.bounded_by(name, CHANGES_MAX, edited).await;
                let edited = edited.expect(what);
                assert!(edited.matched > 0, "{what}");
                select.cursor = edited.cursor;
                if select.cursor.is_none() {
                    break;
                }
            }
        }
    }
    pile.tell("edited");
    let cancelled = pile.purge().await;
    pile.tell("purged");
    assert!(cancelled > jobs / 2, "{cancelled} of {jobs}");
    for state in [State::Ready, State::Scheduled] {
        let listed = List {
            by: ListBy::State {
                queue: QUEUE.into(),
                state,
            },
            filter: Filter::default(),
            cursor: None,
            limit: BATCH,
            payloads: false,
        };
        let listed = pile.engine.list(&here, listed);
        let listed = pile.meter.bounded("list of none", listed).await;
        assert_eq!(listed.expect("list").jobs.len(), 0, "{state}");
    }
}

/// Where jobs stand that wait long: some near, the others in a list that is short or long.
#[tokio::test]
async fn all_of_those_that_wait_long_are_listed_once_and_purged() {
    for (jobs, near) in [(900, 0), (1_500, 0), (3_000, 20), (3_000, 600)] {
        let mut pile = Pile::new().await;
        let here = here();
        let mut sent = BTreeSet::new();
        let mut put = async |due: Due, jobs: usize| {
            let job = |_| NewJob {
                due,
                ..NewJob::new(QUEUE, "{}")
            };
            let jobs: Vec<NewJob> = (0..jobs).map(job).collect();
            sent.extend(jobs.iter().map(|job| job.id));
            pile.engine.enqueue(&here, jobs).await.expect("enqueue");
        };
        put(Due::After(seconds(30)), near).await;
        for nth in 0..jobs / 100 {
            // In no order.
            let due = hours(24) + seconds(nth as u64 * 7 % 31);
            put(Due::After(due), 100).await;
        }
        let mut list = List {
            by: ListBy::State {
                queue: QUEUE.into(),
                state: State::Scheduled,
            },
            filter: Filter::default(),
            cursor: None,
            limit: 50,
            payloads: false,
        };
        let mut listed = Vec::new();
        loop {
            let page = pile.engine.list(&here, list.clone());
            let page = pile.meter.bounded("list", page).await.expect("list");
            listed.extend(page.jobs.into_iter().map(|job| job.id));
            list.cursor = page.cursor;
            if list.cursor.is_none() {
                break;
            }
        }
        assert_eq!(listed.len(), sent.len(), "{jobs} far and {near} near jobs");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), sent);
        let purged = pile.purge().await;
        assert_eq!(purged, sent.len(), "{jobs} far and {near} near jobs");
        list.cursor = None;
        let left = pile.engine.list(&here, list).await.expect("list");
        assert!(left.jobs.is_empty(), "{} left", left.jobs.len());
    }
}

struct Filtered {
    state: State,
    cursor: Option<Cursor>,
}

impl Filtered {
    fn of(state: State) -> Self {
        Self {
            state,
            cursor: None,
        }
    }

    fn next(&self) -> Select {
        Select::Filter {
            filter: Filter {
                queue: Some(QUEUE.into()),
                state: Some(self.state),
                ..Filter::default()
            },
            cursor: self.cursor.clone(),
            limit: BATCH,
        }
    }
}

/// A job that has to be looked at.
fn keyed(number: usize) -> NewJob {
    NewJob {
        unique: Some(Unique {
            key: format!("order-{number}"),
            policy: UniquePolicy::default(),
            hold: Hold::default(),
        }),
        ..NewJob::new(QUEUE, vec![b'x'; 100])
    }
}

/// The same holds when they become due: one call moves few of them, and says when to come again.
#[tokio::test]
async fn jobs_with_keys_are_moved_a_hundred_and_some_at_a_time() {
    let pile = Pile::new().await;
    let later = |number| NewJob {
        due: Due::After(seconds(10)),
        ..keyed(number)
    };
    let jobs = (0..BATCH).map(later).collect();
    pile.engine.enqueue(&here(), jobs).await.expect("enqueue");
    pile.set_time(START + seconds(10)).await;
    let mut moved = 0;
    while moved < BATCH {
        let done = pile.engine.maintain().await.expect("maintain");
        assert!(
            (1..=125).contains(&done.moved),
            "{} in one call",
            done.moved
        );
        moved += done.moved;
        let more = done.next.is_some_and(|next| next <= START + seconds(10));
        assert_eq!(more, moved < BATCH);
    }
}

/// What is looked at costs ten times what plain jobs cost: fewer of them are claimed at once, and the answer says that
/// there are more.
#[tokio::test]
async fn jobs_with_keys_are_claimed_a_few_hundred_at_a_time() {
    let pile = Pile::new().await;
    let jobs: Vec<_> = (0..BATCH).map(keyed).collect();
    let sent: Vec<_> = jobs.iter().map(|job| job.id).collect();
    pile.engine.enqueue(&here(), jobs).await.expect("enqueue");
    let mut claimed = Vec::new();
    while claimed.len() < BATCH {
        let order = Claim::new(WorkerId::random(), QUEUE, BATCH);
        let answer = pile.engine.claim(&here(), order).await.expect("claim");
        let jobs: Vec<_> = answer
            .pages
            .into_iter()
            .flat_map(|page| page.jobs)
            .collect();
        assert!(
            (1..=250).contains(&jobs.len()),
            "{} in one call",
            jobs.len()
        );
        claimed.extend(jobs.into_iter().map(|job| job.id));
        let more = answer.wake_at.is_some_and(|at| at <= answer.now);
        assert_eq!(more, claimed.len() < BATCH);
    }
    assert_eq!(claimed, sent, "in their order");
}

/// Jobs that have expired are no work of a claim: it settles few of them, and says that there is more.
#[tokio::test]
async fn a_claim_settles_few_of_the_expired_jobs_that_it_meets() {
    let mut pile = Pile::new().await;
    let expires_at = Some(START + seconds(1));
    let expiring = |_| NewJob {
        expires_at,
        ..NewJob::new(QUEUE, vec![b'x'; 100])
    };
    for _ in 0..3 {
        let jobs = (0..BATCH).map(expiring).collect();
        pile.engine.enqueue(&here(), jobs).await.expect("enqueue");
    }
    pile.set_time(START + seconds(2)).await;
    for claims in 1.. {
        assert!(claims < 100, "claims bring it to no end");
        let before = pile.meter.commands();
        let order = Claim::new(WorkerId::random(), QUEUE, BATCH);
        let answer = pile.engine.claim(&here(), order).await.expect("claim");
        assert!(answer.pages.is_empty(), "all of them have expired");
        let commands = pile.meter.commands() - before;
        assert!(commands < EXPIRING_MAX, "a claim took {commands} commands");
        if answer.wake_at.is_none_or(|at| at > answer.now) {
            assert!(claims > 3, "{claims} claims for all");
            break;
        }
    }
}

/// Commands of a claim that expires as many as it may, some twelve each.
const EXPIRING_MAX: u64 = 4_000;
