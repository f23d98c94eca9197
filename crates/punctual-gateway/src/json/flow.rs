//! A flow as JSON: what a `POST` sends, and what answers say of it.

use std::collections::HashMap;

use bytes::Bytes;
use punctual::flow::{
    Callback, Edge, FlowCounts, FlowStatus, On, OnFailure, Outside, Plan, Retried, Role,
    StepStatus, Upstream,
};
use punctual::queue::Recounted;
use punctual::{JobId, JobState, NewJob};
use punctual_push::Guard;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::decode::{self, DecodeError};
use crate::http::{Problem, Result};
use crate::job_json::{
    InstantText, JobJson, LineError, OnLine, id_of, json_or_base64, text_or_object,
};
use crate::json::new_job::new_job;
use crate::words::{Count, Id, Name};

/// What happens to a flow when a step is dead or cancelled.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnFailureLine {
    #[default]
    CancelDependants,
    CancelRest,
    Continue,
}

impl From<OnFailureLine> for OnFailure {
    fn from(policy: OnFailureLine) -> Self {
        match policy {
            OnFailureLine::CancelDependants => Self::CancelDependants,
            OnFailureLine::CancelRest => Self::CancelRest,
            OnFailureLine::Continue => Self::Continue,
        }
    }
}

/// What a step waits for: the name of a step that must complete, or which step or job must end how.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = After)]
#[serde(untagged)]
enum AfterLine {
    Step(String),
    Full(FullAfterLine),
}

/// A step or a job, and how it must end.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AfterEnd)]
#[serde(deny_unknown_fields)]
struct FullAfterLine {
    #[schema(value_type = Option<Name>)]
    step: Option<String>,
    #[schema(value_type = Option<Id>)]
    job: Option<String>,
    #[serde(default)]
    on: OnLine,
}

impl From<String> for AfterLine {
    fn from(step: String) -> Self {
        Self::Step(step)
    }
}

impl From<FullAfterLine> for AfterLine {
    fn from(after: FullAfterLine) -> Self {
        Self::Full(after)
    }
}

impl<'de> Deserialize<'de> for AfterLine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        text_or_object::<D, Self, FullAfterLine>(from, "the name of a step, or an object")
    }
}

impl AfterLine {
    fn into_upstream(self) -> std::result::Result<(Upstream, On), String> {
        match self {
            Self::Step(step) => Ok((Upstream::Step(step), On::Completed)),
            Self::Full(FullAfterLine {
                step: Some(step),
                job: None,
                on,
            }) => Ok((Upstream::Step(step), on.into())),
            Self::Full(FullAfterLine {
                step: None,
                job: Some(job),
                on,
            }) => {
                let id = id_of("after.job", &job)?;
                Ok((Upstream::Job(id), on.into()))
            }
            Self::Full(_) => {
                Err("after names both a step and a job, or neither; name one of them".into())
            }
        }
    }
}

/// A step of a flow.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewStep)]
#[serde(deny_unknown_fields)]
struct StepLine {
    #[schema(value_type = Name)]
    name: String,
    /// Without `id`: the step's name gives it.
    job: JobJson,
    #[serde(default)]
    after: Vec<AfterLine>,
}

/// A flow: its steps, in any order, and what runs when it has settled.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewFlow)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowLine {
    #[schema(value_type = Name)]
    pub(crate) name: String,
    steps: Vec<StepLine>,
    #[serde(default)]
    on_failure: OnFailureLine,
    /// Runs once every step has completed, or was passed over.
    on_done: Option<JobJson>,
    /// Runs once every step has settled, and one of them is dead or cancelled.
    on_failed: Option<JobJson>,
    /// Runs once every step has settled.
    on_settled: Option<JobJson>,
    /// `false` for a part of a plan: nothing runs until it is sealed.
    #[serde(default)]
    pub(crate) seal: Option<bool>,
}

impl FlowLine {
    /// The plan that it describes; its jobs may be posted only to where the guard lets them.
    pub(crate) fn into_plan(self, guard: &Guard) -> Result<Plan> {
        let seal = self.seal;
        let wrong = |index: Option<usize>, why: String| {
            let problem = Problem::of_line(&why);
            match index {
                Some(index) => problem.index(index),
                None => problem,
            }
        };
        let mut plan = self.plan(
            &|index, line| {
                let job = new_job(line, guard);
                job.map_err(|problem| match index {
                    Some(index) => problem.index(index),
                    None => problem,
                })
            },
            &wrong,
        )?;
        if seal == Some(false) {
            plan.part();
        }
        Ok(plan)
    }

    /// The plan; `make` makes a job, `wrong` an error, both of the step of that place.
    fn plan<E>(
        self,
        make: &dyn Fn(Option<usize>, JobJson) -> std::result::Result<NewJob, E>,
        wrong: &dyn Fn(Option<usize>, String) -> E,
    ) -> std::result::Result<Plan, E> {
        let mut plan = Plan::new(self.name);
        plan.on_failure(self.on_failure.into());
        let job = |index, line: JobJson| match line.id {
            Some(_) => Err(wrong(
                index,
                "job.id is set, and the step's name gives the id; leave it out".into(),
            )),
            None => make(index, line),
        };
        for (index, step) in self.steps.into_iter().enumerate() {
            let made = job(Some(index), step.job)?;
            let after = step.after.into_iter().map(AfterLine::into_upstream);
            let after = after.collect::<std::result::Result<Vec<_>, _>>();
            let after = after.map_err(|why| wrong(Some(index), why))?;
            plan.step(step.name, made, after);
        }
        let callbacks = [
            (Role::OnDone, self.on_done),
            (Role::OnFailed, self.on_failed),
            (Role::OnSettled, self.on_settled),
        ];
        for (role, line) in callbacks {
            if let Some(line) = line {
                plan.callback(role, job(None, line)?);
            }
        }
        Ok(plan)
    }
}

/// The plan of a flow that is written as `POST /v1/flows` takes it, and whether it is all of it: a
/// part of a plan waits for its seal.
///
/// # Errors
/// What is wrong, in words for the person who wrote it.
pub fn plan_of(text: &str) -> std::result::Result<(Plan, bool), LineError> {
    let line: FlowLine = decode::read(text.as_bytes()).map_err(DecodeError::into_text)?;
    let is_whole = line.seal.unwrap_or(true);
    let at = |index: Option<usize>| index.map_or(String::new(), |at| format!("step {}: ", at + 1));
    let make = |index, line: JobJson| {
        let job = line.into_new_job(&NewJob::new("", ""));
        job.map_err(|why| format!("{}the job {why}", at(index)))
    };
    let mut plan = line.plan(&make, &|index, why| format!("{}{why}", at(index)))?;
    if !is_whole {
        plan.part();
    }
    Ok((plan, is_whole))
}

/// What a step is to be named and to run, in a flow that runs already.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = MoreSteps)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrowLine {
    steps: Vec<StepLine>,
}

impl GrowLine {
    pub(crate) fn into_plan(self, name: String, guard: &Guard) -> Result<Plan> {
        let line = FlowLine {
            name,
            steps: self.steps,
            on_failure: OnFailureLine::default(),
            on_done: None,
            on_failed: None,
            on_settled: None,
            seal: Some(false),
        };
        line.into_plan(guard)
    }
}

/// Steps by how they ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowCounts)]
pub(crate) struct CountsLine {
    #[schema(value_type = Count)]
    steps: u64,
    /// Those that have not settled.
    #[schema(value_type = Count)]
    open: u64,
    #[schema(value_type = Count)]
    completed: u64,
    /// Those that were passed over: a job that they waited for ended otherwise.
    #[schema(value_type = Count)]
    skipped: u64,
    #[schema(value_type = Count)]
    cancelled: u64,
    #[schema(value_type = Count)]
    dead: u64,
}

impl From<FlowCounts> for CountsLine {
    fn from(counts: FlowCounts) -> Self {
        Self {
            steps: counts.steps,
            open: counts.open,
            completed: counts.completed,
            skipped: counts.skipped,
            cancelled: counts.cancelled,
            dead: counts.dead,
        }
    }
}

/// A job that runs when a flow has settled.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowCallback)]
struct CallbackLine {
    /// `on_done`, `on_failed` or `on_settled`.
    on: &'static str,
    #[schema(value_type = Id)]
    id: String,
    /// Whether it was released, which happens once.
    fired: bool,
}

impl From<&Callback> for CallbackLine {
    fn from(callback: &Callback) -> Self {
        Self {
            on: callback.role.name(),
            id: callback.id.to_string(),
            fired: callback.fired,
        }
    }
}

/// A flow with how it stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Flow)]
pub(crate) struct FlowAnswer {
    #[schema(value_type = Name)]
    name: String,
    /// `open` while it is being sent, `running`, `done`, `failed` or `cancelled`.
    state: &'static str,
    counts: CountsLine,
    /// `cancel_dependants`, `cancel_rest` or `continue`.
    on_failure: &'static str,
    created_at: InstantText,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed_at: Option<InstantText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_at: Option<InstantText>,
    /// When it is forgotten, once it has settled; before it is sealed, when it is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<InstantText>,
    callbacks: Vec<CallbackLine>,
}

impl From<&FlowStatus> for FlowAnswer {
    fn from(status: &FlowStatus) -> Self {
        Self {
            name: status.name.clone(),
            state: status.state.name(),
            counts: status.counts.into(),
            on_failure: status.on_failure.name(),
            created_at: status.created_at.into(),
            sealed_at: status.sealed_at.map(Into::into),
            settled_at: status.settled_at.map(Into::into),
            until: status.until.map(Into::into),
            callbacks: status.callbacks.iter().map(Into::into).collect(),
        }
    }
}

/// A job outside of a flow that a step waits for.
#[derive(Debug, Serialize, ToSchema)]
struct OutsideLine {
    #[schema(value_type = Id)]
    job: String,
    /// `completed`, `failed` or `settled`: how it must end.
    on: &'static str,
    /// Whether it has ended so.
    met: bool,
    /// Its state; not there if the job is not known any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

impl From<&Outside> for OutsideLine {
    fn from(one: &Outside) -> Self {
        Self {
            job: one.job.to_string(),
            on: one.on.name(),
            met: one.met,
            state: one.state.map(JobState::name),
        }
    }
}

/// A step with how it stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Step)]
pub(crate) struct StepAnswer {
    #[schema(value_type = Name)]
    name: String,
    /// Its job.
    #[schema(value_type = Id)]
    id: String,
    /// The state of its job.
    state: &'static str,
    /// Whether it was passed over: a job that it waited for ended otherwise.
    skipped: bool,
    /// Jobs that it still waits for.
    waits: u32,
    /// Jobs outside of its flow that it waits for or waited for, eight at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outside: Vec<OutsideLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
}

impl From<&StepStatus> for StepAnswer {
    fn from(step: &StepStatus) -> Self {
        let bytes: Option<&Bytes> = step.result.as_ref();
        let (result, result_base64) = json_or_base64(bytes.map(|bytes| &bytes[..]), |_| true);
        Self {
            name: step.name.clone(),
            id: step.id.to_string(),
            state: step.state.name(),
            skipped: step.skipped,
            waits: step.waits,
            outside: step.outside.iter().map(Into::into).collect(),
            result,
            result_base64,
        }
    }
}

/// That a step waits for another one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FlowEdge)]
pub(crate) struct EdgeLine {
    /// The step that is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    from: Option<String>,
    #[schema(value_type = Id)]
    from_id: String,
    /// The step that waits; not there if the job is of another flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Name>)]
    to: Option<String>,
    #[schema(value_type = Id)]
    to_id: String,
    /// `completed`, `failed` or `settled`: how the first must end.
    on: &'static str,
    /// Whether it has ended so.
    met: bool,
    /// The state of the first one, if it is outside of the flow and known.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_state: Option<&'static str>,
}

impl EdgeLine {
    /// What a step waits for outside of its flow.
    pub(crate) fn from_outside(step: &StepStatus) -> Vec<Self> {
        let edge = |one: &Outside| Self {
            from: None,
            from_id: one.job.to_string(),
            to: Some(step.name.clone()),
            to_id: step.id.to_string(),
            on: one.on.name(),
            met: one.met,
            from_state: one.state.map(JobState::name),
        };
        step.outside.iter().map(edge).collect()
    }

    pub(crate) fn new(edge: &Edge, names: &HashMap<JobId, String>) -> Self {
        Self {
            from: names.get(&edge.from).cloned(),
            from_id: edge.from.to_string(),
            to: names.get(&edge.to).cloned(),
            to_id: edge.to.to_string(),
            on: edge.on.name(),
            met: edge.met,
            from_state: None,
        }
    }
}

/// A step whose unique key another job holds.
#[derive(Debug, Serialize, ToSchema)]
struct HeldStep {
    #[schema(value_type = Name)]
    step: String,
    /// The job that holds the key.
    #[schema(value_type = Id)]
    holder: String,
}

/// Which steps of a flow run again, and which ones could not.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Retried)]
pub(crate) struct RetriedAnswer {
    /// Steps that run again, without those that wait for them.
    #[schema(value_type = Count)]
    retried: u64,
    /// Steps whose jobs are not kept any more.
    #[schema(value_type = Count)]
    gone: u64,
    /// Some of them, ten at most.
    gone_steps: Vec<String>,
    /// Steps whose unique key another job holds.
    #[schema(value_type = Count)]
    unique_held: u64,
    /// Some of them, ten at most.
    unique_held_steps: Vec<HeldStep>,
}

impl From<Retried> for RetriedAnswer {
    fn from(
        Retried {
            retried, left_out, ..
        }: Retried,
    ) -> Self {
        let held = left_out.unique_held_steps.into_iter();
        let held = held.map(|(step, holder)| HeldStep {
            step,
            holder: holder.to_string(),
        });
        Self {
            retried,
            gone: left_out.gone,
            gone_steps: left_out.gone_steps,
            unique_held: left_out.unique_held,
            unique_held_steps: held.collect(),
        }
    }
}

/// What a recount says.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recount)]
pub(crate) struct RecountAnswer {
    /// Whether the counts agree with the jobs.
    agrees: bool,
    /// By the jobs.
    counted: CountsLine,
    /// As the flow has counted.
    kept: CountsLine,
    /// Steps whose own counts differ from what their jobs say.
    differ: Vec<String>,
    /// Whether steps ended in the meantime, so that the two may differ.
    moved: bool,
}

impl From<Recounted> for RecountAnswer {
    fn from(recounted: Recounted) -> Self {
        Self {
            agrees: recounted.agrees(),
            counted: recounted.counted.into(),
            kept: recounted.kept.into(),
            differ: recounted.differ,
            moved: recounted.moved,
        }
    }
}
