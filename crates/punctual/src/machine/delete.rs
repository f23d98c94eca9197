//! Delete of a queue that has no jobs: nothing of it is left.

use super::Machine;
use super::rows::*;
use crate::engine::{Control, Controlled, Counts, Namespace, SETTINGS_PREFIX};
use crate::error::Result;

impl Machine {
    /// Deletes a queue without jobs, with its pause, settings, history and last ends.
    ///
    /// Unique keys that its settled jobs held for a period are free at once: a queue that is made
    /// again has another number. Their rows go when their periods end.
    pub(super) fn delete_queue(
        &mut self,
        namespace: &Namespace,
        queue: &str,
    ) -> Result<Controlled> {
        let namespace = self.namespace(namespace);
        let id = namespace.and_then(|namespace| self.queue(namespace, queue));
        let (Some(namespace), Some(id)) = (namespace, id) else {
            return Ok(Controlled::Done(false));
        };
        let mut counts = Counts::default();
        counts.0.copy_from_slice(&self.queue_state(id)?.row.counts);
        if counts.0.iter().any(|jobs| *jobs > 0) {
            self.check_no_schedule(namespace, queue, id)?;
            return Err(Control::queue_has_jobs(queue, &counts));
        }
        let record = RecordKey {
            namespace,
            name: format!("{SETTINGS_PREFIX}{queue}"),
        };
        if self.rows.records.get(&record)?.is_some() {
            self.counters.version += 1;
            self.rows.records.remove(&mut self.journal, &record);
        }
        self.forget_queue(id)?;
        Ok(Controlled::Done(true))
    }

    /// Forgets a queue that has neither jobs nor settings.
    pub(super) fn forget_queue(&mut self, id: u32) -> Result<()> {
        let queue = self.queue_state(id)?;
        let namespace = queue.namespace;
        let name = QueueName {
            namespace,
            queue: queue.name.to_string(),
        };
        self.rows.queues.remove(&mut self.journal, &name);
        self.forget_ends(id)?;
        self.forget_gate(id)?;
        self.forget_shares(id)?;
        self.forget_share_bound(id);
        let derived = &mut self.derived;
        derived.queue_ids.remove(&(namespace, name.queue));
        derived.queues.remove(&id);
        derived.dirty.remove(&id);
        derived.lane_lows.retain(|(queue, _), _| *queue != id);
        derived.obstacles.forget(id);
        self.history.forget(id);
        Ok(())
    }

    /// A purge does not empty a queue that a schedule enqueues into.
    fn check_no_schedule(&mut self, namespace: u32, queue: &str, id: u32) -> Result<()> {
        let waiting = self.rows.due.page(id, None, self.limits.batch_items)?;
        for (_, id) in waiting {
            let job = self.load_indexed(&JobKey { namespace, id })?;
            if self.is_pending_run(&job)?
                && let Some(run) = job.spec.rare.occurrence()
            {
                return Err(Control::queue_has_schedule(queue, &run.name));
            }
        }
        Ok(())
    }

    /// Frees a key that was held for a period in a queue that is deleted since; whether it is one.
    pub(super) fn free_orphan(&mut self, period: &PeriodKey) -> bool {
        let is_orphan = !self.derived.queues.contains_key(&period.queue);
        if is_orphan {
            let key = QueueText {
                queue: period.queue,
                text: period.key.clone(),
            };
            self.rows.unique.remove(&mut self.journal, &key);
        }
        is_orphan
    }
}
