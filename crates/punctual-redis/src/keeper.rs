use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::engine::LoopHealth;
use punctual::time::{Stopwatch, Timestamp, millis, minutes, pause, seconds};
use punctual::{ErrorKind, Result};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::calls::{Calls, Duties};
use crate::examine::examine;
use crate::shards::Shard;
use crate::server_info::ServerInfo;

/// The loop of a process that does the servers' duties when nobody else calls, looks whether the
/// data are still there, and reads the servers' settings again each minute.
#[derive(Debug)]
pub(crate) struct Keeper {
    pulse: Arc<Mutex<Pulse>>,
    task: Option<AbortHandle>,
}

#[derive(Debug)]
struct Pulse {
    last: Stopwatch,
    failures: u64,
    missing: watch::Sender<Option<String>>,
}

/// How often it goes round; a bit earlier each time, so that many processes do not march in step.
const ROUND: Duration = millis(3_500);
/// How often the servers' settings are read.
const EXAMINES: Duration = minutes(1);

impl Keeper {
    /// Starts it, unless a test moves the clock and wants nothing done behind its back.
    pub(crate) fn start(calls: Arc<Calls>, server_infos: Arc<Mutex<Vec<ServerInfo>>>) -> Self {
        Self::that_examines(EXAMINES, calls, server_infos)
    }

    fn that_examines(
        every: Duration,
        calls: Arc<Calls>,
        server_infos: Arc<Mutex<Vec<ServerInfo>>>,
    ) -> Self {
        let pulse = Arc::new(Mutex::new(Pulse {
            last: Stopwatch::start(),
            failures: 0,
            missing: watch::Sender::default(),
        }));
        let task = match calls.options.clock {
            Some(_) => None,
            None => Some(tokio::spawn(run(every, calls, server_infos, pulse.clone())).abort_handle()),
        };
        Self { pulse, task }
    }

    pub(crate) fn health(&self) -> LoopHealth {
        let pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        LoopHealth {
            name: "keeper".into(),
            age: pulse.last.elapsed(),
            restarts: pulse.failures,
        }
    }

    /// What it found wrong with the data.
    pub(crate) fn problem(&self) -> Option<String> {
        let pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.missing.borrow().clone()
    }
}

impl Drop for Keeper {
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
    pulse: Arc<Mutex<Pulse>>,
) {
    let mut examined = Stopwatch::start();
    let at_rest = || ROUND.mul_f64(0.8 + 0.2 * draw());
    let mut rest = at_rest();
    loop {
        pause(rest).await;
        let round = Stopwatch::start();
        // Many shards that are busy or away take their time, one after the other.
        let beat =
            || pulse.lock().unwrap_or_else(PoisonError::into_inner).last = Stopwatch::start();
        let are_missing = {
            let pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
            pulse.missing.borrow().is_some()
        };
        let kept = keep(&calls, are_missing, beat).await;
        // While cold jobs are looked up ahead of their time, all that do so take a third of the server's.
        rest = match kept {
            Ok(Some(crowd)) => (round.elapsed() * 2 * crowd).min(ROUND),
            _ => at_rest(),
        };
        if examined.elapsed() >= every {
            match examine(&calls).await {
                Ok(found) => *server_infos.lock().unwrap_or_else(PoisonError::into_inner) = found,
                Err(error) => tracing::debug!(%error, "the servers' settings are not read now"),
            }
            examined = Stopwatch::start();
        }
        let mut pulse = pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.last = Stopwatch::start();
        match kept {
            Ok(_) if are_missing => drop(pulse.missing.send_replace(None)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::DataMissing => {
                if pulse.missing.borrow().is_none() {
                    tracing::error!(%error, "the jobs are gone");
                }
                pulse.missing.send_replace(Some(error.message().to_owned()));
            }
            Err(error) => {
                pulse.failures += 1;
                tracing::debug!(%error, "maintenance failed; trying again");
            }
        }
    }
}

/// One round over the shards that this process has talked to. One that fails keeps no other from its
/// turn; lost data are the worst that can be told. Once data were missing it is well when all were looked for.
async fn keep(calls: &Calls, are_missing: bool, beat: impl Fn()) -> Result<Option<u32>> {
    let mut told = Ok(None);
    for shard in calls.shards.greeted() {
        match keep_one(calls, &shard, are_missing, &beat).await {
            Ok(crowd) => told = told.map(|most| crowd.max(most)),
            Err(error) if told.is_ok() || error.kind() == ErrorKind::DataMissing => {
                told = Err(error);
            }
            Err(_) => {}
        }
    }
    told
}

/// The round of one shard; while it has cold jobs to look up still, how many workers there are whose processes may do the
/// same.
async fn keep_one(
    calls: &Calls,
    shard: &Arc<Shard>,
    are_missing: bool,
    beat: impl Fn(),
) -> Result<Option<u32>> {
    let crowd = shard.crowd.load(Ordering::Relaxed);
    let has_time = !are_missing && !shard.is_behind();
    if has_time && lets_be(shard.silence(), shard.unkept(), crowd) {
        let family = calls.shards.known(&shard.namespace);
        if family.is_some_and(|shards| shards.len() > 1) {
            beat();
            calls.deliver_old(shard).await;
        }
        return Ok(None);
    }
    let mut slices = Slices::default();
    loop {
        beat();
        let duties = calls.maintained(shard).await?;
        if !slices.go_on(&duties) {
            let looks_up = shard.is_behind() && duties.looked_up > 0;
            return Ok(looks_up.then_some(crowd.max(1)));
        }
    }
}

/// The slices of a round: a limit cuts each short.
#[derive(Debug, Default)]
struct Slices {
    /// By the shard's own time.
    began: Option<Timestamp>,
    done: u32,
    untold: u32,
}

impl Slices {
    /// Counts one; whether another follows. What falls due after the first is left to the next
    /// round, or this one would follow a busy queue without an end.
    fn go_on(&mut self, duties: &Duties) -> bool {
        let (done, began) = (&duties.done, *self.began.get_or_insert(duties.at));
        let some =
            done.moved + done.expired + done.rescued + done.pruned > 0 || duties.looked_up > 0;
        self.done += 1;
        self.untold = if some { 0 } else { self.untold + 1 };
        let has_more = done.next.is_some_and(|next| next <= began);
        has_more && self.done < ROUNDS_MAX && self.untold <= UNTOLD_MAX
    }
}

/// Whether a shard can do without this process's round. Whoever called it has seen that the data are there, and among
/// many workers some claim has done its duties; what was posted for other shards by who is gone is left to rounds.
fn lets_be(silence: Option<Duration>, unkept: Option<Duration>, crowd: u32) -> bool {
    let silence_max = (EACH_KEEPS * crowd).clamp(JUST_NOW, KEEPS_AT_LEAST);
    silence.is_some_and(|silence| silence < silence_max)
        && (crowd == 1
            || unkept.is_some_and(|unkept| unkept < KEEPS_ONCE_IN.max(EACH_KEEPS * crowd)))
}

/// A call that is no older has seen that the data are there; who waits alone looks that often. The next round is another
/// `ROUND` away.
const JUST_NOW: Duration = millis(1_100);
/// The silence that the round of one of many workers allows, for each of them.
const EACH_KEEPS: Duration = millis(150);
/// However many they are: a bit more than the time within which each of them claims.
const KEEPS_AT_LEAST: Duration = seconds(30);
/// One of many makes a round at least that often, unless they are very many.
const KEEPS_ONCE_IN: Duration = minutes(1);

/// Slices of work in one round and shard.
const ROUNDS_MAX: u32 = 100;
/// Of these, one after the other that tell of nothing done.
const UNTOLD_MAX: u32 = 60;

/// An even draw from 0 to 1.
pub(crate) fn draw() -> f64 {
    let bits = uuid::Uuid::new_v4().as_u128() as u32;
    f64::from(bits) / f64::from(u32::MAX)
}

/// The keeper's rounds find lost data in time: within 5 s when nobody calls, whenever the last call was.
const _: () = assert!(JUST_NOW.as_millis() + ROUND.as_millis() < seconds(5).as_millis());

#[cfg(test)]
mod tests;
