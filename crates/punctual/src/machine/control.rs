//! Control: pause, resume, purge, and named versioned records.

use std::ops::Bound;

use super::Machine;
use super::cursor::Request;
use super::record_row::RecordRow;
use super::rows::*;
use crate::engine::{
    Control, Controlled, Cursor, LIMIT_PREFIX, Namespace, QueueSettings, RecordValue,
    SETTINGS_PREFIX, VersionedRecord,
};
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::schedule::SCHEDULE_PREFIX;
use crate::time::Timestamp;

impl Machine {
    /// Changes a queue or a record; see [`Engine::control`](crate::Engine::control).
    pub fn control(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        control: Control,
    ) -> Result<Controlled> {
        self.checks(now).control(&control)?;
        self.begin(now)?;
        match control {
            Control::Pause { queue } => self.set_paused(namespace, &queue, true),
            Control::Resume { queue } => self.set_paused(namespace, &queue, false),
            Control::Purge {
                queue,
                cursor,
                limit,
            } => self.purge(namespace, &queue, cursor.as_ref(), limit),
            Control::DeleteQueue { queue } => self.delete_queue(namespace, &queue),
            Control::Read { name } => {
                let key = self
                    .namespace(namespace)
                    .map(|namespace| RecordKey { namespace, name });
                let row = key
                    .map(|key| self.rows.records.get(&key))
                    .transpose()?
                    .flatten();
                Ok(Controlled::Record(row.map(|row| VersionedRecord {
                    version: row.version,
                    value: row.value,
                })))
            }
            Control::Names {
                prefix,
                cursor,
                limit,
            } => self.names(namespace, &prefix, cursor.as_ref(), limit),
            Control::BlockedShares {
                queue,
                cursor,
                limit,
            } => self.blocked_shares(namespace, &queue, cursor.as_ref(), limit),
            Control::Write {
                name,
                expected,
                value,
            } => self.write(namespace, name, expected, value),
            Control::Guarded {
                guard,
                value,
                effects,
            } => self.guarded(self.now, namespace, guard, value, &effects),
            Control::BlockShare { queue, share, span } => {
                self.block_share(namespace, &queue, &share, Some(span))
            }
            Control::PauseShare { queue, share } => {
                self.block_share(namespace, &queue, &share, None)
            }
            Control::BlockLimit { name, span } => self.block_limit(namespace, &name, span),
            Control::Limits { after, limit } => self.read_limits(namespace, &after, limit),
            Control::Limit { name } => self.read_limit(namespace, name),
            Control::Schedules { after, limit } => self.schedules(namespace, after, limit),
            Control::Schedule { name, act } => self.act_on_schedule(namespace, name, act),
            Control::Flows { after, limit } => self.flows(namespace, after, limit),
            Control::Flow { name, act } => self.act_on_flow(namespace, name, act),
            Control::Dependants { of, after, limit } => {
                self.dependants(namespace, &of, after, limit)
            }
        }
    }

    fn set_paused(
        &mut self,
        namespace: &Namespace,
        queue: &str,
        paused: bool,
    ) -> Result<Controlled> {
        let namespace = self.namespace_or_new(namespace);
        let id = self.queue_or_new(namespace, queue);
        let row = &mut self.queue_mut(id)?.row;
        let changes = std::mem::replace(&mut row.paused, paused) != paused;
        if changes && !paused && !is_injected(Bug::WakeupForgotten) {
            self.signals.notify(id);
        }
        Ok(Controlled::Done(changes))
    }

    fn names(
        &self,
        namespace: &Namespace,
        prefix: &str,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Controlled> {
        let request = Request::of(format_args!("names {namespace} {prefix}"));
        let after = request.text(cursor)?;
        let Some(namespace) = self.namespace(namespace) else {
            return Ok(Controlled::Names {
                names: Vec::new(),
                cursor: None,
            });
        };
        let key = |name: &str| RecordKey {
            namespace,
            name: name.to_owned(),
        };
        let (first, after) = (key(prefix), after.map(key));
        let end = RecordKey {
            namespace: namespace + 1,
            name: String::new(),
        };
        let from = match &after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(&first),
        };
        let found = (self.rows.records).scan(from, Bound::Excluded(&end), false, limit)?;
        let is_last = found.len() < limit;
        let mut names: Vec<String> = found.into_iter().map(|(key, _)| key.name).collect();
        let with_prefix = names.partition_point(|name| name.starts_with(prefix));
        let is_last = is_last || with_prefix < names.len();
        names.truncate(with_prefix);
        let last = names.last().filter(|_| !is_last);
        let cursor = last.map(|last| request.cursor(last.as_bytes()));
        Ok(Controlled::Names { names, cursor })
    }

    fn write(
        &mut self,
        namespace: &Namespace,
        name: String,
        expected: u64,
        value: Option<RecordValue>,
    ) -> Result<Controlled> {
        let namespace = self.namespace_or_new(namespace);
        let key = RecordKey { namespace, name };
        let before = self.rows.records.get(&key)?;
        let version = before.as_ref().map_or(0, |row| row.version);
        if version != expected {
            return Err(Control::version_conflict(&key.name, expected, version));
        }
        if let Some(queue) = key.name.strip_prefix(SETTINGS_PREFIX) {
            let settings = match &value {
                Some(RecordValue::Queue(settings)) => settings.clone(),
                _ => QueueSettings::default(),
            };
            let id = self.queue_or_new(namespace, queue);
            let before = self.queue_state(id)?.share_settings();
            self.set_settings(id, settings)?;
            let after = self.queue_state(id)?.share_settings();
            self.bound_shares(id, &before, &after, self.counters.version + 1)?;
        }
        if let Some(name) = key.name.strip_prefix(LIMIT_PREFIX) {
            let settings = match &value {
                Some(RecordValue::Limit(settings)) => Some(*settings),
                _ => None,
            };
            self.check_room_for_limit(namespace, name)?;
            self.set_limit(namespace, name, settings)?;
        }
        if let Some(name) = key.name.strip_prefix(SCHEDULE_PREFIX) {
            let before = before.map(|row| row.value);
            self.change_schedule(namespace, name, before.as_ref(), value.as_ref())?;
        }
        Ok(Controlled::Written(self.put_record(key, value)))
    }

    /// Keeps a record's value under a new version.
    pub(super) fn put_record(&mut self, key: RecordKey, value: Option<RecordValue>) -> u64 {
        self.counters.version += 1;
        let version = self.counters.version;
        match value {
            Some(value) => {
                self.rows
                    .records
                    .put(&mut self.journal, key, RecordRow { version, value })
            }
            None => self.rows.records.remove(&mut self.journal, &key),
        }
        version
    }

    /// Lets the stored settings of queues be obeyed, after recovery.
    pub(super) fn obey_settings(&mut self) -> Result<()> {
        for (key, row) in
            self.rows
                .records
                .scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?
        {
            match row.value {
                RecordValue::Queue(settings) => {
                    if let Some(queue) = key.name.strip_prefix(SETTINGS_PREFIX) {
                        let id = self.queue_or_new(key.namespace, queue);
                        self.set_settings(id, settings)?;
                    }
                }
                RecordValue::Limit(settings) => {
                    if let Some(limit) = key.name.strip_prefix(LIMIT_PREFIX) {
                        let all = self.derived.named.settings.entry(key.namespace);
                        all.or_default().insert(limit.to_owned(), settings);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
