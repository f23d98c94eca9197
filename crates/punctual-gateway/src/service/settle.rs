//! Settlements, for routes and for sockets: with what follows from the jobs that they settle.

use std::collections::HashMap;
use std::sync::Arc;

use punctual::engine::{Got, Settle, Settlement, Target, Token};
use punctual::queue::Messages;
use punctual::{Effect, JobId, Queue, trace};

use crate::http::{Caller, Problem, Result};
use crate::json::lease::{Asked, PublishRefused, SettleAnswer, SettleRequest};
use crate::known_leases::KnownJob;
use crate::shared::Shared;

/// Jobs that one call reads.
const TARGETS_MAX: usize = 1_000;

/// Settles. It calls the engine once where this process returned the leases; engines themselves
/// join calls of concurrent requests.
pub(crate) async fn settle_for(
    shared: &Shared,
    caller: &Caller,
    request: SettleRequest,
) -> Result<SettleAnswer> {
    let header_bytes_max = shared.header_bytes_max().await;
    let (mut settle, mut messages) = request.settle(&shared.guard, header_bytes_max)?;
    let jobs = SettledJobs::of(shared, caller, &settle).await?;
    let refused = count_publishes(&jobs, &settle, &mut messages);
    let asked = Asked::of(&settle, &refused);
    if !refused.is_empty() {
        leave_out(&mut settle, &mut messages, refused)?;
    }
    add_what_follows(shared, caller, &jobs, header_bytes_max, &mut settle);
    let queue = Queue::new(&shared.engine).namespace(caller.namespace.clone());
    let (settled, matched) = queue.settle_publishing(settle, &messages).await?;
    Ok(SettleAnswer::new(&asked, &settled, &matched))
}

/// The jobs of a call from which something follows.
struct SettledJobs(HashMap<(Token, JobId), Arc<KnownJob>>);

impl SettledJobs {
    /// Takes what is known of leases that this process returned, and reads other jobs: the worker
    /// need not have claimed here.
    async fn of(shared: &Shared, caller: &Caller, settle: &Settle) -> Result<Self> {
        let mut jobs = HashMap::new();
        let mut unknown = Vec::new();
        for lease in &settle.leases {
            let known = shared.leases.get(&caller.namespace, lease.token);
            for one in &lease.settlements {
                let place = (lease.token, one.id);
                match known.as_ref().map(|known| known.job(one.id)) {
                    Some(None) => {}
                    Some(Some(job)) if job.is_enough_for(one) => {
                        jobs.insert(place, job.clone());
                    }
                    _ => unknown.push(place),
                }
            }
        }
        for places in unknown.chunks(TARGETS_MAX) {
            let targets = places.iter().map(|(_, id)| Target::from(*id)).collect();
            let got = shared.engine.get(&caller.namespace, targets, false).await?;
            for (place, got) in places.iter().zip(got) {
                let job = got.as_ref().and_then(Got::job).and_then(KnownJob::of);
                jobs.extend(job.map(|job| (*place, Arc::new(job))));
            }
        }
        Ok(Self(jobs))
    }

    /// The job, if something follows from it.
    fn get(&self, token: Token, settlement: &Settlement) -> Option<&KnownJob> {
        self.0.get(&(token, settlement.id)).map(|job| &**job)
    }
}

/// Adds the effects that follow from the jobs themselves: a callback posts the outcome, and jobs
/// that an effect enqueues inherit the trace.
fn add_what_follows(
    shared: &Shared,
    caller: &Caller,
    jobs: &SettledJobs,
    header_bytes_max: usize,
    settle: &mut Settle,
) {
    for lease in &mut settle.leases {
        for one in &mut lease.settlements {
            let Some(job) = jobs.get(lease.token, one) else {
                continue;
            };
            for effect in &mut one.effects {
                if let Effect::Enqueue(next) = effect {
                    trace::inherit(job.headers(), next, header_bytes_max);
                }
            }
            let callback = job.callback(one);
            (callback.iter()).for_each(|job| shared.notify(&caller.namespace, job));
            (one.effects).extend(callback.map(|job| Effect::Enqueue(Box::new(job))));
        }
    }
}

/// Counts in each message the publishes that the settled job came through, whatever its worker
/// passes on, so that a loop of topics ends: which settlements are refused for that, and why.
fn count_publishes(jobs: &SettledJobs, settle: &Settle, messages: &mut Messages) -> PublishRefused {
    let mut refused = PublishRefused::new();
    for (place, messages) in messages.iter_mut() {
        let lease = settle.leases.get(place.0);
        let job = lease.and_then(|lease| jobs.get(lease.token, lease.settlements.get(place.1)?));
        for message in messages {
            if let Some(job) = job
                && let Err(error) = message.caused_by(job.headers())
            {
                refused.insert(*place, error);
            }
        }
    }
    refused
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
