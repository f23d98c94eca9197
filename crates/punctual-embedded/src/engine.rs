//! `EmbeddedEngine`: the contract over a committer and its calls.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use async_trait::async_trait;
use punctual::engine::*;
use punctual::machine::{Machine, Wakeups};
use punctual::sync::Lock as _;
use punctual::time::{SteadyClock, Timestamp};
use punctual::{Effect, Error, ErrorKind, JobId, Limits, NewJob, Result};
use tokio::sync::watch;

use crate::activity::Activity;
use crate::call_queue::{Broken, Calls, Kind};
use crate::checkpoint::Checkpoints;
use crate::committer::{Committer, Pace};
use crate::disk::{Disk, Folder};
use crate::lock::Lock;
use crate::opening::{self, OpenStore, Opened, Parts, STORE};
use crate::options::Options;
use crate::space::Space;
use crate::store::TreeStore;
use crate::syncing::Syncing;

/// The durable engine in one directory: acknowledged means kept.
///
/// One process holds a directory; `EmbeddedEngine::open_or_join` of the crate `punctual-directory`
/// lets other processes join it. [`close`](Self::close) ends in good order, and so does dropping,
/// which waits for it; after that, or a kill at any moment, [`open`](Self::open) goes on where
/// this ended.
///
/// ```
/// # async fn example() -> punctual::Result<()> {
/// use punctual::{Engine, Namespace, NewJob};
/// use punctual_embedded::{EmbeddedEngine, Options};
///
/// # let parent = tempfile::tempdir().unwrap();
/// let directory = parent.path().join("data");
/// let engine = EmbeddedEngine::open(&directory, Options::default())?;
/// let sent = engine.enqueue(&Namespace::default(), vec![NewJob::new("mail", "{}")]).await?;
/// assert_eq!(sent.durability.to_string(), "fsync");
/// engine.close().await?;
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct EmbeddedEngine {
    calls: Arc<Calls>,
    wakeups: Arc<Wakeups>,
    clock: Arc<SteadyClock>,
    activity: Arc<Activity>,
    opened: Opened,
    durability: Durability,
    limits: Limits,
    settled_window: std::time::Duration,
    ended: watch::Receiver<Option<Ended>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How an engine ended: `None` in good order.
type Ended = Option<Broken>;

impl EmbeddedEngine {
    /// Opens a directory, or makes it: reads back what the log has and the store has not, which may
    /// take a second.
    pub fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = directory.as_ref();
        let in_directory = |error: Error| error.operation("open");
        let lock = opening::take(path, options.create).map_err(in_directory)?;
        let disk = Arc::new(Folder::new(path));
        let store = path.join(STORE);
        let open_store: OpenStore<'_> = &|must_exist| {
            let store = TreeStore::open(&store, must_exist)?;
            Ok(Arc::new(store))
        };
        let parts = opening::open(disk, open_store, &options).map_err(in_directory)?;
        Self::start(parts, options, Some(lock))
    }

    /// Opens a disk and a store of another kind: for tests, which let them fail.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        store: Arc<dyn crate::store::Store>,
        options: Options,
    ) -> Result<Self> {
        let parts = opening::open(disk, &|_| Ok(store.clone()), &options)?;
        Self::start(parts, options, None)
    }

    /// What was found at the opening.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Ends in good order: what was called before is answered, leases stay, and the next opening
    /// has nothing to replay. Calls after it are refused.
    pub async fn close(&self) -> Result<()> {
        self.calls.close();
        let mut ended = self.ended.clone();
        let ended = ended.wait_for(Option::is_some).await;
        match ended.map(|ended| (*ended).clone().flatten()) {
            Ok(None) => Ok(()),
            Ok(Some(broken)) => Err(broken.error().operation("close")),
            Err(_) => {
                let message = "committer ended without a word, which is a bug in punctual";
                Err(Error::new(ErrorKind::Internal, message).operation("close"))
            }
        }
    }

    /// Completes when the engine stops itself, with the error that every call answers then: a
    /// disk that fails, damaged data, a panic. It never completes after [`close`](Self::close).
    ///
    /// The library never ends the process; a server ends it then, to be started again.
    ///
    /// ```
    /// # async fn example() -> punctual::Result<()> {
    /// # use punctual_embedded::{EmbeddedEngine, Options};
    /// # let parent = tempfile::tempdir().unwrap();
    /// let engine = EmbeddedEngine::open(parent.path().join("data"), Options::default())?;
    /// tokio::select! {
    ///     error = engine.stopped() => return Err(error),
    ///     () = async { /* serve */ } => {}
    /// }
    /// # engine.close().await
    /// # }
    /// #
    /// tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn stopped(&self) -> impl Future<Output = Error> + Send + use<> {
        let mut ended = self.ended.clone();
        async move {
            let ended = ended.wait_for(Option::is_some).await;
            match ended.map(|ended| (*ended).clone().flatten()) {
                Ok(Some(broken)) => broken.error(),
                _ => std::future::pending().await,
            }
        }
    }

    fn start(parts: Parts, options: Options, lock: Option<Lock>) -> Result<Self> {
        let Parts {
            disk,
            store,
            machine,
            log,
            recovered,
            opened,
        } = parts;
        let clock = Arc::new(SteadyClock::new(options.clock.clone(), recovered.floor));
        let (calls, wakeups, activity) = (Arc::new(Calls::new()), Arc::default(), Arc::default());
        let syncing = Arc::new(Syncing::new(
            options.durability,
            disk.clone(),
            calls.clone(),
            log.number(),
            log.file().clone(),
        ));
        let (end, ended) = watch::channel(None);
        let engine = Self {
            calls: calls.clone(),
            wakeups: Arc::clone(&wakeups),
            clock: clock.clone(),
            activity: Arc::clone(&activity),
            opened,
            durability: options.durability,
            limits: *machine.limits(),
            settled_window: machine.settled_window(),
            ended,
            thread: Mutex::new(None),
        };
        let checkpoints =
            Checkpoints::start(disk.clone(), store.clone(), calls.clone(), activity.clone());
        let committer = Committer {
            machine,
            log,
            space: Space::new(disk, options.reserve_bytes),
            store,
            clock,
            wakeups,
            calls,
            activity,
            syncing,
            checkpoints: checkpoints.map_err(no_thread)?,
            options,
            pace: Pace::default(),
        };
        let body = move || {
            let ended = run(committer);
            drop(lock);
            // No caller may be waiting for it.
            let _ = end.send(Some(ended));
        };
        let thread = Builder::new().name("punctual-commit".into()).spawn(body);
        *engine.thread.locked() = Some(thread.map_err(no_thread)?);
        Ok(engine)
    }

    /// Sends a verb to the machine; answers what it says and the engine time of its step.
    async fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        kind: Kind,
        bytes: usize,
        verb: impl FnOnce(&mut Machine, Timestamp) -> Result<T> + Send + 'static,
    ) -> Result<(T, Timestamp)> {
        let verb = move |machine: &mut Machine, now| Ok((verb(machine, now)?, now));
        let answer = self.calls.send(kind, bytes, verb).await;
        answer.map_err(|error| error.operation(operation))
    }

    async fn wait_for(
        &self,
        namespace: &Namespace,
        what: WaitFor,
        until: Timestamp,
    ) -> Result<Waited> {
        match what {
            WaitFor::Work(queues) => {
                let poll = || async {
                    let (namespace, queues) = (namespace.clone(), queues.clone());
                    let verb =
                        move |machine: &mut Machine, now| machine.listen(now, &namespace, &queues);
                    Ok(self.call("wait", Kind::Read, 0, verb).await?.0)
                };
                self.wakeups
                    .work(namespace, &queues, &self.clock, until, poll)
                    .await
            }
            WaitFor::Settled(ids) => {
                let poll = || self.are_settled(namespace, &ids);
                self.wakeups
                    .settled(namespace, &ids, &self.clock, until, poll)
                    .await
            }
            WaitFor::Changes(after) => {
                let poll = |after| async move {
                    let namespace = namespace.clone();
                    let verb = move |machine: &mut Machine, now| {
                        Ok(machine.changes(now, &namespace, after))
                    };
                    Ok(self.call("wait", Kind::Read, 0, verb).await?.0)
                };
                self.wakeups.feed(after, &self.clock, until, poll).await
            }
            _ => {
                let message =
                    "embedded engine does not know what to wait for; update punctual-embedded";
                Err(Error::new(ErrorKind::Unsupported, message).operation("wait"))
            }
        }
    }

    async fn are_settled(&self, namespace: &Namespace, ids: &[JobId]) -> Result<bool> {
        let namespace = namespace.clone();
        let targets: Vec<_> = ids.iter().copied().map(Target::Id).collect();
        let verb = move |machine: &mut Machine, now| machine.get(now, &namespace, &targets, false);
        let (jobs, _) = self.call("wait", Kind::Read, 0, verb).await?;
        Ok(jobs.iter().flatten().all(|job| job.state().is_settled()))
    }
}

/// The life of the committer's thread, and of the syncer's beside it.
fn run(committer: Committer) -> Ended {
    let (calls, syncing) = (committer.calls.clone(), committer.syncing.clone());
    let sync = {
        let (calls, syncing) = (calls.clone(), syncing.clone());
        move || guarded("syncer", &calls, || syncing.run())
    };
    let syncer = Builder::new().name("punctual-sync".into()).spawn(sync);
    match syncer {
        Ok(syncer) => {
            guarded("committer", &calls, || committer.run());
            syncing.close();
            // Its panic was caught, and reported.
            let _ = syncer.join();
        }
        Err(error) => calls.break_down(Broken::of(&no_thread(error))),
    }
    calls.broken()
}

/// Runs the body of a thread; its failure or panic ends the engine.
fn guarded(name: &str, calls: &Calls, body: impl FnOnce() -> Result<()>) {
    let broken = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => Broken::of(&error),
        Err(_) => Broken {
            kind: ErrorKind::Internal,
            why: format!("{name} panicked, which is a bug in punctual; open the directory again"),
        },
    };
    calls.break_down(broken);
}

/// Guarded jobs are refused where the disk is short of room, like others; and their payloads.
fn room_of(control: &Control) -> (Kind, usize) {
    let Control::Guarded { effects, .. } = control else {
        return (Kind::Change, 0);
    };
    let jobs = effects.iter().filter_map(|effect| match effect {
        Effect::Enqueue(job) => Some(job.payload.len()),
        _ => None,
    });
    match jobs.clone().count() {
        0 => (Kind::Change, 0),
        _ => (Kind::Enqueue, jobs.sum()),
    }
}

fn no_thread(error: std::io::Error) -> Error {
    let message = "the system refuses to start a thread";
    Error::new(ErrorKind::Io, message).source(error)
}

#[async_trait]
impl Engine for EmbeddedEngine {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        let namespace = namespace.clone();
        let bytes = jobs.iter().map(|job| job.payload.len()).sum();
        let verb = move |machine: &mut Machine, now| machine.enqueue(now, &namespace, jobs);
        let (receipts, now) = self.call("enqueue", Kind::Enqueue, bytes, verb).await?;
        Ok(Enqueued::new(receipts, self.durability, now))
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        let namespace = namespace.clone();
        let verb = move |machine: &mut Machine, now| machine.claim(now, &namespace, &claim);
        Ok(self.call("claim", Kind::Claim, 0, verb).await?.0)
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        let namespace = namespace.clone();
        let verb = move |machine: &mut Machine, now| machine.extend(now, &namespace, leases);
        let (verdicts, now) = self.call("extend", Kind::Change, 0, verb).await?;
        Ok(Extended::new(verdicts, now))
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        let namespace = namespace.clone();
        let verb = move |machine: &mut Machine, now| machine.settle(now, &namespace, settle);
        let (verdicts, now) = self.call("settle", Kind::Change, 0, verb).await?;
        Ok(Settled::new(verdicts, now))
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        what.check().map_err(|error| error.operation("wait"))?;
        tokio::select! {
            biased;
            error = self.stopped() => Err(error.operation("wait")),
            waited = self.wait_for(namespace, what, until) => waited,
        }
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        let namespace = namespace.clone();
        let verb =
            move |machine: &mut Machine, now| machine.get(now, &namespace, &targets, explain);
        Ok(self.call("get", Kind::Read, 0, verb).await?.0)
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        let namespace = namespace.clone();
        let verb = move |machine: &mut Machine, now| machine.list(now, &namespace, &list);
        Ok(self.call("list", Kind::Read, 0, verb).await?.0)
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        let namespace = namespace.clone();
        let verb = move |machine: &mut Machine, now| machine.edit(now, &namespace, edit);
        Ok(self.call("edit", Kind::Change, 0, verb).await?.0)
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        let namespace = namespace.clone();
        let verb = move |machine: &mut Machine, now| machine.stats(now, &namespace, &request);
        Ok(self.call("stats", Kind::Read, 0, verb).await?.0)
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        let namespace = namespace.clone();
        let (kind, bytes) = room_of(&control);
        let verb = move |machine: &mut Machine, now| machine.control(now, &namespace, control);
        Ok(self.call("control", kind, bytes, verb).await?.0)
    }

    async fn maintain(&self) -> Result<Maintained> {
        let verb = |machine: &mut Machine, now| machine.maintain(now);
        Ok(self.call("maintain", Kind::Claim, 0, verb).await?.0)
    }

    /// Answers after [`close`](EmbeddedEngine::close) too; an engine that stopped itself says so.
    async fn info(&self) -> Result<Info> {
        let verb = |machine: &mut Machine, now| {
            machine.touch(now)?;
            let bytes = machine.memory_bytes() as u64;
            let resends = (machine.resend_window(), machine.resend_problem());
            Ok((machine.clock_jumps(), bytes, machine.problems()?, resends))
        };
        let mut health = self.activity.health();
        let ((silences, recent_bytes, waiting, (resend_window, resends)), now) =
            match self.call("info", Kind::Read, 0, verb).await {
                Ok(facts) => facts,
                Err(error) if error.kind() == ErrorKind::EngineStopped => return Err(error),
                Err(error) => {
                    health.ok = false;
                    health.problems.push(error.to_string());
                    (
                        (0, 0, Vec::new(), (self.settled_window, None)),
                        self.clock.now(),
                    )
                }
            };
        health.of_namespaces = waiting;
        health.problems.extend(resends);
        let mut info = Info::new("embedded", env!("CARGO_PKG_VERSION"), self.durability, now);
        info.limits = self.limits;
        info.settled_window = self.settled_window;
        info.resend_window = resend_window;
        info.clock_jumps = silences + self.clock.steps_back();
        info.store_bytes = Some(recent_bytes + self.activity.bytes());
        info.health = health;
        Ok(info)
    }
}

/// Ends in good order, and waits for it.
impl Drop for EmbeddedEngine {
    fn drop(&mut self) {
        self.calls.close();
        let thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // A panic was caught before it came here.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for EmbeddedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EmbeddedEngine({})", self.durability)
    }
}
