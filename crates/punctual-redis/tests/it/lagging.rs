//! Cold jobs whose time has come before all of them were looked up: those that are put in line
//! meanwhile stand where they are, whatever is done to them.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::conformance::START;
use punctual::engine::{Action, Control, Controlled, Edit, Select, StatsRequest};
use punctual::job::Outcome;
use punctual::time::{Clock, ManualClock, Timestamp, hours, minutes, seconds};
use punctual::{Due, Engine, JobId, JobState, Limits, NewJob};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

use crate::client::{QUEUE, all_records, claim, here};
use crate::hand::raw;

/// Microseconds that one cold bucket spans.
const WIDTH: u64 = 1 << 32;
/// More than some calls look up.
const FAR: usize = 5_000;

/// A queue whose cold bucket is far from looked up ten minutes after its time began.
struct Lag {
    engine: RedisEngine,
    clock: ManualClock,
    server: TestServer,
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
            server,
        }
    }

    /// When the list begins in which jobs of five hours later are.
    fn begins() -> Timestamp {
        Timestamp::from_micros((START + hours(5)).as_micros() / WIDTH * WIDTH)
    }

    async fn far(&self, jobs: usize) {
        let due = |nth: usize| Due::At(Self::begins() + minutes(5) + seconds(nth as u64 % 60));
        let job = |nth| NewJob::new(QUEUE, "{}").due(due(nth));
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
        let edit = Edit::new(Select::Targets(vec![id.into()]), action);
        let edited = self.engine.edit(&here(), edit).await.expect("edit");
        assert_eq!(edited.matched, 1);
    }

    /// Cancels all of the queue that wait; how many.
    async fn purge(&self) -> usize {
        let (mut cancelled, mut from) = (0, None);
        loop {
            let purge = Control::Purge {
                queue: QUEUE.into(),
                cursor: from.take(),
                limit: 1_000,
            };
            let purged = self.engine.control(&here(), purge).await.expect("purge");
            let Controlled::Purged {
                matched, cursor, ..
            } = purged
            else {
                panic!("{purged:?}");
            };
            cancelled += matched;
            from = cursor;
            if from.is_none() {
                return cancelled;
            }
        }
    }

    fn remove(&self, id: JobId) {
        let keys = all_records("punctual:{default/0}");
        let removed = keys.iter().filter(|records| {
            let remove = [&b"HDEL"[..], records.as_bytes(), id.as_bytes()];
            raw(self.server.port(), &remove) == b":1\r\n"
        });
        assert_eq!(removed.count(), 1);
    }

    async fn nothing_waits(&self) {
        let stats = self.engine.stats(&here(), StatsRequest::default()).await;
        let queues = stats.expect("stats").queues;
        let waiting =
            [JobState::Scheduled, JobState::Ready].map(|state| queues[0].counts.of(state));
        assert_eq!(waiting, [0, 0]);
    }

    /// All that can be done now.
    async fn done(&self) -> Vec<JobId> {
        let mut done = Vec::new();
        loop {
            let due = |next: Option<Timestamp>| next.is_some_and(|next| next <= self.clock.now());
            let leases = claim(&self.engine, 1_000).await.expect("claim");
            if leases.is_empty() {
                let kept = self.engine.maintain().await.expect("maintain");
                if kept.moved == 0 && !due(kept.next) {
                    return done;
                }
            }
            for lease in leases {
                assert!(lease.complete(&self.engine).await.expect("settle"));
                done.extend(lease.jobs.iter().map(|job| job.id));
            }
        }
    }
}

fn grouped() -> NewJob {
    NewJob::new(QUEUE, "{}").group("one")
}

fn far_alone() -> NewJob {
    NewJob::new(QUEUE, "{}").due(Due::At(Lag::begins() + minutes(6)))
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

/// More than some calls look up, and than a list may have of which entries are taken out: from then
/// on what is cancelled leaves a stale one.
const LONG: usize = 2_000;

/// A queue of which each far job was cancelled, ten minutes after their time began.
async fn all_cancelled() -> Lag {
    let lag = Lag::new().await;
    lag.far(LONG).await;
    assert_eq!(lag.purge().await, LONG);
    lag.comes().await;
    lag
}

/// A reviewer found that it ran: it was taken for one of those that were left in the list.
#[tokio::test]
async fn a_cancelled_job_in_line_stays_cancelled_behind_cold_ones() {
    let lag = all_cancelled().await;
    let in_line = lag.put(NewJob::new(QUEUE, "{}")).await;
    let soon = NewJob::new(QUEUE, "{}").due(Due::At(lag.clock.now() + seconds(1)));
    let soon = lag.put(soon).await;
    lag.edit(in_line, Action::Cancel).await;
    let stats = lag.engine.stats(&here(), StatsRequest::default()).await;
    let counts = stats.expect("stats").queues[0].counts;
    let of = |state| counts.of(state);
    assert_eq!((of(JobState::Scheduled), of(JobState::Ready)), (1, 0));
    lag.set_time(lag.clock.now() + seconds(1)).await;
    assert_eq!(lag.done().await, [soon]);
    lag.nothing_waits().await;
}

/// What is left in lists goes by and by, however many were cancelled, and keeps no job from its
/// time.
#[tokio::test]
async fn lists_of_cancelled_jobs_are_gone_with_the_next_far_ones() {
    let lag = all_cancelled().await;
    let later = lag.clock.now() + hours(5);
    let far = NewJob::new(QUEUE, "{}").due(Due::At(later));
    let far = lag.put(far).await;
    lag.set_time(later).await;
    assert_eq!(lag.done().await, [far]);
    let lists = lag.server.cli(&["KEYS", "punctual:{default/0}:t*"]);
    assert_eq!(lists.trim(), "");
}

/// Ids may be made of the names of things, and such a job be sent to another queue once it was
/// deleted.
#[tokio::test]
async fn a_purge_spares_a_new_job_of_another_queue_under_an_old_id() {
    let lag = Lag::new().await;
    lag.far(LONG).await;
    let once = lag.put(far_alone()).await;
    lag.edit(once, Action::Cancel).await;
    lag.edit(once, Action::Delete).await;
    let elsewhere = far_alone().id(once).queue("another");
    lag.put(elsewhere).await;
    assert_eq!(lag.purge().await, LONG);
    let got = lag.engine.get(&here(), vec![once.into()], false).await;
    let got = got.expect("get").remove(0).expect("it is there");
    assert_eq!(got.state(), JobState::Scheduled);
}

/// An operator may have removed it by hand.
#[tokio::test]
async fn a_group_goes_on_after_its_first_record_was_removed() {
    let lag = Lag::new().await;
    let first = lag.put(grouped()).await;
    let second = lag.put(grouped()).await;
    lag.remove(first);
    assert_eq!(lag.done().await, [second]);
    let third = lag.put(grouped()).await;
    assert_eq!(lag.done().await, [third]);
    lag.nothing_waits().await;
}

/// It waits to be tried again, and holds its group: it is no longer the first in line.
#[tokio::test]
async fn a_job_of_a_group_whose_record_was_removed_is_counted_out_once() {
    let lag = Lag::new().await;
    let first = lag.put(grouped()).await;
    let second = lag.put(grouped()).await;
    let lease = claim(&lag.engine, 1).await.expect("claim").remove(0);
    assert_eq!(lease.jobs[0].id, first);
    lag.set_time(lag.clock.now() + seconds(1)).await;
    let again = Outcome::Retry {
        after: Some(Duration::ZERO),
    };
    let settled = lag.engine.settle(&here(), lease.ends(again)).await;
    settled.expect("settle");
    lag.remove(first);
    let lease = claim(&lag.engine, 1).await.expect("claim").remove(0);
    assert_eq!(lease.jobs[0].id, second);
    let plain = lag.put(NewJob::new(QUEUE, "{}")).await;
    assert!(lease.complete(&lag.engine).await.expect("settle"));
    assert_eq!(lag.done().await, [plain]);
    lag.nothing_waits().await;
}
