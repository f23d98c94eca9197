//! Settle over the shards of a namespace.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use punctual::engine::{LeaseReport, Settle, SettleVerdict, Settled};
use punctual::time::{Timestamp, millis, within};
use punctual::{Effect, Error, ErrorKind, Namespace, Result};

use super::guard::{is_behind, may_guard};
use super::{all, by_shard, put_back};
use crate::flows::{may_link, of_effects};
use crate::named::may_name;
use crate::session::calls::Calls;
use crate::session::shards::{Shard, of_job, of_token};
use crate::wire::settle::{self, Posted, Whither};

impl Calls {
    /// Settles every shard's part at once: one that is unavailable keeps no other from its turn.
    /// Effects for other shards are posted in the same step. This process delivers them right
    /// after; if it ends before, the shard's maintenance does.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        namespace: &Namespace,
        settle: Settle,
    ) -> Result<Settled> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        let sent = settle.leases.iter().flat_map(|lease| &lease.settlements);
        may_link(sent.clone().flat_map(|one| of_effects(&one.effects)), count)?;
        may_name(sent.clone().flat_map(|one| of_effects(&one.effects)), count)?;
        may_guard(sent.filter_map(|one| one.guard.as_ref()), count)?;
        let mut verdicts = vec![None; settle.leases.len()];
        let mut now = Timestamp::ZERO;
        let mut parts = by_shard(&settle.leases, count, |lease: &&LeaseReport| {
            of_token(lease.token, count)
        });
        if parts.is_empty() {
            parts.push((0, Vec::new(), Vec::new()));
        }
        let sent = parts.iter().map(|(index, _, part)| {
            let settled = self.settle_part(&shards[*index], count, part);
            settled.boxed()
        });
        for ((_, places, _), reply) in parts.iter().zip(join_all(sent).await) {
            let reply = reply?;
            now = now.max(reply.now);
            put_back(&mut verdicts, places, reply.verdicts)?;
        }
        Ok(Settled::new(all(verdicts)?, now))
    }

    async fn settle_part(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        count: usize,
        part: &[&LeaseReport],
    ) -> Result<Settled> {
        let longest = self.limits().result_bytes;
        let whither = |effect: &Effect| whither(effect, shard, count);
        let notes = |lease: &LeaseReport| self.claim_cache.of(lease);
        let pack = |instance| settle::request(instance, part, longest, whither, notes);
        let cost_us = settle::cost_us(part);
        let answer = self.write_noting(shard, "settle", cost_us, pack).await?;
        let (mut reply, posted) = settle::reply(&answer.bytes, part)?;
        if !posted.is_empty() {
            self.deliver_now(shard, posted, &mut reply).await;
        } else if count > 1 && repeats_effects(part, &reply) {
            // Who sent it first may not have lived to deliver them.
            self.clone().deliver_later(shard.clone());
        }
        if shard.index > 0 && is_behind(part, &reply.verdicts) {
            self.repair_behind(shard).await;
        }
        if answer.is_repeat && reply.verdicts.iter().flatten().any(is_lost) {
            return Err(open());
        }
        Ok(reply)
    }

    /// Waits a little for the verdicts of effects elsewhere; the delivery goes on after that.
    async fn deliver_now(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        posted: Vec<Posted>,
        reply: &mut Settled,
    ) {
        let (calls, shard) = (self.clone(), shard.clone());
        let ids: Vec<_> = posted.iter().map(|one| one.entry).collect();
        let delivery = tokio::spawn(async move { calls.deliver_posted(&shard, &ids).await });
        let delivered = match within(DELIVERS, delivery).await {
            Some(Ok(delivered)) => delivered,
            _ => return,
        };
        for one in posted {
            let Some(verdict) = delivered.get(&one.entry) else {
                continue;
            };
            let place = reply.verdicts.get_mut(one.lease);
            let place = place.and_then(|lease| lease.get_mut(one.settlement));
            if let Some(SettleVerdict::Settled { effects, .. }) = place
                && let Some(effect) = effects.get_mut(one.effect)
            {
                *effect = *verdict;
            }
        }
    }
}

/// How long a settle waits for effects that it has posted: they are safe, and a shard that is
/// unavailable must not hold up the outcomes of others.
pub(super) const DELIVERS: std::time::Duration = millis(250);

pub(super) fn whither(effect: &Effect, here: &Shard, count: usize) -> Whither {
    match effect {
        _ if count == 1 => Whither::Here,
        Effect::Enqueue(job) => match of_job(job, count) {
            there if there == usize::from(here.index) => Whither::Here,
            there => Whither::Shard(format!("{}/{there}", here.namespace)),
        },
        _ => Whither::WhereItIs,
    }
}

fn is_lost(verdict: &SettleVerdict) -> bool {
    *verdict == SettleVerdict::LeaseLost
}

/// The call was sent again, as the answer to the first was lost: it may be that sending which ended
/// the lease, and the job has gone on since.
fn open() -> Error {
    let message = "the connection to redis broke before a settle was answered, and jobs of it are of no lease now; \
                   whether it or another worker ended that is unknown: send it again, or look at the jobs";
    Error::new(ErrorKind::EngineUnavailable, message).operation("settle")
}

/// Whether a settlement with effects was taken by an earlier sending, whose answer was lost.
fn repeats_effects(leases: &[&LeaseReport], reply: &Settled) -> bool {
    let verdicts = reply.verdicts.iter().flatten();
    let settlements = leases.iter().flat_map(|lease| &lease.settlements);
    settlements
        .zip(verdicts)
        .any(|(one, verdict)| !one.effects.is_empty() && *verdict == SettleVerdict::Repeated)
}
