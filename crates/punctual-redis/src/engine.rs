//! The engine: checks each call and passes it to the verbs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use punctual::engine::*;
use punctual::sync::Lock;
use punctual::time::Timestamp;
use punctual::{Error, Namespace, NewJob, Result};

use crate::health;
use crate::library::Library;
use crate::options::Options;
use crate::policy::server_info::ServerInfo;
use crate::session::calls::Calls;
use crate::session::examine::{cpu, examine, replicas_of, rewrite_all};
use crate::session::maintenance::Maintenance;
use crate::session::shards::Shard;
use crate::verbs::clock::ShardClock;
use crate::verbs::key_sizes::KeySize;
use crate::wakeup::waiting::Waiting;
use crate::wire::mp::{MapWriter, Mp};
use crate::wire::stats;

/// Jobs on Redis or Valkey: one server, one with replicas and sentinels, or a cluster.
///
/// Any number of processes and hosts may use the same servers. The jobs of a namespace lie under
/// `punctual:{NAMESPACE/SHARD}`; only the functions that this engine loads into the servers write
/// there.
///
/// ```no_run
/// # async fn example() -> punctual::Result<()> {
/// use punctual::{Engine, Namespace, NewJob};
/// use punctual_redis::RedisEngine;
///
/// let engine = RedisEngine::connect("redis://127.0.0.1".parse()?).await?;
/// engine.enqueue(&Namespace::default(), vec![NewJob::new("mail", "{}")]).await?;
/// # Ok(())
/// # }
/// ```
pub struct RedisEngine {
    pub(crate) calls: Arc<Calls>,
    waiting: Waiting,
    durability: Durability,
    server_infos: Arc<Mutex<Vec<ServerInfo>>>,
    maintenance: Maintenance,
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisEngine")
    }
}

impl RedisEngine {
    /// Connects, loads the functions where they are missing, and makes sure that the servers can
    /// keep the durability that is asked for.
    ///
    /// Refused with the remedy: servers older than 7.0, eviction, and a durability that they are
    /// not set up for.
    pub async fn connect(options: Options) -> Result<Self> {
        let connected = Self::connect_with(options, Library::production()).await;
        connected.map_err(|error| error.operation("connect"))
    }

    /// An engine whose clock stands still until a test moves it with [`set_time`](Self::set_time).
    #[cfg(feature = "testing")]
    pub async fn connect_with_clock(
        mut options: Options,
        clock: punctual::time::ManualClock,
    ) -> Result<Self> {
        options.clock = Some(Arc::new(clock));
        Self::connect_with(options, Library::with_small_bundles()).await
    }

    /// The same with a bug in its functions; on a server of its own.
    #[cfg(feature = "testing")]
    pub async fn connect_with_clock_and_bug(
        mut options: Options,
        clock: punctual::time::ManualClock,
        bug: &str,
    ) -> Result<Self> {
        options.clock = Some(Arc::new(clock));
        Self::connect_with(options, Library::with_injected(bug)).await
    }

    /// The same with bundles that are as large as those in production; on a server of its own.
    #[cfg(feature = "testing")]
    pub async fn connect_with_clock_and_full_bundles(
        mut options: Options,
        clock: punctual::time::ManualClock,
    ) -> Result<Self> {
        options.clock = Some(Arc::new(clock));
        Self::connect_with(options, Library::with_test_clock()).await
    }

    /// An engine whose servers' clocks are ahead of this machine's, and go on by themselves.
    #[cfg(feature = "testing")]
    pub async fn connect_with_clock_ahead(
        mut options: Options,
        ahead: std::time::Duration,
    ) -> Result<Self> {
        options.clock_ahead = Some(ahead);
        Self::connect_with(options, Library::with_test_clock()).await
    }

    /// An engine that brings functions of another version number: another release, for tests.
    #[cfg(feature = "testing")]
    pub async fn connect_with_functions_numbered(options: Options, version: i64) -> Result<Self> {
        Self::connect_with(options, Library::numbered(version)).await
    }

    /// Sets the time of the servers of a test, before its clock moves there.
    ///
    /// A shard remembers the instants of its writes only, within a millisecond; so that a test need
    /// not know of that, what a look was answered is written before time goes on.
    #[cfg(feature = "testing")]
    pub async fn set_time(&self, now: Timestamp) -> Result<()> {
        for shard in self.calls.shards.contacted() {
            if shard.was_read() {
                self.calls.maintain(&shard).await?;
            }
            self.calls.set_clock(&shard, now).await?;
        }
        Ok(())
    }

    async fn connect_with(options: Options, library: Library) -> Result<Self> {
        let calls = Arc::new(Calls::new(options, library)?);
        let server_infos = examine(&calls).await?;
        let kept: Result<Vec<_>> = server_infos
            .iter()
            .map(|server_info| server_info.keeps(calls.options.durability))
            .collect();
        let weakest = kept?.into_iter().min_by_key(strength);
        let mut durability = weakest.unwrap_or(Durability::Memory);
        if durability == Durability::Fsync {
            durability = rewrite_all(&calls).await?;
        }
        calls.servers.promise(durability);
        let server_infos = Arc::new(Mutex::new(server_infos));
        Ok(Self {
            waiting: Waiting::new(calls.clone()),
            maintenance: Maintenance::start(calls.clone(), server_infos.clone()),
            durability,
            server_infos,
            calls,
        })
    }

    /// Those queues that wait while workers are free, with what these have leased in every shard.
    async fn late_queues(&self, late: Vec<stats::Late>) -> Vec<NamespaceProblem> {
        let mut longest: BTreeMap<(Namespace, String), stats::Late> = BTreeMap::new();
        for one in late {
            let key = (one.namespace.clone(), one.queue.clone());
            match longest.get_mut(&key) {
                Some(known) => known.waits = known.waits.max(one.waits),
                None => drop(longest.insert(key, one)),
            }
        }
        let mut known: BTreeMap<Namespace, HashMap<String, usize>> = BTreeMap::new();
        let mut problems = Vec::new();
        for ((namespace, queue), late) in longest {
            if !known.contains_key(&namespace) {
                // Workers are answered whatever the queues.
                let request = StatsRequest::default().queues(vec![queue.clone()]);
                // A shard that does not answer is a problem of its own.
                let stats = self.calls.stats(&namespace, &request).await;
                let free = stats.map(|stats| free_workers(&stats.workers, stats.now));
                known.insert(namespace.clone(), free.unwrap_or_default());
            }
            let free = known.get(&namespace).and_then(|free| free.get(&queue));
            problems.extend(free.map(|free| late.problem(*free)));
        }
        problems
    }

    /// The servers as they described themselves: for the last [`info`](Engine::info), or at most a
    /// minute ago.
    pub fn server_infos(&self) -> Vec<ServerInfo> {
        self.known().clone()
    }

    /// The CPU that the servers of the jobs have used since their start: user and system time, that
    /// of their forks too.
    ///
    /// Replicas are not asked. Fails where a server cannot be reached, or denies `INFO`.
    ///
    /// ```no_run
    /// # async fn example(engine: punctual_redis::RedisEngine) -> punctual::Result<()> {
    /// let before = engine.servers_cpu().await?;
    /// // Calls.
    /// let used = engine.servers_cpu().await?.saturating_sub(before);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn servers_cpu(&self) -> Result<Duration> {
        cpu(&self.calls).await
    }

    /// How engine time of a namespace's shards stands beside the clocks of their servers; changes
    /// nothing.
    pub async fn clocks(&self, namespace: &Namespace) -> Result<Vec<ShardClock>> {
        self.calls.set_clock_back(namespace, true, false).await
    }

    /// Sets engine time of each shard that is ahead by a second or more back to its server's clock,
    /// so that dues and leases go on: for after a clock that was ahead for a call.
    ///
    /// It leaves a shard as it is while workers were seen or leases are open, unless `force` is
    /// set: then these leases end as those of dead workers do. Stop all workers before. While
    /// engine time stands still, a running worker cannot be distinguished from a dead one.
    pub async fn set_clock_back(
        &self,
        namespace: &Namespace,
        force: bool,
    ) -> Result<Vec<ShardClock>> {
        self.calls.set_clock_back(namespace, false, force).await
    }

    /// About how large the keys of a namespace are that have a thousand elements and more, the
    /// largest first; of keys of queues, those of the named ones. A server moves each key in one
    /// step, and a target with default settings refuses one over 512 MiB. It reads samples.
    pub async fn key_sizes(
        &self,
        namespace: &Namespace,
        queues: &[String],
    ) -> Result<Vec<KeySize>> {
        self.calls.key_sizes(namespace, queues).await
    }

    /// The version of the functions that this crate brings.
    pub fn functions_version() -> i64 {
        Library::production().version()
    }

    /// What the servers say of themselves, whether an engine would start on them or not: each that
    /// answers for jobs, and behind it its replicas as far as it knows them.
    pub async fn examine(options: Options) -> Result<Vec<ServerInfo>> {
        let calls = Calls::new(options, Library::production())?;
        let masters = examine(&calls).await;
        let mut server_infos = Vec::new();
        for master in masters.map_err(|error| error.operation("connect"))? {
            let replicas = replicas_of(&master, &calls).await;
            server_infos.push(master);
            server_infos.extend(replicas);
        }
        Ok(server_infos)
    }

    fn known(&self) -> MutexGuard<'_, Vec<ServerInfo>> {
        self.server_infos.locked()
    }

    fn checks(&self) -> Checks<'_> {
        Checks::new(self.calls.limits(), self.calls.clock.now())
    }

    /// What each shard says that this process has talked to, or why it does not: one that is
    /// unavailable is asked beside the others.
    async fn shard_infos(&self) -> Vec<(Arc<Shard>, Result<stats::ShardInfo>)> {
        let mut shards = self.calls.shards.contacted();
        let window = self.calls.limits().settled_window;
        let read = move |reply: &Mp, shard: &Shard| {
            stats::info(reply, &shard.namespace, shard.index, window)
        };
        if shards.is_empty() {
            // There is always one to ask for the time. It is not made by that: who makes it decides
            // how many shards its namespace has. Only a test's time is remembered.
            let first = self.calls.shards.first(&Namespace::default());
            if self.calls.options.clock.is_none() {
                let reply = self.calls.peek(&first, "info").await;
                let info = reply.and_then(|reply| read(&reply, &first));
                return vec![(first, info)];
            }
            shards.push(first);
        }
        let asked = shards.into_iter().map(async |shard| {
            let reply = self.calls.read(&shard, "info", MapWriter::default).await;
            let info = reply.and_then(|reply| read(&reply, &shard));
            (shard, info)
        });
        join_all(asked).await
    }

    /// What the servers say now; where one does not, what they said last, and why.
    async fn examine_now(&self) -> (Vec<ServerInfo>, Option<Error>) {
        match examine(&self.calls).await {
            Ok(server_infos) => {
                self.known().clone_from(&server_infos);
                (server_infos, None)
            }
            Err(error) => (self.server_infos(), Some(error)),
        }
    }
}

/// How much a durability promises, the least first.
fn strength(durability: &Durability) -> u8 {
    match durability {
        Durability::Memory => 0,
        Durability::Os => 1,
        Durability::Interval(_) => 2,
        Durability::Fsync => 3,
        Durability::Stated(stated) => strength(&(*stated).into()),
        _ => 4,
    }
}

#[async_trait]
impl Engine for RedisEngine {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        self.checks()
            .jobs(&jobs)
            .map_err(|error| error.operation("enqueue"))?;
        self.calls.enqueue(namespace, jobs, self.durability).await
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        self.checks()
            .claim(&claim)
            .map_err(|error| error.operation("claim"))?;
        let listeners = &self.waiting.listeners;
        let woken = listeners.take_received(namespace, &claim.queues);
        let claimed = self.calls.claim(namespace, &claim, woken).await?;
        let leads = claimed.wake_at.is_some_and(|at| at > claimed.now)
            && claimed.wake_by == WakeBy::Claimer;
        if let Some(shards) = self.calls.shards.known(namespace) {
            let returns = claim.place == WorkerPlace::WithEngine;
            listeners.note_leader(&shards, &claim.queues, returns && leads);
        }
        Ok(claimed)
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        self.checks()
            .extends(&leases)
            .map_err(|error| error.operation("extend"))?;
        self.calls.extend(namespace, &leases).await
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        self.checks()
            .settle(&settle)
            .map_err(|error| error.operation("settle"))?;
        self.calls.settle(namespace, settle).await
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        what.check().map_err(|error| error.operation("wait"))?;
        let waited = self.waiting.wait(namespace, what, until).await;
        waited.map_err(|error| error.operation("wait"))
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.checks()
            .targets(&targets)
            .map_err(|error| error.operation("get"))?;
        self.calls.get(namespace, &targets, explain).await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.checks()
            .list(&list)
            .map_err(|error| error.operation("list"))?;
        let listed = self.calls.list(namespace, &list).await;
        listed.map_err(|error| error.operation("list"))
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.checks()
            .edit(&edit)
            .map_err(|error| error.operation("edit"))?;
        let edited = self.calls.edit(namespace, &edit).await;
        edited.map_err(|error| error.operation("edit"))
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        self.checks()
            .stats(&request)
            .map_err(|error| error.operation("stats"))?;
        self.calls.stats(namespace, &request).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.checks()
            .control(&control)
            .map_err(|error| error.operation("control"))?;
        let controlled = self.calls.control(namespace, &control).await;
        controlled.map_err(|error| error.operation("control"))
    }

    async fn maintain(&self) -> Result<Maintained> {
        let maintained = self.calls.maintain_all().await;
        maintained.map_err(|error| error.operation("maintain"))
    }

    async fn info(&self) -> Result<Info> {
        let (replies, (server_infos, silent)) =
            tokio::join!(self.shard_infos(), self.examine_now());
        let degraded = self.calls.servers.degraded();
        let (mut infos, mut failed) = (Vec::new(), Vec::new());
        for (shard, reply) in replies {
            match reply {
                Ok(info) => infos.push(info),
                Err(error) => failed.push((shard, error)),
            }
        }
        let missing = self.maintenance.missing();
        let found = match infos.is_empty() {
            false => health::while_others_answer(failed, missing),
            true => health::when_none_answers(failed, missing, degraded.is_some())
                .map_err(|error| error.operation("info"))?,
        };
        let mut problems = found.of_engine;
        problems.extend(degraded);
        problems.extend(silent.map(|error| error.message().to_owned()));
        let of_servers = server_infos
            .iter()
            .flat_map(|server_info| server_info.problems(self.durability));
        problems.extend(of_servers);
        let mut seen = BTreeSet::new();
        problems.retain(|problem| seen.insert(problem.clone()));
        let late = infos.iter().flat_map(|info| info.late.iter().cloned());
        let mut of_namespaces = self.late_queues(late.collect()).await;
        of_namespaces.extend(infos.iter().flat_map(|info| info.problems.iter().cloned()));
        of_namespaces.extend(self.calls.uninitialised().await);
        for problem in found.of_namespaces {
            if !of_namespaces.contains(&problem) {
                of_namespaces.push(problem);
            }
        }
        let now = infos.iter().map(|info| info.now).max();
        let resend_window = infos.iter().map(|info| info.resend_window).min();
        let mut info = Info::new(
            "redis",
            env!("CARGO_PKG_VERSION"),
            self.durability,
            now.unwrap_or_else(|| self.calls.clock.now()),
        );
        if self.calls.shards.most() > 1 {
            // Each shard would let as many jobs start, and knows only its own turns; jobs that wait
            // for each other are in one.
            let of_one = [
                Capability::QueueLimits,
                Capability::Shares,
                Capability::Flows,
                Capability::NamedLimits,
            ];
            info.capabilities.retain(|one| !of_one.contains(one));
        }
        info.limits = *self.calls.limits();
        info.settled_window = self.calls.limits().settled_window;
        info.resend_window = resend_window.unwrap_or(info.settled_window);
        info.clock_jumps = infos.iter().map(|info| info.clock_jumps).sum();
        // Whatever else they hold included.
        info.shards = self.calls.shards.most();
        info.store_bytes = Some(server_infos.iter().map(|it| it.used_memory).sum());
        info.health = Health::new(problems, vec![self.maintenance.health()]);
        info.health.of_namespaces = of_namespaces;
        Ok(info)
    }
}
