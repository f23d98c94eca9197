//! What jobs of a flow, or jobs that wait for others, must be like.

use std::collections::HashSet;

use super::{After, EDGES_PER_CALL, FlowStep, On, Role, step_id};
use crate::error::{Error, ErrorKind, Result};
use crate::job::bounds::{
    TEXT_AFTER_CALLBACK, TEXT_AFTER_COUNT, TEXT_AFTER_ITSELF, TEXT_AFTER_TWICE,
    TEXT_CALLBACK_AFTER, TEXT_STEP_ID, TEXT_STEP_PAST,
};
use crate::job::{JobId, NewJob, check_name};

/// Its place in a flow, and what it waits for.
impl NewJob {
    /// Makes the job a step of a flow, with the id that the step has.
    ///
    /// ```
    /// use punctual::{JobId, NewJob};
    ///
    /// let job = NewJob::new("orders", "{}").step("order-7", "charge");
    /// assert_eq!(job.id, JobId::step("order-7", "charge"));
    /// ```
    #[must_use]
    pub fn step(self, flow: impl Into<String>, step: impl Into<String>) -> Self {
        self.in_flow(FlowStep::new(flow, step))
    }

    /// Makes the job run when a flow has settled.
    #[must_use]
    pub fn callback(self, flow: impl Into<String>, role: Role) -> Self {
        self.in_flow(FlowStep::callback(flow, role))
    }

    /// Gives the job its place in a flow, with the id that goes with it.
    #[must_use]
    pub fn in_flow(mut self, place: FlowStep) -> Self {
        self.id = place.id();
        self.flow = Some(Box::new(place));
        self
    }

    /// Lets the job wait for another one.
    #[must_use]
    pub fn after(mut self, job: JobId, on: On) -> Self {
        self.after.push(After { job, on });
        self
    }

    pub(crate) fn check_links(&self) -> Result<()> {
        if let Some(place) = &self.flow {
            check_name("flow", &place.flow)?;
            check_name("step", &place.step)?;
            if place.id() != self.id {
                return Err(Error::new(ErrorKind::ReservedId, TEXT_STEP_ID).with("id", self.id));
            }
            if place.role != Role::Step && !self.after.is_empty() {
                return Err(Error::new(ErrorKind::InvalidInput, TEXT_CALLBACK_AFTER));
            }
            check_no_callback(&place.flow, &self.after)?;
        }
        check_after(self.id, &self.after)?;
        let has_past = self.flow.as_ref().map(|place| place.past.is_some());
        if has_past.is_some_and(|has| has != self.history.is_some()) {
            return Err(Error::new(ErrorKind::InvalidInput, TEXT_STEP_PAST).with("id", self.id));
        }
        Ok(())
    }
}

/// Checks that a step waits for no callback of its flow, which waits for the step.
pub(crate) fn check_no_callback(flow: &str, after: &[After]) -> Result<()> {
    let of_flow = |one: &&After| {
        let callbacks = Role::ALL.iter().filter(|role| **role != Role::Step);
        let mut ids = callbacks.map(|role| step_id(flow, role.name(), *role));
        ids.any(|id| id == one.job)
    };
    match after.iter().find(of_flow) {
        Some(one) => {
            let error = Error::new(ErrorKind::InvalidInput, TEXT_AFTER_CALLBACK);
            Err(error.with("job", one.job))
        }
        None => Ok(()),
    }
}

/// Checks the jobs that one waits for: each once, and not itself.
pub(crate) fn check_after(id: JobId, after: &[After]) -> Result<()> {
    if after.len() > EDGES_PER_CALL {
        return Err(Error::new(ErrorKind::BatchTooLarge, TEXT_AFTER_COUNT)
            .with("after", after.len())
            .with("limit", EDGES_PER_CALL));
    }
    if after.is_empty() {
        return Ok(());
    }
    let mut seen = HashSet::with_capacity(after.len());
    for one in after {
        if one.job == id {
            return Err(Error::new(ErrorKind::InvalidInput, TEXT_AFTER_ITSELF).with("id", id));
        }
        if !seen.insert(one.job) {
            let error = Error::new(ErrorKind::InvalidInput, TEXT_AFTER_TWICE);
            return Err(error.with("after", one.job));
        }
    }
    Ok(())
}
