//! The past attempts of a job, for its card.

use punctual::JobRecord;
use punctual::engine::WorkerId;
use punctual::job::PastAttempt;
use punctual::time::{Timestamp, format_span};

use crate::output::{ago, cut};

/// Characters of an error that fit beside the names of a card's fields; -o json shows all that is
/// kept.
const ERROR_SHOWN: usize = 60;

/// A line per attempt, and one for what it failed with; nothing if there was none.
pub(super) fn shown(job: &JobRecord, now: Timestamp) -> Option<String> {
    let mut lines = Vec::new();
    let mut before = 0;
    for past in &job.attempts {
        // Those between two snoozes are no loss to speak of, but neither are they hidden.
        match past.attempt.saturating_sub(before) {
            0 | 1 => {}
            2 => lines.push(format!("     ({} is not kept)", before + 1)),
            _ => lines.push(format!(
                "     ({} to {} are not kept)",
                before + 1,
                past.attempt - 1
            )),
        }
        before = past.attempt;
        lines.push(line(past, now));
        if let Some(error) = &past.error {
            let first = error.lines().next().unwrap_or_default();
            lines.push(format!("     {}", cut(first, ERROR_SHOWN)));
        }
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn line(past: &PastAttempt, now: Timestamp) -> String {
    let ran = format_span(past.ended_at - past.started_at);
    let worker = past.worker.map(|id| WorkerId(id).to_string());
    let worker = worker.map(|id| format!(", worker {}", &id[..8]));
    format!(
        "{:>3}  {:<9}  {} after {ran}{}",
        past.attempt,
        past.outcome.name(),
        ago(past.ended_at, now),
        worker.unwrap_or_default()
    )
}
