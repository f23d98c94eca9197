//! Guards: effects that take place only while a record has the version that they were made under.

use super::Machine;
use super::rows::*;
use crate::engine::{Controlled, Guard, Namespace, RecordValue, VersionedRecord};
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::{Effect, JobId};
use crate::time::Timestamp;

impl Machine {
    /// The version of the record of a guard that does not hold; 0 if there is no such record.
    pub(super) fn guard_conflict(&self, namespace: u32, guard: &Guard) -> Result<Option<u64>> {
        let name = guard.record.clone();
        let row = self.rows.records.get(&RecordKey { namespace, name })?;
        let version = row.map_or(0, |row| row.version);
        let holds = version == guard.version || is_injected(Bug::GuardNotCompared);
        Ok((!holds).then_some(version))
    }

    /// Compares the record, writes it if asked, and causes the effects.
    pub(super) fn guarded(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        guard: Guard,
        value: Option<RecordValue>,
        effects: &[Effect],
    ) -> Result<Controlled> {
        let namespace = self.namespace_or_new(namespace);
        let effects = Self::checked_effects(now, effects);
        if self.guard_conflict(namespace, &guard)?.is_some() {
            let name = guard.record;
            let row = self.rows.records.get(&RecordKey { namespace, name })?;
            return Ok(Controlled::GuardConflict(row.map(|row| VersionedRecord {
                version: row.version,
                value: row.value,
            })));
        }
        let mut version = guard.version;
        if value.is_some() {
            let name = guard.record;
            version = self.put_record(RecordKey { namespace, name }, value);
        }
        let verdicts = self.bring_about(namespace, effects, true)?;
        Ok(Controlled::Guarded { version, verdicts })
    }

    /// The job that holds a unique key.
    pub(super) fn holder_of(
        &mut self,
        namespace: u32,
        queue: &str,
        key: &str,
    ) -> Result<Option<JobId>> {
        let Some(queue) = self.queue(namespace, queue) else {
            return Ok(None);
        };
        Ok(self.holder(queue, key)?.map(|holder| holder.id))
    }
}
