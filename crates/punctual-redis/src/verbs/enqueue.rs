//! Enqueue over the shards of a namespace.

use futures_util::future::join_all;
use punctual::engine::{Durability, Enqueued};
use punctual::time::Timestamp;
use punctual::{Error, Namespace, NewJob, Result};

use super::{all, by_shard, put_back};
use crate::flows::may_link;
use crate::named::may_name;
use crate::session::calls::Calls;
use crate::session::shards::of_job;
use crate::wire::{Instance, enqueue};

impl Calls {
    pub(crate) async fn enqueue(
        &self,
        namespace: &Namespace,
        jobs: Vec<NewJob>,
        durability: Durability,
    ) -> Result<Enqueued> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        may_link(&jobs, count)?;
        may_name(&jobs, count)?;
        let mut receipts = vec![None; jobs.len()];
        let mut now = Timestamp::ZERO;
        // An empty call goes to one shard all the same, for its time.
        let mut parts = by_shard(&jobs, count, |job| of_job(job, count));
        if parts.is_empty() {
            parts.push((0, Vec::new(), Vec::new()));
        }
        // All shards at once. One that fails holds no other up: the same ids sent again complete
        // the call.
        let sent = parts.iter().map(async |(index, places, part)| {
            let shard = &shards[*index];
            let pack =
                |instance: Instance| enqueue::request(instance, part, self.library.bundle_min());
            let reply = self.write(shard, "enqueue", enqueue::cost_us(part), pack);
            let reply = reply.await.map_err(|error| named(error, places))?;
            let reply = enqueue::reply(&reply, part)?;
            shard.learn(reply.instance);
            Ok::<_, Error>(reply)
        });
        for ((_, places, _), reply) in parts.iter().zip(join_all(sent).await) {
            let reply = reply?;
            now = now.max(reply.now);
            put_back(&mut receipts, places, reply.receipts)?;
        }
        Ok(Enqueued::new(all(receipts)?, durability, now))
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
