//! What happened to a job with durable steps, in order, for its card.

use punctual::job::{MemoSource, PastOutcome};
use punctual::time::Timestamp;
use punctual::{JobRecord, JobState};

use crate::output::{ago, cut};

/// Lines of a timeline that a card shows, the last ones; -o json shows all that is kept.
const LINES_SHOWN: usize = 40;
/// Characters of a name that fit on a line.
const NAME_SHOWN: usize = 60;

/// A line per attempt that started or ended, per kept step, sleep, wait and signal; nothing of a
/// job without durable steps.
pub(super) fn shown(job: &JobRecord, now: Timestamp) -> Option<String> {
    let holds = |job: &JobRecord| {
        job.attempts
            .iter()
            .any(|one| one.outcome == PastOutcome::Hold)
    };
    if job.memos.is_empty() && !holds(job) {
        return None;
    }
    let mut events = vec![(job.enqueued_at, 0, "enqueued".to_owned())];
    for past in &job.attempts {
        let attempt = past.attempt;
        events.push((past.started_at, 3, format!("attempt {attempt} started")));
        let outcome = past.outcome.name();
        events.push((
            past.ended_at,
            5,
            format!("attempt {attempt} ended: {outcome}"),
        ));
    }
    let is_last = |attempt| {
        job.attempts
            .last()
            .is_some_and(|past| past.attempt == attempt)
    };
    if let Some(at) = job.started_at.filter(|_| !is_last(job.attempt)) {
        events.push((at, 3, format!("attempt {} started", job.attempt)));
    }
    for memo in &job.memos {
        let name = cut(&memo.name, NAME_SHOWN);
        let (order, text) = match memo.source {
            MemoSource::Signal => (2, format!("signal {name}")),
            MemoSource::TimedOut => (1, format!("sleep or wait {name} ended without a signal")),
            _ => (4, format!("step {name} kept its result")),
        };
        events.push((memo.at, order, text));
    }
    if let Some(at) = job.finished_at {
        events.push((at, 6, format!("settled: {}", job.state)));
    }
    events.sort_by_key(|(at, order, _)| (*at, *order));
    if job.state == JobState::Held {
        let waits = job.wait_for.iter().map(|name| cut(name, NAME_SHOWN));
        events.extend(waits.map(|name| (job.due, 7, format!("waits for {name} until then"))));
    }
    let hidden = events.len().saturating_sub(LINES_SHOWN);
    let mut lines = Vec::new();
    if hidden > 0 {
        lines.push(format!("({hidden} earlier lines: -o json shows them)"));
    }
    let last = events[hidden..].iter();
    lines.extend(last.map(|(at, _, text)| format!("{:<12}  {text}", ago(*at, now))));
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests;
