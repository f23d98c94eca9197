//! Many jobs due in the same minute: worked off in slices, whatever the pile.

use std::time::Duration;

use futures_util::future::join_all;
use punctual::conformance::START;
use punctual::engine::{Claim, Control, Controlled, WorkerId};
use punctual::time::{Clock, ManualClock, Timestamp, hours, millis, minutes, seconds};
use punctual::{Due, Engine, Hold, NewJob, Unique};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

use crate::client::{QUEUE, claim, here};
use crate::meter::{CHANGES_MAX, Meter};

/// How many, unless `PUNCTUAL_PILE` says otherwise: a million takes a minute or so.
const JOBS: usize = 20_000;

pub(crate) fn jobs() -> usize {
    reported().unwrap_or(JOBS)
}

fn reported() -> Option<usize> {
    let reported = std::env::var("PUNCTUAL_PILE").ok()?;
    Some(reported.parse().expect("a number of jobs"))
}

/// Jobs of a call.
pub(crate) const BATCH: usize = 1_000;
/// Jobs that `Queue::enqueue_many` sends in one.
const ENQUEUED: usize = 250;
/// Many jobs on a server of their own, and what it does for them.
pub(crate) struct Pile {
    server: TestServer,
    pub(crate) engine: RedisEngine,
    clock: ManualClock,
    pub(crate) meter: Meter,
}

impl Pile {
    pub(crate) async fn new() -> Self {
        let server = TestServer::start();
        let clock = ManualClock::new(START);
        let options: Options = server.address().parse().expect("a good address");
        let engine = RedisEngine::connect_with_clock(options, clock.clone()).await;
        Self {
            engine: engine.expect("the server is there"),
            meter: Meter::of(&server, reported().is_some()),
            clock,
            server,
        }
    }

    pub(crate) async fn enqueue(&mut self, jobs: usize, minute: Timestamp) {
        self.enqueue_within(minutes(1), jobs, minute).await;
    }

    /// Jobs whose dues lie even within a span.
    async fn enqueue_within(&mut self, span: Duration, jobs: usize, from: Timestamp) {
        let apart = span.as_micros() as usize;
        for first in (0..jobs).step_by(ENQUEUED) {
            let batch = (first..jobs.min(first + ENQUEUED)).map(|number| {
                NewJob::new(QUEUE, vec![b'x'; 100]).due(Due::At(
                    from + Duration::from_micros((number * apart / jobs) as u64),
                ))
            });
            let jobs = batch.collect();
            let namespace = here();
            let sent = self.engine.enqueue(&namespace, jobs);
            self.meter.bounded("enqueue", sent).await.expect("enqueue");
        }
    }

    pub(crate) async fn set_time(&self, now: Timestamp) {
        self.engine
            .set_time(now)
            .await
            .expect("the server is there");
        self.clock.set(now);
    }

    /// All that time has caused, slice by slice.
    pub(crate) async fn maintain(&mut self) {
        loop {
            let maintained = self.engine.maintain();
            let done = self
                .meter
                .bounded("maintain", maintained)
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
    pub(crate) async fn work_off(&mut self) -> usize {
        let mut done = 0;
        loop {
            let claimed = claim(&self.engine, BATCH);
            let leases = self.meter.bounded("claim", claimed).await.expect("claim");
            if leases.is_empty() {
                return done;
            }
            for lease in leases {
                let early = lease.jobs.iter().filter(|job| job.due > self.clock.now());
                assert_eq!(early.count(), 0);
                done += lease.jobs.len();
                let settled = lease.complete(&self.engine);
                assert!(self.meter.bounded("settle", settled).await.expect("settle"));
            }
        }
    }

    /// Cancels all that wait; how many.
    pub(crate) async fn purge(&mut self) -> usize {
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

    /// What it took, for a reader.
    pub(crate) fn announce(&mut self, what: &str) {
        let memory = self.server.cli(&["INFO", "memory"]);
        let memory = memory
            .lines()
            .find(|line| line.starts_with("used_memory_human"));
        println!("{what}: {}", memory.unwrap_or_default());
        self.meter.announce();
    }
}

#[tokio::test]
async fn a_pile_due_in_one_minute_is_worked_off_in_slices() {
    let jobs = jobs();
    let mut pile = Pile::new().await;
    let minute = START + hours(1);
    pile.enqueue(jobs, minute).await;
    pile.announce("enqueued");
    pile.set_time(START + minutes(55)).await;
    pile.maintain().await;
    pile.announce("near");
    pile.set_time(minute + seconds(30)).await;
    let first = pile.work_off().await;
    pile.announce("half of it");
    assert!(
        first >= jobs / 2 && first < jobs / 2 + BATCH,
        "{first} of {jobs}"
    );
    pile.set_time(minute + minutes(1)).await;
    assert_eq!(pile.work_off().await, jobs - first);
    pile.announce("all");
    pile.set_time(minute + minutes(10)).await;
    pile.maintain().await;
    pile.announce("forgotten");
}

/// The same where all of them wait for one microsecond.
#[tokio::test]
async fn a_pile_due_at_one_midnight_is_worked_off_in_slices() {
    let jobs = jobs();
    let mut pile = Pile::new().await;
    let midnight = START + hours(12);
    pile.enqueue_within(Duration::ZERO, jobs, midnight).await;
    pile.announce("enqueued for one midnight");
    pile.set_time(START + (hours(12) - minutes(5))).await;
    pile.maintain().await;
    pile.announce("near");
    pile.set_time(START + (hours(12) - millis(1))).await;
    assert_eq!(pile.work_off().await, 0, "none is early");
    pile.set_time(midnight).await;
    assert_eq!(pile.work_off().await, jobs);
    pile.announce("all");
    pile.set_time(midnight + minutes(10)).await;
    pile.maintain().await;
    pile.announce("forgotten");
}

/// A claim or a settle has work of its own: beside it it moves half of what a round does.
#[tokio::test]
async fn a_call_moves_a_few_hundred_due_jobs_beside_its_own_work() {
    const BESIDE: usize = 250;
    let mut pile = Pile::new().await;
    pile.enqueue(2 * BATCH, START + minutes(1)).await;
    pile.set_time(START + minutes(3)).await;
    let leases = claim(&pile.engine, BATCH).await.expect("claim");
    let jobs: usize = leases.iter().map(|lease| lease.jobs.len()).sum();
    assert_eq!(jobs, BESIDE, "what one claim has moved");
    for lease in leases {
        assert!(lease.complete(&pile.engine).await.expect("settle"));
    }
    let leases = claim(&pile.engine, BATCH).await.expect("claim");
    let jobs: usize = leases.iter().map(|lease| lease.jobs.len()).sum();
    assert_eq!(jobs, 2 * BESIDE, "what a settle and a claim have moved");
    let done = pile.engine.maintain().await.expect("maintain");
    let slice = pile.engine.info().await.expect("info").limits.sweep;
    assert_eq!((done.moved, slice), (2 * BESIDE, 2 * BESIDE));
}

/// Piles of queues that no worker reads keep no job of another from its time.
#[tokio::test]
async fn piles_of_paused_queues_keep_no_other_from_its_time() {
    let mut pile = Pile::new().await;
    let midnight = START + minutes(1);
    for paused in 0..25 {
        let queue = format!("paused-{paused}");
        let job = |_| NewJob::new(queue.as_str(), "{}").due(Due::At(midnight));
        let jobs = (0..BATCH).map(job).collect();
        pile.engine.enqueue(&here(), jobs).await.expect("enqueue");
        let pause = Control::Pause { queue };
        pile.engine.control(&here(), pause).await.expect("pause");
    }
    pile.enqueue_within(Duration::ZERO, 3 * BATCH, midnight)
        .await;
    let others: Vec<String> = (0..9).map(|number| format!("other-{number}")).collect();
    for queue in &others {
        let job = NewJob::new(queue.as_str(), "{}").due(Due::At(midnight + seconds(1)));
        let sent = pile.engine.enqueue(&here(), vec![job]).await;
        sent.expect("enqueue");
    }
    pile.set_time(START + minutes(2)).await;
    let order = Claim::new(WorkerId::random(), others[0].as_str(), BATCH);
    let answer = pile.engine.claim(&here(), order).await.expect("claim");
    assert_eq!(answer.leases.len(), 1, "it waits for piles of others");
    // Claims that leave together have theirs, too, wherever a claim names it.
    let claims = others[3..].iter().map(async |queue| {
        let order =
            Claim::new(WorkerId::random(), QUEUE, 1).queues(vec!["nothing".into(), queue.clone()]);
        pile.engine.claim(&here(), order).await.expect("claim")
    });
    for answer in join_all(claims).await {
        assert_eq!(answer.leases.len(), 1, "it waits for piles of others");
    }
    // Who works on a pile too has the others all the same, and no call takes long.
    let order = Claim::new(WorkerId::random(), QUEUE, BATCH)
        .queues(["other-1", "other-2", QUEUE].map(String::from).to_vec());
    let namespace = here();
    let claimed = pile.engine.claim(&namespace, order);
    let answer = pile.meter.bounded("claim", claimed).await.expect("claim");
    let jobs = answer.leases.iter().flat_map(|lease| &lease.jobs);
    let of_others = jobs.filter(|job| job.queue != QUEUE).count();
    assert_eq!(of_others, 2, "they wait for the pile beside them");
}

/// A job that has to be looked at when it starts: its key is free then.
fn keyed(number: usize) -> NewJob {
    let unique = Unique::new(format!("order-{number}")).hold(Hold::UntilStarted);
    let mut job = NewJob::new(QUEUE, vec![b'x'; 100]);
    job.unique = Some(unique);
    job
}

/// The same holds when they become due: one call moves few of them, and says when to come again.
#[tokio::test]
async fn jobs_with_keys_are_moved_a_hundred_and_some_at_a_time() {
    let pile = Pile::new().await;
    let later = |number| keyed(number).due(Due::After(seconds(10)));
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

/// What is looked at costs ten times what plain jobs cost: fewer of them are claimed at once, and
/// the answer says that there are more.
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
            .leases
            .into_iter()
            .flat_map(|lease| lease.jobs)
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

/// Jobs that have expired are no work of a claim: it settles few of them, and says that there is
/// more.
#[tokio::test]
async fn a_claim_settles_few_of_the_expired_jobs_that_it_meets() {
    let mut pile = Pile::new().await;
    let expires_at = START + seconds(1);
    let expiring = |_| NewJob::new(QUEUE, vec![b'x'; 100]).expires_at(expires_at);
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
        assert!(answer.leases.is_empty(), "all of them have expired");
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
