//! Tests of the timeline of a job.

use punctual::job::{Memo, MemoSource, PastAttempt, PastOutcome};
use punctual::time::{Timestamp, seconds};
use punctual::{JobRecord, JobState, NewJob};

use super::shown;

fn at(second: u64) -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000) + seconds(second)
}

fn memo(name: &str, source: MemoSource, second: u64) -> Memo {
    Memo::new(name, source, Default::default(), at(second))
}

fn past(attempt: u32, from: u64, to: u64, outcome: PastOutcome) -> PastAttempt {
    PastAttempt::new(attempt, at(from), at(to), outcome)
}

#[test]
fn a_timeline_is_in_order_and_ends_with_what_it_waits_for() {
    let mut job = JobRecord::new(NewJob::new("orders", "{}"), at(0), at(0));
    assert_eq!(shown(&job, at(100)), None, "no durable steps");
    job.state = JobState::Held;
    job.attempt = 2;
    job.started_at = Some(at(10));
    job.attempts = vec![
        past(1, 1, 3, PastOutcome::Hold),
        past(2, 10, 12, PastOutcome::Hold),
    ];
    job.memos = vec![
        memo("charge", MemoSource::Step, 2),
        memo("cool-off", MemoSource::TimedOut, 10),
        memo("early", MemoSource::Signal, 11),
    ];
    job.wait_for = vec!["approved".into()];
    let text = shown(&job, at(100)).expect("it has steps");
    let said: Vec<_> = text.lines().map(|line| line[14..].trim()).collect();
    assert_eq!(
        said,
        [
            "enqueued",
            "attempt 1 started",
            "step charge kept its result",
            "attempt 1 ended: hold",
            "sleep or wait cool-off ended without a signal",
            "attempt 2 started",
            "signal early",
            "attempt 2 ended: hold",
            "waits for approved until then",
        ]
    );
    job.memos = (0..60)
        .map(|n| memo(&n.to_string(), MemoSource::Step, n))
        .collect();
    let text = shown(&job, at(100)).expect("it has steps");
    assert!(text.starts_with("(26 earlier lines"), "{text}");
}
