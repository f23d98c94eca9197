//! An engine that counts, fails on command and remembers; and a worker in the background.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual::engine::*;
use punctual::job::Limits;
use punctual::time::{Clock, ManualClock, Timestamp, seconds, within};
use punctual::{
    Error, ErrorKind, Job, JobId, JobRecord, MemoryEngine, NewJob, Queue, Result, Worker,
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The job of most tests.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ping {
    pub(crate) n: u32,
}

impl Job for Ping {
    const KIND: &str = "ping";
    const QUEUE: &str = "pings";
}

pub(crate) fn ping(n: u32) -> Ping {
    Ping { n }
}

/// What happens to a call instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not arrive.
    Lost(ErrorKind),
    /// It takes effect, and its answer is lost.
    Unanswered(ErrorKind),
    /// The engine panics.
    Panic,
}

/// What a claim of suspects is called where it is to go wrong, and no other one.
pub(crate) const CLAIM_ALONE: &str = "claim alone";

/// A memory engine whose calls are counted and may be set to fail.
#[derive(Debug)]
pub(crate) struct Probe {
    inner: Arc<MemoryEngine>,
    state: Mutex<State>,
    /// Settles wait for a permit where there is a gate.
    pub(crate) settle_gate: Option<tokio::sync::Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    calls: HashMap<&'static str, usize>,
    faults: HashMap<&'static str, VecDeque<Fault>>,
    claims: Vec<Claim>,
    settles: Vec<Settle>,
    waits: Vec<WaitFor>,
    away: HashSet<Token>,
}

impl Probe {
    pub(crate) fn new() -> (Arc<Self>, ManualClock) {
        let clock = ManualClock::new(Timestamp::from_millis(1_790_000_000_000));
        (Arc::new(Self::on(clock.clone())), clock)
    }

    pub(crate) fn on(clock: impl Clock) -> Self {
        Self::over(MemoryEngine::with_clock(clock))
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        Self::over(MemoryEngine::with_limits(ManualClock::default(), limits))
    }

    fn over(engine: MemoryEngine) -> Self {
        Self {
            inner: Arc::new(engine),
            state: Mutex::default(),
            settle_gate: None,
        }
    }

    /// The next calls of a verb go wrong, in this order.
    pub(crate) fn fail(&self, verb: &'static str, faults: impl IntoIterator<Item = Fault>) {
        let mut state = self.state.lock().unwrap();
        state.faults.entry(verb).or_default().extend(faults);
    }

    /// The part of the engine that knows this lease does not answer from now on, nor does a call
    /// that names it.
    pub(crate) fn loses(&self, lease: Token) {
        self.state.lock().unwrap().away.insert(lease);
    }

    /// Which leases are there, and whether one is not.
    fn there<T>(&self, leases: Vec<T>, token: impl Fn(&T) -> Token) -> (Vec<T>, bool) {
        let state = self.state.lock().unwrap();
        let named = leases.len();
        let is_there = |lease: &T| !state.away.contains(&token(lease));
        let there: Vec<T> = leases.into_iter().filter(is_there).collect();
        let all = there.len() == named;
        (there, all)
    }

    pub(crate) fn calls(&self, verb: &'static str) -> usize {
        *self.state.lock().unwrap().calls.get(verb).unwrap_or(&0)
    }

    /// Calls of every verb.
    pub(crate) fn all_calls(&self) -> usize {
        self.state.lock().unwrap().calls.values().sum()
    }

    /// The engine itself: its calls are not counted and do not fail.
    pub(crate) fn beside(&self) -> &Arc<MemoryEngine> {
        &self.inner
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        self.state.lock().unwrap().claims.clone()
    }

    pub(crate) fn settles(&self) -> Vec<Settle> {
        self.state.lock().unwrap().settles.clone()
    }

    pub(crate) async fn job(&self, id: JobId) -> JobRecord {
        let namespace = Namespace::default();
        let got = self.inner.get(&namespace, vec![id.into()], false).await;
        match got.unwrap().remove(0) {
            Some(Got::Job(job, _)) => *job,
            other => panic!("only this is left of the job: {other:?}"),
        }
    }

    fn is_to_fail(&self, verb: &str) -> bool {
        let state = self.state.lock().unwrap();
        let faults = state.faults.get(verb);
        faults.is_some_and(|faults| !faults.is_empty())
    }

    fn called(&self, verb: &'static str) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        *state.calls.entry(verb).or_default() += 1;
        state.faults.get_mut(verb)?.pop_front()
    }

    async fn through<T>(
        &self,
        verb: &'static str,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let fail = |kind| Err(Error::new(kind, "set to fail"));
        match self.called(verb) {
            None => call.await,
            Some(Fault::Lost(kind)) => fail(kind),
            Some(Fault::Unanswered(kind)) => {
                call.await?;
                fail(kind)
            }
            Some(Fault::Panic) => panic!("set to panic"),
        }
    }
}

fn is_away() -> Error {
    Error::new(ErrorKind::EngineUnavailable, "part of it is away")
}

#[async_trait]
impl Engine for Probe {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        self.through("enqueue", self.inner.enqueue(namespace, jobs))
            .await
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        self.state.lock().unwrap().claims.push(claim.clone());
        let verb = match claim.mode.is_alone() && self.is_to_fail(CLAIM_ALONE) {
            true => CLAIM_ALONE,
            false => "claim",
        };
        self.through(verb, self.inner.claim(namespace, claim)).await
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        let (there, all) = self.there(leases, |lease| lease.token);
        let extended = self.through("extend", self.inner.extend(namespace, there));
        let extended = extended.await?;
        all.then_some(extended).ok_or_else(is_away)
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        self.state.lock().unwrap().settles.push(settle.clone());
        if let Some(gate) = &self.settle_gate {
            gate.acquire().await.unwrap().forget();
        }
        let (leases, all) = self.there(settle.leases, |lease| lease.token);
        let settle = Settle::new(leases);
        let settled = self.through("settle", self.inner.settle(namespace, settle));
        let settled = settled.await?;
        all.then_some(settled).ok_or_else(is_away)
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        self.state.lock().unwrap().waits.push(what.clone());
        self.through("wait", self.inner.wait(namespace, what, until))
            .await
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.through("get", self.inner.get(namespace, targets, explain))
            .await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.through("list", self.inner.list(namespace, list)).await
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.through("edit", self.inner.edit(namespace, edit)).await
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        self.through("stats", self.inner.stats(namespace, request))
            .await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.through("control", self.inner.control(namespace, control))
            .await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.through("maintain", self.inner.maintain()).await
    }

    async fn info(&self) -> Result<Info> {
        self.through("info", self.inner.info()).await
    }
}

/// A worker that runs beside the test.
pub(crate) struct Background {
    drain: Option<oneshot::Sender<()>>,
    release: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<()>>,
}

pub(crate) fn background(worker: &Worker) -> Background {
    let (drain, drained) = oneshot::channel::<()>();
    let (release, released) = oneshot::channel::<()>();
    let reported = |signal: oneshot::Receiver<()>| async move {
        if signal.await.is_err() {
            std::future::pending().await
        }
    };
    let shutdown = punctual::worker::Shutdown::new(reported(drained), reported(released));
    Background {
        drain: Some(drain),
        release: Some(release),
        task: tokio::spawn(worker.run_until(shutdown)),
    }
}

impl Background {
    /// The first signal.
    pub(crate) fn drain(&mut self) {
        let drain = self.drain.take().expect("it was not answered yet");
        drain.send(()).expect("the worker runs");
    }

    /// The second signal.
    pub(crate) fn release(&mut self) {
        let release = self.release.take().expect("it was not answered yet");
        release.send(()).expect("the worker runs");
    }

    pub(crate) async fn ended(self) {
        soon(self.task).await.unwrap().unwrap();
    }

    pub(crate) async fn stop(mut self) {
        self.drain();
        self.ended().await;
    }

    pub(crate) async fn stop_when(self, fact: impl Fn() -> bool) {
        soon(async {
            while !fact() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        self.stop().await;
    }

    /// Ends it as kill -9 ends a process: nothing is handed back. Its loops end where they next
    /// wait, and may claim until then: it is over once only `holders` hold the engine again.
    pub(crate) async fn kill(self, probe: &Arc<Probe>, holders: usize) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
        soon(async {
            while Arc::strong_count(probe) > holders {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// A fact that must come within a generous span of real time, or the test fails instead of hanging.
pub(crate) async fn soon<F: Future>(fact: F) -> F::Output {
    within(seconds(20), fact).await.expect("it comes to that")
}

/// Waits until the engine says so of a job.
pub(crate) async fn until(
    probe: &Probe,
    id: JobId,
    fact: impl Fn(&JobRecord) -> bool,
) -> JobRecord {
    soon(async {
        loop {
            let job = probe.job(id).await;
            if fact(&job) {
                return job;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// Waits until a loop of the worker begins another round.
pub(crate) async fn until_round(worker: &Worker, name: &str) {
    let health = worker.health();
    let age = || {
        let loops = health.report().loops;
        // One that has not begun its first round yet is as old as can be.
        let of_that = loops.into_iter().find(|of| of.name == name);
        of_that.map_or(Duration::MAX, |of| of.age)
    };
    soon(async {
        let mut last = age();
        loop {
            tokio::task::yield_now().await;
            let now = age();
            if now < last {
                return;
            }
            last = now;
        }
    })
    .await;
}

/// How many jobs are active.
pub(crate) async fn active(probe: &Probe) -> u64 {
    let (namespace, all) = (Namespace::default(), StatsRequest::default());
    let stats = probe.inner.stats(&namespace, all).await.unwrap();
    let of_queue = |queue: &QueueStats| queue.counts.of(punctual::JobState::Active);
    stats.queues.iter().map(of_queue).sum()
}

/// Waits until the job is settled, and answers its record: it is kept for that.
pub(crate) async fn settled(probe: &Arc<Probe>, id: JobId) -> JobRecord {
    // Beside the probe: its faults and counts are for the worker.
    let queue = Queue::new(&probe.inner);
    soon(queue.wait_settled(id, punctual::time::days(10_000)))
        .await
        .unwrap();
    probe.job(id).await
}

/// Enqueues a ping that is kept once completed.
pub(crate) async fn send(probe: &Arc<Probe>, n: u32) -> JobId {
    let queue = Queue::new(probe);
    let kept = punctual::time::days(1);
    queue.enqueue(ping(n)).retention(kept).await.unwrap().id
}

/// Time passes until no lease is left. An engine that was silent for long spares leases once, so
/// it takes more than one step.
pub(crate) async fn leases_run_out(probe: &Probe, clock: &ManualClock) {
    for _ in 0..3 {
        clock.advance(punctual::time::minutes(1));
        probe.maintain().await.unwrap();
    }
}

/// The end of a handler with `?` in it.
pub(crate) fn done() -> Result<()> {
    Ok(())
}
