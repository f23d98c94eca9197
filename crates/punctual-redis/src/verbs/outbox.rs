//! The delivery of effects that one shard has posted for others.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual::engine::EnqueueVerdict;
use punctual::{JobId, Result};

use crate::session::calls::Calls;
use crate::session::shards::{Shard, of_id};
use crate::transport::node::Kind;
use crate::wire::outbox::{self, ANYWHERE, EntryId, Posted, Taken};

/// What became of entries; none for a cleared name.
pub(crate) type Delivered = BTreeMap<EntryId, Option<EnqueueVerdict>>;

/// Entries that one round delivers for others.
const ROUND: usize = 100;
/// Rounds of one process that delivers for others, at a time.
const ROUNDS_MAX: u32 = 100;
/// Readings that may turn out too old at their target.
const READINGS: u32 = 3;

impl Calls {
    /// Delivers these entries of a shard; maintenance delivers what fails here.
    pub(crate) async fn deliver_posted(&self, from: &Arc<Shard>, ids: &[EntryId]) -> Delivered {
        let mut delivered = Delivered::new();
        for _ in 0..READINGS {
            let left = ids.iter().filter(|id| !delivered.contains_key(*id));
            let left: Vec<EntryId> = left.copied().collect();
            if left.is_empty() {
                break;
            }
            let ask = || outbox::ask(&left);
            if let Err(error) = self.deliver_round(from, ask, &mut delivered).await {
                tracing::debug!(%error, "effects for other shards are delivered later");
                break;
            }
        }
        delivered
    }

    /// Delivers what others have posted here and not delivered, in rounds; what cannot be now
    /// waits.
    pub(crate) async fn deliver_old(&self, from: &Arc<Shard>) {
        for _ in 0..ROUNDS_MAX {
            let mut delivered = Delivered::new();
            let ask = || outbox::ask_old(ROUND);
            if let Err(error) = self.deliver_round(from, ask, &mut delivered).await {
                tracing::debug!(%error, "effects for other shards are delivered later");
            }
            if delivered.is_empty() {
                return;
            }
        }
    }

    /// The same in a task of its own.
    pub(crate) fn deliver_later(self: Arc<Self>, from: Arc<Shard>) {
        tokio::spawn(async move { self.deliver_old(&from).await });
    }

    /// Reads entries, delivers them in their order, and acknowledges what has arrived, though one
    /// target may fail.
    async fn deliver_round(
        &self,
        from: &Arc<Shard>,
        ask: impl FnOnce() -> crate::wire::mp::MapWriter,
        delivered: &mut Delivered,
    ) -> Result<()> {
        let deadline = self.deadline();
        let reply = self
            .change_within(from, "outbox", Kind::Changes, &ask(), deadline)
            .await?;
        let read = outbox::read(&reply)?;
        let before = delivered.len();
        let mut failed = None;
        let mut arrived: Vec<EntryId> = Vec::new();
        for part in read.entries.chunk_by(|one, next| one.target == next.target) {
            let reported = match part[0].target.as_str() {
                ANYWHERE => self.find_and_deliver(from, read.now, part).await,
                target => self.deliver_to(from, target, read.now, part).await,
            };
            match reported {
                Ok(verdicts) => {
                    arrived.extend(verdicts.iter().map(|(id, _)| *id));
                    delivered.extend(verdicts);
                }
                Err(error) => failed = Some(error),
            }
        }
        if !arrived.is_empty() {
            let delivered = outbox::delivered(&arrived);
            let reply = self
                .change_within(from, "outbox", Kind::Changes, &delivered, deadline)
                .await?;
            let source = name_of(from);
            for (target, since) in outbox::delivered_since(&reply)? {
                self.outbox_acks
                    .learn((source.clone(), target), (read.now, since));
            }
        }
        match failed {
            Some(error) if delivered.len() == before => Err(error),
            _ => Ok(()),
        }
    }

    /// To one shard. Empty if the reading was too old for it.
    async fn deliver_to(
        &self,
        from: &Shard,
        target: &str,
        read_at: u64,
        entries: &[Posted],
    ) -> Result<Vec<(EntryId, Option<EnqueueVerdict>)>> {
        let to = self.shard_named(target).await?;
        let taken = self.hand_over(from, &to, read_at, entries).await?;
        let verdicts = entries.iter().zip(taken.unwrap_or_default());
        Ok(verdicts
            .map(|(one, taken)| (one.id, taken.verdict()))
            .collect())
    }

    /// To the other shard of the namespace that knows the job, if one does. A clear of a job that
    /// no shard knows is kept in each of them: where the job will be is not known before it comes.
    async fn find_and_deliver(
        &self,
        from: &Shard,
        read_at: u64,
        entries: &[Posted],
    ) -> Result<Vec<(EntryId, Option<EnqueueVerdict>)>> {
        let shards = self.shards_of(&from.namespace).await?;
        let mut done = Vec::new();
        for one in entries {
            let first = one.bytes.first_chunk().copied().map(JobId::from_bytes);
            let first = first.map_or(0, |id| of_id(id, shards.len()));
            let turns = (0..shards.len()).map(|step| &shards[(first + step) % shards.len()]);
            let (mut is_stale, mut is_known) = (false, false);
            for to in turns.filter(|to| to.index != from.index) {
                let part = std::slice::from_ref(one);
                match self.hand_over(from, to, read_at, part).await?.as_deref() {
                    Some([Taken::NotHere]) => {}
                    Some(_) => {
                        is_known = true;
                        break;
                    }
                    None => {
                        is_stale = true;
                        break;
                    }
                }
            }
            if !is_stale && !is_known && one.kind == outbox::CLEAR {
                is_stale = !self.keep_clear(from, &shards, read_at, one).await?;
            }
            if !is_stale {
                done.push((one.id, None));
            }
        }
        Ok(done)
    }

    /// Keeps a clear in every shard, each of which reads once more whether its job is there. False
    /// if the reading was too old for one.
    async fn keep_clear(
        &self,
        from: &Shard,
        shards: &[Arc<Shard>],
        read_at: u64,
        clear: &Posted,
    ) -> Result<bool> {
        let kept = Posted {
            id: clear.id,
            target: clear.target.clone(),
            kind: outbox::KEEP,
            bytes: clear.bytes.clone(),
        };
        for to in shards {
            let part = std::slice::from_ref(&kept);
            if self.hand_over(from, to, read_at, part).await?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One call; none if the reading was too old.
    async fn hand_over(
        &self,
        from: &Shard,
        to: &Arc<Shard>,
        read_at: u64,
        entries: &[Posted],
    ) -> Result<Option<Vec<Taken>>> {
        let pair = (name_of(from), name_of(to));
        let known = self.outbox_acks.take_old(&pair, read_at);
        let map = outbox::deliver(&pair.0, read_at, known, entries);
        let reply = self.change(to, "deliver", Kind::Changes, &map).await?;
        outbox::taken(&reply, entries.len())
    }

    async fn shard_named(&self, name: &str) -> Result<Arc<Shard>> {
        let (namespace, index) = name.rsplit_once('/').ok_or_else(crate::wire::damaged)?;
        let namespace = punctual::Namespace::new(namespace)?;
        let shards = self.shards_of(&namespace).await?;
        let shard = index
            .parse()
            .ok()
            .and_then(|index: usize| shards.get(index));
        shard.cloned().ok_or_else(crate::wire::damaged)
    }
}

fn name_of(shard: &Shard) -> String {
    format!("{}/{}", shard.namespace, shard.index)
}
