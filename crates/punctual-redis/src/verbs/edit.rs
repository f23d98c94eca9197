use punctual::engine::{Control, Controlled, Cursor, Edit, EditVerdict, Edited, Select, Target};
use punctual::time::Timestamp;
use punctual::{Namespace, Result};

use super::{Walk, by_shard};
use crate::calls::Calls;
use crate::servers::Kind;
use crate::shards::of_target;
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
        let mut edited = Edited {
            verdicts: vec![(None, EditVerdict::NotFound); targets.len()],
            examined: targets.len(),
            matched: 0,
            cursor: None,
            now: Timestamp::ZERO,
        };
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

    /// Walks shard after shard.
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
        loop {
            let map = edit::of_filter(asked, filter, walk.inner.as_deref(), *limit);
            let reply = self
                .change(&shards[walk.index], "edit", Kind::Changes, &map)
                .await?;
            let mut part = edit::reply(&reply)?;
            if part.examined > 0 || !walk.pass_over(part.cursor.is_none(), count) {
                part.cursor = walk.next(part.cursor, count);
                return Ok(part);
            }
        }
    }

    /// Queues are told in every shard; records lie in the first.
    pub(crate) async fn control(
        &self,
        namespace: &Namespace,
        asked: &Control,
    ) -> Result<Controlled> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        match asked {
            Control::Pause { .. } | Control::Resume { .. } => {
                let mut changed = false;
                for shard in shards.iter() {
                    let told = self.control_one(shard, asked, Kind::Changes).await?;
                    changed |= told == Controlled::Done(true);
                }
                Ok(Controlled::Done(changed))
            }
            Control::Purge {
                queue,
                cursor,
                limit,
            } => {
                let request = format!("purge {namespace} {queue}");
                let mut walk = Walk::from(cursor.as_ref(), &request, count)?;
                loop {
                    let inner = walk.inner.clone().map(|inner| Cursor(inner.into()));
                    let asked = Control::Purge {
                        queue: queue.clone(),
                        cursor: inner,
                        limit: *limit,
                    };
                    let told = self.control_one(&shards[walk.index], &asked, Kind::Changes);
                    let Controlled::Purged {
                        examined,
                        matched,
                        cursor,
                    } = told.await?
                    else {
                        return Err(crate::wire::damaged());
                    };
                    if examined > 0 || !walk.pass_over(cursor.is_none(), count) {
                        return Ok(Controlled::Purged {
                            examined,
                            matched,
                            cursor: walk.next(cursor, count),
                        });
                    }
                }
            }
            Control::Write { .. } => {
                // A second sending would meet the version that the first has made.
                let told = self
                    .control_one(&shards[0], asked, Kind::ChangesOnce)
                    .await?;
                for shard in &shards[1..] {
                    self.copy_settings(shard, asked).await?;
                }
                Ok(told)
            }
            _ => self.control_one(&shards[0], asked, Kind::Changes).await,
        }
    }

    async fn control_one(
        &self,
        shard: &std::sync::Arc<crate::shards::Shard>,
        asked: &Control,
        kind: Kind,
    ) -> Result<Controlled> {
        let map = control::request(asked);
        let reply = self.change(shard, "control", kind, &map).await?;
        control::reply(asked, &reply)
    }

    /// Each shard obeys the settings of queues by a record of its own.
    async fn copy_settings(
        &self,
        shard: &std::sync::Arc<crate::shards::Shard>,
        asked: &Control,
    ) -> Result<()> {
        let Control::Write { name, value, .. } = asked else {
            return Ok(());
        };
        if !name.starts_with(crate::checks::QUEUE_PREFIX) {
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
