//! Edits of one job, and of many.

use std::collections::BTreeMap;

use punctual::engine::{Action, EditVerdict, Edited, Filter, Target};
use punctual::job::check_name;
use punctual::{Due, JobId, JobState};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::bounded::bounded_some;
use crate::http::{Problem, Result};
use crate::job_json::{InstantText, SpanText, either, raw};
use crate::words::{Id, Name};

/// What to do to one job: exactly one of these.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Patch {
    /// The new due, a span from now.
    delay: Option<SpanText>,
    /// The new due, an instant.
    at: Option<InstantText>,
    /// Make a waiting job due now.
    run_now: Option<bool>,
    /// 0 (first) to 9 (last).
    priority: Option<u8>,
    /// Send a settled job that is still kept back to its queue.
    redrive: Option<bool>,
    /// Cancel it.
    cancel: Option<bool>,
    /// The new payload of a waiting job, if that is JSON, byte for byte.
    #[serde(deserialize_with = "raw")]
    #[schema(value_type = serde_json::Value, required = false)]
    payload: Option<Box<RawValue>>,
    /// The new payload in base64, if it is not JSON.
    payload_base64: Option<String>,
}

impl Patch {
    pub(crate) fn action(&self) -> Result<Action> {
        let flag = |asked: Option<bool>, action| asked.filter(|asked| *asked).map(|_| action);
        let asked = [
            self.delay
                .map(|span| Action::Reschedule(Due::After(span.0))),
            self.at.map(|at| Action::Reschedule(Due::At(at.0))),
            flag(self.run_now, Action::RunNow),
            self.priority.map(Action::Reprioritise),
            flag(self.redrive, Action::Redrive),
            flag(self.cancel, Action::Cancel),
            update_of(&self.payload, &self.payload_base64)?,
        ];
        let mut asked = asked.into_iter().flatten();
        match (asked.next(), asked.next()) {
            (Some(action), None) => Ok(action),
            _ => Err(Problem::invalid("a patch needs exactly one change")
                .hint("send one of delay, at, run_now, priority, redrive, cancel, payload")),
        }
    }
}

/// The update that a new payload asks for.
fn update_of(json: &Option<Box<RawValue>>, base64: &Option<String>) -> Result<Option<Action>> {
    let bytes = either(json, base64, "payload")
        .map_err(|why| Problem::of_line(&format!("the request {why}")))?;
    Ok(bytes.map(Action::UpdatePayload))
}

/// What to do to many jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ActionLine {
    Cancel,
    RunNow,
    Redrive,
    Delete,
    Reschedule(NewDue),
    /// 0 (first) to 9 (last).
    Reprioritise(u8),
    /// Only for jobs by id or unique key, not with a filter.
    UpdatePayload(NewPayload),
    /// Only for jobs by id or unique key, not with a filter.
    Signal(NewSignal),
}

/// A signal: its name, and a payload or none.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewSignal {
    name: String,
    /// Any JSON, 8 KiB at most.
    #[serde(deserialize_with = "raw")]
    #[schema(value_type = serde_json::Value, required = false)]
    payload: Option<Box<RawValue>>,
    /// If that is no JSON.
    payload_base64: Option<String>,
}

impl NewSignal {
    fn action(&self) -> Result<Action> {
        let bytes = either(&self.payload, &self.payload_base64, "payload");
        let bytes = bytes.map_err(|why| Problem::of_line(&format!("the signal {why}")))?;
        Ok(Action::Signal {
            name: self.name.clone(),
            payload: bytes.unwrap_or_default(),
        })
    }
}

/// A signal to one job: by its id, by the unique key that it holds, or as a step of a flow.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SignalRequest {
    name: String,
    #[schema(value_type = Option<Id>)]
    id: Option<String>,
    #[schema(value_type = Option<Name>)]
    queue: Option<String>,
    unique: Option<String>,
    flow: Option<String>,
    step: Option<String>,
    /// Any JSON, 8 KiB at most.
    #[serde(deserialize_with = "raw")]
    #[schema(value_type = serde_json::Value, required = false)]
    payload: Option<Box<RawValue>>,
    /// If that is no JSON.
    payload_base64: Option<String>,
}

impl SignalRequest {
    pub(crate) fn target(&self) -> Result<Target> {
        match (&self.id, &self.queue, &self.unique, &self.flow, &self.step) {
            (Some(id), None, None, None, None) => Ok(Target::Id(id.parse()?)),
            (None, Some(queue), Some(key), None, None) => Ok(Target::Unique {
                queue: queue.clone(),
                key: key.clone(),
            }),
            (None, None, None, Some(flow), Some(step)) => Ok(Target::Id(step_of(flow, step)?)),
            _ => Err(Problem::invalid("a signal needs exactly one job")
                .hint("send id, or queue and unique, or flow and step")),
        }
    }

    /// The step that it names, if it does: its flow, and its name.
    pub(crate) fn step(&self) -> Option<(String, String)> {
        Some((self.flow.clone()?, self.step.clone()?))
    }

    pub(crate) fn action(self) -> Result<Action> {
        let signal = NewSignal {
            name: self.name,
            payload: self.payload,
            payload_base64: self.payload_base64,
        };
        signal.action()
    }
}

/// The job of a step, or of a callback, whose name begins with `@`.
fn step_of(flow: &str, step: &str) -> Result<JobId> {
    check_name("flow", flow)?;
    check_name("step", step.strip_prefix('@').unwrap_or(step))?;
    Ok(JobId::step(flow, step))
}

/// The clear of a name that a held job waits for: the job by its id, or as a step of a flow.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ClearRequest {
    name: String,
    #[schema(value_type = Option<Id>)]
    id: Option<String>,
    #[schema(value_type = Option<Name>)]
    flow: Option<String>,
    step: Option<String>,
}

/// What was cleared.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Cleared {
    /// The job.
    pub(crate) id: String,
    /// The name, which need not wait any more, or which counts when the job comes within an hour.
    pub(crate) name: String,
}

impl ClearRequest {
    pub(crate) fn read(self) -> Result<(JobId, String)> {
        match (&self.id, &self.flow, &self.step) {
            (Some(id), None, None) => Ok((id.parse()?, self.name)),
            (None, Some(flow), Some(step)) => Ok((step_of(flow, step)?, self.name)),
            _ => {
                Err(Problem::invalid("a clear needs exactly one job")
                    .hint("send id, or flow and step"))
            }
        }
    }
}

/// A payload: one of these.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewPayload {
    /// If that is JSON, byte for byte.
    #[serde(deserialize_with = "raw")]
    #[schema(value_type = serde_json::Value, required = false)]
    payload: Option<Box<RawValue>>,
    /// If that is no JSON.
    payload_base64: Option<String>,
}

/// A due: one of these.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewDue {
    delay: Option<SpanText>,
    at: Option<InstantText>,
}

impl ActionLine {
    pub(crate) fn action(&self) -> Result<Action> {
        Ok(match self {
            Self::Cancel => Action::Cancel,
            Self::RunNow => Action::RunNow,
            Self::Redrive => Action::Redrive,
            Self::Delete => Action::Delete,
            Self::Reprioritise(priority) => Action::Reprioritise(*priority),
            Self::UpdatePayload(new) => {
                update_of(&new.payload, &new.payload_base64)?.ok_or_else(|| {
                    Problem::invalid("update_payload needs payload or payload_base64")
                        .hint("send one of them")
                })?
            }
            Self::Signal(signal) => signal.action()?,
            Self::Reschedule(due) => match (due.delay, due.at) {
                (Some(span), None) => Action::Reschedule(Due::After(span.0)),
                (None, Some(at)) => Action::Reschedule(Due::At(at.0)),
                _ => {
                    return Err(Problem::invalid("reschedule needs either delay or at")
                        .hint("send one of them"));
                }
            },
        })
    }
}

/// A job by id, or by the unique key that it holds.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a target is {\"id\"} or {\"queue\", \"unique\"}"
)]
pub(crate) enum TargetLine {
    Id {
        #[schema(value_type = Id)]
        id: String,
    },
    Unique {
        #[schema(value_type = Name)]
        queue: String,
        unique: String,
    },
}

impl TargetLine {
    pub(crate) fn target(self) -> Result<Target> {
        Ok(match self {
            Self::Id { id } => Target::Id(id.parse()?),
            Self::Unique { queue, unique } => Target::Unique { queue, key: unique },
        })
    }
}

/// The conditions that a job must meet.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FilterLine {
    #[schema(value_type = Option<Name>)]
    pub(crate) queue: Option<String>,
    pub(crate) state: Option<String>,
    #[schema(value_type = Option<Name>)]
    pub(crate) kind: Option<String>,
    /// Text that the payload contains.
    pub(crate) text: Option<String>,
    /// Text that the last error contains.
    pub(crate) error: Option<String>,
    pub(crate) due_from: Option<InstantText>,
    pub(crate) due_before: Option<InstantText>,
    /// Of at least this age: a settled job counts from its end, any other from its enqueue.
    pub(crate) older_than: Option<SpanText>,
}

impl FilterLine {
    pub(crate) fn filter(self) -> Result<Filter> {
        let names = [("queue", &self.queue), ("kind", &self.kind)];
        for (what, name) in names {
            name.iter().try_for_each(|name| check_name(what, name))?;
        }
        let state: Option<JobState> = self.state.map(|state| state.parse()).transpose()?;
        Ok(Filter::default()
            .queue(self.queue)
            .state(state)
            .kind(self.kind)
            .text(self.text)
            .due_from(self.due_from.map(|at| at.0))
            .due_before(self.due_before.map(|at| at.0))
            .error(self.error)
            .older_than(self.older_than.map(|span| span.0)))
    }
}

/// A change to jobs that are named (`ids` or `targets`) or found (`filter`).
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditRequest {
    pub(crate) action: ActionLine,
    #[serde(default, deserialize_with = "bounded_some")]
    pub(crate) ids: Option<Vec<String>>,
    #[serde(default, deserialize_with = "bounded_some")]
    pub(crate) targets: Option<Vec<TargetLine>>,
    pub(crate) filter: Option<FilterLine>,
    /// Jobs to examine in this call, 1 to 1,000.
    pub(crate) limit: Option<usize>,
    pub(crate) cursor: Option<String>,
    /// Whether only to show what would change; required with `filter`.
    pub(crate) dry_run: Option<bool>,
}

/// What became of one job, or would.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EditedJob {
    /// Which of the named ones, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
}

/// The answer to an edit of many.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EditAnswer {
    dry_run: bool,
    examined: usize,
    matched: usize,
    /// Jobs that were changed, or would be.
    changed: usize,
    /// How often each verdict was given.
    verdicts: BTreeMap<&'static str, usize>,
    jobs: Vec<EditedJob>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    now: String,
}

impl EditAnswer {
    pub(crate) fn new(edited: Edited, dry_run: bool, named: bool, cursor: Option<String>) -> Self {
        let mut verdicts = BTreeMap::new();
        for (_, verdict) in &edited.verdicts {
            *verdicts.entry(verdict.name()).or_default() += 1;
        }
        let changes = edited
            .verdicts
            .iter()
            .filter(|(_, verdict)| verdict.is_change());
        let jobs = edited.verdicts.iter().enumerate();
        Self {
            dry_run,
            examined: edited.examined,
            matched: edited.matched,
            changed: changes.count(),
            verdicts,
            jobs: jobs
                .map(|(index, (id, verdict))| EditedJob {
                    target: named.then_some(index),
                    id: id.map(|id| id.to_string()),
                    verdict: verdict.name(),
                    state: state_of(*verdict),
                    holder: match verdict {
                        EditVerdict::UniqueHeld(holder) => Some(holder.to_string()),
                        _ => None,
                    },
                })
                .collect(),
            cursor,
            now: edited.now.to_string(),
        }
    }
}

/// The answer to an edit of one.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OneEdited {
    pub(crate) id: String,
    pub(crate) verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
    pub(crate) now: String,
}

pub(crate) fn state_of(verdict: EditVerdict) -> Option<&'static str> {
    match verdict {
        EditVerdict::Done(state) | EditVerdict::WrongState(state) => Some(state.name()),
        EditVerdict::CancelRequested | EditVerdict::JobActive => Some(JobState::Active.name()),
        EditVerdict::AlreadyCancelled => Some(JobState::Cancelled.name()),
        _ => None,
    }
}
