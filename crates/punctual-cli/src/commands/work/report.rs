//! A line per attempt.

use std::time::Duration;

use punctual::time::format_span;
use punctual::worker::Verdict;
use punctual::{JobRecord, Outcome};

use crate::output::{Output, cut, object, plain};

/// Characters of an error in the line that is printed.
const ERROR_SHOWN: usize = 200;

/// Prints how an attempt ended, if output is asked for.
pub(super) fn attempt(out: Option<Output>, job: &JobRecord, verdict: &Verdict, took: Duration) {
    let Some(out) = out else { return };
    let outcome = match &verdict.outcome {
        Outcome::Completed => "completed",
        Outcome::Retry { .. } => "failed",
        Outcome::Snooze { .. } => "snoozed",
        Outcome::Cancelled => "cancelled",
        Outcome::Dead => "dead",
        _ => "released",
    };
    let error = verdict.error_text();
    // The reader may be gone; the jobs go on.
    let _ = if out.is_json() {
        out.json(&object!({
            "id": job.id.to_string(),
            "queue": job.queue,
            "kind": job.kind,
            "attempt": job.attempt,
            "outcome": outcome,
            "run_ms": took.as_secs_f64() * 1_000.0,
            "error": error,
        }))
    } else {
        let mut line = format!(
            "{outcome:<9}  {}  {}  attempt {}  {}",
            job.id,
            job.kind,
            job.attempt,
            format_span(took)
        );
        if let Some(error) = error {
            line += &format!("  {}", cut(&plain(&error), ERROR_SHOWN));
        }
        out.line(line)
    };
}
