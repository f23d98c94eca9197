//! `punctual jobs show`.

use punctual::JobRecord;
use punctual::engine::{Got, WorkerId};
use punctual::time::{Timestamp, exact_span, format_span};

use super::select::Named;
use super::{attempts, lock_waiters, show_named, timeline};
use crate::args::Session;
use crate::commands::locks;
use crate::failure::Result;
use crate::output::{ago, cut, object};
use punctual_gateway::{JobJson, base64_of};

const EXAMPLES: &str = "\
Examples:
  punctual jobs show 01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a
  punctual jobs show --queue orders --unique order:7 -o json";

/// Characters of a payload, result or error that the card shows; -o json shows all.
const TEXT_SHOWN: usize = 2_000;

/// Show every field of jobs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    named: Named,
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let mut is_first = true;
        let waiters = lock_waiters(session).await;
        show_named(session, &self.named, false, |got, now| {
            if !std::mem::take(&mut is_first) && !session.out.is_json() {
                session.out.line("")?;
            }
            match got {
                Got::Job(job, _) if session.out.is_json() => {
                    session.out.json(&JobJson::from(&*job))
                }
                Got::Job(job, _) => {
                    let mut fields = fields(&job, now);
                    let lock = locks::of_job(&job, &waiters, now);
                    fields.extend(lock.map(|text| ("lock", text)));
                    session.out.card(&fields)
                }
                Got::Tombstone {
                    id,
                    state,
                    result,
                    finished_at,
                } => {
                    if session.out.is_json() {
                        return session.out.json(&object!({
                            "id": id.to_string(),
                            "state": state.name(),
                            "result_base64": result.map(|bytes| base64_of(&bytes)),
                            "finished_at": finished_at.to_string(),
                            "tombstone": true,
                        }));
                    }
                    let ended = ago(finished_at, now);
                    let result = result.map(|bytes| shown(&bytes));
                    session.out.card(&[
                        ("id", id.to_string()),
                        (
                            "state",
                            format!("{state} {ended} (only its tombstone is left)"),
                        ),
                        ("result", result.unwrap_or_default()),
                    ])
                }
                // Of an engine that knows more.
                _ => Ok(()),
            }
        })
        .await
    }
}

fn fields(job: &JobRecord, now: Timestamp) -> Vec<(&'static str, String)> {
    let at = |instant: Timestamp| format!("{instant} ({})", ago(instant, now));
    let mut fields = vec![
        ("id", job.id.to_string()),
        ("queue", job.queue.clone()),
        ("kind", job.kind.clone()),
        ("state", state(job)),
        ("due", at(job.due)),
        (
            "attempt",
            format!(
                "{} ({} of {} failures, {} crashes)",
                job.attempt, job.failures, job.max_attempts, job.crashes
            ),
        ),
        ("priority", job.priority.to_string()),
        ("enqueued", at(job.enqueued_at)),
    ];
    let mut add = |name, value: Option<String>| {
        if let Some(value) = value {
            fields.push((name, value));
        }
    };
    add("max crashes", job.max_crashes.map(|max| max.to_string()));
    add("remember", job.remember.map(format_span));
    let run = |run: &punctual::schedule::Occurrence| format!("{}\nfor {}", run.name, run.at);
    add("run of", job.schedule.as_deref().map(run));
    add("started", job.started_at.map(at));
    add("finished", job.finished_at.map(at));
    add("worker", job.worker.map(|id| WorkerId(id).to_string()));
    add("lease until", job.lease_until.map(at));
    add("expires", job.expires_at.map(at));
    add(
        "unique key",
        job.unique.as_ref().map(|unique| unique.key.clone()),
    );
    add("group", job.group.as_ref().map(|group| group.key.clone()));
    add("share", job.share.clone());
    add(
        "limits",
        (!job.limits.is_empty()).then(|| job.limits.join(", ")),
    );
    add("cost", (job.cost != 1).then(|| job.cost.to_string()));
    add(
        "waits for",
        (!job.wait_for.is_empty()).then(|| job.wait_for.join(", ")),
    );
    add("timeout", job.timeout.map(format_span));
    add(
        "retention",
        (!job.retention.is_zero()).then(|| exact_span(job.retention)),
    );
    add(
        "last error",
        job.last_error
            .as_deref()
            .map(|error| cut(error, TEXT_SHOWN)),
    );
    add("attempts", attempts::shown(job, now));
    add("timeline", timeline::shown(job, now));
    add("log", logged(job, now));
    add("progress", job.progress.as_deref().map(shown));
    add("result", job.result.as_deref().map(shown));
    for (name, value) in &job.headers {
        add("header", Some(format!("{name}: {value}")));
    }
    let payload = match job.payload.len() {
        0 => "empty".into(),
        n => format!(
            "{} bytes of {}\n{}",
            n,
            job.content_type,
            shown(&job.payload)
        ),
    };
    add("payload", Some(payload));
    fields
}

fn state(job: &JobRecord) -> String {
    let mut text = job.state.name().to_owned();
    if let Some(reason) = job.cancelled {
        text += &format!(": {reason}");
    }
    if let Some(reason) = job.dead {
        text += &format!(": {reason}");
    }
    if let Some(stop) = job.stopped {
        text += &format!(" (stopped: {stop})");
    }
    if job.cancel_requested && !job.state.is_settled() {
        text += ", asked to stop";
    }
    if job.is_suspect() {
        text += ", suspect";
    }
    text
}

/// The last lines that its attempts logged; -o json shows all that is kept.
fn logged(job: &JobRecord, now: Timestamp) -> Option<String> {
    let hidden = job.log.len().saturating_sub(LOG_SHOWN);
    let mut lines = Vec::new();
    if hidden > 0 {
        lines.push(format!("({hidden} earlier lines: -o json shows them)"));
    }
    for line in &job.log[hidden..] {
        let when = ago(line.at, now);
        lines.push(format!(
            "#{} {when}: {}",
            line.attempt,
            cut(&line.text, TEXT_SHOWN)
        ));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Log lines that a card shows.
const LOG_SHOWN: usize = 20;

/// Bytes as text where they are text; else how many they are.
fn shown(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => cut(text, TEXT_SHOWN),
        Err(_) => format!(
            "{} bytes that are not text; -o json shows them as base64",
            bytes.len()
        ),
    }
}
