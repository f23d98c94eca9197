//! Claims, extensions and settlements, for routes and for sockets.

use std::collections::HashMap;

use punctual::engine::{Claim, Claimed, Got, Settle, Settlement, Target};
use punctual::queue::Messages;
use punctual::time::{Stopwatch, millis, pause, seconds};
use punctual::{Effect, JobId, JobRecord, Outcome, Queue, push, trace};
use tokio::sync::oneshot;

use super::undelivered::Undelivered;
use crate::http::{Caller, Problem, Result};
use crate::json::lease::{
    Asked, ClaimAnswer, ClaimRequest, ExtendAnswer, ExtendRequest, PublishRefused, SettleAnswer,
    SettleRequest,
};
use crate::request::wait_until;
use crate::shared::Shared;
use crate::wakeup_coalescing::Key;

/// A lost wakeup is missed no longer than that.
const LISTEN_SECONDS_MAX: u64 = 5;

/// How soon a claim reports that suspects wait, instead of waiting for other jobs.
const SUSPECTS_REPORTED_WITHIN: std::time::Duration = seconds(1);

/// Claims until there is something, the wait is over, or the gateway ends. The writer of the answer
/// says when it is delivered; else its jobs are handed back.
pub(crate) async fn claim_for(
    shared: &Shared,
    caller: &Caller,
    request: ClaimRequest,
) -> Result<(ClaimAnswer, Option<Undelivered>)> {
    let wait = request.wait.clone();
    let may_come_again = request.may_come_again();
    let claim = request.claim()?;
    let key = Key::of(&caller.namespace, &claim);
    let ask = async || claim_once(shared, &key, claim.clone(), may_come_again).await;
    let mut sent = Stopwatch::start();
    let (mut claimed, mut undelivered) = ask().await?;
    let started = claimed.now;
    let mut end = wait_until(started, wait.as_deref())?;
    let mut waiter = None;
    while claimed.leases.is_empty() {
        if claimed.suspects_wait && !claim.mode.is_alone() {
            // The worker shall learn of them soon, to ask for one once it runs nothing else.
            end = end.min(started + SUSPECTS_REPORTED_WITHIN);
        }
        if claimed.now >= end {
            break;
        }
        let listen = (claimed.now + seconds(LISTEN_SECONDS_MAX)).min(end);
        if claimed.wake_at.is_some_and(|at| at <= claimed.now) {
            // Work was left behind a bound of one call; it is there now, or soon.
            pause(millis(1)).await;
        } else {
            let waiter = waiter.get_or_insert_with(|| shared.wakeups.join(&key, &claimed));
            tokio::select! {
                biased;
                waited = waiter.wait(&*shared.engine, &claimed, listen) => waited?,
                () = shared.ending() => break,
            }
        }
        sent = Stopwatch::start();
        (claimed, undelivered) = ask().await?;
    }
    Ok((ClaimAnswer::new(&claimed, sent.elapsed()), undelivered))
}

/// Claims, in a task of its own: the caller may be gone before the answer, or before it reads it. A
/// claim that may come again gets its lease then, so that one is never handed back.
async fn claim_once(
    shared: &Shared,
    key: &Key,
    claim: Claim,
    may_come_again: bool,
) -> Result<(Claimed, Option<Undelivered>)> {
    if may_come_again {
        return Ok((claim_and_wake(shared, key, claim).await?, None));
    }
    let (shared, key) = (shared.clone(), key.clone());
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        let claimed = claim_and_wake(&shared, &key, claim).await;
        let guarded = claimed.map(|claimed| {
            let undelivered = Undelivered::of(shared.engine.clone(), key.namespace, &claimed);
            (claimed, undelivered)
        });
        // What no caller takes is dropped, here or in the channel.
        let _ = answer.send(guarded);
    });
    // It ends without an answer only by a panic, which was reported where it happened.
    let (claimed, undelivered) = answered.await.map_err(|_| Problem::shutting_down())??;
    Ok((claimed, Some(undelivered)))
}

/// Whatever one is answered, those that wait learn of it: the next due stands there too when it got
/// jobs.
async fn claim_and_wake(shared: &Shared, key: &Key, claim: Claim) -> punctual::Result<Claimed> {
    let claimed = shared.engine.claim(&key.namespace, claim).await?;
    shared.wakeups.learn(key, &claimed);
    shared.leases.learn(&key.namespace, &claimed);
    Ok(claimed)
}

pub(crate) async fn extend_for(
    shared: &Shared,
    caller: &Caller,
    request: ExtendRequest,
) -> Result<ExtendAnswer> {
    let leases = request.leases()?;
    let tokens: Vec<_> = leases.iter().map(|lease| lease.token).collect();
    let extended = shared.engine.extend(&caller.namespace, leases).await?;
    Ok(ExtendAnswer::new(&tokens, extended))
}

/// Adds the effects that follow from the jobs themselves: a callback posts the outcome, and jobs
/// that an effect enqueues inherit the trace. Reads only jobs that may have either; the worker need
/// not have claimed here.
async fn add_what_follows(shared: &Shared, caller: &Caller, settle: &mut Settle) -> Result<()> {
    let mut targets: Vec<Target> = Vec::new();
    for lease in &settle.leases {
        let known = shared.leases.get(&caller.namespace, lease.token);
        let read = |one: &&Settlement| known.as_ref().is_none_or(|known| known.needs(one));
        let follows = lease.settlements.iter().filter(may_follow).filter(read);
        targets.extend(follows.map(|one| Target::from(one.id)));
    }
    for some in targets.chunks(TARGETS_MAX) {
        let got = shared.engine.get(&caller.namespace, some.to_vec(), false);
        let got: Vec<Option<Got>> = got.await?;
        let jobs: HashMap<JobId, &JobRecord> = (got.iter().flatten())
            .filter_map(|got| got.job().map(|job| (job.id, job)))
            .collect();
        let settlements = settle.leases.iter_mut();
        for one in settlements.flat_map(|lease| &mut lease.settlements) {
            let Some(job) = jobs.get(&one.id) else {
                continue;
            };
            let is_traced = trace::parent(&job.headers).is_some();
            for effect in &mut one.effects {
                if let Effect::Enqueue(next) = effect
                    && is_traced
                {
                    trace::inherit(&job.headers, next, shared.header_bytes_max().await);
                }
            }
            let callback = push::callback(job, one);
            (callback.iter()).for_each(|job| shared.notify(&caller.namespace, job));
            (one.effects).extend(callback.map(|job| Effect::Enqueue(Box::new(job))));
        }
    }
    Ok(())
}

/// Counts in each message the publishes that the settled job came through, whatever its worker
/// passes on, so that a loop of topics ends: which settlements are refused for that, and why.
async fn count_publishes(
    shared: &Shared,
    caller: &Caller,
    settle: &Settle,
    messages: &mut Messages,
) -> Result<PublishRefused> {
    let mut refused = PublishRefused::new();
    let job_of = |(lease, at): (usize, usize)| {
        let lease = settle.leases.get(lease)?;
        lease.settlements.get(at).map(|one| one.id)
    };
    let places: Vec<_> = messages.keys().copied().collect();
    for places in places.chunks(TARGETS_MAX) {
        let ids: Vec<JobId> = places.iter().filter_map(|place| job_of(*place)).collect();
        let targets = ids.into_iter().map(Target::from).collect();
        let got = shared.engine.get(&caller.namespace, targets, false).await?;
        for (place, got) in places.iter().zip(got) {
            let Some(job) = got.as_ref().and_then(Got::job) else {
                continue;
            };
            for message in messages.get_mut(place).into_iter().flatten() {
                if let Err(error) = message.caused_by(&job.headers) {
                    refused.insert(*place, error);
                }
            }
        }
    }
    Ok(refused)
}

/// Takes settlements out whose publishes are refused: they change nothing, and their leases hold.
/// A call of which nothing is left is refused.
fn leave_out(
    settle: &mut Settle,
    messages: &mut Messages,
    mut refused: PublishRefused,
) -> Result<()> {
    let all: usize = settle.leases.iter().map(|one| one.settlements.len()).sum();
    if refused.len() == all
        && let Some((place, error)) = refused.pop_first()
    {
        return Err(Problem::from(error).index(index_of(settle, place)));
    }
    let mut moved = Messages::new();
    let mut kept = Vec::with_capacity(settle.leases.len());
    for (nth, mut lease) in settle.leases.drain(..).enumerate() {
        let settlements = std::mem::take(&mut lease.settlements);
        let had_none = settlements.is_empty();
        for (at, one) in settlements.into_iter().enumerate() {
            if refused.contains_key(&(nth, at)) {
                continue;
            }
            if let Some(some) = messages.remove(&(nth, at)) {
                moved.insert((kept.len(), lease.settlements.len()), some);
            }
            lease.settlements.push(one);
        }
        if had_none || !lease.settlements.is_empty() {
            kept.push(lease);
        }
    }
    settle.leases = kept;
    *messages = moved;
    Ok(())
}

/// The place of a settlement among all of its call.
fn index_of(settle: &Settle, (lease, at): (usize, usize)) -> usize {
    let before = settle.leases.iter().take(lease);
    before.map(|lease| lease.settlements.len()).sum::<usize>() + at
}

/// A snooze ends nothing, so that no callback follows.
fn may_follow(one: &&Settlement) -> bool {
    !matches!(one.outcome, Outcome::Snooze { .. }) || !one.effects.is_empty()
}

/// Jobs that one call reads.
const TARGETS_MAX: usize = 1_000;

pub(crate) async fn settle_for(
    shared: &Shared,
    caller: &Caller,
    request: SettleRequest,
) -> Result<SettleAnswer> {
    let read = request.settle(&shared.guard, shared.header_bytes_max().await)?;
    let (mut settle, mut messages) = read;
    let refused = count_publishes(shared, caller, &settle, &mut messages).await?;
    let asked = Asked::of(&settle, &refused);
    if !refused.is_empty() {
        leave_out(&mut settle, &mut messages, refused)?;
    }
    add_what_follows(shared, caller, &mut settle).await?;
    let queue = Queue::new(&shared.engine).namespace(caller.namespace.clone());
    let (settled, matched) = queue.settle_publishing(settle, &messages).await?;
    Ok(SettleAnswer::new(&asked, &settled, &matched))
}
