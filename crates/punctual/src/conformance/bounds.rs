//! Laws of bounds: every call has named limits, a clear error there, and nothing grows for ever.

use std::time::Duration;

use super::case::*;
use crate::engine::{
    Action, Claim, Control, Extend, Filter, LeaseReport, List, ListBy, RecordValue, Select, Settle,
    Settlement, Target, WaitFor,
};
use crate::error::{Error, ErrorKind};
use crate::job::{Effect, JobId, JobState, Limits, NewJob, Outcome};
use crate::time::{days, millis};

/// One malformed job refuses the whole call and is named by its index; nothing is stored.
pub(super) async fn a_malformed_job_refuses_the_call(case: Case) {
    for (bad, kind) in malformed_jobs(&case.info().await.limits) {
        let good = job();
        let answer = case.try_enqueue(vec![good.clone(), job(), bad]).await;
        assert_names(&answer.expect_err("a malformed job is refused"), kind, 2);
        assert!(case.is_unknown(good.id).await, "the whole call is refused");
    }
}

/// Jobs that each break one rule, with the error that names it.
fn malformed_jobs(limits: &Limits) -> Vec<(NewJob, ErrorKind)> {
    use ErrorKind::*;
    let too_long = "x".repeat(limits.header_bytes);
    vec![
        (
            NewJob {
                queue: String::new(),
                ..job()
            },
            InvalidName,
        ),
        (
            NewJob {
                kind: "{}".into(),
                ..job()
            },
            InvalidName,
        ),
        (
            NewJob {
                payload: vec![0; limits.payload_bytes + 1].into(),
                ..job()
            },
            PayloadTooLarge,
        ),
        (
            NewJob {
                headers: vec![("a".into(), too_long)],
                ..job()
            },
            PayloadTooLarge,
        ),
        (
            NewJob {
                headers: vec![("a b".into(), String::new())],
                ..job()
            },
            InvalidName,
        ),
        (
            NewJob {
                priority: 10,
                ..job()
            },
            InvalidInput,
        ),
        (
            NewJob {
                max_attempts: 0,
                ..job()
            },
            InvalidInput,
        ),
        (
            NewJob {
                timeout: Some(Duration::ZERO),
                ..job()
            },
            InvalidInput,
        ),
        (job_in(days(366 * 9_000)), InvalidDelay),
        (
            NewJob {
                retention: days(366 * 9_000),
                ..job()
            },
            InvalidDelay,
        ),
        (
            NewJob {
                remember: Some(days(8)),
                ..job()
            },
            InvalidInput,
        ),
        (
            NewJob {
                wait_for: vec!["n".into(); limits.wait_for_names + 1],
                ..job()
            },
            InvalidInput,
        ),
        (
            NewJob {
                wait_for: vec![String::new()],
                ..job()
            },
            InvalidName,
        ),
        (
            NewJob {
                retry: crate::RetryPolicy::List(vec![]),
                ..job()
            },
            InvalidInput,
        ),
    ]
}

/// What lies exactly at a limit is taken.
pub(super) async fn a_job_at_its_limits_is_taken(case: Case) {
    let limits = case.info().await.limits;
    let largest = NewJob {
        queue: "q".repeat(128),
        kind: "k".repeat(128),
        payload: vec![b'.'; limits.payload_bytes].into(),
        headers: vec![("h".into(), "v".repeat(limits.header_bytes - 1))],
        wait_for: (0..limits.wait_for_names)
            .map(|nth| nth.to_string())
            .collect(),
        unique: Some(crate::job::Unique {
            key: "ü".repeat(128),
            policy: Default::default(),
            hold: Default::default(),
        }),
        ..job()
    };
    let id = case.enqueue(largest.clone()).await;
    let kept = case.get(id).await;
    assert_eq!(
        (kept.payload, kept.headers),
        (largest.payload, largest.headers)
    );
    assert_eq!(kept.wait_for, largest.wait_for);
}

/// A call takes a thousand jobs, and not one more.
pub(super) async fn a_call_takes_a_thousand_jobs(case: Case) {
    let most = case.info().await.limits.batch_items;
    case.enqueue_all((0..most).map(|_| job()).collect()).await;
    let error = case.try_enqueue((0..=most).map(|_| job()).collect()).await;
    assert_eq!(
        error.expect_err("one too many").kind(),
        ErrorKind::BatchTooLarge
    );
    assert_eq!(case.counts().await.pending(), most as u64);
}

/// A call takes 4 MiB of payload, and not more.
pub(super) async fn a_call_takes_four_mebibytes(case: Case) {
    let limits = case.info().await.limits;
    let large = || NewJob {
        payload: vec![b'.'; limits.payload_bytes].into(),
        ..job()
    };
    let most = limits.batch_bytes / limits.payload_bytes;
    case.enqueue_all((0..most).map(|_| large()).collect()).await;
    let error = case
        .try_enqueue((0..=most).map(|_| large()).collect())
        .await;
    assert_eq!(
        error.expect_err("too much").kind(),
        ErrorKind::BatchTooLarge
    );
}

/// A claim out of range is refused: no jobs, too many, no queue, too many, no lease, too long.
pub(super) async fn a_claim_out_of_range_is_refused(case: Case) {
    let wants = || case.wants(1);
    let queue = |nth: usize| format!("q{nth}");
    let refused = [
        (case.wants(0), ErrorKind::InvalidInput),
        (case.wants(1_001), ErrorKind::BatchTooLarge),
        (
            Claim {
                queues: vec![],
                ..wants()
            },
            ErrorKind::InvalidInput,
        ),
        (
            Claim {
                queues: (0..65).map(queue).collect(),
                ..wants()
            },
            ErrorKind::InvalidInput,
        ),
        (
            Claim {
                queues: vec!["{}".into()],
                ..wants()
            },
            ErrorKind::InvalidName,
        ),
        (
            Claim {
                lease_duration: Duration::ZERO,
                ..wants()
            },
            ErrorKind::InvalidInput,
        ),
        (
            Claim {
                lease_duration: days(1) + millis(1),
                ..wants()
            },
            ErrorKind::InvalidInput,
        ),
    ];
    let id = case.enqueue(job()).await;
    for (claim, kind) in refused {
        let shown = format!("{claim:?}");
        let error = case.claim_error(claim).await;
        let kinds = [kind, ErrorKind::InvalidInput];
        assert!(kinds.contains(&error.kind()), "{error} for {shown}");
    }
    assert_eq!(case.state(id).await, JobState::Ready);
    let widest = Claim {
        queues: (0..64).map(queue).collect(),
        lease_duration: days(1),
        ..case.wants(1_000)
    };
    assert_eq!(case.claim_as(widest).await.leases, []);
}

/// A settle with a result, error, or number of effects over its limit: refused, or cut for errors.
pub(super) async fn a_settle_over_its_limits_is_refused(case: Case) {
    let limits = case.info().await.limits;
    let attempt = case.active(job()).await;
    let long = "x".repeat(limits.result_bytes + 1);
    let mut result = attempt.ended(Outcome::Completed);
    result.result = Some(bytes(&long));
    let mut effects = attempt.ended(Outcome::Completed);
    let enqueue = || Effect::Enqueue(Box::new(job()));
    effects.effects = (0..=limits.effects).map(|_| enqueue()).collect();
    for (settlement, kinds) in [
        (result, [ErrorKind::PayloadTooLarge; 2]),
        (effects, [ErrorKind::BatchTooLarge, ErrorKind::InvalidInput]),
    ] {
        let answer = case.try_settle(attempt.token, vec![settlement]).await;
        let error = answer.expect_err("over its limit");
        assert!(kinds.contains(&error.kind()), "{error}");
        assert_eq!(case.state(attempt.id()).await, JobState::Active);
    }
    let error = Some(long);
    case.end_as(
        &attempt,
        Settlement {
            error,
            ..attempt.ended(Outcome::Dead)
        },
    )
    .await;
    let kept = case
        .get(attempt.id())
        .await
        .last_error
        .expect("an error is kept");
    assert!(
        kept.len() <= limits.result_bytes,
        "{} bytes kept",
        kept.len()
    );
}

/// A settle takes 4 MiB of payload in its effects over all its leases, and not more.
pub(super) async fn a_settle_takes_four_mebibytes_of_effects(case: Case) {
    let limits = case.info().await.limits;
    let most = limits.batch_bytes;
    let follow_ups = |total: usize| -> Vec<NewJob> {
        let from = (0..total).step_by(limits.payload_bytes);
        let follow_up = |from| NewJob {
            payload: vec![b'.'; limits.payload_bytes.min(total - from)].into(),
            queue: "next".into(),
            ..job()
        };
        from.map(follow_up).collect()
    };
    let attempts = [case.active(job()).await, case.active(job()).await];
    let settle = async |jobs: [&[NewJob]; 2]| {
        let lease = |(attempt, jobs): (&Attempt, &[NewJob])| {
            let mut ended = attempt.ended(Outcome::Completed);
            let effects = jobs.iter().cloned().map(Box::new).map(Effect::Enqueue);
            ended.effects = effects.collect();
            LeaseReport::new(attempt.token, vec![ended])
        };
        let leases = attempts.iter().zip(jobs).map(lease).collect();
        case.engine()
            .settle(&case.namespace, Settle { leases })
            .await
    };
    let (half, rest) = (follow_ups(most / 2), follow_ups(most - most / 2 + 1));
    let error = settle([&half, &rest]).await.expect_err("a byte too much");
    assert_eq!(error.kind(), ErrorKind::BatchTooLarge, "{error}");
    for attempt in &attempts {
        assert_eq!(case.get(attempt.id()).await, attempt.job);
    }
    for job in half.iter().chain(&rest) {
        assert!(case.is_unknown(job.id).await, "the whole call is refused");
    }
    let rest = follow_ups(most - most / 2);
    settle([&half, &rest])
        .await
        .expect("what lies at the limit is taken");
    for job in half.iter().chain(&rest) {
        assert_eq!(case.state(job.id).await, JobState::Ready);
    }
}

/// A settle takes a thousand leases and as many samples of either kind, and not one more.
pub(super) async fn a_settle_takes_a_thousand_leases_and_samples(case: Case) {
    let most = case.info().await.limits.batch_items;
    let attempt = case.active(job()).await;
    let token = attempt.token;
    let report = |lateness: usize, run_time: usize| LeaseReport {
        lateness_us: vec![1; lateness],
        run_time_us: vec![1; run_time],
        ..LeaseReport::new(token, vec![attempt.ended(Outcome::Completed)])
    };
    let empty = || LeaseReport::new(token, vec![]);
    let settle = async |first: LeaseReport, others: Vec<LeaseReport>| {
        let leases = [vec![first], others].concat();
        let sent = leases.len();
        let engine = case.engine();
        let settled = engine.settle(&case.namespace, Settle { leases }).await;
        settled.map(|settled| (settled.verdicts.len(), sent))
    };
    let over_two_leases = LeaseReport {
        lateness_us: vec![1; most],
        ..empty()
    };
    for (first, others) in [
        (report(most + 1, 0), vec![]),
        (report(0, most + 1), vec![]),
        (report(1, 0), vec![over_two_leases]),
        (report(0, 0), vec![empty(); most]),
    ] {
        let error = settle(first, others).await.expect_err("one too many");
        assert_eq!(error.kind(), ErrorKind::BatchTooLarge, "{error}");
        assert_eq!(case.get(attempt.id()).await, attempt.job);
    }
    let (verdicts, sent) = settle(report(most, most), vec![empty(); most - 1])
        .await
        .expect("what lies at the limit is taken");
    assert_eq!(verdicts, sent, "one list of verdicts per lease");
}

/// An extend out of range is refused: a lease of nothing or over a day, too much progress.
pub(super) async fn an_extend_out_of_range_is_refused(case: Case) {
    let limits = case.info().await.limits;
    let attempt = case.active(job()).await;
    let extend = |lease_duration, progress: usize| Extend {
        token: attempt.token,
        lease_duration,
        log: Vec::new(),
        memos: Vec::new(),
        progress: vec![(attempt.id(), vec![b'.'; progress].into())],
        jobs: vec![],
    };
    for bad in [
        extend(Duration::ZERO, 0),
        extend(days(1) + millis(1), 0),
        extend(LEASE_DURATION, limits.result_bytes + 1),
    ] {
        let answer = case.engine().extend(&case.namespace, vec![bad]).await;
        let error = answer.expect_err("out of range");
        let kinds = [ErrorKind::InvalidInput, ErrorKind::PayloadTooLarge];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
    assert_eq!(case.get(attempt.id()).await, attempt.job);
}

/// A list, get, edit or purge over a batch is refused.
pub(super) async fn a_read_over_a_batch_is_refused(case: Case) {
    let id = case.enqueue(job()).await;
    let most = case.info().await.limits.batch_items;
    let targets: Vec<Target> = vec![id.into(); most + 1];
    let kinds = [ErrorKind::BatchTooLarge, ErrorKind::InvalidInput];
    let is_refused = |error: Error| assert!(kinds.contains(&error.kind()), "{error}");
    let got = case
        .engine()
        .get(&case.namespace, targets.clone(), false)
        .await;
    is_refused(got.expect_err("get over a batch"));
    let edited = case
        .edit_as(Select::Targets(targets), Action::Cancel, false)
        .await;
    is_refused(edited.expect_err("edit over a batch"));
    for limit in [0, most + 1] {
        let (filter, cursor) = (Filter::default(), None);
        let list = List {
            by: ListBy::All,
            filter,
            cursor,
            limit,
            payloads: false,
        };
        is_refused(case.list_as(list).await.expect_err("list out of range"));
        let select = Select::Filter {
            filter: Filter::default(),
            cursor: None,
            limit,
        };
        let edited = case.edit_as(select, Action::Cancel, false).await;
        is_refused(edited.expect_err("edit out of range"));
        let queue = QUEUE.into();
        let purged = case
            .try_control(Control::Purge {
                queue,
                cursor: None,
                limit,
            })
            .await;
        is_refused(purged.expect_err("purge out of range"));
    }
    assert_eq!(case.state(id).await, JobState::Ready);
}

/// A wait for too many queues or jobs is refused.
pub(super) async fn a_wait_over_its_limits_is_refused(case: Case) {
    let queues = (0..65).map(|nth| format!("q{nth}")).collect();
    let jobs = (0..1_001).map(|_| JobId::new()).collect();
    for what in [
        WaitFor::Work(vec![]),
        WaitFor::Work(queues),
        WaitFor::Settled(jobs),
    ] {
        let until = case.clock();
        let answer = case.engine().wait(&case.namespace, what, until).await;
        let error = answer.expect_err("over its limits");
        let kinds = [ErrorKind::BatchTooLarge, ErrorKind::InvalidInput];
        assert!(kinds.contains(&error.kind()), "{error}");
    }
}

/// A record takes 64 KiB, and not more.
pub(super) async fn a_record_takes_64_kibibytes(case: Case) {
    let write = |size: usize| Control::Write {
        name: "large".into(),
        expected: 0,
        value: Some(RecordValue::Opaque(vec![0; size].into())),
    };
    let error = case.try_control(write((64 << 10) + 1)).await;
    assert_eq!(
        error.expect_err("too large").kind(),
        ErrorKind::PayloadTooLarge
    );
    case.control(write(64 << 10)).await;
}
