//! Laws of logs: lines that attempts logged are kept with their job, the last ones.

use super::case::*;
use crate::engine::{Extend, ExtendVerdict, Settlement};
use crate::error::ErrorKind;
use crate::job::{JobState, LOG_BYTES_KEPT, LOG_LINES_KEPT, LogLine, NewJob, Outcome};
use crate::time::{hours, seconds};

fn lines(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn extend(attempt: &Attempt, log: Vec<String>) -> Extend {
    Extend {
        token: attempt.token,
        lease_duration: LEASE_DURATION,
        log: vec![(attempt.id(), log)],
        memos: Vec::new(),
        progress: Vec::new(),
        jobs: Vec::new(),
    }
}

fn line(case: &Case, attempt: u32, text: &str) -> LogLine {
    LogLine {
        at: case.clock(),
        attempt,
        text: text.into(),
    }
}

/// Lines come with a heartbeat or a settlement and stay in order, over attempts, with their
/// instants.
pub(super) async fn lines_are_kept_in_order(case: Case) {
    let kept = NewJob {
        retention: hours(1),
        ..job()
    };
    let first = case.active(kept).await;
    let mut expected = Vec::new();
    for text in ["a", "", "\u{e4}\tb"] {
        case.advance(seconds(1)).await;
        case.extend_as(extend(&first, lines(&[text]))).await;
        expected.push(line(&case, 1, text));
    }
    assert_eq!(case.get(first.id()).await.log, expected);
    case.advance(seconds(1)).await;
    let settlement = Settlement {
        log: lines(&["c", "d"]),
        ..first.ended(Outcome::Retry {
            after: Some(seconds(1)),
        })
    };
    case.end_as(&first, settlement).await;
    expected.extend(["c", "d"].map(|text| line(&case, 1, text)));
    assert_eq!(case.get(first.id()).await.log, expected);
    case.advance(seconds(1)).await;
    let second = case.claim_one().await;
    assert_eq!(second.job.log, expected, "a claim brings them");
    let settlement = Settlement {
        log: lines(&["e"]),
        result: Some(bytes("done")),
        ..second.ended(Outcome::Completed)
    };
    assert_eq!(case.end_as(&second, settlement).await, JobState::Completed);
    expected.push(line(&case, 2, "e"));
    assert_eq!(case.get(first.id()).await.log, expected);
}

/// A job of which nothing is kept may log too; a completion with it costs nothing.
pub(super) async fn a_job_that_is_not_kept_may_log(case: Case) {
    case.enqueue_all((0..12).map(|_| job()).collect()).await;
    for attempt in case.claim(12).await {
        let settlement = Settlement {
            log: lines(&["gone"]),
            ..attempt.ended(Outcome::Completed)
        };
        assert_eq!(case.end_as(&attempt, settlement).await, JobState::Completed);
    }
}

/// An old token, and a job of another lease, append nothing.
pub(super) async fn an_old_token_logs_nothing(case: Case) {
    let old = case.active(job()).await;
    case.leases_run_out().await;
    case.maintain().await;
    let now = case.claim_one().await;
    let verdict = case.extend_as(extend(&old, lines(&["late"]))).await;
    assert_eq!(verdict, ExtendVerdict::LeaseLost);
    let settlement = Settlement {
        log: lines(&["late"]),
        ..old.ended(Outcome::Dead)
    };
    case.settle_as(old.token, settlement).await;
    case.enqueue(job()).await;
    let other = case.claim_one().await;
    let strange = Extend {
        log: vec![(now.id(), lines(&["strange"]))],
        memos: Vec::new(),
        ..extend(&other, Vec::new())
    };
    case.extend_as(strange).await;
    assert_eq!(case.get(now.id()).await.log, []);
}

/// A job keeps the last lines, bounded in number and bytes.
pub(super) async fn the_oldest_lines_give_way(case: Case) {
    let attempt = case.active(job()).await;
    for nth in 0..LOG_LINES_KEPT + 20 {
        case.extend_as(extend(&attempt, vec![nth.to_string()]))
            .await;
    }
    let kept = case.get(attempt.id()).await.log;
    assert_eq!(kept.len(), LOG_LINES_KEPT);
    assert_eq!((&*kept[0].text, &*kept[99].text), ("20", "119"));
    let long = "x".repeat(LOG_BYTES_KEPT / 4);
    for _ in 0..6 {
        case.extend_as(extend(&attempt, vec![long.clone()])).await;
    }
    let kept = case.get(attempt.id()).await.log;
    assert!(kept.iter().map(|line| &line.text).eq([&long; 4]));
}

/// More than a job keeps is refused, in lines or in bytes.
pub(super) async fn too_many_lines_are_refused(case: Case) {
    let attempt = case.active(job()).await;
    for log in [
        vec![String::new(); LOG_LINES_KEPT + 1],
        vec!["x".repeat(LOG_BYTES_KEPT + 1)],
    ] {
        let leases = vec![extend(&attempt, log.clone())];
        let refused = case.engine().extend(&case.namespace, leases).await;
        let error = refused.expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::PayloadTooLarge);
        let settlement = Settlement {
            log,
            ..attempt.ended(Outcome::Dead)
        };
        let refused = case.try_settle(attempt.token, vec![settlement]).await;
        let error = refused.expect_err("too much");
        assert_eq!(error.kind(), ErrorKind::PayloadTooLarge);
    }
    assert_eq!(case.state(attempt.id()).await, JobState::Active);
    assert_eq!(case.get(attempt.id()).await.log, []);
}
