//! Calls about flows, and plans for laws.

use super::case::*;
use crate::engine::{Control, Controlled, Filter, FlowAct};
use crate::error::Result;
use crate::flow::{
    FlowCounts, FlowStatus, FlowStep, LeftOut, On, OnFailure, Recount, Role, StepStatus,
};
use crate::job::{JobId, JobState, NewJob, Outcome};
use crate::time::hours;

/// The flow that a law says nothing special about.
pub(super) const FLOW: &str = "order-7";

/// A step of [`FLOW`] that waits for others, each to end in that way.
pub(super) fn step(name: &str, after: &[(&str, On)]) -> NewJob {
    step_of(FLOW, name, after)
}

pub(super) fn step_of(flow: &str, name: &str, after: &[(&str, On)]) -> NewJob {
    let job = job().step(flow, name).retention(hours(1)).max_attempts(1);
    after.iter().fold(job, |job, (other, on)| {
        job.after(JobId::step(flow, other), *on)
    })
}

/// The job of a step of [`FLOW`].
pub(super) fn id(name: &str) -> JobId {
    JobId::step(FLOW, name)
}

pub(super) fn callback(role: Role) -> NewJob {
    job().callback(FLOW, role).retention(hours(1))
}

pub(super) fn callback_id(role: Role) -> JobId {
    crate::flow::step_id(FLOW, role.name(), role)
}

pub(super) fn counts(open: u64, [completed, skipped, cancelled, dead]: [u64; 4]) -> FlowCounts {
    FlowCounts {
        steps: open + completed + skipped + cancelled + dead,
        open,
        completed,
        skipped,
        cancelled,
        dead,
    }
}

/// A step of that name by which [`FLOW`] grows.
pub(super) fn grown(name: &str) -> NewJob {
    let place = FlowStep {
        flow: FLOW.into(),
        step: name.into(),
        role: Role::Step,
        grows: true,
        past: None,
    };
    job().in_flow(place).retention(hours(1))
}

impl Case {
    pub(super) async fn try_flow(&self, name: &str, act: FlowAct) -> Result<Controlled> {
        let name = name.to_owned();
        self.try_control(Control::Flow { name, act }).await
    }

    pub(super) async fn find_flow(&self, name: &str) -> Option<FlowStatus> {
        match self.try_flow(name, FlowAct::Read).await {
            Ok(Controlled::Flow(status)) => status.map(|status| *status),
            other => panic!("a flow is read, got {other:?}"),
        }
    }

    /// [`FLOW`] as it stands.
    pub(super) async fn flow(&self) -> FlowStatus {
        self.find_flow(FLOW).await.expect("it is there")
    }

    pub(super) async fn try_seal(
        &self,
        name: &str,
        steps: u64,
        on_failure: OnFailure,
    ) -> Result<Controlled> {
        let callbacks = None;
        let seal = FlowAct::Seal {
            steps,
            on_failure,
            callbacks,
        };
        self.try_flow(name, seal).await
    }

    /// Sends jobs of [`FLOW`], callbacks among them, and seals it.
    pub(super) async fn plan(&self, jobs: Vec<NewJob>, on_failure: OnFailure) {
        let is_step = |job: &&NewJob| {
            let place = job.flow.as_ref();
            place.is_some_and(|place| place.role == Role::Step)
        };
        let steps = jobs.iter().filter(is_step).count() as u64;
        self.enqueue_all(jobs).await;
        let sealed = self.try_seal(FLOW, steps, on_failure).await;
        sealed.expect("the plan is whole");
    }

    pub(super) async fn send_plan(&self, jobs: Vec<NewJob>) {
        self.plan(jobs, OnFailure::default()).await;
    }

    pub(super) async fn flow_steps(&self) -> Vec<StepStatus> {
        let (from, limit) = (0, 1_000);
        match self.try_flow(FLOW, FlowAct::Steps { from, limit }).await {
            Ok(Controlled::Steps { steps, next: None }) => steps,
            other => panic!("steps are read, got {other:?}"),
        }
    }

    pub(super) async fn recount(&self) -> Recount {
        match self.try_flow(FLOW, FlowAct::Recount { from: 0 }).await {
            Ok(Controlled::Recounted(recount)) => *recount,
            other => panic!("steps are counted, got {other:?}"),
        }
    }

    /// The flow's counts, which are those of a recount.
    pub(super) async fn flow_counts(&self) -> FlowCounts {
        let recount = self.recount().await;
        assert_eq!(recount.differ, Vec::<String>::new());
        assert_eq!(recount.counts, recount.flow.counts);
        recount.counts
    }

    pub(super) async fn retry_flow(&self, from: Option<&str>) -> u64 {
        let (retried, left_out) = self.retry_as(from, None).await;
        assert_eq!(left_out, LeftOut::default(), "every step could run again");
        retried
    }

    /// Retries [`FLOW`] to its end: how many steps run again, and which ones could not.
    pub(super) async fn retry_as(
        &self,
        from: Option<&str>,
        filter: Option<Filter>,
    ) -> (u64, LeftOut) {
        let (mut sum, mut all, mut next) = (0, LeftOut::default(), None);
        loop {
            let (from, filter) = (from.map(str::to_owned), filter.clone().map(Box::new));
            let act = FlowAct::Retry { from, next, filter };
            let answer = self.try_flow(FLOW, act).await;
            let Ok(Controlled::Retried {
                retried,
                left_out,
                next: more,
            }) = answer
            else {
                panic!("steps run again, got {answer:?}");
            };
            sum += retried;
            all.add(left_out);
            if more.is_none() {
                return (sum, all);
            }
            next = more;
        }
    }

    /// Runs ready steps to that end; answers their names in order.
    pub(super) async fn run_steps(&self, outcome: Outcome) -> Vec<String> {
        let mut names = Vec::new();
        for attempt in self.claim(1_000).await {
            self.end(&attempt, outcome.clone()).await;
            names.extend(attempt.job.flow.map(|place| place.step));
        }
        names
    }

    pub(super) async fn states(&self, names: &[&str]) -> Vec<JobState> {
        let mut states = Vec::new();
        for name in names {
            states.push(self.state(id(name)).await);
        }
        states
    }
}
