use punctual::engine::{Durability, Enqueued, PageReport, Settle, Settled};
use punctual::time::Timestamp;
use punctual::{Effect, Error, ErrorKind, Namespace, NewJob, Result};

use super::{all, by_shard, put_back};
use crate::calls::Calls;
use crate::shards::{of_job, of_token};
use crate::wire::{enqueue, settle};

impl Calls {
    pub(crate) async fn enqueue(
        &self,
        namespace: &Namespace,
        jobs: Vec<NewJob>,
        durability: Durability,
    ) -> Result<Enqueued> {
        let shards = self.shards.of(namespace);
        let count = shards.len();
        let mut receipts = vec![None; jobs.len()];
        let mut now = Timestamp::ZERO;
        // An empty call goes to one shard all the same, for its time.
        let mut parts = by_shard(&jobs, count, |job| of_job(job, count));
        if parts.is_empty() {
            parts.push((0, Vec::new(), Vec::new()));
        }
        for (index, places, part) in parts {
            let shard = &shards[index];
            let pack = |instance| enqueue::request(instance, &part);
            let reply = self.write(shard, "enqueue", pack).await;
            let reply = reply.map_err(|error| named(error, &places))?;
            let reply = enqueue::reply(&reply, &part)?;
            shard.learn(reply.instance);
            now = now.max(reply.now);
            put_back(&mut receipts, &places, reply.receipts)?;
        }
        Ok(Enqueued {
            receipts: all(receipts)?,
            durability,
            now,
        })
    }

    pub(crate) async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        let shards = self.shards.of(namespace);
        let count = shards.len();
        check_effects(&settle, count)?;
        let mut verdicts = vec![None; settle.pages.len()];
        let mut now = Timestamp::ZERO;
        let mut parts = by_shard(&settle.pages, count, |page: &&PageReport| {
            of_token(page.token, count)
        });
        if parts.is_empty() {
            parts.push((0, Vec::new(), Vec::new()));
        }
        let longest = self.limits().result_bytes;
        for (index, places, part) in parts {
            let pack =
                |instance| settle::request(instance, &part, longest, |page| self.notes.of(page));
            let reply = self.write(&shards[index], "settle", pack).await?;
            let reply = settle::reply(&reply, &part)?;
            now = now.max(reply.now);
            put_back(&mut verdicts, &places, reply.verdicts)?;
        }
        Ok(Settled {
            verdicts: all(verdicts)?,
            now,
        })
    }
}

/// The index in a part of a call, as the index in the call.
fn named(error: Error, places: &[usize]) -> Error {
    let index = error.context().find(|(name, _)| *name == "index");
    let index = index.and_then(|(_, index)| index.parse::<usize>().ok());
    let place = index.and_then(|index| places.get(index).copied());
    match place {
        Some(place) if index != Some(place) => {
            Error::new(error.kind(), error.message()).with("index", place)
        }
        _ => error,
    }
}

/// A job and its outcome are one step of one shard: an effect under a key of another one is not.
fn check_effects(settle: &Settle, count: usize) -> Result<()> {
    if count == 1 {
        return Ok(());
    }
    for page in &settle.pages {
        let here = of_token(page.token, count);
        for effect in page.settlements.iter().flat_map(|one| &one.effects) {
            match effect {
                Effect::Enqueue(job)
                    if (job.unique.is_some() || job.group.is_some())
                        && of_job(job, count) != here =>
                {
                    let message = "an effect under a key of another shard cannot be one step with \
                         its outcome; use one shard, or enqueue it from the handler";
                    return Err(Error::new(ErrorKind::Unsupported, message).with("id", job.id));
                }
                Effect::Clear { job, .. } => {
                    let message = "clearing a name needs a namespace of one shard";
                    return Err(Error::new(ErrorKind::Unsupported, message).with("id", job));
                }
                _ => {}
            }
        }
    }
    Ok(())
}
