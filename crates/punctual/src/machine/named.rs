//! Named limits: over all queues of a namespace no more jobs with a name are active, or start, than
//! its settings say. A job starts when all of its limits are open, and then takes of each.
//!
//! What is active is what has a lease, so a slot is free in the step that ends one. A place whose
//! limit is closed leaves its lane for the line of that limit (`named_lines`), so that no claim
//! passes over it again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;

use rustc_hash::FxHashMap;

use super::Machine;
use super::jobs::Loaded;
use super::named_rows::*;
use super::rows::*;
use super::shares::Closed;
use crate::engine::{
    BLOCKED_LIMITS_MAX, ClosedShare, Controlled, LIMIT_RECORDS_MAX, LimitSettings, Namespace, Rate,
    limit_family,
};
use crate::error::{Error, ErrorKind, Result};
use crate::injected::{Bug, is_injected};
use crate::time::{Timestamp, minutes};

/// Limits that one step reads again after a change of their family, and idle ones that it
/// forgets.
const EXAMINED_MAX: usize = 250;
/// How long an idle limit is remembered after it opened: a job that has waited for another limit
/// is late since the last one opened.
const OPENING_KEPT: std::time::Duration = minutes(1);

/// What is known of named limits besides their rows.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// The settings that users wrote, by namespace and name.
    pub(super) settings: FxHashMap<u32, BTreeMap<String, LimitSettings>>,
    /// How many queues have jobs with named limits: while it is none, nothing else is asked.
    pub(super) queues: usize,
    /// How many limits are blocked, by namespace.
    blocked: FxHashMap<u32, usize>,
    /// How many rows wait only to be forgotten.
    idle: usize,
    /// After a change of a family: its namespace and prefix, and the last limit examined since.
    unchecked: Vec<(u32, String, String)>,
}

impl NamedRow {
    /// What was counted, as far as it counts under that rate.
    fn counted(&self, rate: &Rate, now: Timestamp) -> Cow<'_, RateRow> {
        match &self.counted_by {
            Some(before) if before != rate => {
                let mut counted = self.rate.clone();
                counted.changed_to(before, rate, now);
                Cow::Owned(counted)
            }
            _ => Cow::Borrowed(&self.rate),
        }
    }

    /// What keeps a job from starting that costs so many units.
    pub(super) fn closed(
        &self,
        limits: &LimitSettings,
        units: u64,
        now: Timestamp,
    ) -> Option<Closed> {
        let rate = (limits.rate).and_then(|rate| self.rate_opens(&rate, now, units));
        let blocked = self.blocked_until.filter(|until| *until > now);
        let full = limits.concurrency.is_some_and(|most| self.active >= most);
        let by = match (blocked, full, rate) {
            (Some(_), ..) => ClosedShare::Blocked,
            (_, true, _) => ClosedShare::Concurrency,
            (.., Some(_)) => ClosedShare::Rate,
            _ => return None,
        };
        let until = rate.into_iter().chain(blocked).max();
        Some(Closed {
            by,
            until: until.filter(|_| !full),
        })
    }

    /// When its rate lets a job start that costs so many units, if it does not now.
    pub(super) fn rate_opens(&self, rate: &Rate, now: Timestamp, units: u64) -> Option<Timestamp> {
        self.counted(rate, now).opens_for(rate, now, units)
    }

    /// A job that costs so many units starts.
    pub(super) fn start(&mut self, limits: &LimitSettings, units: u64, now: Timestamp) {
        self.active += 1;
        let Some(rate) = limits.rate else {
            return;
        };
        if let Cow::Owned(counted) = self.counted(&rate, now) {
            self.rate = counted;
        }
        self.counted_by = Some(rate);
        self.rate.take_units(&rate, now, units);
        let opens = self.rate.opens_for(&rate, now, 1);
        self.open_since = self.open_since.max(opens.unwrap_or(Timestamp::ZERO));
    }

    /// Until when something is to be remembered of it.
    fn remembered(&self, now: Timestamp) -> Option<Timestamp> {
        let rate = self.counted_by.as_ref();
        let rate = rate.and_then(|rate| self.rate.counts_until(rate, now));
        let blocked = self.blocked_until.map(|until| until + OPENING_KEPT);
        rate.into_iter().chain(blocked).max()
    }
}

impl Machine {
    /// The settings that hold for a limit: its own, or those of its family; and whose they are.
    pub(super) fn limit_settings<'a>(
        &self,
        namespace: u32,
        name: &'a str,
    ) -> Option<(LimitSettings, &'a str)> {
        let all = self.derived.named.settings.get(&namespace)?;
        let own = all.get(name).map(|settings| (*settings, name));
        let family = || {
            let family = limit_family(name)?;
            all.get(family).map(|settings| (*settings, family))
        };
        own.or_else(family)
    }

    pub(super) fn limits_of(&self, namespace: u32, name: &str) -> LimitSettings {
        let found = self.limit_settings(namespace, name);
        found.map_or(LimitSettings::new(), |(settings, _)| settings)
    }

    pub(super) fn named_row(&self, namespace: u32, name: &str) -> Result<NamedRow> {
        let row = self.rows.named.get(&limit_key(namespace, name))?;
        Ok(row.unwrap_or_else(NamedRow::empty))
    }

    /// Changes the row of a limit; it is there while there is something to know of it.
    pub(super) fn change_named(
        &mut self,
        namespace: u32,
        name: &str,
        change: impl FnOnce(&mut NamedRow),
    ) -> Result<()> {
        let (key, now) = (limit_key(namespace, name), self.now);
        let before = self.rows.named.get(&key)?;
        let mut row = before.clone().unwrap_or_else(NamedRow::empty);
        let was_blocked = row.blocked_until.is_some();
        change(&mut row);
        row.blocked_until = row.blocked_until.filter(|until| *until > now);
        let is_used = row.active > 0 || row.waiting > 0;
        // A place that goes back to its lane is to find since when the limit is open.
        let waited = before.as_ref().is_some_and(|row| row.waiting > 0);
        let opening = row.idle.map(|until| until.min(now + OPENING_KEPT));
        let until = row
            .remembered(now)
            .max(opening.filter(|until| *until > now));
        row.idle = until.or(waited.then_some(now)).filter(|_| !is_used);
        let idle_before = before.as_ref().and_then(|row| row.idle);
        if row.idle != idle_before {
            self.file_idle(namespace, name, idle_before, row.idle);
        }
        if was_blocked != row.blocked_until.is_some() {
            let blocked = self.derived.named.blocked.entry(namespace).or_default();
            *blocked = (*blocked + 1).saturating_sub(2 * usize::from(was_blocked));
        }
        match (is_used || row.idle.is_some(), before.is_some()) {
            (true, _) => self.rows.named.put(&mut self.journal, key, row),
            (false, true) => self.rows.named.remove(&mut self.journal, &key),
            (false, false) => {}
        }
        Ok(())
    }

    fn file_idle(
        &mut self,
        namespace: u32,
        limit: &str,
        before: Option<Timestamp>,
        after: Option<Timestamp>,
    ) {
        let key = |until| IdleLimitKey {
            until,
            namespace,
            limit: limit.to_owned(),
        };
        if let Some(until) = before {
            (self.rows.idle_limits).remove(&mut self.journal, &key(until));
            self.derived.named.idle = self.derived.named.idle.saturating_sub(1);
        }
        if let Some(until) = after {
            (self.rows.idle_limits).put(&mut self.journal, key(until), ());
            self.derived.named.idle += 1;
        }
    }

    /// The limit that keeps a job at a place from starting now: of several the one that opens last,
    /// else one for which a place before it waits in its queue.
    pub(super) fn closed_limit(&self, job: &Loaded, place: &PlaceKey) -> Result<Option<String>> {
        let mut closed: Vec<(Timestamp, &String)> = Vec::new();
        let units = u64::from(job.spec.rare.cost());
        for name in job.limits() {
            let limits = self.limits_of(job.key.namespace, name);
            let row = self.named_row(job.key.namespace, name)?;
            let found = row.closed(&limits, units, self.now);
            closed.extend(found.map(|found| (found.until.unwrap_or(Timestamp::MAX), name)));
        }
        if is_injected(Bug::OneGateIsEnough) && closed.len() < job.limits().len() {
            return Ok(None);
        }
        if let Some((_, name)) = closed.into_iter().max() {
            return Ok(Some(name.clone()));
        }
        for name in job.limits() {
            if self.waits_before(place, name)? {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    /// A job has left its place and gets a lease: it takes of each of its limits. Those that have
    /// opened after its due, and when.
    pub(super) fn named_started(&mut self, job: &Loaded) -> Result<Vec<(String, Timestamp)>> {
        if job.limits().is_empty() {
            return Ok(Vec::new());
        }
        let (namespace, now) = (job.key.namespace, self.now);
        let units = u64::from(job.spec.rare.cost());
        let mut opened = Vec::new();
        for name in job.limits() {
            let limits = self.limits_of(namespace, name);
            let mut since = Timestamp::ZERO;
            self.change_named(namespace, name, |row| {
                since = row.open_since.min(now);
                row.start(&limits, units, now);
                row.note_running(&limits, job.key.id);
            })?;
            if since > job.status.due {
                opened.push((name.clone(), since));
            }
        }
        self.count_named(job.spec.queue, true)?;
        Ok(opened)
    }

    /// A job has left its lease: a slot that was the last one lets others start.
    pub(super) fn named_freed(&mut self, job: &Loaded) -> Result<()> {
        if job.limits().is_empty() {
            return Ok(());
        }
        let (namespace, now) = (job.key.namespace, self.now);
        let others_wait = self.kept_back_of(job.spec.queue) > 0;
        for name in job.limits() {
            let limits = self.limits_of(namespace, name);
            let mut waiting = Vec::new();
            self.change_named(namespace, name, |row| {
                if limits.concurrency.is_some_and(|most| row.active >= most) {
                    row.open_since = row.open_since.max(now);
                    waiting.clone_from(&row.queues);
                }
                if others_wait {
                    row.idle = Some(row.open_since + OPENING_KEPT);
                }
                if !is_injected(Bug::NamedSlotKept) {
                    row.active = row.active.saturating_sub(1);
                }
                row.running.retain(|id| *id != job.key.id);
            })?;
            for queue in waiting {
                self.file_line(queue, name)?;
            }
        }
        self.count_named(job.spec.queue, false)
    }

    /// Checks that a namespace may have one more limit with settings.
    pub(super) fn check_room_for_limit(&self, namespace: u32, name: &str) -> Result<()> {
        let all = self.derived.named.settings.get(&namespace);
        let is_full = |all: &BTreeMap<_, _>| all.len() >= LIMIT_RECORDS_MAX;
        if all.is_some_and(|all| is_full(all) && !all.contains_key(name)) {
            let message = "namespace has too many named limits; remove some, or set one for all \
                           keys of a name";
            let error = Error::new(ErrorKind::Conflict, message);
            return Err(error.with("limit", name).with("most", LIMIT_RECORDS_MAX));
        }
        Ok(())
    }

    /// A limit gets other settings, or none.
    pub(super) fn set_limit(
        &mut self,
        namespace: u32,
        name: &str,
        settings: Option<LimitSettings>,
    ) -> Result<()> {
        let all = self.derived.named.settings.entry(namespace).or_default();
        match settings {
            Some(settings) => all.insert(name.to_owned(), settings),
            None => all.remove(name),
        };
        self.limit_changed(namespace, name)?;
        if limit_family(name).is_none() {
            let unchecked = (namespace, format!("{name}:"), String::new());
            self.derived.named.unchecked.push(unchecked);
            self.check_limits()?;
        }
        Ok(())
    }

    /// Other settings hold for a limit, or it was blocked, or is so no more.
    fn limit_changed(&mut self, namespace: u32, name: &str) -> Result<()> {
        let row = self.named_row(namespace, name)?;
        if row == NamedRow::empty() {
            return Ok(());
        }
        let (limits, now) = (self.limits_of(namespace, name), self.now);
        let queues = row.queues;
        self.change_named(namespace, name, |row| {
            // What was to open later has nothing to do with what holds now.
            row.open_since = row.open_since.min(now);
            match row.closed(&limits, 1, now) {
                None if row.waiting > 0 => row.open_since = now,
                Some(closed) => row.open_since = closed.until.unwrap_or(row.open_since),
                None => {}
            }
        })?;
        for queue in queues {
            self.file_line(queue, name)?;
        }
        Ok(())
    }

    /// Goes on with limits whose family has other settings, a bounded part.
    pub(super) fn check_limits(&mut self) -> Result<()> {
        let Some((namespace, prefix, last)) = self.derived.named.unchecked.pop() else {
            return Ok(());
        };
        let start = limit_key(namespace, if last.is_empty() { &prefix } else { &last });
        let end = limit_key(namespace + 1, "");
        let from = match last.is_empty() {
            true => Bound::Included(&start),
            false => Bound::Excluded(&start),
        };
        let found = (self.rows.named).scan(from, Bound::Excluded(&end), false, EXAMINED_MAX)?;
        let more = found.len() == EXAMINED_MAX;
        let of_family = found
            .into_iter()
            .map(|(key, _)| key.name)
            .take_while(|name| name.starts_with(&prefix));
        let names: Vec<String> = of_family.collect();
        for name in &names {
            self.limit_changed(namespace, name)?;
        }
        if let Some(last) = names.last().filter(|_| more && names.len() == EXAMINED_MAX) {
            let rest = (namespace, prefix, last.clone());
            self.derived.named.unchecked.push(rest);
        }
        Ok(())
    }

    /// Forgets limits of which nothing is to be remembered any more, a bounded part, and goes on
    /// with what a change of a family left.
    pub(super) fn sweep_limits(&mut self) -> Result<()> {
        if !self.derived.named.unchecked.is_empty() {
            self.check_limits()?;
        }
        if self.derived.named.idle == 0 {
            return Ok(());
        }
        let end = IdleLimitKey {
            until: Timestamp::from_micros(self.now.as_micros() + 1),
            namespace: 0,
            limit: String::new(),
        };
        let all = &self.rows.idle_limits;
        for (key, ()) in all.scan(Bound::Unbounded, Bound::Excluded(&end), false, EXAMINED_MAX)? {
            self.change_named(key.namespace, &key.limit, |_| {})?;
        }
        Ok(())
    }

    /// Blocks a limit for a span; zero ends a block. Whether that changed anything.
    pub(super) fn block_limit(
        &mut self,
        namespace: &Namespace,
        name: &str,
        span: std::time::Duration,
    ) -> Result<Controlled> {
        let namespace = match self.namespace(namespace) {
            Some(id) => id,
            // Nothing is blocked there, and a namespace is not made to say so.
            None if span.is_zero() => return Ok(Controlled::Done(false)),
            None => self.namespace_or_new(namespace),
        };
        let until = (!span.is_zero()).then(|| self.now + span);
        let now = self.now;
        let before = self.named_row(namespace, name)?.blocked_until;
        let before = before.filter(|until| *until > now);
        let blocked = self.derived.named.blocked.get(&namespace);
        let blocked = blocked.copied().unwrap_or(0);
        if until.is_some() && before.is_none() && blocked >= BLOCKED_LIMITS_MAX {
            let message = "too many named limits are blocked; wait for some to open";
            let error = Error::new(ErrorKind::Conflict, message);
            return Err(error.with("limit", name).with("most", BLOCKED_LIMITS_MAX));
        }
        if until != before {
            self.change_named(namespace, name, |row| row.blocked_until = until)?;
            self.limit_changed(namespace, name)?;
        }
        Ok(Controlled::Done(until != before))
    }

    /// After recovery: which queues have jobs with named limits, and how many limits are blocked.
    /// Settings of families may have changed just before the end: all lines are read again.
    pub(super) fn recover_limits(&mut self) -> Result<()> {
        let all =
            (self.rows.named_jobs).scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?;
        for (key, row) in all {
            if let Some(queue) = self.derived.queues.get_mut(&key.queue) {
                queue.named = Some(Box::new(row));
                self.derived.named.queues += 1;
            }
        }
        let all = (self.rows.named).scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?;
        for (key, row) in all {
            self.derived.named.idle += usize::from(row.idle.is_some());
            let blocked = usize::from(row.blocked_until.is_some());
            *(self.derived.named.blocked)
                .entry(key.namespace)
                .or_default() += blocked;
            for queue in &row.queues {
                self.file_line(*queue, &key.name)?;
            }
        }
        Ok(())
    }
}

pub(super) fn limit_key(namespace: u32, name: &str) -> RecordKey {
    RecordKey {
        namespace,
        name: name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
