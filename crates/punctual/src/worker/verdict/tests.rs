//! Unit tests of `worker::verdict`.

use std::io;

use super::*;
use crate::time::seconds;

fn failing() -> HandlerResult {
    Err(io::Error::other("disk is on fire"))?;
    Ok(Outcome::Completed)
}

#[test]
fn any_error_by_question_mark_is_a_retry_by_policy() {
    let verdict = failing().into_verdict();
    assert_eq!(verdict.outcome, Outcome::Retry { after: None });
    assert_eq!(verdict.error_text().as_deref(), Some("disk is on fire"));
}

#[test]
fn a_permanent_error_is_dead_also_as_a_cause() {
    let plain: Result<(), Error> = Err(Error::permanent("order 7 has no customer"));
    assert_eq!(plain.into_verdict().outcome, Outcome::Dead);

    let outer = Error::new(ErrorKind::Handler, "cannot charge")
        .source(Error::permanent("order 7 has no customer"));
    let verdict = Err::<(), _>(outer).into_verdict();
    assert_eq!(verdict.outcome, Outcome::Dead);
    assert_eq!(
        verdict.error_text().as_deref(),
        Some("cannot charge (handler): order 7 has no customer (permanent)")
    );
}

#[test]
fn a_cause_that_the_error_prints_itself_is_not_written_twice() {
    let error = io::Error::other(Error::new(ErrorKind::Handler, "no route"));
    assert_eq!(
        Verdict::retry(error).error_text().as_deref(),
        Some("no route (handler)")
    );
}

#[test]
fn text_and_nothing_are_verdicts_too() {
    assert_eq!(().into_verdict().outcome, Outcome::Completed);
    let text: Result<(), &str> = Err("no route");
    assert_eq!(text.into_verdict().outcome, Outcome::Retry { after: None });
}

#[test]
fn a_span_changes_a_retry_and_nothing_else() {
    let retry = Verdict::retry("x").after(seconds(3));
    assert_eq!(
        retry.outcome,
        Outcome::Retry {
            after: Some(seconds(3))
        }
    );
    assert_eq!(
        Verdict::completed().after(seconds(3)).outcome,
        Outcome::Completed
    );
}
