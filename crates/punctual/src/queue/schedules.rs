//! The producer's handle to schedules: writes, reads, pauses and removes them, runs them by hand.

use std::time::Duration;

use crate::Queue;
use crate::engine::{Control, Controlled, Receipt, RecordValue, ScheduleAct};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, NewJob};
use crate::queue::IntoNewJob;
use crate::schedule::{
    Fold, Form, Gap, Missed, Overlap, SCHEDULE_PREFIX, Schedule, ScheduleStatus, Spec, SpecBuilder,
    Success, Template,
};
use crate::time::Timestamp;

/// Reads and writes after which a change that others disturb is given up.
const TRIES_MAX: u32 = 10;
/// Schedules of one call of a list.
const PAGE: usize = 100;
/// The most instants of a backfill.
const BACKFILL_MAX: usize = 1_000;

impl Queue {
    /// A schedule of that name, written when awaited: its instants, its policies, and last the job.
    ///
    /// Safe at every start of a program: the same schedule again changes nothing, and another one
    /// counts from its write. A pause stays.
    ///
    /// ```
    /// use punctual::{MemoryEngine, NewJob, Queue};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let queue = Queue::new(MemoryEngine::new());
    /// let status = queue
    ///     .schedule("weekly-report")
    ///     .cron("0 9 * * MON")
    ///     .zone("Europe/Berlin")
    ///     .enqueue_job(NewJob::new("reports", r#"{"kind":"weekly"}"#))
    ///     .await?;
    /// assert_eq!(status.next.len(), 16);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn schedule(&self, name: impl Into<String>) -> NewSchedule {
        NewSchedule {
            queue: self.clone(),
            name: name.into(),
            spec: Spec::builder(),
            overlap: Overlap::default(),
            missed: Missed::default(),
            pause_on_failure: false,
            expect_within: None,
        }
    }

    /// What can be done with schedules that are there.
    pub fn schedules(&self) -> Schedules {
        Schedules {
            queue: self.clone(),
            expected: None,
        }
    }
}

/// A schedule on its way: set its instants and policies, then name its job and await it.
#[must_use = "nothing is written until a job is named and it is awaited"]
#[derive(Debug)]
pub struct NewSchedule {
    queue: Queue,
    name: String,
    spec: SpecBuilder,
    overlap: Overlap,
    missed: Missed,
    pause_on_failure: bool,
    expect_within: Option<Duration>,
}

impl NewSchedule {
    /// Adds a pattern of five fields: see [`SpecBuilder::cron`].
    pub fn cron(self, pattern: impl Into<String>) -> Self {
        self.edit(|spec| spec.pattern(Form::Cron, pattern))
    }

    /// Adds a pattern of any form.
    pub fn pattern(self, form: Form, pattern: impl Into<String>) -> Self {
        self.edit(|spec| spec.pattern(form, pattern))
    }

    /// Adds a run in every span, counted from 1970.
    pub fn every(self, span: Duration) -> Self {
        self.edit(|spec| spec.every(span))
    }

    /// Adds fixed instants.
    pub fn at(self, instants: impl IntoIterator<Item = Timestamp>) -> Self {
        self.edit(|spec| spec.at(instants))
    }

    /// Leaves out the times of a pattern of five fields: see [`SpecBuilder::except_cron`].
    pub fn except_cron(self, pattern: impl Into<String>) -> Self {
        self.edit(|spec| spec.except_cron(pattern))
    }

    /// Sets the zone of all patterns: `Europe/Berlin`, `UTC`.
    pub fn zone(self, name: impl Into<String>) -> Self {
        self.edit(|spec| spec.zone(name))
    }

    /// Runs that much earlier than the patterns say.
    pub fn before(self, span: Duration) -> Self {
        self.edit(|spec| spec.before(span))
    }

    /// Sets what becomes of local times that do not exist.
    pub fn gap(self, gap: Gap) -> Self {
        self.edit(|spec| spec.gap(gap))
    }

    /// Sets which is meant of local times that exist twice.
    pub fn fold(self, fold: Fold) -> Self {
        self.edit(|spec| spec.fold(fold))
    }

    /// Makes each run due up to that much later.
    pub fn jitter(self, span: Duration) -> Self {
        self.edit(|spec| spec.jitter(span))
    }

    /// Leaves out what is before that instant.
    pub fn start(self, at: Timestamp) -> Self {
        self.edit(|spec| spec.start(at))
    }

    /// Leaves out what is after that instant.
    pub fn end(self, at: Timestamp) -> Self {
        self.edit(|spec| spec.end(at))
    }

    /// Ends the schedule after that many runs.
    pub fn max_runs(self, runs: u64) -> Self {
        self.edit(|spec| spec.max_runs(runs))
    }

    /// Takes all instants from a spec instead.
    pub fn spec(self, spec: &Spec) -> Self {
        self.edit(|_| spec.parts().clone())
    }

    /// Sets what happens to a run while another one is on its way; it is skipped by default.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets what happens to runs that an outage made late; the latest one starts by default.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Pauses the schedule when a run is dead.
    pub fn pause_on_failure(mut self) -> Self {
        self.pause_on_failure = true;
        self
    }

    /// Alerts when no run has completed for that long, 1 s to 400 days: see
    /// [`Schedule::expect_within`].
    pub fn expect_within(mut self, span: Duration) -> Self {
        self.expect_within = Some(span);
        self
    }

    /// Writes the schedule, with that job for each run.
    ///
    /// # Errors
    /// As [`Schedule::check`], and `unsupported` where the engine keeps no schedules.
    pub async fn enqueue<J: Job>(self, job: J) -> Result<ScheduleStatus> {
        let job = NewJob::of(&job)?;
        self.enqueue_job(job).await
    }

    /// The same with any job: its options hold for each run.
    pub async fn enqueue_job(self, job: impl IntoNewJob) -> Result<ScheduleStatus> {
        let spec = self.spec.build()?.parts().clone();
        let schedule = Schedule {
            overlap: self.overlap,
            missed: self.missed,
            pause_on_failure: self.pause_on_failure,
            expect_within: self.expect_within,
            ..Schedule::new(spec, Template::of(job.into_new_job()?)?)
        };
        self.queue.schedules().set(&self.name, schedule).await
    }

    fn edit(mut self, change: impl FnOnce(SpecBuilder) -> SpecBuilder) -> Self {
        self.spec = change(self.spec);
        self
    }
}

/// Schedules of a namespace.
#[derive(Debug, Clone)]
pub struct Schedules {
    queue: Queue,
    expected: Option<u64>,
}

impl Schedules {
    /// Writes only if the schedule has that version, as [`ScheduleStatus::version`] says; 0 if
    /// there must be none. Else a write is refused (`version_conflict`).
    #[must_use]
    pub fn if_version(mut self, version: u64) -> Self {
        self.expected = Some(version);
        self
    }

    /// Every schedule with how it stands, by name.
    pub async fn list(&self) -> Result<Vec<ScheduleStatus>> {
        let mut found: Vec<ScheduleStatus> = Vec::new();
        loop {
            let after = found.last().map(|last| last.name.clone());
            let list = Control::Schedules {
                after: after.unwrap_or_default(),
                limit: PAGE,
            };
            let Controlled::Schedules(page) = self.control(list).await? else {
                return Err(strange());
            };
            let is_last = page.len() < PAGE;
            found.extend(page);
            if is_last {
                return Ok(found);
            }
        }
    }

    /// A schedule with how it stands, if there is one of that name.
    pub async fn get(&self, name: &str) -> Result<Option<ScheduleStatus>> {
        self.read(name, ScheduleAct::Read).await
    }

    /// Writes a schedule; the same again changes nothing. A pause and its note stay.
    pub async fn set(&self, name: &str, schedule: Schedule) -> Result<ScheduleStatus> {
        let mut schedule = schedule;
        self.write(name, |known| {
            if let Some(known) = known {
                schedule.paused = known.schedule.paused;
                schedule.note.clone_from(&known.schedule.note);
            }
            Ok(Some(schedule.clone()))
        })
        .await?
        .ok_or_else(|| missing(name))
    }

    /// Skips its runs until it is resumed; the note says why. Runs that wait already are not
    /// affected.
    pub async fn pause(&self, name: &str, note: &str) -> Result<ScheduleStatus> {
        self.change(name, |schedule| {
            schedule.paused = true;
            schedule.note = note.to_owned();
        })
        .await
    }

    /// Ends a pause. What was skipped is not caught up on.
    pub async fn resume(&self, name: &str) -> Result<ScheduleStatus> {
        self.change(name, |schedule| {
            schedule.paused = false;
            schedule.note.clear();
        })
        .await
    }

    /// Enqueues a run now, beside those that are to come. `merged` names the run that is on its
    /// way, if the overlap policy lets no other start.
    pub async fn run_now(&self, name: &str) -> Result<Receipt> {
        let runs = self.runs(name, ScheduleAct::Run).await?;
        runs.first().copied().ok_or_else(strange)
    }

    /// Cancels the next run.
    pub async fn skip_next(&self, name: &str) -> Result<ScheduleStatus> {
        let read = self.read(name, ScheduleAct::Skip).await?;
        read.ok_or_else(|| missing(name))
    }

    /// The past instants of a schedule from one on and before another: what
    /// [`backfill`](Self::backfill) would run.
    ///
    /// # Errors
    /// `invalid_input` for more than 1,000.
    pub async fn instants(
        &self,
        name: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<Timestamp>> {
        let known = self.get(name).await?.ok_or_else(|| missing(name))?;
        let now = self.queue.engine().info().await?.now;
        let spec = known.schedule.spec.build()?;
        spec.past(from, to, now, BACKFILL_MAX)
    }

    /// Enqueues the runs of past instants from one on and before another, without regard to
    /// overlaps. A run that is still known is a `duplicate`; one that settled and is forgotten runs
    /// again.
    pub async fn backfill(
        &self,
        name: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, Receipt)>> {
        let instants = self.instants(name, from, to).await?;
        let act = ScheduleAct::Backfill {
            instants: instants.clone(),
        };
        let runs = self.runs(name, act).await?;
        Ok(instants.into_iter().zip(runs).collect())
    }

    /// Brings the last success of a schedule that an import makes; one that has a success keeps it.
    ///
    /// # Errors
    /// `not_found` if there is no such schedule; `payload_too_large` for a result over
    /// [`result_bytes`](crate::Limits::result_bytes).
    pub async fn restore(&self, name: &str, last_success: Success) -> Result<ScheduleStatus> {
        let act = ScheduleAct::Restore { last_success };
        let read = self.read(name, act).await?;
        read.ok_or_else(|| missing(name))
    }

    /// Removes a schedule, and its next run with it; whether there was one. Runs that wait or are
    /// active go on.
    pub async fn remove(&self, name: &str) -> Result<bool> {
        let mut existed = false;
        self.write(name, |known| {
            existed = known.is_some();
            Ok(None)
        })
        .await?;
        Ok(existed)
    }

    async fn change(&self, name: &str, change: impl Fn(&mut Schedule)) -> Result<ScheduleStatus> {
        let changed = |known: Option<&ScheduleStatus>| {
            let mut schedule = known.ok_or_else(|| missing(name))?.schedule.clone();
            change(&mut schedule);
            Ok(Some(schedule))
        };
        let written = self.write(name, changed).await?;
        written.ok_or_else(|| missing(name))
    }

    /// Reads a schedule and writes what becomes of it, again if another caller wrote in between.
    async fn write(
        &self,
        name: &str,
        mut change: impl FnMut(Option<&ScheduleStatus>) -> Result<Option<Schedule>>,
    ) -> Result<Option<ScheduleStatus>> {
        let mut tries = 1;
        loop {
            let known = self.get(name).await?;
            let version = known.as_ref().map_or(0, |known| known.version);
            let record = format!("{SCHEDULE_PREFIX}{name}");
            Control::expect_version(&record, self.expected, version)?;
            let schedule = change(known.as_ref())?;
            if known.as_ref().map(|known| &known.schedule) == schedule.as_ref() {
                return Ok(known);
            }
            let write = Control::Write {
                name: record,
                expected: version,
                value: schedule.map(Box::new).map(RecordValue::Schedule),
            };
            match self.control(write).await {
                Ok(_) => return self.get(name).await,
                // With a version that was asked for, the next turn refuses.
                Err(error) if error.kind() == ErrorKind::VersionConflict && tries < TRIES_MAX => {
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn read(&self, name: &str, act: ScheduleAct) -> Result<Option<ScheduleStatus>> {
        match self.act(name, act).await? {
            Controlled::Schedule(status) => Ok(status.map(|status| *status)),
            _ => Err(strange()),
        }
    }

    async fn runs(&self, name: &str, act: ScheduleAct) -> Result<Vec<Receipt>> {
        match self.act(name, act).await? {
            Controlled::Runs(runs) => Ok(runs),
            _ => Err(strange()),
        }
    }

    async fn act(&self, name: &str, act: ScheduleAct) -> Result<Controlled> {
        let name = name.to_owned();
        self.control(Control::Schedule { name, act }).await
    }

    async fn control(&self, control: Control) -> Result<Controlled> {
        let inner = &*self.queue.0;
        inner.engine.control(&inner.namespace, control).await
    }
}

fn missing(name: &str) -> Error {
    let message = "there is no such schedule; `schedules list` shows all";
    Error::new(ErrorKind::NotFound, message).with("schedule", name)
}

fn strange() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the engine answered another call; please report it",
    )
}
