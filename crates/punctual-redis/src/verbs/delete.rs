//! Delete of a queue in every shard, once it has no job in any of them.

use std::sync::Arc;

use punctual::engine::{Control, Controlled, Counts};
use punctual::{Namespace, Result};

use crate::session::calls::Calls;
use crate::session::shards::Shard;
use crate::transport::node::Kind;
use crate::wire::control::{self, DeleteStep};

impl Calls {
    /// Reads every shard, then deletes in each. The first shard has the settings and comes last: if
    /// a job arrives meanwhile, the call is refused and can be made again.
    pub(super) async fn delete_queue(
        &self,
        namespace: &Namespace,
        queue: &str,
    ) -> Result<Controlled> {
        let shards = self.shards_of(namespace).await?;
        let mut counts = Counts::default();
        for shard in shards.iter() {
            let reply = self.delete_step(shard, queue, &DeleteStep::Check).await?;
            if let Some(schedule) = &reply.schedule {
                return Err(Control::queue_has_schedule(queue, schedule));
            }
            for (sum, jobs) in counts.0.iter_mut().zip(reply.jobs.0) {
                *sum += jobs;
            }
        }
        refuse_jobs(queue, &counts)?;
        let mut deleted = false;
        for shard in shards.iter().rev() {
            let mut step = DeleteStep::FreeKeys(None);
            loop {
                let reply = self.delete_step(shard, queue, &step).await?;
                refuse_jobs(queue, &reply.jobs)?;
                step = match (&step, reply.cursor) {
                    (DeleteStep::FreeKeys(_), Some(cursor)) => DeleteStep::FreeKeys(Some(cursor)),
                    (DeleteStep::FreeKeys(_), None) => DeleteStep::Delete,
                    _ => {
                        deleted |= reply.deleted;
                        break;
                    }
                };
            }
        }
        Ok(Controlled::Done(deleted))
    }

    async fn delete_step(
        &self,
        shard: &Arc<Shard>,
        queue: &str,
        step: &DeleteStep,
    ) -> Result<control::Deleted> {
        let map = control::delete(queue, step);
        let reply = self.change(shard, "control", Kind::Changes, &map).await?;
        control::deleted(&reply)
    }
}

fn refuse_jobs(queue: &str, counts: &Counts) -> Result<()> {
    match counts.0.iter().any(|jobs| *jobs > 0) {
        true => Err(Control::queue_has_jobs(queue, counts)),
        false => Ok(()),
    }
}
