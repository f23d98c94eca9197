//! Takes the jobs, stores them, and puts them back on request.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::time::Duration;

use punctual::backoff::Backoff;
use punctual::engine::{EditVerdict, EnqueueVerdict, Got, Target};
use punctual::time::{days, pause, seconds};
use punctual::{Due, Error, ErrorKind, JobId, JobState, Namespace, NewJob, Queue, Result};

use super::Migration;
use super::found::{Place, Shape};
use super::parking::{Parked, Parking};
use super::plan::{PAGE, entry};
use crate::message::foreign_id;

/// The pause between two passes of a watch.
const WATCH: Duration = seconds(1);
/// Failures after which a migration that does not watch gives up.
const FAILURES_MAX: u32 = 10;

/// What a migration did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// Jobs stored.
    pub enqueued: u64,
    /// Jobs that were stored before: a killed migration went on.
    pub duplicates: u64,
    /// Jobs that the last pass left where they are, by the reason.
    pub stays: BTreeMap<String, u64>,
}

/// What an undo did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Returned {
    /// Jobs that are where they were.
    pub returned: u64,
    /// Jobs that run, or have run: they stay here.
    pub ran: u64,
    /// Jobs whose name is in use again over there: they stay parked.
    pub conflicts: u64,
    /// Jobs whose place holds something else by now, by the reason: they stay here.
    pub stays: BTreeMap<String, u64>,
}

impl Migration {
    /// Takes every job that can be carried. Parked copies stay for `keep`. With `watch` it goes on
    /// with what is added, until the shutdown. Dropping it at any point is safe.
    pub async fn run(
        &self,
        (queue, namespace): (&Queue, &Namespace),
        keep: Duration,
        watch: bool,
        moved: &mut Moved,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<()> {
        let mut shutdown = std::pin::pin!(shutdown);
        let (mut backoff, mut failures) = (Backoff::engine(), 0);
        let into = (queue, namespace);
        loop {
            let passed = tokio::select! {
                biased;
                () = shutdown.as_mut() => return Ok(()),
                passed = self.pass(into, keep, moved) => passed,
            };
            let span = match passed {
                Ok(()) if !watch => return Ok(()),
                Ok(()) => {
                    failures = 0;
                    backoff.reset();
                    WATCH
                }
                Err(error) if error.is_retryable() && (watch || failures < FAILURES_MAX) => {
                    failures += 1;
                    tracing::warn!(%error, "a migration failed and starts again");
                    backoff.pause()
                }
                Err(error) => return Err(error),
            };
            tokio::select! {
                biased;
                () = shutdown.as_mut() => return Ok(()),
                () = pause(span) => {}
            }
        }
    }

    /// Takes what is there.
    async fn pass(
        &self,
        into: (&Queue, &Namespace),
        keep: Duration,
        moved: &mut Moved,
    ) -> Result<()> {
        let mut connection = self.key.connect().await?;
        self.version(&mut connection).await?;
        self.check_known(&mut connection).await?;
        self.check_pause(&mut connection, into).await?;
        let mut parking = Parking::open(&self.key).await?;
        self.bind(&mut parking, into).await?;
        let queue = into.0;
        self.go_on(&mut parking, queue, keep, moved).await?;
        moved.stays.clear();
        for place in self.places.iter().enumerate() {
            if place.1.stays.is_none() {
                self.drain(&mut parking, place, queue, keep, moved).await?;
            }
        }
        parking.close().await
    }

    /// Stores what was parked and not stored.
    async fn go_on(
        &self,
        parking: &mut Parking,
        queue: &Queue,
        keep: Duration,
        moved: &mut Moved,
    ) -> Result<()> {
        let unstored = parking.unstored().await?;
        for numbers in unstored.chunks(PAGE) {
            self.store(parking, numbers, queue, keep, moved).await?;
        }
        Ok(())
    }

    /// Empties a place of what can be carried.
    async fn drain(
        &self,
        parking: &mut Parking,
        (index, place): (usize, &super::Place),
        queue: &Queue,
        keep: Duration,
        moved: &mut Moved,
    ) -> Result<()> {
        let hash = self.format.hash_key("").unwrap_or_default();
        if let Some(why) = self.is_odd(&mut parking.connection, place).await? {
            *entry(&mut moved.stays, why) += 1;
            return Ok(());
        }
        // So many of the next ones are left.
        let mut left = 0;
        loop {
            let page = self.page(&mut parking.connection, place, left).await?;
            if page.is_empty() {
                return Ok(());
            }
            let mut wanted = Vec::new();
            for listed in page {
                match self.read(&listed.found, JobId::new(), &listed.name) {
                    Ok(Some(_)) => wanted.push((listed.name, listed.handle)),
                    Ok(None) => left += 1,
                    Err(why) => {
                        *entry(&mut moved.stays, why) += 1;
                        left += 1;
                    }
                }
            }
            if wanted.is_empty() {
                continue;
            }
            let taken = parking.take((index, place), &hash, &wanted).await?;
            if taken.is_empty() {
                // A worker was faster, or the same name is there twice.
                left += wanted.len();
            }
            self.store(parking, &taken, queue, keep, moved).await?;
        }
    }

    fn id_of(parking: &Parking, job: &Parked) -> JobId {
        let name = format!("{} {}", job.number, job.name);
        foreign_id(&format!("migrate {}", parking.identity), &name)
    }

    /// The attempts that a job had before it was taken.
    fn attempt_of(&self, parking: &Parking, one: &Parked) -> u32 {
        let read = self.read(&one.found, Self::id_of(parking, one), &one.name);
        let past = read.ok().flatten().and_then(|job| job.history);
        past.map_or(0, |past| past.attempt)
    }

    /// Stores parked jobs. What the engine refuses goes back to its place.
    async fn store(
        &self,
        parking: &mut Parking,
        numbers: &[u64],
        queue: &Queue,
        keep: Duration,
        moved: &mut Moved,
    ) -> Result<()> {
        let parked = parking.read(numbers, &self.places).await?;
        let (mut jobs, mut refused) = (Vec::new(), Vec::new());
        for one in &parked {
            match self.read(&one.found, Self::id_of(parking, one), &one.name) {
                Ok(Some(job)) => jobs.push((one, job)),
                Ok(None) => refused.push((one, "it is of another queue".to_owned())),
                Err(why) => refused.push((one, why)),
            }
        }
        let mut stored = Vec::new();
        for (one, verdict) in enqueue_all(queue, jobs).await? {
            match verdict {
                Ok(true) => moved.enqueued += 1,
                Ok(false) => moved.duplicates += 1,
                Err(why) => {
                    refused.push((one, why));
                    continue;
                }
            }
            stored.push(one);
        }
        if !stored.is_empty() {
            parking.stored(&stored, keep).await?;
        }
        if refused.is_empty() {
            return Ok(());
        }
        let hash = self.format.hash_key("").unwrap_or_default();
        let back: Vec<&Parked> = refused.iter().rev().map(|(one, _)| *one).collect();
        parking.put_back(&back, &self.places, &hash).await?;
        let (one, why) = &refused[0];
        let message = "the engine refuses a job, which is back in its place; nothing is lost";
        Err(Error::new(ErrorKind::Permanent, message)
            .with("job", &one.name)
            .with("error", why))
    }

    /// Puts back what has not run: its job is cancelled, and it is where it was, in its order.
    pub async fn undo(&self, queue: &Queue, namespace: &Namespace) -> Result<Returned> {
        let mut connection = self.key.connect().await?;
        if !Parking::has_begun(&mut connection, &self.key).await? {
            let message = "no migration of the queue has run; check the queue and the prefix";
            return Err(Error::new(ErrorKind::NotFound, message).with("queue", &self.queue));
        }
        let mut parking = Parking::open(&self.key).await?;
        self.version(&mut parking.connection).await?;
        self.bind(&mut parking, (queue, namespace)).await?;
        // Else a job that was stored, and not noted so, would be here and there.
        self.go_on(&mut parking, queue, days(7), &mut Moved::default())
            .await?;
        let hash = self.format.hash_key("").unwrap_or_default();
        let odd = self.odd_places(&mut parking).await?;
        let mut returned = Returned::default();
        let mut until = parking.last().await?;
        while until > 0 {
            let from = until.saturating_sub(PAGE as u64);
            let numbers: Vec<u64> = (from + 1..=until).rev().collect();
            until = from;
            let mut parked = parking.read(&numbers, &self.places).await?;
            // A job whose place is taken stays as it is: cancelled here, it would be nowhere.
            let before = parked.len();
            parking.keep_free(&mut parked, &hash).await?;
            returned.conflicts += (before - parked.len()) as u64;
            parked.retain(|job| match odd.get(&home_of(&self.places, job)) {
                Some(why) => {
                    *entry(&mut returned.stays, why.clone()) += 1;
                    false
                }
                None => true,
            });
            if parked.is_empty() {
                continue;
            }
            let back = self
                .withdraw(&mut parking, (queue, namespace), &parked)
                .await?;
            returned.ran += (parked.len() - back.len()) as u64;
            if !back.is_empty() {
                let done = parking.put_back(&back, &self.places, &hash).await?;
                returned.returned += done;
                returned.conflicts += back.len() as u64 - done;
            }
        }
        if let Some(marker) = self.format.wakes() {
            parking.wake(&marker).await?;
        }
        parking.close().await?;
        Ok(returned)
    }

    /// Places whose key holds another type by now, and why that is so.
    async fn odd_places(&self, parking: &mut Parking) -> Result<HashMap<usize, String>> {
        let mut odd = HashMap::new();
        for (index, place) in self.places.iter().enumerate() {
            if let Some(why) = self.is_odd(&mut parking.connection, place).await? {
                odd.insert(index, why);
            }
        }
        Ok(odd)
    }

    /// Cancels those that have not run, and answers them.
    async fn withdraw<'a>(
        &self,
        parking: &mut Parking,
        (queue, namespace): (&Queue, &Namespace),
        parked: &'a [Parked],
    ) -> Result<Vec<&'a Parked>> {
        let noted = parking.are_undone(parked).await?;
        let targets: Vec<Target> = parked
            .iter()
            .map(|one| Target::Id(Self::id_of(parking, one)))
            .collect();
        let got = queue.engine().get(namespace, targets, false).await?;
        let (mut back, mut pending, mut dead) = (Vec::new(), Vec::new(), Vec::new());
        for ((one, got), noted) in parked.iter().zip(got).zip(noted) {
            match got {
                // One that was claimed here since has had an attempt more.
                Some(Got::Job(record, _))
                    if record.state.is_pending()
                        && record.attempt <= self.attempt_of(parking, one) =>
                {
                    pending.push(one);
                }
                // A failed job that was not redriven.
                Some(Got::Job(record, _))
                    if record.state == JobState::Dead
                        && ["failed", "dead"].contains(&one.found.state) =>
                {
                    dead.push(one);
                }
                // An undo was killed after it had cancelled the job.
                Some(Got::Job(record, _)) if noted && record.state == JobState::Cancelled => {
                    back.push(one);
                }
                Some(Got::Tombstone { state, .. }) if noted && state == JobState::Cancelled => {
                    back.push(one);
                }
                None if noted => back.push(one),
                _ => {}
            }
        }
        let noted: Vec<&Parked> = pending.iter().chain(&dead).copied().collect();
        if noted.is_empty() {
            return Ok(back);
        }
        parking.note_undo(&noted).await?;
        for one in pending {
            let id = Self::id_of(parking, one);
            // A worker may claim it now: what is due in a year is claimed by none, and cancelled.
            let later = queue.reschedule(id, Due::After(days(365))).await?;
            if matches!(later, EditVerdict::Done(_))
                && matches!(queue.cancel(id).await?, EditVerdict::Done(_))
            {
                back.push(one);
            }
        }
        for one in dead {
            let id = Self::id_of(parking, one);
            if matches!(queue.delete(id).await?, EditVerdict::Done(_)) {
                back.push(one);
            }
        }
        // In the order of their taking, the last first.
        back.sort_by_key(|one| std::cmp::Reverse(one.number));
        Ok(back)
    }
}

/// The place to which a job goes back: what a worker held waits in its queue then.
fn home_of(places: &[Place], job: &Parked) -> usize {
    let is_held = places.get(job.place).map(|place| place.shape) == Some(Shape::Held);
    if is_held { 0 } else { job.place }
}

/// Whether a job is new, or why it is refused.
type Stored = Result<bool, String>;

/// The error for a job that the engine has in another form, which only a migration gave it.
fn stored_elsewhere(one: &Parked) -> Error {
    let message = "the engine has the job already, from a migration into another queue; run it \
                   again with the same --into and --namespace; the job stays parked";
    Error::new(ErrorKind::InvalidInput, message).with("job", &one.name)
}

/// Enqueues jobs; waits while the engine is full or away.
async fn enqueue_all<'a>(
    queue: &Queue,
    mut jobs: Vec<(&'a Parked, NewJob)>,
) -> Result<Vec<(&'a Parked, Stored)>> {
    let mut done = Vec::with_capacity(jobs.len());
    let mut backoff = Backoff::engine();
    let mut at_once = usize::MAX;
    while !jobs.is_empty() {
        let rest = jobs.split_off(jobs.len().min(at_once));
        let sent = jobs.iter().map(|(_, job)| job.clone());
        match queue.enqueue_many(sent.collect::<Vec<_>>()).await {
            Ok(receipts) => {
                let mut again = Vec::new();
                for (at, (one, job)) in jobs.into_iter().enumerate() {
                    match receipts.get(at).map(|receipt| receipt.verdict) {
                        Some(EnqueueVerdict::Duplicate) => done.push((one, Ok(false))),
                        Some(verdict) if verdict.is_accepted() => done.push((one, Ok(true))),
                        Some(EnqueueVerdict::Full | EnqueueVerdict::ShareFull(_)) | None => {
                            again.push((one, job))
                        }
                        // It was stored before: put back, it would run there too.
                        Some(EnqueueVerdict::IdConflict) => return Err(stored_elsewhere(one)),
                        Some(verdict) => done.push((one, Err(verdict.name().to_owned()))),
                    }
                }
                let waits = !again.is_empty();
                jobs = again;
                jobs.extend(rest);
                if waits {
                    pause(backoff.pause()).await;
                }
            }
            Err(error) if error.is_retryable() => {
                jobs.extend(rest);
                pause(backoff.pause()).await;
            }
            Err(error) if jobs.len() == 1 => {
                let refused = jobs.pop().map(|(one, _)| (one, Err(error.to_string())));
                done.extend(refused);
                jobs = rest;
            }
            // One of them is why: from here on each is sent alone.
            Err(_) => {
                at_once = 1;
                jobs.extend(rest);
            }
        }
    }
    Ok(done)
}
