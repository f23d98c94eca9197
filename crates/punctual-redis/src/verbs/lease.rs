use std::sync::Arc;

use punctual::engine::{Claim, Claimed, Extend, Extended};
use punctual::time::Timestamp;
use punctual::{JobId, Namespace, Result};
use redis::{FromRedisValue, cmd};

use super::{all, by_shard, put_back};
use crate::calls::Calls;
use crate::shards::{Shard, nonce_of, of_token};
use crate::wire::claim::{Reads, Reply};
use crate::wire::sheaf::Run;
use crate::wire::{claim, damaged, extend};

impl Calls {
    /// Asks shard by shard until there is enough. The nonce picks the first: the same one again
    /// goes the same way, and finds the same pages.
    pub(crate) async fn claim(
        &self,
        namespace: &Namespace,
        asked: &Claim,
        woken: bool,
    ) -> Result<Claimed> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        let first = (asked.nonce >> 32) as usize % count;
        let mut claim = asked.clone();
        claim.max_bytes = claim.max_bytes.min(self.limits().batch_bytes);
        let mut claimed = Claimed {
            pages: Vec::new(),
            now: Timestamp::ZERO,
            wake_at: None,
            suspects: false,
            another_wakes: true,
        };
        for step in 0..count {
            let shard = &shards[(first + step) % count];
            claim.nonce = nonce_of(asked.nonce, shard.index, count);
            let reply = self.claim_of(shard, &claim, woken).await?;
            self.notes.remember(reply.notes);
            let part = reply.claimed;
            let jobs = part.pages.iter().flat_map(|page| &page.jobs);
            claim.limit = claim.limit.saturating_sub(jobs.clone().count());
            let bytes: usize = jobs.map(|job| job.payload.len()).sum();
            claim.max_bytes = claim.max_bytes.saturating_sub(bytes);
            claimed.now = claimed.now.max(part.now);
            claimed.suspects |= part.suspects;
            claimed.another_wakes &= part.another_wakes || part.wake_at.is_none();
            claimed.wake_at = claimed.wake_at.into_iter().chain(part.wake_at).min();
            let alone = claim.alone && !part.pages.is_empty();
            claimed.pages.extend(part.pages);
            if claim.limit == 0 || claim.max_bytes == 0 || alone {
                if step + 1 < count {
                    claimed.wake_at = Some(claimed.now);
                    claimed.another_wakes = false;
                }
                break;
            }
        }
        claimed.another_wakes &= claimed.wake_at.is_some();
        Ok(claimed)
    }

    /// Asks one shard, and reads what that leaves to its claimer.
    async fn claim_of(&self, shard: &Arc<Shard>, claim: &Claim, woken: bool) -> Result<Reply> {
        let reads = match self.library.reads_sheaves() {
            true => Reads::Sheaves,
            false => Reads::Records,
        };
        let mut reply = self.ask(shard, claim, woken, reads).await?;
        let Some(page) = reply.unseen.take() else {
            return Ok(reply);
        };
        if !page.runs.is_empty() && reads != Reads::Sheaves {
            return Err(damaged()); // nobody asked for those
        }
        let records = match page.runs.is_empty() {
            true => self.records(shard, &page.ids).await?,
            // What lies in sheaves never changes.
            false => self.records_in_sheaves(shard, &page.runs).await?,
        };
        // The lease may be over by now, its jobs may have been rescued, and their records may tell of the attempt
        // after this: the same call again finds the page if it is one still, or opens another.
        let are_untouched = |record: &Vec<u8>| claim::is_untouched(record);
        if page.runs.is_empty() && !records.iter().flatten().all(are_untouched) {
            return self.ask(shard, claim, woken, Reads::Nothing).await;
        }
        reply.add(page, records.iter().map(Option::as_deref))?;
        Ok(reply)
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
        let mut read = cmd("HMGET");
        read.arg(format!("{}:b", shard.base));
        for id in ids {
            read.arg(id.as_bytes());
        }
        let records = self.command(shard.slot, &read).await?;
        let records = Vec::<Option<Vec<u8>>>::from_redis_value(records);
        records.map_err(|_| damaged())
    }

    /// The records of jobs that are in sheaves, as they were sent.
    async fn records_in_sheaves(
        &self,
        shard: &Shard,
        runs: &[Run],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut read = cmd("HMGET");
        read.arg(format!("{}:sd", shard.base));
        for run in runs {
            read.arg(&run.number);
        }
        let payloads = self.command(shard.slot, &read).await?;
        let payloads = Vec::<Option<Vec<u8>>>::from_redis_value(payloads);
        let payloads = payloads.map_err(|_| damaged())?;
        let mut records = Vec::new();
        for (run, payloads) in runs.iter().zip(payloads) {
            match payloads {
                Some(payloads) => run.read(&payloads, &mut records)?,
                None => records.extend((0..run.count).map(|_| None)),
            }
        }
        Ok(records)
    }

    pub(crate) async fn extend(&self, namespace: &Namespace, pages: &[Extend]) -> Result<Extended> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        let mut verdicts = vec![None; pages.len()];
        let mut now = Timestamp::ZERO;
        let mut parts = by_shard(pages, count, |page: &&Extend| of_token(page.token, count));
        if parts.is_empty() {
            parts.push((0, Vec::new(), Vec::new()));
        }
        for (index, places, part) in parts {
            let pack = |instance| extend::request(instance, &part);
            let reply = self.write(&shards[index], "extend", extend::cost_us(&part), pack);
            let reply = reply.await?;
            let reply = extend::reply(&reply, part.len())?;
            now = now.max(reply.now);
            put_back(&mut verdicts, &places, reply.verdicts)?;
        }
        Ok(Extended {
            verdicts: all(verdicts)?,
            now,
        })
    }
}
