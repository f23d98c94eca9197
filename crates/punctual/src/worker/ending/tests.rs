//! Unit tests of `worker::ending`.

use super::*;
use crate::job::NewJob;
use crate::time::{minutes, seconds};
use crate::worker::Context;
use crate::worker::fixtures::{context, record};

/// What is settled for an attempt that gave a result and an effect before it ended.
fn settled(verdict: Option<Verdict>, cause: Option<Cause>) -> Settlement {
    settlement(worked().shared(), verdict, cause).expect("it is settled")
}

fn worked() -> Context {
    let mut job = record();
    job.timeout = Some(minutes(5));
    let ctx = context(job);
    ctx.result("done").unwrap();
    ctx.then(NewJob::new("mail", "{}")).unwrap();
    ctx
}

#[test]
fn a_completed_attempt_brings_result_and_effects() {
    let settlement = settled(Some(Verdict::completed()), None);
    assert_eq!(settlement.outcome, Outcome::Completed);
    assert_eq!(settlement.result.as_deref(), Some(&b"done"[..]));
    assert_eq!(settlement.effects.len(), 1);
}

#[test]
fn the_result_of_the_verdict_wins() {
    let settlement = settled(Some(Verdict::completed().result("better")), None);
    assert_eq!(settlement.result.as_deref(), Some(&b"better"[..]));
}

#[test]
fn an_error_leaves_result_and_effects_out() {
    for verdict in [Verdict::retry("broken"), Verdict::dead("broken")] {
        let settlement = settled(Some(verdict), None);
        assert_eq!(settlement.error.as_deref(), Some("broken"));
        assert_eq!(settlement.result, None);
        assert_eq!(settlement.effects, []);
    }
}

#[test]
fn a_snooze_brings_effects_but_no_result() {
    let snooze = Outcome::Snooze { after: seconds(1) };
    let settlement = settled(Some(Verdict::new(snooze)), None);
    assert_eq!(settlement.effects.len(), 1);
    assert_eq!(settlement.result, None);
}

#[test]
fn a_lost_lease_settles_nothing() {
    let verdict = Some(Verdict::completed());
    assert_eq!(
        settlement(worked().shared(), verdict, Some(Cause::Lost)),
        None
    );
}

#[test]
fn a_requested_cancel_says_how_the_attempt_was_stopped() {
    let by_token = settled(Some(Verdict::retry("interrupted")), Some(Cause::Requested));
    assert_eq!(by_token.outcome, Outcome::Cancelled);
    assert_eq!(by_token.stopped, Some(Stop::Token));
    assert_eq!(by_token.error.as_deref(), Some("interrupted"));

    let aborted = settled(None, Some(Cause::Requested));
    assert_eq!(aborted.outcome, Outcome::Cancelled);
    assert_eq!(aborted.stopped, Some(Stop::Aborted));
    assert_eq!(aborted.effects, []);

    let killed = Verdict::new(Outcome::Cancelled).stopped(Stop::Killed);
    let killed = settled(Some(killed), Some(Cause::Requested));
    assert_eq!(killed.stopped, Some(Stop::Killed));
}

#[test]
fn completed_in_the_meantime_stays_completed() {
    for cause in [
        Cause::Requested,
        Cause::TimedOut,
        Cause::Unsure,
        Cause::Shutdown,
    ] {
        let settlement = settled(Some(Verdict::completed()), Some(cause));
        assert_eq!(settlement.outcome, Outcome::Completed, "{cause:?}");
        assert_eq!(settlement.stopped, None);
    }
}

#[test]
fn a_timeout_is_a_failure_that_says_so() {
    let aborted = settled(None, Some(Cause::TimedOut));
    assert_eq!(aborted.outcome, Outcome::Retry { after: None });
    let text = aborted.error.unwrap();
    assert!(text.starts_with("timed out after 5m"), "{text}");

    let gave_in = settled(Some(Verdict::retry("interrupted")), Some(Cause::TimedOut));
    assert_eq!(
        gave_in.error.as_deref(),
        Some("timed out after 5m: interrupted")
    );
}

#[test]
fn what_the_worker_cuts_short_is_released_and_no_failure() {
    for cause in [Cause::Shutdown, Cause::Unsure] {
        for verdict in [None, Some(Verdict::retry("interrupted"))] {
            let settlement = settled(verdict, Some(cause));
            assert_eq!(settlement.outcome, Outcome::Released);
            assert_eq!(settlement.error, None);
            assert_eq!(settlement.effects, []);
        }
    }
}

#[test]
fn what_is_dead_stays_dead_however_it_was_stopped() {
    for cause in [
        Cause::Requested,
        Cause::TimedOut,
        Cause::Shutdown,
        Cause::Unsure,
    ] {
        let settlement = settled(Some(Verdict::dead("no such order")), Some(cause));
        assert_eq!(settlement.outcome, Outcome::Dead, "{cause:?}");
        assert_eq!(settlement.error.as_deref(), Some("no such order"));
    }
}

#[test]
fn a_result_over_the_limit_is_left_out_and_the_rest_stays() {
    let large = Verdict::completed().result(vec![0; (8 << 10) + 1]);
    let settlement = settled(Some(large), None);
    assert_eq!(settlement.outcome, Outcome::Completed);
    assert_eq!(settlement.result, None);
    assert_eq!(settlement.effects.len(), 1);
}

#[test]
fn a_long_error_is_cut_between_characters() {
    assert_eq!(cut("äöü".into(), 3), "ä");
    assert_eq!(cut("äöü".into(), 6), "äöü");
    let settlement = settled(Some(Verdict::retry("ü".repeat(10_000))), None);
    assert_eq!(settlement.error.unwrap().len(), 8 << 10);
}

#[test]
fn a_waiter_receives_every_end_and_nothing_before() {
    let reported = |verdict: Verdict, cause| {
        let mut job = record();
        job.max_attempts = 2;
        job.headers = vec![(push::CALLBACK.to_owned(), "https://example.com/".to_owned())];
        let settlement = settlement(context(job).shared(), Some(verdict), cause);
        let effects = settlement.expect("it is settled").effects;
        effects.len()
    };
    assert_eq!(reported(Verdict::completed(), None), 1);
    assert_eq!(reported(Verdict::dead("gone"), None), 1);
    assert_eq!(reported(Verdict::retry("busy"), None), 0);
    assert_eq!(reported(Verdict::retry("busy"), Some(Cause::Requested)), 1);
    assert_eq!(reported(Verdict::retry("busy"), Some(Cause::Shutdown)), 0);
}
