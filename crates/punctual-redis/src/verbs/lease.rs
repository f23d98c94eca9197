//! Claim and extend over the shards of a namespace.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use punctual::engine::{Claim, ClaimMode, Claimed, Extend, Extended, Token, WakeBy};
use punctual::time::{Timestamp, pause, seconds};
use punctual::{ErrorKind, JobId, Namespace, Result};
use redis::{FromRedisValue, cmd};

use super::{all, by_shard, put_back};
use crate::session::calls::Calls;
use crate::session::shards::{Shard, nonce_of, of_token};
use crate::wire::bundle::Run;
use crate::wire::claim::{Reads, Reply};
use crate::wire::numbers::PARTS;
use crate::wire::{claim, damaged, extend, parts};

/// How often an unavailable shard is probed.
const PROBE_EVERY: Duration = seconds(1);

impl Calls {
    /// Asks shard by shard until there is enough. The nonce picks the first: the same one again
    /// goes the same way, and finds the same leases. One that is unavailable holds no other up: it
    /// is passed over until it is back, and what others have answered is not thrown away.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        namespace: &Namespace,
        asked: &Claim,
        woken: bool,
    ) -> Result<Claimed> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        let first = (asked.nonce >> 32) as usize % count;
        let mut claim = asked.clone();
        claim.max_bytes = self.limits().claim_bytes(claim.max_bytes);
        let mut claimed = Claimed::new(Vec::new(), Timestamp::ZERO);
        let all_unavailable = shards.iter().all(|shard| shard.is_unavailable());
        // Another worker claims for this one only if one does in every shard that names an instant.
        let mut another_wakes = true;
        let (mut failed, mut is_partial) = (None, false);
        for step in 0..count {
            let shard = &shards[(first + step) % count];
            if shard.is_unavailable() && !all_unavailable {
                is_partial = true;
                continue;
            }
            claim.nonce = nonce_of(asked.nonce, shard.index, count);
            let reply = match self.claim_of(shard, &claim, woken).await {
                Ok(reply) => reply,
                Err(error) if all_unavailable || count == 1 => return Err(error),
                Err(error) => {
                    if error.kind() == ErrorKind::EngineUnavailable {
                        self.probe_until_back(shard);
                    }
                    tracing::warn!(%error, shard = shard.index, "a claim goes on without a shard");
                    failed.get_or_insert(error);
                    continue;
                }
            };
            self.claim_cache.insert(reply.cached);
            let part = reply.claimed;
            let jobs = part.leases.iter().flat_map(|lease| &lease.jobs);
            claim.limit = claim.limit.saturating_sub(jobs.clone().count());
            let bytes: usize = jobs.map(|job| job.payload.len()).sum();
            claim.max_bytes = claim.max_bytes.saturating_sub(bytes);
            claimed.now = claimed.now.max(part.now);
            claimed.suspects_wait |= part.suspects_wait;
            another_wakes &= part.wake_by == WakeBy::Another || part.wake_at.is_none();
            claimed.wake_at = claimed.wake_at.into_iter().chain(part.wake_at).min();
            let alone = claim.mode == ClaimMode::Alone && !part.leases.is_empty();
            claimed.leases.extend(part.leases);
            claimed.limited.extend(part.limited);
            if claim.limit == 0 || claim.max_bytes == 0 || alone {
                if step + 1 < count {
                    claimed.wake_at = Some(claimed.now);
                    another_wakes = false;
                }
                break;
            }
        }
        match failed {
            Some(error) if claimed.leases.is_empty() => return Err(error),
            Some(_) => is_partial = true,
            None => {}
        }
        if is_partial {
            let soon = claimed.now + PROBE_EVERY;
            claimed.wake_at = claimed.wake_at.into_iter().chain([soon]).min();
            another_wakes = false;
        }
        if another_wakes && claimed.wake_at.is_some() {
            claimed.wake_by = WakeBy::Another;
        }
        Ok(claimed)
    }

    /// Notes that a shard is away, until it answers again.
    fn probe_until_back(self: &Arc<Self>, shard: &Arc<Shard>) {
        if shard.set_unavailable(true) {
            return;
        }
        let (calls, shard) = (Arc::downgrade(self), shard.clone());
        tokio::spawn(async move {
            while let Some(calls) = calls.upgrade() {
                match calls.maintain(&shard).await {
                    Err(error) if error.kind() == ErrorKind::EngineUnavailable => {}
                    _ => break, // whatever else it says, it says to who asks
                }
                drop(calls);
                pause(PROBE_EVERY).await;
            }
            shard.set_unavailable(false);
        });
    }

    /// Asks one shard, and reads what that leaves to its claimer.
    async fn claim_of(&self, shard: &Arc<Shard>, claim: &Claim, woken: bool) -> Result<Reply> {
        let mut reply = self.ask(shard, claim, woken, Reads::Unseen).await?;
        let Some(lease) = reply.unseen.take() else {
            return Ok(reply);
        };
        let records = match lease.runs.is_empty() {
            true => self.records(shard, &lease.ids).await?,
            // What lies in bundles never changes.
            false => self.records_in_bundles(shard, &lease.runs).await?,
        };
        // The lease may be over by now, its jobs may have been rescued, and their records may say
        // of the attempt after this: the same call again finds the lease if it is one still, or
        // opens another.
        let are_untouched = |record: &Vec<u8>| claim::is_untouched(record);
        if lease.runs.is_empty()
            && !records.iter().flatten().all(are_untouched)
            && !self.is_as_opened(shard, lease.token).await?
        {
            return self.ask(shard, claim, woken, Reads::Nothing).await;
        }
        reply.add(lease, records.iter().map(Option::as_deref))?;
        Ok(reply)
    }

    /// Whether a lease has all its jobs still: what was read of them before is of this attempt.
    async fn is_as_opened(&self, shard: &Shard, token: Token) -> Result<bool> {
        let name = [token.fence, token.nonce].map(u64::to_be_bytes).concat();
        let mut read = cmd("HMGET");
        read.arg(format!("{}:pg", shard.base));
        read.arg(&name).arg([&b"~"[..], &name[..]].concat());
        let found = self.command(shard.slot, &read).await?;
        let found = Vec::<Option<Vec<u8>>>::from_redis_value(found);
        let found = found.map_err(|_| damaged())?;
        Ok(matches!(&found[..], [Some(_), None]))
    }

    async fn ask(
        &self,
        shard: &Arc<Shard>,
        claim: &Claim,
        woken: bool,
        reads: Reads,
    ) -> Result<Reply> {
        let pack = |instance| claim::request(instance, claim, woken, reads);
        let reply = self.write(shard, "claim", claim::cost_us(claim), pack);
        claim::reply(&reply.await?, claim.worker.id)
    }

    /// The records of jobs, as they stand.
    async fn records(&self, shard: &Shard, ids: &[JobId]) -> Result<Vec<Option<Vec<u8>>>> {
        let byte = self.library.part_of_id();
        let fields: Vec<_> = ids
            .iter()
            .map(|id| (parts::of_id(*id, byte), &id.as_bytes()[..]))
            .collect();
        self.fields(shard, "b", &fields).await
    }

    /// Fields of the hashes of a name, each with its part; one read per part, at the same time.
    async fn fields(
        &self,
        shard: &Shard,
        name: &str,
        fields: &[(usize, &[u8])],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut found = vec![None; fields.len()];
        let parts = by_shard(fields, usize::from(PARTS), |(part, _)| *part);
        let reads = parts.iter().map(async |(part, _, fields)| {
            let mut read = cmd("HMGET");
            read.arg(format!("{}:{name}:{part}", shard.base));
            for (_, field) in fields {
                read.arg(*field);
            }
            self.command(shard.slot, &read).await
        });
        for ((_, places, _), values) in parts.iter().zip(join_all(reads).await) {
            let values = Vec::<Option<Vec<u8>>>::from_redis_value(values?);
            put_back(&mut found, places, values.map_err(|_| damaged())?)?;
        }
        all(found)
    }

    /// The records of jobs that are in bundles, as they were sent.
    async fn records_in_bundles(
        &self,
        shard: &Shard,
        runs: &[Run],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let fields: Vec<_> = runs
            .iter()
            .map(|run| (parts::of_number(run.number), &run.number[..]))
            .collect();
        let payloads = self.fields(shard, "sd", &fields).await?;
        let mut records = Vec::new();
        for (run, payloads) in runs.iter().zip(payloads) {
            match payloads {
                Some(payloads) => run.read(&payloads, &mut records)?,
                None => records.extend((0..run.count).map(|_| None)),
            }
        }
        Ok(records)
    }

    /// Every shard at once: those of one that is unavailable are unknown, the others are extended
    /// none the less.
    pub(crate) async fn extend(
        &self,
        namespace: &Namespace,
        leases: &[Extend],
    ) -> Result<Extended> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        let mut verdicts = vec![None; leases.len()];
        let mut now = Timestamp::ZERO;
        let mut parts = by_shard(leases, count, |lease: &&Extend| {
            of_token(lease.token, count)
        });
        if parts.is_empty() {
            parts.push((0, Vec::new(), Vec::new()));
        }
        let sent = parts.iter().map(async |(index, _, part)| {
            let pack = |instance| extend::request(instance, part);
            let reply = self.write(&shards[*index], "extend", extend::cost_us(part), pack);
            extend::reply(&reply.await?, part.len())
        });
        for ((_, places, _), reply) in parts.iter().zip(join_all(sent).await) {
            let reply = reply?;
            now = now.max(reply.now);
            put_back(&mut verdicts, places, reply.verdicts)?;
        }
        Ok(Extended::new(all(verdicts)?, now))
    }
}
