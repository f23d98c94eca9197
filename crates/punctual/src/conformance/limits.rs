//! Laws of limits: how many jobs of a queue are active, and how many start in a span of time.

use std::time::Duration;

use super::case::*;
use super::polls::at_once;
use crate::engine::{
    Claim, ClaimOrder, Claimed, ClosedLimit, Control, LimitStats, QueueSettings, Rate, Reason,
    RecordValue, StatsRequest, Waited,
};
use crate::error::ErrorKind;
use crate::job::{Group, JobId, JobState, NewJob, OnRetry, Outcome};
use crate::time::{Timestamp, days, hours, millis, minutes, seconds};

const fn at_most(concurrency: u64) -> QueueSettings {
    QueueSettings::new().concurrency(concurrency)
}

const fn at_rate(rate: Rate) -> QueueSettings {
    QueueSettings::new().rate(rate)
}

impl Case {
    async fn many(&self, jobs: usize) -> Vec<JobId> {
        self.enqueue_all((0..jobs).map(|_| job()).collect()).await
    }

    /// Claims as many as it is given and completes them; when each was claimed.
    async fn starts(&self) -> Vec<Timestamp> {
        let claimed = self.claim_as(self.wants(250)).await;
        let started = attempts(&claimed);
        for attempt in &started {
            self.complete(attempt).await;
        }
        vec![claimed.now; started.len()]
    }

    async fn limit_stats(&self) -> LimitStats {
        let stats = self.stats().await;
        let of_queue = stats.queues.into_iter().find(|one| one.queue == QUEUE);
        let limits = of_queue.and_then(|stats| stats.limits);
        limits.expect("a limited queue says how its limits stand")
    }

    pub(super) async fn oldest_due(&self) -> Option<Duration> {
        let stats = self.stats_of(StatsRequest::default()).await;
        let of_queue = stats.queues.into_iter().find(|one| one.queue == QUEUE);
        of_queue.and_then(|stats| stats.oldest_due)
    }
}

/// The most instants within a span that is open at its end.
fn fullest(starts: &[Timestamp], per: Duration) -> usize {
    let within = |first: &Timestamp| {
        let all = starts.iter().filter(|at| *at >= first);
        all.filter(|at| **at - *first < per).count()
    };
    starts.iter().map(within).max().unwrap_or(0)
}

/// No more jobs of a queue have a lease than its limit says, whatever became of others, however
/// claims and however many at once.
pub(super) async fn no_more_are_active_than_allowed(case: Case) {
    case.configure(at_most(3), 0).await;
    case.many(120).await;
    let mut active = case.claim(2).await;
    active.extend(case.claim(100).await);
    assert_eq!(active.len(), 3);
    let other = Claim {
        worker: crate::engine::WorkerRecord::new(crate::engine::WorkerId::random()),
        ..case.wants(100)
    };
    assert!(attempts(&case.claim_as(other.clone()).await).is_empty());
    let ends = [
        Outcome::Completed,
        Outcome::Retry {
            after: Some(hours(1)),
        },
        Outcome::Snooze { after: hours(1) },
        Outcome::Released,
        Outcome::Dead,
        Outcome::Cancelled,
    ];
    for outcome in ends {
        case.end(&active.remove(0), outcome.clone()).await;
        let claimed = case.claim(100).await;
        assert_eq!(claimed.len(), 1, "after {outcome:?}");
        active.extend(claimed);
        assert_eq!(case.counts().await.of(JobState::Active), 3);
    }
    for attempt in active.drain(..) {
        case.complete(&attempt).await;
    }
    assert_eq!(case.claim(100).await.len(), 3);
}

/// A lease that runs out gives its slots back.
pub(super) async fn a_lost_lease_frees_its_slot(case: Case) {
    case.configure(at_most(2), 0).await;
    case.many(10).await;
    for _ in 0..3 {
        assert_eq!(case.claim(10).await.len(), 2);
        assert!(case.claim(10).await.is_empty());
        case.leases_run_out().await;
        let waiting = case.counts().await;
        assert_eq!(waiting.of(JobState::Active), 0, "{waiting:?}");
    }
}

/// A limit below what is active lets what runs go on, and nothing else start before that is fewer.
pub(super) async fn a_lowered_limit_kills_nothing(case: Case) {
    let version = case.configure(at_most(5), 0).await;
    case.many(10).await;
    let running = case.claim(10).await;
    assert_eq!(running.len(), 5);
    case.configure(at_most(2), version).await;
    for (ended, attempt) in running.iter().enumerate() {
        let started = case.claim(10).await.len();
        assert_eq!(started, usize::from(ended == 4), "{ended} have ended");
        assert_eq!(
            case.end(attempt, Outcome::Completed).await,
            JobState::Completed
        );
    }
    assert_eq!(case.claim(10).await.len(), 1);
}

/// No span of a window's length has more starts than it says, wherever that begins.
pub(super) async fn no_window_has_more_than_the_rate(case: Case) {
    let per = seconds(10);
    for most in [1, 3, 64, 100] {
        let case = case.another().await;
        case.configure(at_rate(Rate::window(most, per)), 0).await;
        case.many(900).await;
        // Just before a full span of the clock: one of its own begins there.
        let into = case.clock().as_micros() % per.as_micros() as u64;
        case.advance(per - Duration::from_micros(into) - millis(1))
            .await;
        let mut starts = case.starts().await;
        assert_eq!(starts.len() as u64, most, "all at once");
        let steps = [
            2, 3_000, 6_995, 4, 1_500, 1_500, 10_000, 9_999, 1, 25_000, 1, 5_000,
        ];
        for step in steps {
            case.advance(millis(step)).await;
            starts.extend(case.starts().await);
        }
        let found = fullest(&starts, per) as u64;
        assert_eq!(found, most, "in any {per:?}: {starts:?}");
    }
}

/// Starts of a smooth rate are a step apart, but for a burst after a quiet time.
pub(super) async fn a_smooth_rate_spaces_its_starts(case: Case) {
    let rate = Rate::smooth(10, seconds(1));
    let version = case.configure(at_rate(rate.burst(0)), 0).await;
    case.many(30).await;
    for _ in 0..5 {
        assert_eq!(case.starts().await.len(), 1);
        case.advance(millis(100) - TICK).await;
        assert_eq!(case.starts().await.len(), 0, "a microsecond early");
        case.advance(TICK).await;
    }
    case.configure(at_rate(rate.burst(3)), version).await;
    case.advance(seconds(5)).await;
    assert_eq!(case.starts().await.len(), 4, "one and the burst");
    case.advance(millis(250)).await;
    assert_eq!(case.starts().await.len(), 2, "a step apart again");
    case.advance(millis(50)).await;
    assert_eq!(case.starts().await.len(), 1);
}

/// An outage saves no starts up, and a clock that steps back gives none.
pub(super) async fn tokens_do_not_pile_up_over_an_outage(case: Case) {
    let smooth = Rate::smooth(10, seconds(1)).burst(2);
    for (rate, most) in [(smooth, 3), (Rate::window(5, minutes(1)), 5)] {
        let case = case.another().await;
        case.configure(at_rate(rate), 0).await;
        case.many(50).await;
        case.starts().await;
        case.advance(days(1)).await;
        assert_eq!(case.starts().await.len(), most);
        assert_eq!(case.starts().await.len(), 0);
        case.set_time(before(case.clock(), hours(1))).await;
        assert_eq!(case.starts().await.len(), 0, "the clock went back");
    }
}

/// Each attempt is a start: a retry counts against the rate once more.
pub(super) async fn a_retry_takes_a_token_anew(case: Case) {
    case.configure(at_rate(Rate::window(3, minutes(1))), 0)
        .await;
    case.enqueue(job()).await;
    let again = || Outcome::Retry {
        after: Some(Duration::ZERO),
    };
    for outcome in [again(), Outcome::Released, again()] {
        let attempt = case.claim_one().await;
        case.end(&attempt, outcome).await;
    }
    assert!(case.claim(1).await.is_empty(), "three have started");
    case.advance(minutes(1)).await;
    assert_eq!(case.claim_one().await.job.attempt, 4);
}

/// What waits at a limit has neither begun nor failed.
pub(super) async fn a_limited_job_counts_no_attempt(case: Case) {
    case.configure(at_most(1).rate(Rate::window(1, hours(1))), 0)
        .await;
    let jobs = case.many(2).await;
    let first = case.claim_one().await;
    for _ in 0..5 {
        assert!(case.claim(10).await.is_empty());
        case.advance_awake(seconds(1)).await;
    }
    let left = jobs.into_iter().find(|id| *id != first.id()).expect("two");
    let job = case.get(left).await;
    let counted = (
        job.state,
        job.attempt,
        job.failures,
        job.crashes,
        job.started_at,
    );
    assert_eq!(counted, (JobState::Ready, 0, 0, 0, None));
}

/// A limited queue gives a worker no more jobs than it has slots free: one that waits in a worker
/// would keep another worker from its slot.
pub(super) async fn a_limited_queue_is_not_claimed_ahead(case: Case) {
    case.configure(at_most(50), 0).await;
    case.many(60).await;
    let mail = (0..60).map(|_| NewJob::new("mail", "{}")).collect();
    case.enqueue_all(mail).await;
    let asks = |slots, busy| {
        let mut claim = case.wants(40);
        (claim.worker.slots, claim.worker.busy) = (slots, busy);
        claim
    };
    let taken = async |claim| attempts(&case.claim_as(claim).await).len();
    assert_eq!(taken(asks(4, 1)).await, 3);
    assert_eq!(taken(asks(4, 4)).await, 0, "no slot is free");
    assert_eq!(taken(asks(4, 9)).await, 0, "it has more than it runs");
    let ahead = asks(4, 4).queues(vec!["mail".into()]);
    assert_eq!(taken(ahead).await, 40, "a queue without limits is");
    let mut both = asks(4, 2).queues(vec!["mail".into(), QUEUE.into()]);
    both.limit = 30;
    let claimed = attempts(&case.claim_as(both).await);
    assert!(
        claimed.iter().all(|one| one.job.queue == "mail"),
        "they take the slots"
    );
    let claimed = case.claim_as(asks(0, 0)).await;
    assert_eq!(
        attempts(&claimed).len(),
        40,
        "one that gives no slots has its limit"
    );
    assert_eq!(claimed.limited.len(), 1, "it is reported");
}

/// A slot that becomes free wakes a worker that waits.
pub(super) async fn a_freed_slot_wakes(case: Case) {
    case.configure(at_most(1), 0).await;
    case.many(2).await;
    let first = case.claim_one().await;
    assert!(case.claim(1).await.is_empty());
    let waiter = case.listens().await;
    case.complete(&first).await;
    assert_eq!(at_once(waiter).await, Waited::Work);
    assert_eq!(case.claim(1).await.len(), 1);
}

/// A claim that meets a closed queue says when time opens it.
pub(super) async fn wake_at_is_when_the_gate_opens(case: Case) {
    case.configure(at_rate(Rate::window(1, minutes(1))), 0)
        .await;
    case.many(2).await;
    let claimed = case.claim_as(case.wants(1)).await;
    let opens = claimed.now + minutes(1);
    assert_eq!(claimed.wake_at, Some(opens), "of the claim that closes it");
    case.complete(&attempts(&claimed)[0]).await;
    assert_eq!(case.wake_at().await, Some(opens));
    case.enqueue(job_in(seconds(1))).await;
    case.advance(seconds(2)).await;
    assert_eq!(
        case.wake_at().await,
        Some(opens),
        "what falls due waits too"
    );
    case.set_time(before(opens, TICK)).await;
    assert!(case.claim(1).await.is_empty());
    case.set_time(opens).await;
    assert_eq!(case.claim(1).await.len(), 1);

    let case = case.another().await;
    case.configure(at_most(1), 0).await;
    case.many(2).await;
    let claimed = case.claim_as(case.wants(1)).await;
    assert_eq!(claimed.wake_at, Some(claimed.now + LEASE_DURATION));
    case.enqueue(job_in(seconds(1))).await;
    assert_eq!(
        case.wake_at().await,
        Some(claimed.now + LEASE_DURATION),
        "no slot before"
    );
}

/// A closed queue keeps no job of another from a claim of both.
pub(super) async fn a_closed_queue_hides_no_other(case: Case) {
    case.configure(at_most(1), 0).await;
    case.many(10).await;
    case.claim_one().await;
    for order in [ClaimOrder::Strict, ClaimOrder::Turns] {
        let mail: Vec<_> = (0..10).map(|_| NewJob::new("mail", "{}")).collect();
        case.enqueue_all(mail).await;
        let queues = vec![QUEUE.into(), "mail".into()];
        let claimed = case
            .claim_as(case.wants(100).queues(queues).order(order))
            .await;
        let claimed = attempts(&claimed);
        let of_mail = claimed.iter().filter(|one| one.job.queue == "mail").count();
        assert_eq!((claimed.len(), of_mail), (10, 10), "{order:?}");
    }
}

/// A claim takes what its limits leave, of whatever make the jobs are and whatever stands before
/// them.
pub(super) async fn no_slot_idles_while_one_waits(case: Case) {
    case.configure(at_most(4), 0).await;
    let group = |key: &str| Group {
        key: key.into(),
        on_retry: OnRetry::Hold,
    };
    let mut jobs = Vec::new();
    for nth in 0..40_u8 {
        let mut one = job();
        one.priority = nth % 3;
        match nth % 5 {
            0 => one.expires_at = Some(case.clock() + seconds(1)),
            1 => one.group = Some(group(&format!("g{}", nth % 10))),
            2 => one.retention = hours(1),
            _ => {}
        }
        jobs.push(one);
    }
    case.enqueue_all(jobs).await;
    case.advance(seconds(1)).await;
    let (mut active, mut ended) = (Vec::new(), 0);
    while ended < 32 {
        active.extend(case.claim(40).await);
        let left = 32 - ended;
        // Jobs of the two groups go one at a time.
        assert!(
            active.len() == 4.min(left) || left <= 16,
            "{} of {left}",
            active.len()
        );
        assert!((1..=4).contains(&active.len()));
        for _ in 0..=(ended % 3) {
            if let Some(attempt) = active.pop() {
                case.complete(&attempt).await;
                ended += 1;
            }
        }
    }
    assert!(case.claim(40).await.is_empty());
}

/// Limits that are taken off let all jobs go, and wake a worker for them.
pub(super) async fn a_removed_limit_frees_all(case: Case) {
    let limits = at_most(1).rate(Rate::smooth(1, days(1)));
    for removed in [Some(RecordValue::Queue(QueueSettings::new())), None] {
        let case = case.another().await;
        let version = case.configure(limits.clone(), 0).await;
        case.many(150).await;
        assert_eq!(case.claim(200).await.len(), 1);
        let waiter = case.listens().await;
        let write = Control::Write {
            name: format!("queue/{QUEUE}"),
            expected: version,
            value: removed,
        };
        case.control(write).await;
        assert_eq!(at_once(waiter).await, Waited::Work);
        let claimed = case.claim_as(case.wants(200)).await;
        assert_eq!(attempts(&claimed).len(), 149);
    }
}

async fn limits_of(case: &Case, id: JobId) -> Vec<Reason> {
    let is_limit = |reason: &Reason| {
        matches!(
            reason,
            Reason::ConcurrencyReached { .. } | Reason::RateReached { .. }
        )
    };
    case.reasons(id)
        .await
        .into_iter()
        .filter(is_limit)
        .collect()
}

/// An explanation names the limit that keeps a ready job back, and when a rate opens.
pub(super) async fn explain_names_the_closed_gate(case: Case) {
    let rate = Rate::window(2, minutes(1));
    case.configure(at_most(1).rate(rate), 0).await;
    let later = case.enqueue(job_in(hours(1))).await;
    let last = case
        .enqueue(NewJob {
            priority: 9,
            ..job()
        })
        .await;
    case.many(2).await;
    assert_eq!(limits_of(&case, last).await, []);
    let first = case.claim_one().await;
    let full = Reason::ConcurrencyReached {
        limit: 1,
        active: 1,
    };
    assert_eq!(limits_of(&case, last).await, std::slice::from_ref(&full));
    case.complete(&first).await;
    assert_eq!(limits_of(&case, last).await, []);
    let started = case.clock();
    let second = case.claim_one().await;
    let until = started + minutes(1);
    let used_up = Reason::RateReached { rate, until };
    assert_eq!(limits_of(&case, last).await, [used_up.clone(), full]);
    case.complete(&second).await;
    assert_eq!(limits_of(&case, last).await, [used_up]);
    assert_eq!(limits_of(&case, later).await, [], "it is not due");
    let limits = case.limit_stats().await;
    assert_eq!(
        (limits.closed, limits.opens_at),
        (Some(ClosedLimit::Rate), Some(until))
    );
    assert_eq!((limits.concurrency, limits.rate), (Some(1), Some(rate)));
}

/// A job that a limit keeps back is not late: that counts from when the limits let it start.
pub(super) async fn what_a_limit_keeps_back_is_not_late(case: Case) {
    let version = case
        .configure(at_rate(Rate::window(1, minutes(1))), 0)
        .await;
    case.many(3).await;
    let first = case.claim_as(case.wants(1)).await;
    assert!(since_of(&first) <= first.now);
    case.complete(&attempts(&first)[0]).await;
    case.advance(seconds(20)).await;
    assert_eq!(case.oldest_due().await, None);
    assert_eq!(case.limit_stats().await.waits, Some(seconds(20)));
    // A worker with free slots was seen just now.
    case.claim(1).await;
    let health = case.info().await.health;
    assert!(health.is_well(), "{health:?}");
    let opens = first.now + minutes(1);
    case.set_time(opens + seconds(2)).await;
    let oldest = case.oldest_due().await.expect("one may start");
    assert_eq!(oldest, seconds(2));
    assert_eq!(case.limit_stats().await.waits, None);
    let second = case.claim_as(case.wants(1)).await;
    assert_eq!(since_of(&second), opens);
    // A rate that is raised while it is closed is open from then on.
    let raised = case.clock();
    case.configure(at_rate(Rate::window(9, minutes(1))), version)
        .await;
    case.advance(seconds(4)).await;
    assert_eq!(case.oldest_due().await, Some(seconds(4)));
    let third = case.claim_as(case.wants(1)).await;
    assert_eq!(since_of(&third), raised);

    let case = case.another().await;
    let version = case.configure(at_most(1), 0).await;
    case.many(3).await;
    let first = case.claim_one().await;
    case.advance(seconds(4)).await;
    case.complete(&first).await;
    let freed = case.clock();
    case.advance(seconds(1)).await;
    let second = case.claim_as(case.wants(1)).await;
    assert_eq!(since_of(&second), freed);
    case.configure(QueueSettings::new(), version).await;
    let removed = case.clock();
    case.advance(seconds(1)).await;
    assert_eq!(case.oldest_due().await, Some(seconds(1)));
    let third = case.claim_as(case.wants(1)).await;
    assert_eq!(since_of(&third), removed);
    assert_eq!(
        case.claim_as(case.wants(1)).await.limited,
        [],
        "none is left"
    );
}

fn since_of(claimed: &Claimed) -> Timestamp {
    assert_eq!(attempts(claimed).len(), 1, "it claims one");
    let limited = claimed.limited.first().expect("the queue has limits");
    assert_eq!(limited.queue, QUEUE);
    limited.open_since
}

/// A queue with a limit that could let nothing start, or no known number, is refused.
pub(super) async fn limits_out_of_range_are_refused(case: Case) {
    let second = seconds(1);
    let wrong = [
        at_most(0),
        at_most(1_000_001),
        at_most(u64::MAX),
        at_rate(Rate::window(0, second)),
        at_rate(Rate::window(1_000_001, second)),
        at_rate(Rate::window(u64::MAX, second)),
        at_rate(Rate::window(1, Duration::ZERO)),
        at_rate(Rate::window(1, days(366))),
        at_rate(Rate::window(1, Duration::MAX)),
        at_rate(Rate::window(1, Duration::from_nanos(1_000_001))),
        at_rate(Rate::smooth(10, second).burst(11)),
        at_rate(Rate::smooth(10, second).burst(u64::MAX)),
        at_rate(Rate::smooth(1_000_000, millis(1))),
    ];
    for settings in wrong {
        let write = Control::Write {
            name: format!("queue/{QUEUE}"),
            expected: 0,
            value: Some(RecordValue::Queue(settings.clone())),
        };
        let error = case
            .try_control(write)
            .await
            .expect_err("it is out of range");
        assert_eq!(
            error.kind(),
            ErrorKind::InvalidInput,
            "{settings:?}: {error}"
        );
    }
    case.many(1).await;
    assert_eq!(case.claim(1).await.len(), 1, "nothing was set");
}
