//! A job as the JSON of POST /v1/jobs, which any language can insert by hand.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use punctual::time::exact_span;
use punctual::{Due, Error, ErrorKind, Hold, NewJob, OnRetry, Result, RetryPolicy, UniquePolicy};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// The JSON of a job, but for its id, which has a column of its own.
///
/// # Errors
/// `unsupported` for steps of flows, jobs that wait for other jobs, and imports.
pub fn job_json(job: &NewJob) -> Result<String> {
    if job.flow.is_some() || !job.after.is_empty() || job.history.is_some() {
        let message = "an outbox takes no steps of flows, no jobs that wait for others and no \
                       imports; send them to the engine";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let usual = NewJob::with_id(job.id, job.queue.clone(), "");
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.into(), value));
    put("queue", job.queue.clone().into());
    if job.kind != job.queue {
        put("kind", job.kind.clone().into());
    }
    if job.content_type != usual.content_type {
        put("content_type", job.content_type.clone().into());
    }
    if !job.headers.is_empty() {
        put("headers", json!(job.headers));
    }
    match job.due {
        Due::Now => {}
        Due::After(span) => put("delay", exact_span(span).into()),
        Due::At(at) => put("at", at.to_string().into()),
    }
    if let Some(at) = job.expires_at {
        put("expires_at", at.to_string().into());
    }
    put("priority", job.priority.into());
    if let Some(unique) = &job.unique {
        let policy = match unique.policy {
            UniquePolicy::Keep => "keep",
            UniquePolicy::Replace => "replace",
            UniquePolicy::After => "after",
            UniquePolicy::Refresh { .. } => "refresh",
        };
        let hold = match unique.hold {
            Hold::UntilSettled => "settled".into(),
            Hold::UntilStarted => "started".into(),
            Hold::For(span) => exact_span(span),
        };
        let mut json = json!({"key": unique.key, "policy": policy, "hold": hold});
        if let UniquePolicy::Refresh { max_wait } = unique.policy {
            json["max_wait"] = exact_span(max_wait).into();
        }
        put("unique", json);
    }
    if let Some(share) = &job.share {
        put("share", share.clone().into());
    }
    if !job.limits.is_empty() {
        put("limits", job.limits.clone().into());
    }
    if job.cost != usual.cost {
        put("cost", job.cost.into());
    }
    if let Some(group) = &job.group {
        let on_retry = match group.on_retry {
            OnRetry::Hold => "hold",
            OnRetry::Pass => "pass",
        };
        put("group", json!({"key": group.key, "on_retry": on_retry}));
    }
    put("max_attempts", job.max_attempts.into());
    if let Some(crashes) = job.max_crashes {
        put("max_crashes", crashes.into());
    }
    if job.retry != usual.retry {
        put("retry", retry(&job.retry)?);
    }
    if let Some(timeout) = job.timeout {
        put("timeout", exact_span(timeout).into());
    }
    put("retention", exact_span(job.retention).into());
    if let Some(span) = job.remember {
        put("remember", exact_span(span).into());
    }
    if !job.wait_for.is_empty() {
        put("wait_for", json!(job.wait_for));
    }
    with_payload(&fields, &job.payload)
}

/// Adds the payload to fields that are not empty: the very bytes, if they are JSON.
fn with_payload(fields: &Map<String, Value>, payload: &[u8]) -> Result<String> {
    let text = serde_json::to_string(fields).unwrap_or_default();
    let json = std::str::from_utf8(payload).ok();
    let json = json.and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    let payload = match json {
        Some(json) => format!("\"payload\":{}", json.get()),
        None => format!("\"payload_base64\":\"{}\"", BASE64_STANDARD.encode(payload)),
    };
    let open = text.strip_suffix('}').unwrap_or(&text);
    Ok(format!("{open},{payload}}}"))
}

fn retry(policy: &RetryPolicy) -> Result<Value> {
    let text = |span: &std::time::Duration| exact_span(*span);
    Ok(match policy {
        RetryPolicy::Exponential {
            base,
            factor,
            cap,
            jitter,
        } => json!({
            "policy": "exponential", "base": text(base), "factor": factor, "cap": text(cap), "jitter": jitter,
        }),
        RetryPolicy::Fixed { span, jitter } => {
            json!({"policy": "fixed", "span": text(span), "jitter": jitter})
        }
        RetryPolicy::Linear { base, cap, jitter } => {
            json!({"policy": "linear", "base": text(base), "cap": text(cap), "jitter": jitter})
        }
        RetryPolicy::List(spans) => {
            json!({"policy": "list", "spans": spans.iter().map(text).collect::<Vec<_>>()})
        }
        _ => {
            let message = "this version of the outbox does not know the retry policy; update it";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    })
}
