//! Claims and extensions, for routes and for sockets.

use punctual::engine::{Claim, Claimed};
use punctual::time::{Stopwatch, millis, pause, seconds};
use tokio::sync::oneshot;

use super::undelivered::Undelivered;
use crate::http::{Caller, Problem, Result};
use crate::json::lease::{ClaimAnswer, ClaimRequest, ExtendAnswer, ExtendRequest};
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
