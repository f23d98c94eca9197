//! Random flows: steps that wait for random earlier ones, with ends that are decided beforehand.

use fastrand::Rng;
use punctual::flow::{On, OnFailure, Role, step_id};
use punctual::queue::NewFlow;
use punctual::time::{hours, millis};
use punctual::{JobId, NewJob, Queue, RetryPolicy};
use serde::{Deserialize, Serialize};

/// The queues of steps and of callbacks.
pub(crate) const QUEUES: [&str; 2] = ["steps", "callbacks"];

const STEPS_MAX: usize = 10;

/// A flow as it is sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FlowPlan {
    pub(crate) name: String,
    pub(crate) on_failure: OnFailure,
    pub(crate) steps: Vec<StepPlan>,
}

/// A step: which others it waits for, by place, and what its handler does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StepPlan {
    pub(crate) after: Vec<(usize, On)>,
    pub(crate) does: Does,
}

/// What the handler of a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Does {
    Completes,
    FailsOnce,
    Dies,
    /// Completes after more than a lease.
    IsSlow,
}

/// Which job of a flow: what its payload says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) flow: String,
    /// The step's place; `None` for the callback.
    pub(crate) step: Option<usize>,
}

impl Place {
    pub(crate) fn id(&self) -> JobId {
        match self.step {
            Some(step) => step_id(&self.flow, &step_name(step), Role::Step),
            None => step_id(&self.flow, "", Role::OnSettled),
        }
    }
}

fn step_name(step: usize) -> String {
    format!("s{step}")
}

impl FlowPlan {
    pub(crate) fn random(name: String, random: &mut Rng) -> Self {
        let ways = [On::Completed, On::Completed, On::Failed, On::Settled];
        let mut steps = Vec::new();
        for to in 0..random.usize(1..=STEPS_MAX) {
            let from = (0..to).filter(|_| random.usize(0..to + 2) < 2);
            let from: Vec<usize> = from.collect();
            let after = from
                .into_iter()
                .map(|from| (from, ways[random.usize(0..ways.len())]));
            let after = after.collect();
            let does = match random.u32(0..40) {
                0 => Does::IsSlow,
                1..=5 => Does::FailsOnce,
                6..=12 => Does::Dies,
                _ => Does::Completes,
            };
            steps.push(StepPlan { after, does });
        }
        let on_failure = OnFailure::ALL[random.usize(0..OnFailure::ALL.len())];
        Self {
            name,
            on_failure,
            steps,
        }
    }

    /// The flow, to be sent: the same each time.
    pub(crate) fn flow(&self, queue: &Queue) -> NewFlow {
        let flow = queue.flow(&self.name);
        let mut added: Vec<punctual::queue::Step> = Vec::new();
        for (place, step) in self.steps.iter().enumerate() {
            let job = self.job(QUEUES[0], Some(place), step.does);
            let mut handle = flow.add(step_name(place), job);
            for (from, on) in &step.after {
                let from = &added[*from];
                handle = match on {
                    On::Completed => handle.after(from),
                    On::Failed => handle.after_failure(from),
                    _ => handle.after_any_end(from),
                };
            }
            added.push(handle);
        }
        flow.on_failure(self.on_failure);
        flow.on_settled(self.job(QUEUES[1], None, Does::Completes));
        flow
    }

    fn job(&self, queue: &str, step: Option<usize>, does: Does) -> NewJob {
        let place = Place {
            flow: self.name.clone(),
            step,
        };
        let payload = serde_json::to_vec(&(place, does)).expect("a place is JSON");
        let mut job = NewJob::new(queue, payload);
        job.max_attempts = 5;
        job.retry = RetryPolicy::fixed(millis(20));
        // Only what it does decides how it ends.
        job.max_crashes = Some(100);
        job.retention = hours(1);
        job
    }

    /// Its jobs: steps and callback.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let steps = (0..self.steps.len()).map(Some).chain([None]);
        steps.map(|step| Place {
            flow: self.name.clone(),
            step,
        })
    }
}

/// A flow at the end of a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SeenFlow {
    /// The name of its state.
    pub(crate) state: String,
    /// Whether each callback was released.
    pub(crate) fired: Vec<bool>,
    /// What a recount says that differs.
    pub(crate) differs: Option<String>,
}
