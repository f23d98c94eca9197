//! Guarded effects over the shards of a namespace. A record is in the first shard, which compares
//! its version; what goes elsewhere leaves by the outbox. The record of topics is copied into every
//! shard under that version, so that a settle can compare it in its own step.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual::engine::{Control, Controlled, Guard, LeaseReport, RecordValue, SettleVerdict};
use punctual::time::within;
use punctual::topic::TOPICS;
use punctual::{Effect, Error, ErrorKind, Namespace, Result};

use super::settle::{DELIVERS, whither};
use crate::flows::{may_link, of_effects};
use crate::named::may_name;
use crate::session::calls::Calls;
use crate::session::shards::Shard;
use crate::transport::node::Kind;
use crate::wire::guard::{self, Answer};

impl Calls {
    pub(crate) async fn control_guarded(
        self: &Arc<Self>,
        namespace: &Namespace,
        asked: &Control,
    ) -> Result<Option<Controlled>> {
        let Control::Guarded {
            guard,
            value,
            effects,
        } = asked
        else {
            return Ok(None);
        };
        let shards = self.shards_of(namespace).await?;
        let (home, count) = (&shards[0], shards.len());
        may_link(of_effects(effects), count)?;
        may_name(of_effects(effects), count)?;
        self.register(home, self.deadline()).await;
        let whither = |effect: &Effect| whither(effect, home, count);
        let map = guard::request(guard, value.as_ref(), effects, whither);
        // A second sending would meet the version that the first has made.
        let kind = match value {
            Some(_) => Kind::ChangesOnce,
            None => Kind::Changes,
        };
        let takes_room = of_effects(effects).next().is_some();
        let verb = if takes_room { "guarded" } else { "control" };
        let reply = self.change(home, verb, kind, &map).await?;
        let (version, mut verdicts, posted) = match guard::answer(&reply, effects.len())? {
            Answer::Conflict(record) => return Ok(Some(Controlled::GuardConflict(record))),
            Answer::Done(version, verdicts, posted) => (version, verdicts, posted),
        };
        if !posted.is_empty() {
            let (calls, from) = (self.clone(), home.clone());
            let ids: Vec<_> = posted.iter().map(|one| one.entry).collect();
            let delivery = tokio::spawn(async move { calls.deliver_posted(&from, &ids).await });
            let delivered = within(DELIVERS, delivery).await;
            let delivered = delivered
                .and_then(|done| done.ok())
                .unwrap_or_else(BTreeMap::new);
            for one in posted {
                if let Some(verdict) = delivered.get(&one.entry) {
                    verdicts[one.effect] = *verdict;
                }
            }
        }
        if let Some(value) = value {
            self.copy_topics(&shards, &guard.record, version, value)
                .await?;
        }
        Ok(Some(Controlled::Guarded { version, verdicts }))
    }

    /// Keeps the record of topics in the other shards too, under its version in the first.
    pub(super) async fn copy_topics(
        &self,
        shards: &[Arc<Shard>],
        name: &str,
        version: u64,
        value: &RecordValue,
    ) -> Result<()> {
        let RecordValue::Opaque(bytes) = value else {
            return Ok(());
        };
        if name != TOPICS {
            return Ok(());
        }
        let map = guard::copy(name, version, bytes, None);
        for shard in shards.iter().skip(1) {
            self.change(shard, "control", Kind::Changes, &map).await?;
        }
        Ok(())
    }

    /// Lets the record of topics of one shard be that of the first. Its own version is asked for
    /// before the other: a later one here is of a write that the first shard has lost.
    pub(crate) async fn repair_topics(&self, shard: &Arc<Shard>) -> Result<()> {
        let Some(shards) = self.shards.known(&shard.namespace) else {
            return Ok(());
        };
        let ask = guard::version(TOPICS);
        let here = self.change(shard, "control", Kind::Changes, &ask).await?;
        let here = guard::versioned(&here)?;
        let first = self.change(&shards[0], "control", Kind::Changes, &ask);
        let first = guard::versioned(&first.await?)?;
        if here == first {
            return Ok(());
        }
        let read = Control::Read {
            name: TOPICS.into(),
        };
        let read = self.control_one(&shards[0], &read, Kind::Changes).await?;
        if let Controlled::Record(Some(record)) = read
            && let RecordValue::Opaque(bytes) = &record.value
        {
            let lost = Some(here).filter(|here| *here > record.version);
            let map = guard::copy(TOPICS, record.version, bytes, lost);
            self.change(shard, "control", Kind::Changes, &map).await?;
        }
        Ok(())
    }

    /// Brings a shard up to date whose settle met another record of topics than it names, in case
    /// it is the shard that lags behind.
    pub(super) async fn repair_behind(&self, shard: &Arc<Shard>) {
        if let Err(error) = self.repair_topics(shard).await {
            tracing::debug!(%error, "a shard's record of topics is mended later");
        }
    }
}

/// Whether a settlement met another record of topics than it names.
pub(super) fn is_behind(leases: &[&LeaseReport], verdicts: &[Vec<SettleVerdict>]) -> bool {
    let settlements = leases.iter().flat_map(|lease| &lease.settlements);
    let mut pairs = settlements.zip(verdicts.iter().flatten());
    pairs.any(|(one, verdict)| match (&one.guard, verdict) {
        (Some(guard), SettleVerdict::GuardConflict { .. }) => guard.record == TOPICS,
        _ => false,
    })
}

/// Refuses a settle that a record guards which its shard does not have.
pub(super) fn may_guard<'a>(
    guards: impl IntoIterator<Item = &'a Guard>,
    count: usize,
) -> Result<()> {
    match guards.into_iter().find(|guard| guard.record != TOPICS) {
        Some(guard) if count > 1 => {
            let message = "a namespace that is cut into shards keeps a record in one of them, so \
                           that no settle compares it; enqueue what it guards by itself";
            Err(Error::new(ErrorKind::Unsupported, message).with("record", &guard.record))
        }
        _ => Ok(()),
    }
}
