//! Many jobs due in the same minute: worked off in slices, whatever the pile.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use punctual::conformance::START;
use punctual::time::{Clock, ManualClock, Timestamp, hours, minutes, seconds};
use punctual::{Due, Engine, NewJob};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

use crate::client::{QUEUE, claim, here};

/// How many, unless `PUNCTUAL_PILE` says otherwise: a million takes a minute or so.
const JOBS: usize = 100_000;
/// Jobs of a call.
const BATCH: usize = 1_000;
/// Commands within the functions that one call may take, however many jobs there are.
const WORK_MAX: u64 = 200;

/// Reads what a server has done: commands, those within functions too, and its time on a processor.
struct Meter {
    stream: BufReader<TcpStream>,
    most: BTreeMap<&'static str, Work>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Work {
    commands: u64,
    cpu: Duration,
}

impl Meter {
    fn of(server: &TestServer) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
        Self {
            stream: BufReader::new(stream),
            most: BTreeMap::new(),
        }
    }

    fn read(&mut self) -> Work {
        let stream = self.stream.get_mut();
        stream
            .write_all(b"INFO commandstats cpu\r\n")
            .expect("it reads");
        let mut head = String::new();
        self.stream.read_line(&mut head).expect("it answers");
        let length = head.trim().trim_start_matches('$');
        let mut body = vec![0; length.parse::<usize>().expect("a length") + 2];
        self.stream.read_exact(&mut body).expect("it answers");
        let body = String::from_utf8(body).expect("UTF-8");
        let calls = body.split(":calls=").skip(1).map(|rest| {
            let number = rest.split(',').next().unwrap_or_default();
            number.parse::<u64>().expect("a number")
        });
        let times = ["used_cpu_user_main_thread:", "used_cpu_sys_main_thread:"].map(|name| {
            let line = body.lines().find_map(|line| line.strip_prefix(name));
            line.expect("it tells").parse::<f64>().expect("seconds")
        });
        Work {
            commands: calls.sum(),
            cpu: Duration::from_secs_f64(times.iter().sum()),
        }
    }

    /// Does something that is one call or two, and holds it to its bound.
    async fn bounded<T>(&mut self, what: &'static str, work: impl Future<Output = T>) -> T {
        let before = self.read();
        let done = work.await;
        let after = self.read();
        let commands = after.commands - before.commands;
        assert!(commands <= WORK_MAX, "{what} took {commands} commands");
        let most = self.most.entry(what).or_default();
        most.commands = most.commands.max(commands);
        most.cpu = most.cpu.max(after.cpu - before.cpu);
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

    /// What it took, for who looks.
    fn tell(&mut self, what: &str) {
        let memory = self.server.cli(&["INFO", "memory"]);
        let memory = memory
            .lines()
            .find(|line| line.starts_with("used_memory_human"));
        let slow = self.server.cli(&["SLOWLOG", "LEN"]);
        println!("{what}: {}, {slow} over 5 ms", memory.unwrap_or_default());
        for (verb, most) in std::mem::take(&mut self.meter.most) {
            println!("  {verb}: at most {most:?}");
        }
        self.server.cli(&["SLOWLOG", "RESET"]);
    }
}

#[tokio::test]
async fn a_pile_due_in_one_minute_is_worked_off_in_slices() {
    let told = std::env::var("PUNCTUAL_PILE").ok();
    let jobs = told.map_or(JOBS, |told| told.parse().expect("a number of jobs"));
    let mut pile = Pile::new().await;
    pile.server
        .cli(&["CONFIG", "SET", "slowlog-log-slower-than", "5000"]);
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
