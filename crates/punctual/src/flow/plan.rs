//! The plan of a flow, from names to the calls that send it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{After, FlowStep, On, OnFailure, Role, step_id};
use crate::engine::CallSize;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, Limits, NewJob, check_name};

/// The jobs that one step waits for in the call that sends it; a call of its own brings more.
const EDGES_INLINE: usize = 1_000;
/// The jobs to wait for that one such call brings.
const EDGES_PER_WAIT: usize = 1_000;
/// Steps that an error about a cycle names.
const NAMED: usize = 5;

/// What a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Upstream {
    /// A step of the same flow, by its name.
    Step(String),
    /// Any job.
    Job(JobId),
}

/// The plan of a flow: named steps, what each waits for, and callbacks.
///
/// Steps may come in any order; [`parts`](Self::parts) sorts them and finds cycles. Nothing is sent
/// here: [`Queue::send_flow`](crate::Queue::send_flow) does that.
///
/// ```
/// use punctual::flow::{On, Plan, Upstream};
/// use punctual::{Limits, NewJob};
///
/// let job = || NewJob::new("orders", "{}");
/// let mut plan = Plan::new("order-7");
/// plan.step("pack", job(), vec![(Upstream::Step("charge".into()), On::Completed)]);
/// plan.step("charge", job(), Vec::new());
/// let parts = plan.parts(&Limits::default())?;
/// assert_eq!(parts.steps, 2);
/// # Ok::<(), punctual::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    name: String,
    steps: Vec<Step>,
    callbacks: Vec<(Role, NewJob)>,
    on_failure: OnFailure,
    is_part: bool,
    grows: bool,
}

#[derive(Debug, Clone)]
struct Step {
    name: String,
    job: NewJob,
    after: Vec<(Upstream, On)>,
}

/// The calls that send a plan, in order: enqueues, then what steps wait for besides, then the seal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Parts {
    /// Jobs of one call each.
    pub calls: Vec<Vec<NewJob>>,
    /// More jobs to wait for, of one call each.
    pub waits: Vec<(JobId, Vec<After>)>,
    /// How many steps there are, without callbacks.
    pub steps: u64,
    /// The steps in the order in which they are sent, with their jobs.
    pub ids: Vec<(String, JobId)>,
    /// What a failed step does to the others.
    pub on_failure: OnFailure,
    /// Steps of earlier parts that these wait for: errors have their names.
    pub earlier: HashMap<JobId, String>,
}

impl Plan {
    /// An empty plan of that name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            steps: Vec::new(),
            callbacks: Vec::new(),
            on_failure: OnFailure::default(),
            is_part: false,
            grows: false,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many steps it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether it has no step.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Adds a step; answers its place in the plan.
    pub fn step(
        &mut self,
        name: impl Into<String>,
        job: NewJob,
        after: Vec<(Upstream, On)>,
    ) -> usize {
        let name = name.into();
        self.steps.push(Step { name, job, after });
        self.steps.len() - 1
    }

    /// Lets the step of that place wait for one more.
    pub fn after(&mut self, place: usize, upstream: Upstream, on: On) {
        if let Some(step) = self.steps.get_mut(place) {
            step.after.push((upstream, on));
        }
    }

    /// Changes the job of the step of that place.
    pub fn edit(&mut self, place: usize, change: impl FnOnce(NewJob) -> NewJob) {
        if let Some(step) = self.steps.get_mut(place) {
            step.job = change(step.job.clone());
        }
    }

    /// The name of the step of that place.
    pub fn name_of(&self, place: usize) -> Option<&str> {
        self.steps.get(place).map(|step| step.name.as_str())
    }

    /// Sets the job that runs when the flow has settled, one for each role.
    pub fn callback(&mut self, role: Role, job: NewJob) {
        self.callbacks.retain(|(other, _)| *other != role);
        self.callbacks.push((role, job));
    }

    /// The roles of its callbacks.
    pub fn roles(&self) -> Vec<Role> {
        self.callbacks.iter().map(|(role, _)| *role).collect()
    }

    /// Sets what a failed step does to the others.
    pub fn on_failure(&mut self, policy: OnFailure) {
        self.on_failure = policy;
    }

    /// What a failed step does to the others.
    pub fn policy(&self) -> OnFailure {
        self.on_failure
    }

    /// Says that this is a part of the plan: its steps may wait for those of earlier parts.
    pub fn part(&mut self) {
        self.is_part = true;
    }

    /// Says that its steps are added to a flow that is sealed and runs.
    pub fn grows(&mut self) {
        (self.is_part, self.grows) = (true, true);
    }

    /// The calls that send it.
    ///
    /// # Errors
    /// `invalid_input` names a step that is there twice, one that waits for a step which is not
    /// there, or steps that wait for each other; and `invalid_name`.
    pub fn parts(self, limits: &Limits) -> Result<Parts> {
        check_name("flow", &self.name)?;
        if self.steps.is_empty() && self.callbacks.is_empty() {
            let message = "flow has no steps and no callbacks; give it one";
            return Err(Error::new(ErrorKind::InvalidInput, message).with("flow", &self.name));
        }
        let order = self.order()?;
        let mut parts = Parts {
            calls: Vec::new(),
            waits: Vec::new(),
            steps: self.steps.len() as u64,
            ids: Vec::with_capacity(self.steps.len()),
            on_failure: self.on_failure,
            earlier: self.earlier(),
        };
        let mut jobs = Vec::with_capacity(self.steps.len() + self.callbacks.len());
        let mut steps: Vec<Option<Step>> = self.steps.into_iter().map(Some).collect();
        for place in order {
            let Some(step) = steps[place].take() else {
                continue;
            };
            let id_of = |upstream: &Upstream| match upstream {
                Upstream::Step(step) => JobId::step(&self.name, step),
                Upstream::Job(id) => *id,
            };
            let after = step.after.iter().map(|(upstream, on)| After {
                job: id_of(upstream),
                on: *on,
            });
            let mut after: Vec<After> = after.collect();
            let rest = after.split_off(after.len().min(EDGES_INLINE));
            let place = FlowStep {
                flow: self.name.clone(),
                step: step.name.clone(),
                role: Role::Step,
                grows: self.grows,
                past: None,
            };
            let mut job = step.job.in_flow(place);
            job.after.extend(after);
            let more = rest.chunks(EDGES_PER_WAIT);
            parts.waits.extend(more.map(|more| (job.id, more.to_vec())));
            parts.ids.push((step.name.clone(), job.id));
            let checked = job.check(limits);
            checked.map_err(|error| error.with("step", step.name))?;
            jobs.push(job);
        }
        for (role, job) in self.callbacks {
            let job = job.callback(&self.name, role);
            job.check(limits)
                .map_err(|error| error.with("step", role.name()))?;
            debug_assert_eq!(job.id, step_id(&self.name, role.name(), role));
            jobs.push(job);
        }
        parts.calls = CallSize::cut(jobs, limits);
        Ok(parts)
    }

    /// The steps that it names and does not have, if it is a part.
    fn earlier(&self) -> HashMap<JobId, String> {
        if !self.is_part {
            return HashMap::new();
        }
        let own: HashSet<&str> = self.steps.iter().map(|step| &*step.name).collect();
        let named = self.steps.iter().flat_map(|step| &step.after);
        let named = named.filter_map(|(upstream, _)| match upstream {
            Upstream::Step(name) if !own.contains(name.as_str()) => Some(name),
            _ => None,
        });
        named
            .map(|name| (JobId::step(&self.name, name), name.clone()))
            .collect()
    }

    /// The steps, each after those that it waits for, otherwise as they came.
    fn order(&self) -> Result<Vec<usize>> {
        let mut places = HashMap::with_capacity(self.steps.len());
        for (place, step) in self.steps.iter().enumerate() {
            check_name("step", &step.name)?;
            if places.insert(step.name.as_str(), place).is_some() {
                return Err(wrong(
                    "flow has a step twice; give each its own name",
                    &step.name,
                ));
            }
        }
        let mut waits = vec![0_usize; self.steps.len()];
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); self.steps.len()];
        for (place, step) in self.steps.iter().enumerate() {
            for (upstream, _) in &step.after {
                let Upstream::Step(name) = upstream else {
                    continue;
                };
                match places.get(name.as_str()) {
                    Some(other) => {
                        waits[place] += 1;
                        waiting[*other].push(place);
                    }
                    None if self.is_part => {}
                    None => {
                        let message = "step waits for a step that is not in the flow; add that step, or \
                                       correct its name in `after`";
                        return Err(wrong(message, &step.name).with("after", name));
                    }
                }
            }
        }
        let free = (0..self.steps.len()).filter(|place| waits[*place] == 0);
        let mut free: VecDeque<usize> = free.collect();
        let mut order = Vec::with_capacity(self.steps.len());
        while let Some(place) = free.pop_front() {
            order.push(place);
            for next in &waiting[place] {
                waits[*next] -= 1;
                if waits[*next] == 0 {
                    free.push_back(*next);
                }
            }
        }
        if order.len() < self.steps.len() {
            let left = (0..self.steps.len()).filter(|place| waits[*place] > 0);
            let names = left
                .take(NAMED)
                .map(|place| self.steps[place].name.as_str());
            let names: Vec<&str> = names.collect();
            let message = "steps wait for each other, and a cycle never runs; take one of them out \
                           of the `after` of another";
            return Err(wrong(message, &names.join(", ")));
        }
        Ok(order)
    }
}

fn wrong(message: &str, step: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, message).with("step", step)
}
