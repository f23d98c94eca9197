//! Laws of stats: counts are of what is there, history is of what has happened.

use super::START;
use super::case::*;
use crate::engine::{
    Claim, LeaseReport, Namespace, NamespaceProblem, QueueStats, SAMPLE_US_MAX, STATS_PAGE_MAX,
    Settle, StatsRequest, WorkerId, WorkerRecord,
};
use crate::error::ErrorKind;
use crate::job::{JobState, NewJob, Outcome};
use crate::time::{hours, minutes, seconds};

async fn of_queue(case: &Case, request: StatsRequest) -> QueueStats {
    let stats = case.stats_of(request).await;
    let mut queues = stats.queues.into_iter();
    queues
        .find(|stats| stats.queue == QUEUE)
        .expect("the queue is known")
}

/// Every state is counted, and a job is counted in one state only.
pub(super) async fn every_state_is_counted(case: Case) {
    for state in [0, 1, 3, 4, 5, 6, 2].map(|nth| JobState::ALL[nth]) {
        case.job_in_state(state).await;
    }
    for state in JobState::ALL {
        assert_eq!(case.counts().await.of(state), 1, "{state}");
    }
    case.advance(hours(1)).await;
    let counts = case.counts().await;
    assert_eq!(
        (counts.of(JobState::Scheduled), counts.of(JobState::Ready)),
        (0, 2)
    );
}

/// Counts come back to nothing after many jobs have gone every way.
pub(super) async fn counts_come_back_to_nothing(case: Case) {
    let ways = [
        Outcome::Completed,
        Outcome::Cancelled,
        Outcome::Dead,
        Outcome::Released,
        Outcome::Retry {
            after: Some(seconds(5)),
        },
        Outcome::Snooze { after: seconds(5) },
    ];
    for _ in 0..10 {
        case.enqueue_all((0..ways.len()).map(|_| job()).collect())
            .await;
        for (attempt, outcome) in case.claim(ways.len()).await.iter().zip(&ways) {
            case.end(attempt, outcome.clone()).await;
        }
    }
    case.claim(5).await;
    case.leases_run_out().await;
    case.drain().await;
    let counts = case.counts().await;
    assert_eq!(
        counts.pending() + counts.of(JobState::Active),
        0,
        "{counts:?}"
    );
    let kept =
        case.listed(JobState::Dead).await.len() + case.listed(JobState::Cancelled).await.len();
    assert_eq!(
        counts.of(JobState::Dead) + counts.of(JobState::Cancelled),
        kept as u64
    );
}

/// Stats answer the queues asked for, or all of them by name.
pub(super) async fn stats_answer_the_queues_asked_for(case: Case) {
    for queue in ["b", "a", "c"] {
        case.enqueue(NewJob::new(queue, "{}")).await;
    }
    let names = |queues: Vec<QueueStats>| -> Vec<String> {
        queues.into_iter().map(|stats| stats.queue).collect()
    };
    assert_eq!(names(case.stats().await.queues), ["a", "b", "c"]);
    let request = StatsRequest {
        queues: vec!["c".into()],
        ..Default::default()
    };
    assert_eq!(names(case.stats_of(request).await.queues), ["c"]);
}

/// Pages go through all queues of the namespace by name, and through no other one's.
pub(super) async fn pages_have_every_queue_once(case: Case) {
    for queue in ["b", "e", "a", "d", "c"] {
        case.enqueue(NewJob::new(queue, "{}")).await;
    }
    let other = Namespace::new("other").expect("a name");
    let foreign = vec![NewJob::new("bb", "{}"), NewJob::new("z", "{}")];
    let sent = case.engine().enqueue(&other, foreign).await;
    sent.expect("another namespace takes jobs");

    for limit in 1..=6 {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let request = StatsRequest {
                limit,
                after: after.take(),
                ..StatsRequest::default()
            };
            let page = case.stats_of(request).await;
            assert!(!page.queues.is_empty() && page.queues.len() <= limit);
            seen.extend(page.queues.into_iter().map(|stats| stats.queue));
            assert!(page.next.is_none() || page.next.as_ref() == seen.last());
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, ["a", "b", "c", "d", "e"], "pages of {limit}");
    }
    // A name that no queue has any more, or never had, is a place all the same.
    let request = StatsRequest {
        limit: 2,
        after: Some("bb".into()),
        ..StatsRequest::default()
    };
    let page = case.stats_of(request).await;
    assert_eq!(page.queues[0].queue, "c");
    assert_eq!(page.next.as_deref(), Some("d"));
    // All at once has no next page.
    assert_eq!(case.stats().await.next, None);
}

/// A page over its bound, of named queues, or without a size is refused.
pub(super) async fn a_malformed_page_is_refused(case: Case) {
    let page = StatsRequest {
        limit: 1,
        ..StatsRequest::default()
    };
    let malformed = [
        StatsRequest {
            limit: STATS_PAGE_MAX + 1,
            ..page.clone()
        },
        StatsRequest {
            queues: vec!["a".into()],
            ..page.clone()
        },
        StatsRequest {
            after: Some("{a}".into()),
            ..page
        },
        StatsRequest {
            after: Some("a".into()),
            ..StatsRequest::default()
        },
    ];
    for request in malformed {
        let answer = case.engine().stats(&case.namespace, request.clone()).await;
        let kind = answer.expect_err("it is malformed").kind();
        let expected = [ErrorKind::InvalidInput, ErrorKind::InvalidName];
        assert!(expected.contains(&kind), "{kind:?} for {request:?}");
    }
}

/// The oldest due job says how long it has waited.
pub(super) async fn the_oldest_due_job_is_reported(case: Case) {
    case.enqueue(job_in(seconds(5))).await;
    assert_eq!(of_queue(&case, Default::default()).await.oldest_due, None);
    case.advance(seconds(12)).await;
    let oldest_due = of_queue(&case, Default::default()).await.oldest_due;
    assert_eq!(oldest_due, Some(seconds(7)));
    case.drain().await;
    assert_eq!(of_queue(&case, Default::default()).await.oldest_due, None);
}

/// A paused queue is reported.
pub(super) async fn a_pause_is_reported(case: Case) {
    case.enqueue(job()).await;
    assert!(!of_queue(&case, Default::default()).await.paused);
    case.pause().await;
    assert!(of_queue(&case, Default::default()).await.paused);
}

/// The due histogram counts every scheduled job in the one bucket of its due.
pub(super) async fn the_due_histogram_counts_what_is_to_come(case: Case) {
    let delays = [1, 30, 60, 90, 600, 3_600, 4_000, 86_400, 90_000, 40_000_000];
    let jobs = delays.map(|s| job_in(seconds(s)));
    case.enqueue_all(jobs.to_vec()).await;
    let request = StatsRequest {
        due: true,
        ..Default::default()
    };
    let due = of_queue(&case, request).await.due;
    for pair in due.windows(2) {
        assert!(pair[0].until <= pair[1].from, "buckets overlap: {pair:?}");
    }
    for bucket in &due {
        let here = |delay: &&u64| (bucket.from..bucket.until).contains(&(START + seconds(**delay)));
        let expected = delays.iter().filter(here).count() as u64;
        assert_eq!(bucket.jobs, expected, "{bucket:?}");
    }
    let counted: u64 = due.iter().map(|bucket| bucket.jobs).sum();
    assert_eq!(counted, delays.len() as u64, "{due:?}");
    let unasked = of_queue(&case, Default::default()).await;
    assert_eq!((unasked.due.len(), unasked.history.len()), (0, 0));
}

/// The history counts what happened, by minute, and leaves quiet minutes out.
pub(super) async fn the_history_counts_by_minute(case: Case) {
    let minute = START + minutes(1);
    case.set_time(minute).await;
    case.enqueue_all((0..5).map(|_| job()).collect()).await;
    let outcomes = [
        Outcome::Completed,
        Outcome::Completed,
        Outcome::Retry {
            after: Some(hours(1)),
        },
        Outcome::Dead,
    ];
    for (attempt, outcome) in case.claim(4).await.iter().zip(outcomes) {
        case.end(attempt, outcome).await;
    }
    case.cancel(case.listed(JobState::Ready).await[0]).await;
    case.advance(minutes(3)).await;
    case.enqueue(job()).await;
    let request = StatsRequest {
        history: true,
        ..Default::default()
    };
    let history = of_queue(&case, request).await.history;
    assert_eq!(history.len(), 2, "{history:?}");
    let first = &history[0];
    assert!(first.minute <= minute && minute < first.minute + minutes(1));
    assert_eq!((first.enqueued, first.claimed, first.completed), (5, 4, 2));
    assert_eq!((first.failed, first.dead, first.cancelled), (2, 1, 1));
    assert_eq!((history[1].enqueued, history[1].claimed), (1, 0));
}

/// Lateness and run time that workers report come back as median and 99th percentile.
pub(super) async fn reported_times_come_back(case: Case) {
    case.enqueue(job()).await;
    let attempt = case.claim_one().await;
    let mut report = LeaseReport::new(attempt.token, vec![attempt.ended(Outcome::Completed)]);
    report.lateness_us = (1..=1_000).collect();
    report.run_time_us = vec![50_000; 10];
    let settle = Settle {
        leases: vec![report],
    };
    case.engine()
        .settle(&case.namespace, settle)
        .await
        .expect("settle");
    let request = StatsRequest {
        history: true,
        ..Default::default()
    };
    let minute = of_queue(&case, request).await.history.remove(0);
    let near = |reported: u64, truth: u64| reported.abs_diff(truth) * 20 <= truth;
    let (p50, p99) = minute.lateness_us.expect("a lateness was reported");
    assert!(near(p50, 500) && near(p99, 990), "p50 {p50}, p99 {p99}");
    let (p50, p99) = minute.run_time_us.expect("a run time was reported");
    assert!(
        near(p50, 50_000) && near(p99, 50_000),
        "p50 {p50}, p99 {p99}"
    );
}

/// A lateness or a run time that no clock can measure counts as an hour.
pub(super) async fn reported_times_are_at_most_an_hour(case: Case) {
    case.enqueue(job()).await;
    let attempt = case.claim_one().await;
    let mut report = LeaseReport::new(attempt.token, vec![attempt.ended(Outcome::Completed)]);
    report.lateness_us = vec![u64::MAX; 10];
    report.run_time_us = vec![u64::MAX, 1 << 60, SAMPLE_US_MAX + 1];
    let settle = Settle {
        leases: vec![report],
    };
    let settled = case.engine().settle(&case.namespace, settle).await;
    settled.expect("settle");
    let request = StatsRequest {
        history: true,
        ..Default::default()
    };
    let minute = of_queue(&case, request).await.history.remove(0);
    for (p50, p99) in
        [minute.lateness_us, minute.run_time_us].map(|reported| reported.expect("it is kept"))
    {
        for reported in [p50, p99] {
            assert!(
                reported.abs_diff(SAMPLE_US_MAX) * 20 <= SAMPLE_US_MAX,
                "{reported} us"
            );
        }
    }
}

/// Workers of the last minute are listed with what they said of themselves, and then forgotten.
pub(super) async fn workers_of_the_last_minute_are_listed(case: Case) {
    case.enqueue_all(vec![job(), job()]).await;
    let mut claim = Claim::new(WorkerId::random(), QUEUE, 2);
    claim.worker.host = "host-7".into();
    claim.worker.version = "1.2.3".into();
    claim.worker.kinds = vec!["mail".into()];
    (claim.worker.slots, claim.worker.busy) = (8, 3);
    let worker = claim.worker.clone();
    case.claim_as(claim).await;
    let seen = case.stats().await.workers;
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].worker, worker);
    assert_eq!((seen[0].seen_at, seen[0].leased), (START, 2));
    case.advance(seconds(61)).await;
    assert_eq!(case.stats().await.workers, []);
}

/// A claimer that names no queues is not listed: it takes a lock, say, and no job.
pub(super) async fn a_claimer_that_names_no_queues_is_no_worker(case: Case) {
    case.enqueue_all(vec![job()]).await;
    let claim = Claim::new(WorkerId::random(), QUEUE, 1);
    let nameless = WorkerRecord::new(claim.worker.id);
    let claimed = case.claim_as(claim.worker(nameless)).await;
    assert_eq!(claimed.leases.len(), 1);
    assert_eq!(case.stats().await.workers, []);
}

/// While a pile of due jobs is being moved, stats say that they are not exact; then they are.
pub(super) async fn stats_say_whether_they_are_exact(case: Case) {
    let case = case.limited(|limits| limits.sweep = 10).await;
    case.enqueue_all((0..100).map(|_| job_in(seconds(5))).collect())
        .await;
    assert!(case.stats().await.exact);
    case.advance(seconds(5)).await;
    assert!(!case.stats().await.exact, "10 of 100 are moved");
    for _ in 0..20 {
        case.maintain().await;
    }
    assert!(case.stats().await.exact);
    let counts = case.counts().await;
    assert_eq!(
        (counts.of(JobState::Scheduled), counts.of(JobState::Ready)),
        (0, 100)
    );
}

/// Health names a queue whose due job waits over 5 s though a worker is free; the engine as a whole
/// stays in order.
pub(super) async fn health_is_red_while_due_jobs_wait(case: Case) {
    case.enqueue(job()).await;
    case.advance(seconds(3)).await;
    // It serves the queue, it says, and is free; yet it claims from another one only.
    let mut idle = Claim::new(WorkerId::random(), "mail", 1);
    idle.worker.queues = vec!["mail".into(), QUEUE.into()];
    case.claim_as(idle).await;
    case.advance(seconds(2)).await;
    assert!(case.info().await.health.is_well(), "5 s are not over 5 s");
    case.advance(seconds(1)).await;
    let health = case.info().await.health;
    let named = |it: &NamespaceProblem| it.namespace == case.namespace && it.text.contains(QUEUE);
    assert!(
        health.ok && health.of_namespaces.iter().any(named),
        "{health:?}"
    );
    case.drain().await;
    assert!(case.info().await.health.is_well());
}

/// A worker that never reports what it runs has free slots only as far as its leases leave some,
/// and one that reports no slots has as many as it claims for.
pub(super) async fn leases_count_against_free_slots(case: Case) {
    for (slots, limit) in [(4, 4), (4, 10), (0, 4)] {
        case.enqueue_all((0..20).map(|_| job()).collect()).await;
        let mut claim = Claim::new(WorkerId::random(), QUEUE, limit);
        (claim.worker.slots, claim.worker.busy) = (slots, 0);
        claim.lease_duration = minutes(1);
        let worker = claim.worker.id;
        case.claim_as(claim).await;
        case.advance(seconds(3)).await;
        // It comes again with what it has not: a job of another queue.
        let mut again = Claim::new(worker, "none", limit);
        again.worker.queues = vec![QUEUE.into(), "none".into()];
        again.worker.slots = slots;
        case.claim_as(again).await;
        case.advance(seconds(3)).await;
        let stats = case.stats().await;
        let seen = stats.workers.iter().find(|seen| seen.worker.id == worker);
        let seen = seen.expect("it claimed just now");
        assert_eq!((seen.worker.slots, seen.leased, seen.free()), (4, limit, 0));
        let health = case.info().await.health;
        assert!(
            health.is_well(),
            "{slots} slots, {limit} claimed: {health:?}"
        );
        case.advance(minutes(2)).await;
        case.drain().await;
    }
}
