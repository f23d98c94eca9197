//! The maintenance loop of a process.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::engine::{LoopHealth, NamespaceProblem};
use punctual::sync::Lock;
use punctual::time::{Stopwatch, Timestamp, millis, minutes, pause, seconds};
use punctual::{ErrorKind, Namespace, Result};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::policy::server_info::ServerInfo;
use crate::session::calls::{Calls, MaintainReply};
use crate::session::examine::examine;
use crate::session::shards::Shard;

/// The maintenance loop of a process: it runs due maintenance when no other process does, checks
/// that the data are still there, and reads the servers' settings each minute.
#[derive(Debug)]
pub(crate) struct Maintenance {
    progress: Arc<Mutex<Progress>>,
    task: Option<AbortHandle>,
}

#[derive(Debug)]
struct Progress {
    last: Stopwatch,
    failures: u64,
    missing: watch::Sender<Missing>,
}

/// Shards whose data are gone, and what to do about each.
type Missing = BTreeMap<(Namespace, u16), String>;

/// The pause between two runs; each is a bit shorter, so that many processes do not run in step.
const INTERVAL: Duration = millis(3_500);
/// How often the servers' settings are read.
const EXAMINE_INTERVAL: Duration = minutes(1);

impl Maintenance {
    /// Starts the loop, unless a test moves the clock.
    pub(crate) fn start(calls: Arc<Calls>, server_infos: Arc<Mutex<Vec<ServerInfo>>>) -> Self {
        Self::with_examine_interval(EXAMINE_INTERVAL, calls, server_infos)
    }

    fn with_examine_interval(
        every: Duration,
        calls: Arc<Calls>,
        server_infos: Arc<Mutex<Vec<ServerInfo>>>,
    ) -> Self {
        let progress = Arc::new(Mutex::new(Progress {
            last: Stopwatch::start(),
            failures: 0,
            missing: watch::Sender::default(),
        }));
        let task = match calls.options.clock {
            Some(_) => None,
            None => {
                Some(tokio::spawn(run(every, calls, server_infos, progress.clone())).abort_handle())
            }
        };
        Self { progress, task }
    }

    pub(crate) fn health(&self) -> LoopHealth {
        let progress = self.progress.locked();
        LoopHealth::new("maintenance", progress.last.elapsed(), progress.failures)
    }

    /// The namespaces whose data are gone.
    pub(crate) fn missing(&self) -> Vec<NamespaceProblem> {
        let progress = self.progress.locked();
        let missing = progress.missing.borrow();
        let problem = |((namespace, _), text): (&(Namespace, u16), &String)| {
            NamespaceProblem::new(namespace.clone(), text)
        };
        let mut problems: Vec<_> = missing.iter().map(problem).collect();
        problems.dedup();
        problems
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn run(
    every: Duration,
    calls: Arc<Calls>,
    server_infos: Arc<Mutex<Vec<ServerInfo>>>,
    progress: Arc<Mutex<Progress>>,
) {
    let mut examined = Stopwatch::start();
    let draw_pause = || INTERVAL.mul_f64(0.8 + 0.2 * draw());
    let mut next_pause = draw_pause();
    loop {
        pause(next_pause).await;
        let round = Stopwatch::start();
        // Many shards that are busy or away take their time, one after the other.
        let report = || progress.locked().last = Stopwatch::start();
        let known = {
            let progress = progress.locked();
            progress.missing.borrow().clone()
        };
        let (maintained, missing) = run_once(&calls, &known, report).await;
        // While cold jobs are looked up ahead of their time, all that do so take a third of the
        // server's.
        next_pause = match maintained {
            Ok(Some(workers)) => (round.elapsed() * 2 * workers).min(INTERVAL),
            _ => draw_pause(),
        };
        if examined.elapsed() >= every {
            match examine(&calls).await {
                Ok(found) => *server_infos.locked() = found,
                Err(error) => tracing::debug!(%error, "the servers' settings are not read now"),
            }
            examined = Stopwatch::start();
        }
        let mut progress = progress.locked();
        progress.last = Stopwatch::start();
        if missing.keys().any(|shard| !known.contains_key(shard)) {
            tracing::error!(shards = ?missing.keys(), "the jobs are gone");
        }
        if missing != known {
            progress.missing.send_replace(missing);
        }
        if let Err(error) = maintained {
            progress.failures += 1;
            tracing::debug!(%error, "maintenance failed; trying again");
        }
    }
}

/// One round over the shards that this process has talked to. One that fails keeps no other from
/// its turn. Also returns which lack their data: one that fails otherwise is as it was known
/// before.
async fn run_once(
    calls: &Calls,
    known: &Missing,
    report: impl Fn(),
) -> (Result<Option<u32>>, Missing) {
    let (mut result, mut missing) = (Ok(None), Missing::new());
    for shard in calls.shards.contacted() {
        let key = (shard.namespace.clone(), shard.index);
        // Once data were missing, all is looked at.
        match maintain_shard(calls, &shard, !known.is_empty(), &report).await {
            Ok(workers) => result = result.map(|most| workers.max(most)),
            Err(error) if error.kind() == ErrorKind::DataMissing => {
                missing.insert(key, error.message().to_owned());
            }
            Err(error) => {
                missing.extend(known.get(&key).map(|text| (key, text.clone())));
                result = result.and(Err(error));
            }
        }
    }
    (result, missing)
}

/// The round of one shard; while it has cold jobs to look up still, how many workers there are
/// whose processes may do the same.
async fn maintain_shard(
    calls: &Calls,
    shard: &Arc<Shard>,
    are_missing: bool,
    report: impl Fn(),
) -> Result<Option<u32>> {
    let workers = shard.workers.load(Ordering::Relaxed);
    let has_time = !are_missing && !shard.is_behind();
    if has_time && can_skip(shard.since_answer(), shard.since_maintained(), workers) {
        let shards_of_namespace = calls.shards.known(&shard.namespace);
        if shards_of_namespace.is_some_and(|shards| shards.len() > 1) {
            report();
            calls.deliver_old(shard).await;
        }
        return Ok(None);
    }
    let mut slices = Slices::default();
    loop {
        report();
        let reply = calls.maintained(shard).await?;
        if !slices.go_on(&reply) {
            let spreads = shard.is_behind() && reply.spread > 0;
            return Ok(spreads.then_some(workers.max(1)));
        }
    }
}

/// The slices of a round: a limit cuts each short.
#[derive(Debug, Default)]
struct Slices {
    /// By the shard's own time.
    began: Option<Timestamp>,
    done: u32,
    idle: u32,
}

impl Slices {
    /// Counts one; whether another follows. What falls due after the first is left to the next
    /// round, or this one would follow a busy queue without an end.
    fn go_on(&mut self, reply: &MaintainReply) -> bool {
        let (done, began) = (&reply.done, *self.began.get_or_insert(reply.at));
        let some = done.moved + done.expired + done.rescued + done.pruned > 0 || reply.spread > 0;
        self.done += 1;
        self.idle = if some { 0 } else { self.idle + 1 };
        let has_more = done.next.is_some_and(|next| next <= began);
        has_more && self.done < SLICES_MAX && self.idle <= IDLE_SLICES_MAX
    }
}

/// Whether a shard can do without this process's round. A call to it has seen that the data are
/// there, and among many workers some claim has done its reply; rounds deliver what a dead process
/// posted for other shards.
fn can_skip(
    since_answer: Option<Duration>,
    since_maintained: Option<Duration>,
    workers: u32,
) -> bool {
    let silence_max = (PER_WORKER * workers).clamp(FRESH, SKIP_MAX);
    since_answer.is_some_and(|since_answer| since_answer < silence_max)
        && since_maintained.is_some_and(|since_maintained| {
            since_maintained < MAINTAIN_WITHIN.max(PER_WORKER * workers)
        })
}

/// A call that is no older has seen that the data are there; a single waiter polls that often. The
/// next round is another `INTERVAL` away.
const FRESH: Duration = millis(1_100);
/// The since_answer that the round of one of many workers allows, for each of them.
const PER_WORKER: Duration = millis(150);
/// However many they are: a bit more than the time within which each of them claims.
const SKIP_MAX: Duration = seconds(30);
/// One of many makes a round at least that often, unless they are very many.
const MAINTAIN_WITHIN: Duration = minutes(1);

/// Slices of work in one round and shard.
const SLICES_MAX: u32 = 100;
/// Of these, one after the other that report no work.
const IDLE_SLICES_MAX: u32 = 60;

/// A uniform random number from 0 to 1.
pub(crate) fn draw() -> f64 {
    let bits = uuid::Uuid::new_v4().as_u128() as u32;
    f64::from(bits) / f64::from(u32::MAX)
}

/// The maintenance's rounds find lost data in time: within 5 s without a call, whenever the last
/// one was.
const _: () = assert!(FRESH.as_millis() + INTERVAL.as_millis() < seconds(5).as_millis());

#[cfg(test)]
mod tests;
