//! One change, as it is written down.

use punctual::Effect;
use punctual::engine::{Control, Edit, FlowAct, ScheduleAct, Select, Target};
use punctual::time::{Clock, SystemClock, format_span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::Caller;

/// One recorded change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditEntry)]
#[non_exhaustive]
pub struct Entry {
    /// The change.
    pub id: String,
    /// When it began, by the gateway's clock.
    pub at: String,
    /// The name of the token, `local` for a process of the same user, or `no token`.
    pub who: String,
    /// Whose jobs.
    pub namespace: String,
    /// `cancel`, `redrive`, `pause`, `write` and their like.
    pub action: String,
    /// Which jobs, which queue, or which record.
    pub on: String,
    /// `begun`, `done` or `failed`; one that stays begun was cut off, and may have been made.
    pub phase: String,
    /// Jobs that were matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched: Option<u64>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Entry {
    fn begun(caller: &Caller, action: &str, on: String) -> Self {
        Self {
            id: uuid::Uuid::new_v4().simple().to_string(),
            at: SystemClock.now().to_string(),
            who: caller.who().to_owned(),
            namespace: caller.namespace.to_string(),
            action: action.to_owned(),
            on,
            phase: "begun".to_owned(),
            matched: None,
            error: None,
        }
    }

    pub(super) fn of_edit(caller: &Caller, edit: &Edit) -> Self {
        Self::begun(caller, edit.action.name(), jobs_in_words(&edit.select))
    }

    /// Of a control that only reads there is none.
    pub(super) fn of_control(caller: &Caller, control: &Control) -> Option<Self> {
        let (action, on) = match control {
            Control::Pause { queue } => ("pause", queue),
            Control::Resume { queue } => ("resume", queue),
            Control::Purge { queue, .. } => ("purge", queue),
            Control::DeleteQueue { queue } => ("delete_queue", queue),
            Control::Write { name, .. } => ("write", name),
            Control::Guarded {
                value: None,
                effects,
                ..
            } => {
                let [Effect::Clear { job, name }] = &effects[..] else {
                    return None;
                };
                return Some(Self::begun(caller, "clear", format!("{name} of job {job}")));
            }
            Control::Guarded {
                guard,
                value: Some(_),
                ..
            } => ("write", &guard.record),
            Control::Schedule { name, act } => match act {
                ScheduleAct::Run => ("run_schedule", name),
                ScheduleAct::Skip => ("skip_schedule", name),
                ScheduleAct::Backfill { .. } => ("backfill_schedule", name),
                ScheduleAct::Restore { .. } => ("restore_schedule", name),
                _ => return None,
            },
            Control::Flow { name, act } => match act {
                FlowAct::Seal { .. } => ("seal_flow", name),
                FlowAct::Cancel => ("cancel_flow", name),
                FlowAct::Retry { .. } => ("retry_flow", name),
                FlowAct::Restore(_) => ("import_flow", name),
                _ => return None,
            },
            _ => return None,
        };
        Some(Self::begun(caller, action, on.clone()))
    }

    pub(super) fn done(&mut self, matched: u64) {
        self.phase = "done".to_owned();
        self.matched = Some(matched);
    }

    pub(super) fn failed(&mut self, code: &str) {
        self.phase = "failed".to_owned();
        self.error = Some(code.to_owned());
    }
}

/// No text that is looked for in payloads: it may be a secret.
fn jobs_in_words(select: &Select) -> String {
    match select {
        Select::Targets(targets) => {
            let first = match targets.first() {
                Some(Target::Id(id)) => format!(" {id}"),
                Some(Target::Unique { queue, key }) => format!(" {queue}/{key}"),
                None => String::new(),
            };
            match targets.len() {
                1 => format!("job{first}"),
                more => format!("{more} jobs{first}.."),
            }
        }
        Select::Filter { filter, .. } => {
            let mut words = vec!["jobs".to_owned()];
            words.extend(filter.queue.iter().map(|queue| format!("queue={queue}")));
            words.extend(filter.state.iter().map(|state| format!("state={state}")));
            words.extend(filter.kind.iter().map(|kind| format!("kind={kind}")));
            words.extend(filter.text.iter().map(|_| "text=(not shown)".to_owned()));
            words.extend(filter.error.iter().map(|_| "error=(not shown)".to_owned()));
            words.extend(filter.due_from.iter().map(|at| format!("due_from={at}")));
            words.extend(
                filter
                    .due_before
                    .iter()
                    .map(|at| format!("due_before={at}")),
            );
            words.extend(
                filter
                    .older_than
                    .map(|span| format!("older_than={}", format_span(span))),
            );
            words.join(" ")
        }
        _ => "jobs".to_owned(),
    }
}
