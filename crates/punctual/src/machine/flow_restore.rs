//! What an import brings of a flow besides its jobs: steps that have ended, and its seal.

use super::Machine;
use super::flow_acts::conflict;
use super::flow_rows::*;
use super::flow_work::Work;
use super::flows::job_key;
use super::rows::*;
use crate::error::Result;
use crate::flow::{EndedStep, RestoredFlow, Role};

impl Machine {
    /// Brings it, or changes nothing.
    pub(super) fn restore_flow(
        &mut self,
        key: &RecordKey,
        row: Option<FlowRow>,
        restored: RestoredFlow,
    ) -> Result<()> {
        let mut new: Vec<EndedStep> = Vec::new();
        for one in restored.ended {
            let id = one.id(&key.name);
            let is_known = self.rows.links.get(&job_key(key, id))?.is_some();
            if !is_known && !new.iter().any(|other| other.id(&key.name) == id) {
                new.push(one);
            }
        }
        let is_closed = row
            .as_ref()
            .is_some_and(|row| row.sealed.is_some() || row.cancelled);
        if is_closed && !new.is_empty() {
            let message = "flow is here already, without a step that the import has; remove it, \
                           or import into another namespace";
            return Err(conflict(key, message).with("step", &new[0].step));
        }
        if let Some(seal) = restored.seal {
            let coming = new.iter().filter(|one| one.role == Role::Step).count() as u64;
            let has = row.as_ref().map_or(0, |row| row.counts.steps) + coming;
            let sealed = row.as_ref().filter(|row| row.sealed.is_some());
            let is_same = sealed.is_none_or(|row| row.planned == seal.planned);
            if has != seal.steps && sealed.is_none() || !is_same {
                let message = "flow has another number of steps than the import says: some were \
                               refused, or another flow has its name here";
                return Err(conflict(key, message)
                    .with("steps", has)
                    .with("imported", seal.steps));
            }
        }
        for one in new {
            self.restore_step(key, one)?;
        }
        if let (Some(seal), Some(row)) = (restored.seal, self.rows.flows.get(key)?)
            && row.sealed.is_none()
            && !row.cancelled
        {
            self.start_flow(key, row, seal.planned, seal.on_failure)?;
        }
        match self.rows.flows.get(key)? {
            Some(row) if restored.cancelled && !is_closed => self.cancel_flow(key, row),
            _ => Ok(()),
        }
    }

    /// Keeps how a step ended whose job is gone; those that wait for it learn of it at the seal.
    fn restore_step(&mut self, key: &RecordKey, one: EndedStep) -> Result<()> {
        let id = job_key(key, one.id(&key.name));
        let end = End::new(one.state, one.skipped);
        let mut link = LinkRow {
            flow: String::new(),
            step: String::new(),
            role: Role::Step,
            number: 0,
            unmet: 0,
            broken: 0,
            outside: 0,
            on_failed: false,
            sent: RandomBits(one.past.sent),
            due: self.now,
            ended: Some(end),
            result: one.result.clone(),
            parents: Vec::new(),
        };
        self.add_to_flow(&id, &one.place(&key.name), &mut link)?;
        self.count_end(key.namespace, &link, end)?;
        self.put_link(&id, link);
        self.derived.flows.push(Work::Fire(id, end));
        Ok(())
    }
}
