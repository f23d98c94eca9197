//! What a handler sees of its flow and its schedule: results of other steps, steps that it adds,
//! the last success.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{After, FlowStep, On, Role, StepOf};
use crate::job::JobId;
use crate::job::bounds::TEXT_NO_STEP;
use crate::queue::IntoNewJob;
#[cfg(feature = "schedules")]
use crate::schedule::Success;

impl Context {
    /// The step of a flow that the job is, if it is one.
    pub fn flow(&self) -> Option<&StepOf> {
        self.job().flow.as_deref()
    }

    /// The last run of the job's schedule that completed, with its result: what a report counts
    /// from. One round trip. Of the feature `schedules`.
    ///
    /// # Errors
    /// `conflict` if the job is no run of a schedule.
    #[cfg(feature = "schedules")]
    pub async fn last_success(&self) -> Result<Option<Success>> {
        let (Some(run), Some(queue)) = (&self.job().schedule, self.queue()) else {
            let message = "job is no run of a schedule; write one with queue.schedule(name)";
            return Err(Error::new(ErrorKind::Conflict, message));
        };
        let status = queue.schedules().get(&run.name).await?;
        Ok(status.and_then(|status| status.last_success))
    }

    /// The result of another step of the job's flow, read as JSON.
    ///
    /// # Errors
    /// `conflict` if the job is of no flow, `not_found` if there is no such step or it has no
    /// result, `codec` if the result is something else.
    pub async fn upstream<T: DeserializeOwned>(&self, step: &str) -> Result<T> {
        let Some(bytes) = self.upstream_bytes(step).await? else {
            let message = "step has no result; it has not completed, or its handler set none";
            return Err(Error::new(ErrorKind::NotFound, message).with("step", step));
        };
        serde_json::from_slice(&bytes).map_err(|cause| {
            Error::new(ErrorKind::Codec, "result of a step cannot be read")
                .with("step", step)
                .source(cause)
        })
    }

    /// The result of another step of the job's flow, as its handler set it.
    ///
    /// # Errors
    /// As [`upstream`](Self::upstream), but for a result that is not there.
    pub async fn upstream_bytes(&self, step: &str) -> Result<Option<Bytes>> {
        let flow = self.flow().ok_or_else(no_flow)?;
        let flows = self.queue().ok_or_else(no_flow)?.flows();
        let found = flows.named(&flow.flow, &[step.to_owned()]).await?;
        let Some(found) = found.into_iter().next() else {
            let error = Error::new(ErrorKind::NotFound, TEXT_NO_STEP);
            return Err(error.with("flow", &flow.flow).with("step", step));
        };
        Ok(found.result)
    }

    /// Adds a step to the job's flow when the attempt settles, in the same step as its outcome; it
    /// waits for these steps to complete.
    ///
    /// # Errors
    /// `conflict` if the job is of no flow, and as [`then`](Self::then).
    pub fn grow(&self, step: &str, job: impl IntoNewJob, after: &[&str]) -> Result<JobId> {
        let flow = self.flow().ok_or_else(no_flow)?;
        let place = FlowStep {
            flow: flow.flow.clone(),
            step: step.to_owned(),
            role: Role::Step,
            grows: true,
            past: None,
        };
        let mut job = job.into_new_job()?.in_flow(place);
        job.after.extend(after.iter().map(|step| After {
            job: JobId::step(&flow.flow, step),
            on: On::Completed,
        }));
        let id = job.id;
        self.then(job)?;
        Ok(id)
    }
}

fn no_flow() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "job is not the step of a flow; send it as one by queue.flow(name)",
    )
}
