//! A file as JSON, for people and programs.

use punctual::JobRecord;
use punctual::job::{PastAttempt, PastOutcome};
use serde_json::{Map, Value, json};

use crate::app::now;
use crate::db::File;

/// The state that a reader sees: the time of a record may be over before its job has ended it.
pub(crate) fn state(file: &File) -> &str {
    match file.expires <= now() {
        true => "expired",
        false => &file.state,
    }
}

/// The whole view; `past` are attempts that did not complete.
pub(crate) fn of(file: &File, past: &[String]) -> Value {
    let state = state(file);
    let mut view = Map::new();
    let mut put = |name: &str, value: Value| drop(view.insert(name.to_owned(), value));
    put("id", json!(file.id));
    put("name", json!(file.name));
    put("kind", json!(file.kind));
    put("size", json!(file.size));
    put("sha256", json!(file.sha256));
    put("state", json!(state));
    put("expires_at_us", json!(file.expires));
    if let Some(reason) = &file.reason {
        put("reason", json!(reason));
    }
    if state == "expired" {
        return Value::Object(view);
    }
    if file.done > 0
        && let Some(Value::Object(result)) = file
            .result
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok())
    {
        view.extend(result);
    } else {
        let percent = file.byte_offset.saturating_mul(100) / file.size.max(1);
        let progress =
            json!({"bytes": file.byte_offset, "rows": file.row_total, "percent": percent.min(100)});
        view.insert("progress".into(), progress);
    }
    if file.attempt > 0 {
        view.insert("attempt".into(), json!(file.attempt));
    }
    if !past.is_empty() {
        view.insert("past_attempts".into(), json!(past));
    }
    view.insert("steps".into(), steps(file));
    Value::Object(view)
}

/// The steps with their instants, and how late each was against the one before.
fn steps(file: &File) -> Value {
    let mut steps = vec![json!({"step": "stored", "at_us": file.created})];
    let queued = file.queued.filter(|_| file.generation == 1);
    if let Some(queued) = queued {
        steps.push(
            json!({"step": "queued", "at_us": queued, "late_us": (queued - file.created).max(0)}),
        );
    }
    if let Some(started) = file.started {
        steps.push(json!({"step": "started", "at_us": started, "late_us": file.lateness}));
    }
    if let (Some(ended), Some(started)) = (file.ended, file.started) {
        steps.push(json!({"step": "ended", "at_us": ended, "took_us": (ended - started).max(0)}));
    }
    Value::Array(steps)
}

/// Attempts of a job that ended in anything but its completion, in words.
pub(crate) fn past(job: &JobRecord) -> Vec<String> {
    let words = |past: &PastAttempt| {
        let what = match past.outcome {
            PastOutcome::Crashed => "its worker died or hung, and its lease ran out",
            PastOutcome::Released => "its worker was shut down and handed it back",
            _ => "it failed",
        };
        let why = past
            .error
            .as_deref()
            .map_or(String::new(), |why| format!(": {why}"));
        format!("attempt {}: {what}{why}", past.attempt)
    };
    job.attempts.iter().map(words).collect()
}
