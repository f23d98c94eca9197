//! Edit and control over the shards of a namespace.

use std::sync::Arc;

use punctual::engine::{
    Control, Controlled, Cursor, Edit, EditVerdict, Edited, QueueSettings, RecordValue,
    SETTINGS_PREFIX, Select, Target,
};
use punctual::schedule::SCHEDULE_PREFIX;
use punctual::time::Timestamp;
use punctual::{Error, ErrorKind, Namespace, Result};

use super::{Walk, by_shard};
use crate::named::may_control;
use crate::session::calls::Calls;
use crate::session::shards::{Shard, of_target};
use crate::transport::node::Kind;
use crate::wire::{control, edit};

impl Calls {
    pub(crate) async fn edit(&self, namespace: &Namespace, asked: &Edit) -> Result<Edited> {
        match &asked.select {
            Select::Targets(targets) => self.edit_targets(namespace, asked, targets).await,
            _ => self.edit_filter(namespace, asked).await,
        }
    }

    /// Edits where a target must be, and what is not there, everywhere else.
    async fn edit_targets(
        &self,
        namespace: &Namespace,
        asked: &Edit,
        targets: &[Target],
    ) -> Result<Edited> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        let mut edited = Edited::new(Timestamp::ZERO);
        edited.verdicts = vec![(None, EditVerdict::NotFound); targets.len()];
        edited.examined = targets.len();
        for step in 0..count {
            let is_open = |at: &usize| edited.verdicts[*at].1 == EditVerdict::NotFound;
            let open: Vec<usize> = (0..targets.len()).filter(is_open).collect();
            let shard = |at: &usize| (of_target(&targets[*at], count) + step) % count;
            let mut parts = by_shard(open.clone(), count, shard);
            if parts.is_empty() && step == 0 {
                parts.push((0, Vec::new(), Vec::new()));
            }
            for (index, places, part) in parts {
                let named: Vec<&Target> = part.iter().map(|at| &targets[*at]).collect();
                let map = edit::of_targets(asked, &named);
                let reply = self
                    .change(&shards[index], "edit", Kind::Changes, &map)
                    .await?;
                let reply = edit::reply(&reply)?;
                edited.now = edited.now.max(reply.now);
                edited.matched += reply.matched;
                for (place, verdict) in places.into_iter().zip(reply.verdicts) {
                    edited.verdicts[open[place]] = verdict;
                }
            }
        }
        Ok(edited)
    }

    /// Walks shard after shard, as many jobs at a time as a call takes.
    async fn edit_filter(&self, namespace: &Namespace, asked: &Edit) -> Result<Edited> {
        let Select::Filter {
            filter,
            cursor,
            limit,
        } = &asked.select
        else {
            return Err(crate::wire::damaged());
        };
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        let request = format!("edit {namespace} {filter:?} {:?}", asked.action);
        let mut walk = Walk::from(cursor.as_ref(), &request, count)?;
        let mut edited = Edited::new(Timestamp::ZERO);
        loop {
            let left = limit.saturating_sub(edited.examined);
            let map = edit::of_filter(asked, filter, walk.inner.as_deref(), left);
            let reply = self.change(&shards[walk.index], "edit", Kind::Changes, &map);
            let part = match reply.await.and_then(|reply| edit::reply(&reply)) {
                // What is known to be done is answered; the next call meets the error.
                Err(_) if edited.examined > 0 => break,
                part => part?,
            };
            edited.verdicts.extend(part.verdicts);
            edited.examined += part.examined;
            edited.matched += part.matched;
            edited.now = edited.now.max(part.now);
            let enough = walk.is_enough(&part.cursor, edited.examined, *limit);
            if !walk.advance(part.cursor, count) {
                return Ok(edited);
            }
            if enough {
                break;
            }
        }
        edited.cursor = Some(walk.cursor());
        Ok(edited)
    }

    /// Changes of queues go to every shard; records lie in the first.
    pub(crate) async fn control(
        self: &Arc<Self>,
        namespace: &Namespace,
        asked: &Control,
    ) -> Result<Controlled> {
        may_control(asked, self.shards_of(namespace).await?.len())?;
        if let Some(reported) = self.control_schedules(namespace, asked).await? {
            return Ok(reported);
        }
        if let Some(controlled) = self.control_flows(namespace, asked).await? {
            return Ok(controlled);
        }
        if let Some(controlled) = self.control_guarded(namespace, asked).await? {
            return Ok(controlled);
        }
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        match asked {
            Control::Pause { .. }
            | Control::Resume { .. }
            | Control::BlockShare { .. }
            | Control::PauseShare { .. } => {
                let mut changed = false;
                for shard in shards.iter() {
                    let reported = self.control_one(shard, asked, Kind::Changes).await?;
                    changed |= reported == Controlled::Done(true);
                }
                Ok(Controlled::Done(changed))
            }
            Control::Purge {
                queue,
                cursor,
                limit,
            } => {
                let request = format!("purge {namespace} {queue}");
                let walk = Walk::from(cursor.as_ref(), &request, count)?;
                self.purge(&shards, queue, walk, *limit).await
            }
            Control::DeleteQueue { queue } => self.delete_queue(namespace, queue).await,
            Control::Write { name, value, .. } => {
                may_limit(value.as_ref(), count)?;
                // A second sending would meet the version that the first has made.
                let reported = self
                    .control_one(&shards[0], asked, Kind::ChangesOnce)
                    .await?;
                for shard in &shards[1..] {
                    self.copy_settings(shard, asked).await?;
                }
                if let (Controlled::Written(version), Some(value)) = (&reported, value) {
                    self.copy_topics(&shards, name, *version, value).await?;
                }
                Ok(reported)
            }
            Control::Names {
                prefix,
                cursor,
                limit,
            } => {
                let request = format!("names {namespace} {prefix}");
                let walk = Walk::from(cursor.as_ref(), &request, count)?;
                self.names(&shards, prefix, walk, *limit).await
            }
            Control::BlockedShares {
                queue,
                cursor,
                limit,
            } => {
                let request = format!("blocked {namespace} {queue}");
                let walk = Walk::from(cursor.as_ref(), &request, count)?;
                self.blocked_shares(&shards[0], queue, walk, *limit).await
            }
            _ => self.control_one(&shards[0], asked, Kind::Changes).await,
        }
    }

    /// One step over the names of records: those of schedules lie in every shard, others in the
    /// first.
    async fn names(
        &self,
        shards: &[Arc<Shard>],
        prefix: &str,
        mut walk: Walk,
        limit: usize,
    ) -> Result<Controlled> {
        let asked = Control::Names {
            prefix: names_in(walk.index, prefix).unwrap_or(prefix).into(),
            cursor: walk.inner.clone().map(|inner| Cursor(inner.into())),
            limit,
        };
        let shard = &shards[walk.index];
        let Controlled::Names { names, cursor } =
            self.control_one(shard, &asked, Kind::Changes).await?
        else {
            return Err(crate::wire::damaged());
        };
        let mut more = walk.advance(cursor, shards.len());
        while more && names_in(walk.index, prefix).is_none() {
            more = walk.advance(None, shards.len());
        }
        let cursor = more.then(|| walk.cursor());
        Ok(Controlled::Names { names, cursor })
    }

    /// One step over the shares of a queue: every shard has all blocks.
    async fn blocked_shares(
        &self,
        shard: &Arc<Shard>,
        queue: &str,
        mut walk: Walk,
        limit: usize,
    ) -> Result<Controlled> {
        let asked = Control::BlockedShares {
            queue: queue.into(),
            cursor: walk.inner.clone().map(|inner| Cursor(inner.into())),
            limit,
        };
        let Controlled::BlockedShares { shares, cursor } =
            self.control_one(shard, &asked, Kind::Changes).await?
        else {
            return Err(crate::wire::damaged());
        };
        let more = walk.advance(cursor, 1);
        let cursor = more.then(|| walk.cursor());
        Ok(Controlled::BlockedShares { shares, cursor })
    }

    /// As many jobs at a time as a call takes.
    async fn purge(
        &self,
        shards: &[Arc<Shard>],
        queue: &str,
        mut walk: Walk,
        limit: usize,
    ) -> Result<Controlled> {
        let (mut all_examined, mut all_matched) = (0, 0);
        let cursor = loop {
            let asked = Control::Purge {
                queue: queue.into(),
                cursor: walk.inner.clone().map(|inner| Cursor(inner.into())),
                limit: limit.saturating_sub(all_examined),
            };
            let reported = self.control_one(&shards[walk.index], &asked, Kind::Changes);
            let (examined, matched, cursor) = match reported.await {
                // What is known to be done is answered; the next call meets the error.
                Err(_) if all_examined > 0 => break Some(walk.cursor()),
                reported => match reported? {
                    Controlled::Purged {
                        examined,
                        matched,
                        cursor,
                    } => (examined, matched, cursor),
                    _ => return Err(crate::wire::damaged()),
                },
            };
            all_examined += examined;
            all_matched += matched;
            let enough = walk.is_enough(&cursor, all_examined, limit);
            if !walk.advance(cursor, shards.len()) {
                break None;
            }
            if enough {
                break Some(walk.cursor());
            }
        };
        Ok(Controlled::Purged {
            examined: all_examined,
            matched: all_matched,
            cursor,
        })
    }

    pub(super) async fn control_one(
        &self,
        shard: &Arc<Shard>,
        asked: &Control,
        kind: Kind,
    ) -> Result<Controlled> {
        let map = control::request(asked);
        let reply = self.change(shard, "control", kind, &map).await?;
        control::reply(asked, &reply)
    }

    /// Each shard obeys the settings of queues by a record of its own.
    async fn copy_settings(&self, shard: &Arc<Shard>, asked: &Control) -> Result<()> {
        let Control::Write { name, value, .. } = asked else {
            return Ok(());
        };
        if !name.starts_with(SETTINGS_PREFIX) {
            return Ok(());
        }
        let read = Control::Read { name: name.clone() };
        let expected = match self.control_one(shard, &read, Kind::Changes).await? {
            Controlled::Record(Some(record)) => record.version,
            _ => 0,
        };
        let write = Control::Write {
            name: name.clone(),
            expected,
            value: value.clone(),
        };
        self.control_one(shard, &write, Kind::ChangesOnce)
            .await
            .map(drop)
    }
}

/// The prefix of the names that a shard is asked for, if it has any of these.
fn names_in(shard: usize, prefix: &str) -> Option<&str> {
    match shard == 0 || prefix.starts_with(SCHEDULE_PREFIX) {
        true => Some(prefix),
        false => SCHEDULE_PREFIX
            .starts_with(prefix)
            .then_some(SCHEDULE_PREFIX),
    }
}

/// A limit is of a whole queue, and shards do not know what others have claimed: each would let as
/// many jobs start.
fn may_limit(value: Option<&RecordValue>, shards: usize) -> Result<()> {
    let of_shares = |settings: &QueueSettings| {
        let shares = settings.shares.as_ref();
        shares.is_some_and(|shares| shares.has_limits())
    };
    let limits = matches!(value, Some(RecordValue::Queue(settings))
        if settings.has_limits() || of_shares(settings));
    if !limits || shards == 1 {
        return Ok(());
    }
    let message = "a namespace that is cut into shards keeps no limits of queues and shares, as each \
                   shard would let that many start; use another namespace, at an address without `shards`, for limited queues";
    Err(Error::new(ErrorKind::Unsupported, message).with("shards", shards))
}
