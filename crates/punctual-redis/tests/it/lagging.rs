//! Far jobs whose time has come before all of them were looked up: those that are put in line meanwhile stand where they
//! are, whatever is done to them.

use std::collections::BTreeSet;

use punctual::conformance::START;
use punctual::engine::{Action, Edit, Select, StatsRequest};
use punctual::job::{Group, OnRetry};
use punctual::time::{Clock, ManualClock, Timestamp, hours, minutes, seconds};
use punctual::{Due, Engine, JobId, Limits, NewJob, State};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

use crate::client::{QUEUE, claim, here};

/// Microseconds that one far list spans.
const WIDTH: u64 = 1 << 32;
/// More than some calls look up.
const FAR: usize = 5_000;

/// A queue whose far list is far from looked up ten minutes after its time began.
struct Lag {
    engine: RedisEngine,
    clock: ManualClock,
    _server: TestServer,
}

impl Lag {
    async fn new() -> Self {
        let server = TestServer::start();
        let clock = ManualClock::new(START);
        let options: Options = server.address().parse().expect("a good address");
        let mut limits = Limits::default();
        limits.batch_items = 10_000;
        let engine = RedisEngine::connect_with_clock(options.limits(limits), clock.clone()).await;
        Self {
            engine: engine.expect("the server is there"),
            clock,
            _server: server,
        }
    }

    /// When the list begins in which jobs of five hours later are.
    fn begins() -> Timestamp {
        Timestamp::from_micros((START + hours(5)).as_micros() / WIDTH * WIDTH)
    }

    async fn far(&self, jobs: usize) {
        let due = |nth: usize| Due::At(Self::begins() + minutes(5) + seconds(nth as u64 % 60));
        let job = |nth| NewJob {
            due: due(nth),
            ..NewJob::new(QUEUE, "{}")
        };
        let jobs = (0..jobs).map(job).collect();
        let sent = self.engine.enqueue(&here(), jobs).await;
        sent.expect("enqueue");
    }

    async fn comes(&self) {
        self.set_time(Self::begins() + minutes(10)).await;
    }

    async fn set_time(&self, now: Timestamp) {
        self.engine.set_time(now).await.expect("it is there");
        self.clock.set(now);
    }

    async fn put(&self, job: NewJob) -> JobId {
        let id = job.id;
        let sent = self.engine.enqueue(&here(), vec![job]).await;
        sent.expect("enqueue");
        id
    }

    async fn edit(&self, id: JobId, action: Action) {
        let edit = Edit {
            select: Select::Targets(vec![id.into()]),
            action,
            dry_run: false,
        };
        let edited = self.engine.edit(&here(), edit).await.expect("edit");
        assert_eq!(edited.matched, 1);
    }

    async fn nothing_waits(&self) {
        let stats = self.engine.stats(&here(), StatsRequest::default()).await;
        let queues = stats.expect("stats").queues;
        let waiting = [State::Scheduled, State::Ready].map(|state| queues[0].counts.of(state));
        assert_eq!(waiting, [0, 0]);
    }

    /// All that can be done now.
    async fn done(&self) -> Vec<JobId> {
        let mut done = Vec::new();
        loop {
            let due = |next: Option<Timestamp>| next.is_some_and(|next| next <= self.clock.now());
            let pages = claim(&self.engine, 1_000).await.expect("claim");
            if pages.is_empty() {
                let kept = self.engine.maintain().await.expect("maintain");
                if kept.moved == 0 && !due(kept.next) {
                    return done;
                }
            }
            for page in pages {
                assert!(page.complete(&self.engine).await.expect("settle"));
                done.extend(page.jobs.iter().map(|job| job.id));
            }
        }
    }
}

fn grouped() -> NewJob {
    NewJob {
        group: Some(Group {
            key: "one".into(),
            on_retry: OnRetry::default(),
        }),
        ..NewJob::new(QUEUE, "{}")
    }
}

fn far_alone() -> NewJob {
    NewJob {
        due: Due::At(Lag::begins() + minutes(6)),
        ..NewJob::new(QUEUE, "{}")
    }
}

#[tokio::test]
async fn a_group_goes_on_after_one_of_its_jobs_was_cancelled_in_line() {
    let lag = Lag::new().await;
    lag.far(FAR).await;
    lag.comes().await;
    let first = lag.put(grouped()).await;
    lag.edit(first, Action::Cancel).await;
    let second = lag.put(grouped()).await;
    let done = lag.done().await;
    let each: BTreeSet<_> = done.iter().collect();
    assert_eq!((each.len(), done.len()), (FAR + 1, FAR + 1));
    assert!(each.contains(&second) && !each.contains(&first));
    lag.nothing_waits().await;
}

#[tokio::test]
async fn what_was_put_in_line_and_then_off_until_later_is_not_early() {
    let lag = Lag::new().await;
    lag.far(FAR).await;
    let run_at_once = lag.put(far_alone()).await;
    lag.comes().await;
    let of_group = lag.put(grouped()).await;
    lag.edit(run_at_once, Action::RunNow).await;
    let later = lag.clock.now() + hours(1);
    for id in [of_group, run_at_once] {
        lag.edit(id, Action::Reschedule(Due::At(later))).await;
    }
    let done = lag.done().await;
    let early = [of_group, run_at_once].map(|id| done.contains(&id));
    assert_eq!((early, done.len()), ([false, false], FAR));
    lag.set_time(later).await;
    assert_eq!(lag.done().await.len(), 2);
    lag.nothing_waits().await;
}

/// More than one call to Redis takes of a list at once.
#[tokio::test]
async fn far_jobs_of_one_call_all_come_however_many_they_are() {
    let lag = Lag::new().await;
    lag.far(7_000).await;
    lag.comes().await;
    assert_eq!(lag.done().await.len(), 7_000);
    lag.nothing_waits().await;
}
