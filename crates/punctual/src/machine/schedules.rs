//! Schedules: the instants to come of each, refilled from its calendar, and its next run.

use std::ops::Bound;
use std::time::Duration;

use super::Machine;
use super::codec::damaged;
use super::rows::*;
use crate::engine::RecordValue;
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::{JobId, Limits};
use crate::schedule::{
    LASTS, LIST_MAX, LIST_MIN, LOW, LOW_SPAN, MISSED_MAX, Missed, Next, Occurrence, PlannedRun,
    SCHEDULE_PREFIX, Schedule, Series, tz_database,
};
use crate::time::Timestamp;

/// Instants that calendars name in one step, over all schedules.
pub(super) const INSTANTS_PER_STEP: usize = 1_024;
/// Schedules that are refilled in one step.
const REFILLS_PER_STEP: usize = 64;
/// The longest list that spans need: their instants are sums.
const SUMS_MAX: usize = 2;

impl ScheduleRow {
    /// A schedule that names instants from that one on.
    pub(super) fn from(searched: Timestamp) -> Self {
        Self {
            next: Vec::new(),
            searched,
            is_complete: false,
            pending: None,
            fired: 0,
            skipped: 0,
            missed: 0,
            last: None,
            success: None,
            expected_from: Timestamp::ZERO,
            tz_database: String::new(),
        }
    }

    /// Whether it names no instant any more, and has no run to come.
    pub(super) fn has_ended(&self) -> bool {
        self.is_complete && self.pending.is_none() && self.next.is_empty()
    }

    /// When a run should have completed at the latest, if one is expected.
    pub(super) fn expected_by(&self, schedule: &Schedule) -> Option<Timestamp> {
        let within = schedule.expect_within?;
        (!schedule.paused && !self.has_ended()).then(|| self.expected_from + within)
    }

    /// Forgets the instants that are known, and goes on with those after an instant.
    fn search_after(&mut self, at: Timestamp) {
        self.next.clear();
        self.searched = just_after(at);
        self.is_complete = false;
    }

    /// Whether a calendar has to name more instants soon.
    fn is_low(&self, now: Timestamp) -> bool {
        if self.is_complete {
            return false;
        }
        // Spans need no refill, but a long outage may take several steps.
        if self.pending.is_none() || self.tz_database.is_empty() {
            return self.pending.is_none();
        }
        let reach = self
            .next
            .last()
            .map_or(Duration::ZERO, |last| last.due - now);
        let is_short = self.next.len() < LIST_MAX / 2 && reach < LOW_SPAN;
        self.next.len() < LOW || is_short
    }
}

pub(super) fn just_after(at: Timestamp) -> Timestamp {
    at + Duration::from_micros(1)
}

impl Machine {
    /// What the user wrote, if there is such a schedule.
    pub(super) fn schedule(&self, key: &RecordKey) -> Result<Option<(u64, Box<Schedule>)>> {
        let name = format!("{SCHEDULE_PREFIX}{}", key.name);
        let namespace = key.namespace;
        let row = self.rows.records.get(&RecordKey { namespace, name })?;
        Ok(row.and_then(|row| match row.value {
            RecordValue::Schedule(schedule) => Some((row.version, schedule)),
            _ => None,
        }))
    }

    /// Obeys a schedule that is written or removed. A change counts from now on.
    pub(super) fn change_schedule(
        &mut self,
        namespace: u32,
        name: &str,
        before: Option<&RecordValue>,
        after: Option<&RecordValue>,
    ) -> Result<()> {
        let name = name.to_owned();
        let key = RecordKey { namespace, name };
        let row = self.rows.schedules.get(&key)?;
        let Some(RecordValue::Schedule(schedule)) = after else {
            if let Some((id, _)) = row.and_then(|row| row.pending) {
                self.discard_run(namespace, id)?;
            }
            if before.is_some() {
                *self.schedule_count(namespace) -= 1;
            }
            self.rows.schedules.remove(&mut self.journal, &key);
            self.derived.low_schedules.remove(&key);
            self.derived.expected.set(&key, None);
            return Ok(());
        };
        if before.is_none() {
            let most = self.limits.schedules;
            if *self.schedule_count(namespace) >= most {
                return Err(Limits::too_many_schedules(most));
            }
            *self.schedule_count(namespace) += 1;
        }
        let before = match before {
            Some(RecordValue::Schedule(before)) => Some(before),
            _ => None,
        };
        let first = just_after(self.now);
        let mut row = row.unwrap_or_else(|| ScheduleRow::from(first));
        let same_spec = before.is_some_and(|before| before.spec == schedule.spec);
        let same_job = before.is_some_and(|before| {
            before.template == schedule.template && before.overlap == schedule.overlap
        });
        let is_news = before
            .is_none_or(|before| before.paused || before.expect_within != schedule.expect_within);
        if is_news || !same_spec {
            row.expected_from = row.expected_from.max(self.now);
        }
        if !same_spec {
            row.search_after(self.now);
        }
        if !(same_spec && same_job)
            && let Some((id, instant)) = row.pending.take()
        {
            self.discard_run(namespace, id)?;
            if same_spec {
                row.next.insert(0, instant);
            }
        }
        self.advance(&key, row, schedule)
    }

    fn schedule_count(&mut self, namespace: u32) -> &mut usize {
        self.derived.schedule_counts.entry(namespace).or_default()
    }

    /// Removes a run that is to be replaced, and leaves nothing of it.
    fn discard_run(&mut self, namespace: u32, id: JobId) -> Result<()> {
        let job = self.load_indexed(&JobKey { namespace, id })?;
        self.displace(&job)?;
        self.change_members(&job, false)?;
        self.rows.specs.remove(&mut self.journal, &job.key);
        self.rows.status.remove(&mut self.journal, &job.key);
        Ok(())
    }

    /// Refills lists that are short, a bounded number.
    pub(super) fn refill_schedules(&mut self) -> Result<()> {
        for _ in 0..REFILLS_PER_STEP {
            if self.derived.instants_left == 0 {
                break;
            }
            let Some(key) = self.derived.low_schedules.pop_first() else {
                break;
            };
            if let (Some(row), Some((_, schedule))) =
                (self.rows.schedules.get(&key)?, self.schedule(&key)?)
            {
                self.advance(&key, row, &schedule)?;
            }
        }
        Ok(())
    }

    /// After recovery: lists that are short, or come from an older tz database.
    pub(super) fn recover_schedules(&mut self) -> Result<()> {
        let rows = &self.rows.schedules;
        let all = rows.scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?;
        for (key, mut row) in all {
            *self.schedule_count(key.namespace) += 1;
            let is_older = !row.tz_database.is_empty() && *row.tz_database < *tz_database();
            if is_older {
                // Newer rules may name other instants than those that are known.
                if let Some((id, _)) = row.pending.filter(|(_, next)| next.at > self.now) {
                    self.discard_run(key.namespace, id)?;
                    row.pending = None;
                }
                let searched = self
                    .now
                    .max(row.pending.map_or(self.now, |(_, next)| next.at));
                row.search_after(searched);
                row.tz_database = tz_database().into();
                self.rows
                    .schedules
                    .put(&mut self.journal, key.clone(), row.clone());
            }
            if let Some((_, schedule)) = self.schedule(&key)? {
                self.derived.expected.set(&key, row.expected_by(&schedule));
            }
            if row.is_low(self.now) {
                self.derived.low_schedules.insert(key);
            }
        }
        Ok(())
    }

    /// Puts in the next run, if none is pending: passes over what is missed, refills the list as
    /// far as this step may, and keeps the row.
    pub(super) fn advance(
        &mut self,
        key: &RecordKey,
        mut row: ScheduleRow,
        schedule: &Schedule,
    ) -> Result<()> {
        let series = Series::of(&key.name, &schedule.spec);
        if series.never_runs_dry() {
            row.tz_database.clear();
        } else {
            row.tz_database = tz_database().into();
        }
        if schedule.spec.max_runs.is_some_and(|max| row.fired >= max) {
            row.next.clear();
            row.is_complete = true;
        }
        while row.pending.is_none() {
            self.pass_missed(&mut row, &series, schedule);
            let Some(instant) = self.first_instant(&mut row, &series) else {
                break;
            };
            match self.is_missed(&mut row, &series, schedule, instant) {
                Some(false) => {}
                Some(true) => {
                    row.missed += 1;
                    continue;
                }
                None => {
                    row.next.insert(0, instant);
                    break;
                }
            }
            if let Some(id) = self.enqueue_run(key, schedule, instant)? {
                row.pending = Some((id, instant));
            }
        }
        let wanted = match series.never_runs_dry() {
            true => SUMS_MAX,
            false => LIST_MAX,
        };
        let reach = self.now + LASTS;
        let is_full = |row: &ScheduleRow| {
            let last = row.next.last();
            row.next.len() >= LIST_MIN && last.is_some_and(|last| last.at >= reach)
        };
        if row.pending.is_some() && (row.is_low(self.now) || row.next.is_empty()) {
            while row.next.len() < wanted && !is_full(&row) && self.more(&mut row, &series) {}
        }
        let can_refill = !tz_database().is_empty() || series.never_runs_dry();
        match row.is_low(self.now) && can_refill {
            true => self.derived.low_schedules.insert(key.clone()),
            false => self.derived.low_schedules.remove(key),
        };
        self.derived.expected.set(key, row.expected_by(schedule));
        self.rows.schedules.put(&mut self.journal, key.clone(), row);
        Ok(())
    }

    /// Takes the next instant off the list.
    fn first_instant(&mut self, row: &mut ScheduleRow, series: &Series<'_>) -> Option<PlannedRun> {
        if row.next.is_empty() {
            self.more(row, series);
        }
        (!row.next.is_empty()).then(|| row.next.remove(0))
    }

    /// Computes one more instant for the list; whether it has one more.
    fn more(&mut self, row: &mut ScheduleRow, series: &Series<'_>) -> bool {
        if row.is_complete || self.derived.instants_left == 0 {
            return false;
        }
        match series.next(row.searched) {
            Next::At(instant) => {
                self.derived.instants_left -= 1;
                row.searched = just_after(instant.at);
                row.next.push(instant);
                true
            }
            Next::End => {
                row.is_complete = true;
                false
            }
            Next::Unknown => false,
        }
    }

    /// Whether a run that is due is too late, by the policy; `None` if that takes instants that
    /// this step may not look up any more.
    pub(super) fn is_missed(
        &mut self,
        row: &mut ScheduleRow,
        series: &Series<'_>,
        schedule: &Schedule,
        instant: PlannedRun,
    ) -> Option<bool> {
        let late = self.now - instant.due;
        if instant.due > self.now || is_injected(Bug::MissedAllFired) {
            return Some(false);
        }
        let later = match schedule.missed {
            Missed::Latest { grace } | Missed::Skip { grace } if late <= grace => {
                return Some(false);
            }
            Missed::Skip { .. } => return Some(true),
            Missed::Latest { .. } => 1,
            Missed::All { max } => max.min(MISSED_MAX) as usize,
        };
        while row.next.len() < later {
            let is_known = row.next.last().is_some_and(|last| last.due > self.now);
            if is_known || row.is_complete {
                return Some(false);
            }
            if !self.more(row, series) && !row.is_complete {
                return None;
            }
        }
        Some(row.next[later - 1].due <= self.now)
    }

    /// Passes over all instants of a span that are missed, without a look at each.
    fn pass_missed(&mut self, row: &mut ScheduleRow, series: &Series<'_>, schedule: &Schedule) {
        let Some(span) = series.span() else { return };
        let from = row.next.first().map_or(row.searched, |first| first.at);
        let Next::At(first) = series.next(from) else {
            return;
        };
        // The last ones may start, and so may those that are within the grace: a look decides.
        let (last_ones, grace) = match schedule.missed {
            Missed::All { max } => (u64::from(max), Duration::ZERO),
            Missed::Latest { grace } | Missed::Skip { grace } => (1, grace),
        };
        let spans = |until: Timestamp| {
            let spans = (until - first.at).as_micros() / span.as_micros();
            u64::try_from(spans).unwrap_or(u64::MAX)
        };
        let last = self.now.min(schedule.spec.end.unwrap_or(Timestamp::MAX));
        let late = (grace + schedule.spec.jitter).as_micros() as u64;
        let too_late = Timestamp::from_micros(self.now.as_micros().saturating_sub(late));
        let before_last = spans(last).saturating_sub(last_ones + 1);
        let passed = before_last.min(spans(too_late));
        // Outages of years are passed over all the same: millions of runs would end the search.
        if passed == 0 || (passed < 10_000 && is_injected(Bug::MissedAllFired)) {
            return;
        }
        row.missed += passed;
        row.next.clear();
        let micros = (span.as_micros() as u64).saturating_mul(passed);
        row.searched = first.at + Duration::from_micros(micros);
    }

    /// Enqueues the run of an instant; `None` if its id is known: it has been enqueued before.
    fn enqueue_run(
        &mut self,
        key: &RecordKey,
        schedule: &Schedule,
        instant: PlannedRun,
    ) -> Result<Option<JobId>> {
        let namespace = key.namespace;
        let id = JobId::occurrence(&key.name, instant.at);
        let job_key = JobKey { namespace, id };
        if self.is_known(&job_key)? {
            return Ok(None);
        }
        let job = schedule.job(&key.name, id);
        let queue = self.queue_or_new(namespace, &job.queue);
        let occurrence = occurrence_of(&key.name, instant.at);
        let spec = self.new_spec(queue, job, Some(occurrence), instant.due)?;
        let status = Status::of(&spec);
        let job = self.insert_new(job_key, spec, status);
        self.change_members(&job, true)?;
        self.wait_for_due(&job)?;
        self.changed(&job);
        Ok(Some(id))
    }

    /// Whether a job of that id is there, or its tombstone.
    pub(super) fn is_known(&self, key: &JobKey) -> Result<bool> {
        Ok(self.rows.specs.get(key)?.is_some() || self.rows.tombstones.get(key)?.is_some())
    }

    /// The row and the schedule of a name.
    pub(super) fn known_schedule(
        &self,
        key: &RecordKey,
    ) -> Result<Option<(ScheduleRow, u64, Box<Schedule>)>> {
        let Some(row) = self.rows.schedules.get(key)? else {
            return Ok(None);
        };
        let (version, schedule) = self.schedule(key)?.ok_or_else(|| damaged("schedule"))?;
        Ok(Some((row, version, schedule)))
    }
}

pub(super) fn occurrence_of(name: &str, at: Timestamp) -> Occurrence {
    let name = name.to_owned();
    Occurrence { name, at }
}
