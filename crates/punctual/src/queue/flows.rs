//! The producer's handle to flows: plans and sends them, reads, cancels and retries them.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use crate::Queue;
use crate::engine::{Control, Controlled, EnqueueVerdict, Filter, FlowAct};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{
    After, Edge, FlowCounts, FlowStatus, On, OnFailure, Plan, RestoredFlow, Retried, Role,
    StepStatus, Upstream,
};
use crate::job::bounds::TEXT_NO_FLOW;
use crate::job::{JobId, NewJob};
use crate::queue::IntoNewJob;
use crate::queue::step_refusals::{self, with_names};
use crate::sync::Lock;

/// Flows, steps or edges of one call of a list.
const PAGE: usize = 500;
/// Recounts after which a flow that goes on meanwhile is answered as it is.
const RECOUNTS_MAX: usize = 3;

impl Queue {
    /// A flow of that name, sent when awaited: add its steps first.
    ///
    /// The same flow again is a duplicate and changes nothing; another one under its name is
    /// refused.
    ///
    /// ```
    /// use punctual::{MemoryEngine, NewJob, Queue};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let queue = Queue::new(MemoryEngine::new());
    /// let job = |text: &str| NewJob::new("orders", text.to_owned());
    /// let flow = queue.flow("order-7");
    /// let charge = flow.add("charge", job("charge"));
    /// let pack = flow.add("pack", job("pack")).after(&charge);
    /// flow.add("refund", job("refund")).after_failure(&pack);
    /// flow.on_settled(job("report"));
    /// let sent = flow.await?;
    /// assert_eq!(sent.steps.len(), 3);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn flow(&self, name: impl Into<String>) -> NewFlow {
        NewFlow {
            queue: self.clone(),
            plan: Arc::new(Mutex::new((Plan::new(name), None))),
        }
    }

    /// A flow under a fresh name whose steps run one after the other: `1`, `2` and so on.
    pub fn chain<I>(&self, jobs: I) -> NewFlow
    where
        I: IntoIterator,
        I::Item: IntoNewJob,
    {
        let flow = self.flow(JobId::new().to_string());
        let mut last: Option<Step> = None;
        for (nth, job) in jobs.into_iter().enumerate() {
            let step = flow.add((nth + 1).to_string(), job);
            last = Some(match last {
                Some(last) => step.after(&last),
                None => step,
            });
        }
        flow
    }

    /// A flow under a fresh name whose steps run beside each other: `1`, `2` and so on. Give it
    /// callbacks.
    pub fn batch<I>(&self, jobs: I) -> NewFlow
    where
        I: IntoIterator,
        I::Item: IntoNewJob,
    {
        let flow = self.flow(JobId::new().to_string());
        for (nth, job) in jobs.into_iter().enumerate() {
            flow.add((nth + 1).to_string(), job);
        }
        flow
    }

    /// What can be done with flows that are there.
    pub fn flows(&self) -> Flows {
        Flows(self.clone())
    }

    /// Sends a plan in calls of bounded size, and seals it.
    ///
    /// # Errors
    /// As [`Plan::parts`]; `conflict` for another plan under the name of a flow, `engine_full`
    /// where a step finds its queue full. What was sent by then never runs, and is cancelled after
    /// an hour.
    pub async fn send_flow(&self, plan: Plan) -> Result<SentFlow> {
        let (name, policy) = (plan.name().to_owned(), plan.policy());
        let callbacks = Some(plan.roles());
        let sent = self.send_part(plan).await?;
        let seal = FlowAct::Seal {
            steps: sent.steps.len() as u64,
            on_failure: policy,
            callbacks,
        };
        self.flows().act(&name, seal).await?;
        Ok(sent)
    }

    /// Sends a part of a plan, or steps by which a flow grows.
    ///
    /// # Errors
    /// As [`send_flow`](Self::send_flow).
    pub async fn send_part(&self, plan: Plan) -> Result<SentFlow> {
        let name = plan.name().to_owned();
        let parts = plan.parts(&self.engine_limits().await?)?;
        let mut is_new = false;
        for call in parts.calls {
            let names = call.iter().map(|job| job.flow.clone());
            let names: Vec<_> = names.collect();
            let answer = self.send(call).await?;
            for (receipt, place) in answer.receipts.iter().zip(names) {
                is_new |= receipt.verdict == EnqueueVerdict::Created;
                let step = place.map(|place| place.step);
                step_refusals::taken(*receipt).map_err(|error| {
                    let error = with_names(error, &parts.earlier, &parts.ids);
                    let error = error.with("flow", &name);
                    error.with("step", step.unwrap_or_default())
                })?;
            }
        }
        for (step, after) in parts.waits {
            let wait = FlowAct::Wait { step, after };
            let waits = self.flows().act(&name, wait).await;
            waits.map_err(|error| with_names(error, &parts.earlier, &parts.ids))?;
        }
        Ok(SentFlow {
            name,
            steps: parts.ids,
            is_new,
        })
    }
}

/// A flow that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentFlow {
    /// Its name.
    pub name: String,
    /// Its steps with their jobs, in the order in which they were sent.
    pub steps: Vec<(String, JobId)>,
    /// Whether anything of it was new.
    pub is_new: bool,
}

impl SentFlow {
    /// The job of a step.
    pub fn id(&self, step: &str) -> Option<JobId> {
        let mut steps = self.steps.iter();
        steps.find(|(name, _)| name == step).map(|(_, id)| *id)
    }
}

/// A plan, and the first error of a job that could not be made.
type Planned = Arc<Mutex<(Plan, Option<Error>)>>;

/// A flow on its way: add steps and callbacks, then await it.
#[must_use = "nothing is sent until it is awaited"]
#[derive(Debug, Clone)]
pub struct NewFlow {
    queue: Queue,
    plan: Planned,
}

impl NewFlow {
    /// Adds a step, which waits for nothing yet.
    pub fn add(&self, name: impl Into<String>, job: impl IntoNewJob) -> Step {
        let mut planned = self.plan.locked();
        let job = keep_first(&mut planned.1, job);
        let place = planned.0.step(name, job, Vec::new());
        Step {
            plan: self.plan.clone(),
            place,
        }
    }

    /// Runs a job once every step has completed, or was passed over because of a completion.
    pub fn on_done(&self, job: impl IntoNewJob) -> &Self {
        self.callback(Role::OnDone, job)
    }

    /// Runs a job once every step has settled, and one of them is dead or cancelled.
    pub fn on_failed(&self, job: impl IntoNewJob) -> &Self {
        self.callback(Role::OnFailed, job)
    }

    /// Runs a job once every step has settled.
    pub fn on_settled(&self, job: impl IntoNewJob) -> &Self {
        self.callback(Role::OnSettled, job)
    }

    fn callback(&self, role: Role, job: impl IntoNewJob) -> &Self {
        let mut planned = self.plan.locked();
        let job = keep_first(&mut planned.1, job);
        planned.0.callback(role, job);
        drop(planned);
        self
    }

    /// Sets what a failed step does to the others; those that wait for it are cancelled by default.
    pub fn on_failure(&self, policy: OnFailure) -> &Self {
        self.plan.locked().0.on_failure(policy);
        self
    }

    /// Sends it.
    ///
    /// # Errors
    /// As [`Queue::send_flow`].
    pub async fn send(&self) -> Result<SentFlow> {
        let (plan, first) = {
            let mut planned = self.plan.locked();
            (planned.0.clone(), planned.1.take())
        };
        first.map_or(Ok(()), Err)?;
        self.queue.send_flow(plan).await
    }
}

/// The job, or an empty one and the first error.
fn keep_first(first: &mut Option<Error>, job: impl IntoNewJob) -> NewJob {
    job.into_new_job().unwrap_or_else(|error| {
        first.get_or_insert(error);
        NewJob::new("", "")
    })
}

impl IntoFuture for NewFlow {
    type Output = Result<SentFlow>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.send().await })
    }
}

/// A step of a flow that is being planned.
#[derive(Debug, Clone)]
pub struct Step {
    plan: Planned,
    place: usize,
}

impl Step {
    /// It runs once that step has completed.
    pub fn after(self, step: &Self) -> Self {
        self.waits(step, On::Completed)
    }

    /// It runs once all of these have completed.
    pub fn after_all<'a>(self, steps: impl IntoIterator<Item = &'a Self>) -> Self {
        steps
            .into_iter()
            .fold(self, |this, step| this.waits(step, On::Completed))
    }

    /// It runs once that step is dead or cancelled.
    pub fn after_failure(self, step: &Self) -> Self {
        self.waits(step, On::Failed)
    }

    /// It runs once that step has settled.
    pub fn after_any_end(self, step: &Self) -> Self {
        self.waits(step, On::Settled)
    }

    /// It runs once another job, of any flow or of none, has ended so. With the callback of a flow
    /// a step waits for all of that flow.
    pub fn after_job(self, job: JobId, on: On) -> Self {
        let upstream = Upstream::Job(job);
        self.plan.locked().0.after(self.place, upstream, on);
        self
    }

    fn waits(self, step: &Self, on: On) -> Self {
        let mut planned = self.plan.locked();
        if let Some(name) = planned.0.name_of(step.place).map(str::to_owned) {
            planned.0.after(self.place, Upstream::Step(name), on);
        }
        drop(planned);
        self
    }
}

/// Flows of a namespace.
#[derive(Debug, Clone)]
pub struct Flows(Queue);

impl Flows {
    /// Every flow with how it stands, by name.
    pub async fn list(&self) -> Result<Vec<FlowStatus>> {
        let mut found: Vec<FlowStatus> = Vec::new();
        loop {
            let after = found.last().map(|last| last.name.clone());
            let list = Control::Flows {
                after: after.unwrap_or_default(),
                limit: PAGE,
            };
            let Controlled::Flows(page) = self.control(list).await? else {
                return Err(strange());
            };
            let is_last = page.len() < PAGE;
            found.extend(page);
            if is_last {
                return Ok(found);
            }
        }
    }

    /// A flow with how it stands, if there is one of that name.
    pub async fn get(&self, name: &str) -> Result<Option<FlowStatus>> {
        match self.act(name, FlowAct::Read).await? {
            Controlled::Flow(status) => Ok(status.map(|status| *status)),
            _ => Err(strange()),
        }
    }

    /// All its steps, in the order in which they came.
    pub async fn steps(&self, name: &str) -> Result<Vec<StepStatus>> {
        let (mut found, mut from) = (Vec::new(), 0);
        loop {
            let act = FlowAct::Steps { from, limit: PAGE };
            let Controlled::Steps { steps, next } = self.act(name, act).await? else {
                return Err(strange());
            };
            found.extend(steps);
            match next {
                Some(next) => from = next,
                None => return Ok(found),
            }
        }
    }

    /// Steps of those names, as far as there are any.
    pub async fn named(&self, name: &str, steps: &[String]) -> Result<Vec<StepStatus>> {
        let steps = steps.to_vec();
        match self.act(name, FlowAct::Named { steps }).await? {
            Controlled::Steps { steps, .. } => Ok(steps),
            _ => Err(strange()),
        }
    }

    /// Which jobs wait for which.
    pub async fn edges(&self, name: &str) -> Result<Vec<Edge>> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let act = FlowAct::Edges { after, limit: PAGE };
            let Controlled::Edges { edges, next } = self.act(name, act).await? else {
                return Err(strange());
            };
            found.extend(edges);
            match next {
                Some(_) => after = next,
                None => return Ok(found),
            }
        }
    }

    /// Which jobs wait for these, of flows or of none.
    pub async fn dependants(&self, of: &[JobId]) -> Result<Vec<Edge>> {
        let mut found = Vec::new();
        for part in of.chunks(PAGE) {
            let mut after = None;
            loop {
                let (of, limit) = (part.to_vec(), PAGE);
                let read = Control::Dependants { of, after, limit };
                let Controlled::Edges { edges, next } = self.control(read).await? else {
                    return Err(strange());
                };
                found.extend(edges);
                after = next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Brings what an import knows of a flow besides its jobs.
    pub async fn restore(&self, name: &str, flow: RestoredFlow) -> Result<FlowStatus> {
        match self.act(name, FlowAct::Restore(flow)).await? {
            Controlled::Flow(Some(status)) => Ok(*status),
            _ => Err(strange()),
        }
    }

    /// Lets a step of a flow that is not sealed wait for more jobs.
    pub async fn wait_more(&self, name: &str, step: JobId, after: Vec<After>) -> Result<()> {
        let act = FlowAct::Wait { step, after };
        self.act(name, act).await.map(drop)
    }

    /// Cancels what has not settled; active jobs are asked to stop.
    pub async fn cancel(&self, name: &str) -> Result<FlowStatus> {
        match self.act(name, FlowAct::Cancel).await? {
            Controlled::Flow(Some(status)) => Ok(*status),
            _ => Err(strange()),
        }
    }

    /// Runs steps again that are dead or cancelled; or one step, however it ended, and all that
    /// depends on it. Answers how many run again, and which ones could not.
    pub async fn retry(&self, name: &str, from: Option<&str>) -> Result<Retried> {
        self.retry_some(name, from, None).await
    }

    /// Runs steps again that are dead or cancelled and whose jobs a filter matches.
    pub async fn retry_matching(&self, name: &str, filter: Filter) -> Result<Retried> {
        self.retry_some(name, None, Some(Box::new(filter))).await
    }

    async fn retry_some(
        &self,
        name: &str,
        from: Option<&str>,
        filter: Option<Box<Filter>>,
    ) -> Result<Retried> {
        let (mut sum, mut next) = (Retried::default(), None);
        loop {
            let (from, filter) = (from.map(str::to_owned), filter.clone());
            let act = FlowAct::Retry { from, next, filter };
            let answer = self.act(name, act).await?;
            let Controlled::Retried {
                retried,
                left_out,
                next: more,
            } = answer
            else {
                return Err(strange());
            };
            sum.retried += retried;
            sum.left_out.add(left_out);
            match more {
                Some(_) => next = more,
                None => return Ok(sum),
            }
        }
    }

    /// Adds steps to a flow that runs.
    ///
    /// # Errors
    /// As [`Queue::send_part`]; `not_found` if there is no such flow, `conflict` if it takes no
    /// more steps.
    pub async fn grow(&self, plan: Plan) -> Result<SentFlow> {
        let name = plan.name().to_owned();
        let mut plan = plan;
        plan.grows();
        let sent = self.0.send_part(plan).await;
        match sent {
            Err(error)
                if error.kind() == ErrorKind::Conflict && self.get(&name).await?.is_none() =>
            {
                Err(Error::new(ErrorKind::NotFound, TEXT_NO_FLOW).with("flow", name))
            }
            sent => sent,
        }
    }

    /// Counts its steps anew by their jobs.
    pub async fn recount(&self, name: &str) -> Result<Recounted> {
        let mut last = None;
        for _ in 0..RECOUNTS_MAX {
            let recounted = self.recount_once(name).await?;
            if !recounted.moved {
                return Ok(recounted);
            }
            last = Some(recounted);
        }
        last.ok_or_else(strange)
    }

    async fn recount_once(&self, name: &str) -> Result<Recounted> {
        let (mut from, mut changes) = (0, None);
        let mut sum = Recounted {
            counted: FlowCounts::default(),
            kept: FlowCounts::default(),
            differ: Vec::new(),
            moved: false,
        };
        loop {
            let act = FlowAct::Recount { from };
            let Controlled::Recounted(part) = self.act(name, act).await? else {
                return Err(strange());
            };
            sum.counted += part.counts;
            sum.differ.extend(part.differ);
            sum.kept = part.flow.counts;
            let seen = part.flow.changes;
            sum.moved |= *changes.get_or_insert(seen) != seen;
            match part.next {
                Some(next) => from = next,
                None => return Ok(sum),
            }
        }
    }

    pub(super) async fn act(&self, name: &str, act: FlowAct) -> Result<Controlled> {
        let name = name.to_owned();
        self.control(Control::Flow { name, act }).await
    }

    async fn control(&self, control: Control) -> Result<Controlled> {
        let (engine, namespace) = (self.0.engine(), &self.0.0.namespace);
        engine.control(namespace, control).await
    }
}

/// What a recount says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recounted {
    /// The steps by what their jobs say.
    pub counted: FlowCounts,
    /// The steps as the flow counts them.
    pub kept: FlowCounts,
    /// Steps whose own counts differ from what their jobs say.
    pub differ: Vec<String>,
    /// Whether steps ended while it was counted, so that the two may differ.
    pub moved: bool,
}

impl Recounted {
    /// Whether everything agrees.
    pub fn agrees(&self) -> bool {
        self.differ.is_empty() && (self.moved || self.counted == self.kept)
    }
}

fn strange() -> Error {
    Error::new(ErrorKind::Internal, "the engine answered another call")
}
