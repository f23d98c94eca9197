//! Enqueue: duplicate check, unique key, bound, store.

use std::sync::Arc;

use super::Machine;
use super::flows::NewLinks;
use super::jobs::Loaded;
use super::lanes::SUSPECT_LANE;
use super::named_full;
use super::rare::Rare;
use super::rows::*;
use super::unique::KeyVerdict;
use crate::engine::{EnqueueVerdict, Namespace, OnFull, Receipt};
use crate::error::Result;
use crate::flow::sent_hash;
use crate::job::{DeadReason, Due, JobId, JobRecord, JobState, NewJob, content_headers};
use crate::schedule::Occurrence;
use crate::time::Timestamp;

/// A job whose fields are checked, with the due that engine time gives it.
pub(super) struct Checked {
    job: NewJob,
    asked: Timestamp,
    /// The run of a schedule that it is.
    occurrence: Option<Occurrence>,
}

impl Checked {
    /// Checks have passed at this instant, so that no delay reaches too far.
    pub(super) fn new(now: Timestamp, job: NewJob) -> Self {
        let asked = match job.due {
            Due::Now => now,
            Due::After(span) => now + span,
            Due::At(at) => at,
        };
        let occurrence = job
            .history
            .as_ref()
            .and_then(|past| past.schedule.as_deref().cloned());
        Self {
            job,
            asked,
            occurrence,
        }
    }

    /// A run of a schedule, due at once.
    pub(super) fn run(now: Timestamp, job: NewJob, occurrence: Occurrence) -> Self {
        Self {
            job,
            asked: now,
            occurrence: Some(occurrence),
        }
    }
}

/// Jobs that wait for signals and are passed over in search of the oldest one.
const HOLDS_PASSED: usize = 64;

impl Machine {
    /// Enqueues jobs; see [`Engine::enqueue`](crate::Engine::enqueue).
    pub fn enqueue(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        jobs: Vec<NewJob>,
    ) -> Result<Vec<Receipt>> {
        self.checks(now).jobs(&jobs)?;
        let now = now.max(self.now);
        let checked = |job| Checked::new(now, job);
        let jobs: Vec<Checked> = jobs.into_iter().map(checked).collect();
        self.begin(now)?;
        let namespace = self.namespace_or_new(namespace);
        let key = |checked: &Checked| JobKey {
            namespace,
            id: checked.job.id,
        };
        let keys: Vec<_> = jobs.iter().map(key).collect();
        self.rows.specs.read_ahead(keys.iter())?;
        self.rows.tombstones.read_ahead(keys.iter())?;
        for (index, (key, Checked { job, .. })) in keys.iter().zip(&jobs).enumerate() {
            if job.remember.is_some() && self.known(key, job)?.is_none() {
                let may = self.may_remember();
                may.map_err(|error| error.with("index", index))?;
            }
        }
        self.count_more_that_wait(namespace, jobs.iter().map(|checked| &checked.job))?;
        jobs.into_iter()
            .map(|job| self.enqueue_one(namespace, job, true))
            .collect()
    }

    /// One job's enqueue; effects are not `bounded` by `max_pending`.
    pub(super) fn enqueue_one(
        &mut self,
        namespace: u32,
        checked: Checked,
        bounded: bool,
    ) -> Result<Receipt> {
        let Checked {
            job,
            asked,
            occurrence,
        } = checked;
        let late = asked < self.now;
        let due = asked.max(self.now);
        let receipt = |verdict| Receipt {
            id: job.id,
            verdict,
            due,
            late,
        };
        let key = JobKey {
            namespace,
            id: job.id,
        };
        match self.known(&key, &job)? {
            Some(Known::Same(first)) => return Ok(first),
            Some(Known::Other) => return Ok(receipt(EnqueueVerdict::IdConflict)),
            None => {}
        }
        if let Some(verdict) = self.link_refusal(namespace, &job)? {
            return Ok(receipt(verdict));
        }
        let queue = self.queue_or_new(namespace, &job.queue);
        // A past that has ended takes neither a key nor room.
        let has_settled = (job.history.as_ref()).is_some_and(|past| past.state.is_settled());
        let past = job.history.as_deref();
        let waits_as_run = waits_as_run(occurrence.as_ref(), due, past, self.now);
        let key_verdict = match &job.unique {
            Some(unique) if !has_settled && !waits_as_run => {
                self.key_verdict(queue, job.id, unique)?
            }
            _ => KeyVerdict::Free,
        };
        if let KeyVerdict::Refused(verdict) = key_verdict {
            return Ok(receipt(verdict));
        }
        if let KeyVerdict::Refreshes(holder, max_wait) = key_verdict {
            let answer = receipt(EnqueueVerdict::Refreshed(holder.key.id));
            let due = self.refresh(*holder, max_wait, job, due)?;
            return Ok(Receipt { due, ..answer });
        }
        let follows = match key_verdict {
            KeyVerdict::Follows(holder) => Some(holder),
            _ => None,
        };
        let goes = match &key_verdict {
            KeyVerdict::Replaces(holder) => self.holder_and_follower(holder)?,
            _ => Vec::new(),
        };
        let limits_decide = bounded
            && follows.is_none()
            && occurrence.is_none()
            && named_full::decides(&job, due, self.now);
        if limits_decide && let Some(nth) = self.refusing_limit(namespace, &job)? {
            return Ok(receipt(EnqueueVerdict::LimitFull(nth)));
        }
        let takes_room = bounded && !has_settled;
        if takes_room && let Some(most) = self.full_share(queue, job.share.as_deref(), &goes)? {
            return Ok(receipt(EnqueueVerdict::ShareFull(most)));
        }
        if takes_room && !self.make_room(queue, &goes)? {
            return Ok(receipt(EnqueueVerdict::Full));
        }
        let mut verdict = EnqueueVerdict::Created;
        if let KeyVerdict::Replaces(holder) = key_verdict {
            verdict = EnqueueVerdict::Replaced(holder.key.id);
            self.replace_holder(*holder)?;
        }
        if limits_decide {
            self.cancel_for(namespace, &job.limits)?;
        }
        let answer = receipt(verdict);
        let due = (due, late);
        self.store(key, queue, job, occurrence, due, follows)?;
        Ok(answer)
    }

    /// What is known of an id that was sent before.
    fn known(&mut self, key: &JobKey, job: &NewJob) -> Result<Option<Known>> {
        let is_linked = job.flow.is_some() || !job.after.is_empty();
        let link = match is_linked {
            true => self.rows.links.get(key)?,
            false => None,
        };
        let (same, due, late) = if let Some(link) = link {
            (link.sent == RandomBits(sent_hash(job)), link.due, false)
        } else if let Some(spec) = self.rows.specs.get(key)? {
            (self.same_content(&spec, job)?, spec.due, spec.late)
        } else if let Some(tombstone) = self.rows.tombstones.get(key)? {
            (
                tombstone.content == content_of_new(job),
                tombstone.due,
                tombstone.late,
            )
        } else {
            return Ok(None);
        };
        let first = Receipt {
            id: job.id,
            verdict: EnqueueVerdict::Duplicate,
            due,
            late,
        };
        Ok(Some(if same {
            Known::Same(first)
        } else {
            Known::Other
        }))
    }

    fn same_content(&self, spec: &Spec, job: &NewJob) -> Result<bool> {
        if let Some(sent) = spec.rare.sent() {
            return Ok(sent == content_of_new(job));
        }
        Ok(*self.queue_state(spec.queue)?.name == *job.queue
            && spec.kind == job.kind
            && spec.payload == job.payload
            && spec.content_type == job.content_type
            && content_headers(&spec.headers).eq(content_headers(&job.headers)))
    }

    /// Whether the queue may take one more pending job, after dead-lettering if it is set to; jobs
    /// that go anyway are neither counted nor dead-lettered.
    fn make_room(&mut self, queue: u32, goes: &[JobId]) -> Result<bool> {
        let state = self.queue_state(queue)?;
        let Some(max) = state.settings.max_pending else {
            return Ok(true);
        };
        let on_full = state.settings.on_full;
        if pending(&state.row).saturating_sub(goes.len() as u64) < max {
            return Ok(true);
        }
        if on_full == OnFull::Refuse || max == 0 {
            return Ok(false);
        }
        let Some(mut oldest) = self.oldest_pending(queue, goes)? else {
            return Ok(false);
        };
        self.displace(&oldest)?;
        oldest.status_mut().dead = Some(DeadReason::Overflow);
        self.settle_as(oldest, JobState::Dead)?;
        Ok(true)
    }

    /// The next one in line of the last priority that has any, else the next one to be due, else
    /// one of a group that is kept from its claim.
    fn oldest_pending(&mut self, queue: u32, except: &[JobId]) -> Result<Option<Loaded>> {
        let namespace = self.queue_state(queue)?.namespace;
        let wanted = except.len() + 1;
        let mut found = None;
        for priority in (0..SUSPECT_LANE).rev() {
            for lane in [priority, priority + SUSPECT_LANE] {
                for (key, place) in self.places(queue, lane, wanted)? {
                    let id = self.candidate(&key, &place)?;
                    found = found.or((!except.contains(&id)).then_some(id));
                }
                if found.is_none() && self.lane_shares(queue, lane).is_some() {
                    for (key, place, _) in self.share_heads(queue, lane, wanted)? {
                        let id = self.candidate(&key, &place)?;
                        found = found.or((!except.contains(&id)).then_some(id));
                    }
                }
            }
            if found.is_some() {
                break;
            }
        }
        if found.is_none() {
            let due = self.rows.due.page(queue, None, wanted + HOLDS_PASSED)?;
            let due = self.without_holds(namespace, due)?.into_iter();
            let lines = self.lines_of(queue, wanted)?.into_iter();
            let shares = self.share_places_after(queue, None, wanted)?.into_iter();
            let shares = shares.filter_map(|(_, place)| place.job());
            let kept = self.kept_back_after(queue, None, wanted)?.into_iter();
            let kept = kept.filter_map(|(_, row)| row.alone());
            let mut ids = due.map(|(_, id)| id).chain(lines).chain(shares).chain(kept);
            found = ids.find(|id| !except.contains(id));
        }
        found
            .map(|id| self.load_indexed(&JobKey { namespace, id }))
            .transpose()
    }

    /// Of places in the due index those of jobs that are not held until then.
    pub(super) fn without_holds(
        &self,
        namespace: u32,
        mut found: Vec<(DueKey, JobId)>,
    ) -> Result<Vec<(DueKey, JobId)>> {
        let mut held = Vec::new();
        for (_, id) in &found {
            let status = self.rows.status.get(&JobKey { namespace, id: *id })?;
            held.push(status.is_some_and(|status| status.place == JobState::Held));
        }
        let mut held = held.into_iter();
        found.retain(|_| !held.next().unwrap_or(false));
        Ok(found)
    }

    fn store(
        &mut self,
        key: JobKey,
        queue: u32,
        mut job: NewJob,
        occurrence: Option<Occurrence>,
        (due, late): (Timestamp, bool),
        follows: Option<JobId>,
    ) -> Result<()> {
        self.use_early_clears(&key, &mut job)?;
        let history = job.history.take();
        let takes_key = !waits_as_run(occurrence.as_ref(), due, history.as_deref(), self.now);
        let links = NewLinks::of(&mut job, due);
        let mut spec = self.new_spec(queue, job, occurrence, due)?;
        let link = links.as_ref().map(NewLinks::step_of);
        spec.rare = spec.rare.with_link(link);
        spec.late = late;
        if let Some(past) = &history {
            spec.enqueued_at = past.enqueued_at;
        }
        let mut status = Status::of(&spec);
        let is_linked = links.is_some();
        let is_held = links.map_or(Ok(true), |links| self.add_links(&key, links))?;
        if !is_held && status.wait_for.is_empty() {
            status.place = JobState::Scheduled;
        }
        if follows.is_some() {
            status.place = JobState::Held;
            status.follows = follows;
        }
        let mut loaded = self.insert_new(key, spec, status);
        match history {
            Some(past) => {
                import(loaded.status_mut(), &past, self.now, is_linked && is_held);
                self.save_unchecked(&loaded);
            }
            None if follows.is_some() || is_linked => self.save_unchecked(&loaded),
            None => {}
        }
        if loaded.status.place.is_settled() {
            return self.keep_imported(loaded);
        }
        self.change_members(&loaded, true)?;
        match (&loaded.spec.unique, follows) {
            (Some(unique), Some(_)) => {
                let unique = unique.key.clone();
                self.follow(queue, &unique, loaded.key.id)?;
            }
            _ if takes_key => self.take_key(&loaded)?,
            _ => {}
        }
        self.watch_expiry(&loaded);
        if loaded.is_suspect() {
            self.note_expiry(&loaded);
        }
        self.place(&loaded)?;
        if !self.expire_if_late(loaded.clone())? {
            self.changed(&loaded);
        }
        Ok(())
    }

    /// What is stored of a new job.
    pub(super) fn new_spec(
        &mut self,
        queue: u32,
        mut job: NewJob,
        occurrence: Option<Occurrence>,
        due: Timestamp,
    ) -> Result<Spec> {
        let rare = Rare::of(&mut job, occurrence);
        let mut wait_for: Vec<String> = Vec::new();
        for name in job.wait_for {
            if !wait_for.contains(&name) {
                wait_for.push(name);
            }
        }
        Ok(Spec {
            queue,
            seq: self.next_seq(queue)?,
            enqueued_at: self.now,
            due,
            late: false,
            kind: job.kind,
            payload: job.payload,
            content_type: job.content_type,
            headers: job.headers,
            expires_at: job.expires_at,
            priority: job.priority,
            unique: job.unique,
            group: job.group,
            max_attempts: job.max_attempts,
            retry: job.retry,
            timeout: job.timeout,
            retention: job.retention,
            wait_for,
            rare,
        })
    }

    /// Keeps a new job, which has no place yet.
    pub(super) fn insert_new(&mut self, key: JobKey, spec: Spec, status: Status) -> Loaded {
        let spec = Arc::new(spec);
        self.rows
            .specs
            .insert(&mut self.journal, key.clone(), spec.clone());
        self.history.enqueued(spec.queue, self.now);
        Loaded {
            key,
            spec,
            status: Arc::new(status),
        }
    }
}

/// Whether a job is a run that was exported before its instant: it takes its key when it moves.
fn waits_as_run(
    occurrence: Option<&Occurrence>,
    due: Timestamp,
    past: Option<&JobRecord>,
    now: Timestamp,
) -> bool {
    occurrence.is_some() && due > now && past.is_none_or(|past| past.attempt == 0)
}

/// An id that was sent before.
enum Known {
    /// With the same content: the first receipt, as a duplicate.
    Same(Receipt),
    /// With other content.
    Other,
}

pub(super) fn pending(row: &QueueRow) -> u64 {
    row.counts[JobState::Held as usize]
        + row.counts[JobState::Scheduled as usize]
        + row.counts[JobState::Ready as usize]
}

/// What an import knows of a job's past; whether it `waits` for others, or for its flow.
fn import(status: &mut Status, past: &JobRecord, now: Timestamp, waits: bool) {
    let held = !past.wait_for.is_empty() && past.state == JobState::Held;
    status.place = match past.state {
        JobState::Held if held => JobState::Held,
        state if !state.is_settled() && status.follows.is_some() => JobState::Held,
        state if state.is_settled() => state,
        // Its flow is to be whole first, and what it waits for may be over already.
        _ if waits => JobState::Held,
        _ => JobState::Scheduled,
    };
    let was_active = past.state == JobState::Active;
    // It ran already, whatever the clock of this engine says.
    status.due = if was_active {
        past.due.min(now)
    } else {
        past.due
    };
    status.front = was_active && !waits;
    status.wait_for = if held {
        past.wait_for.clone()
    } else {
        Vec::new()
    };
    status.attempt = past.attempt;
    status.failures = past.failures;
    status.crashes = past.crashes;
    status.expires_at = past.expires_at;
    status.started_at = past.started_at;
    // The order of what is kept goes by this: it is never to come, and always there.
    let finished_at = past.finished_at.unwrap_or(now).min(now);
    status.finished_at = status.place.is_settled().then_some(finished_at);
    status.last_error = past.last_error.clone();
    status.result = past.result.clone();
    status.progress = past.progress.clone();
    status.cancelled = past.cancelled;
    status.dead = past.dead;
    status.stopped = past.stopped;
    status.attempts = past.attempts.clone();
    status.log = past.log.clone();
    status.memos = past.memos.clone();
}

/// The hash of what makes two sends of one id the same, with the payload that was sent first.
pub(super) fn content_of(queue: &str, spec: &Spec) -> RandomBits {
    let as_it_is = || {
        content(
            queue,
            &spec.kind,
            &spec.payload,
            &spec.content_type,
            &spec.headers,
        )
    };
    spec.rare.sent().unwrap_or_else(as_it_is)
}

fn content_of_new(job: &NewJob) -> RandomBits {
    content(
        &job.queue,
        &job.kind,
        &job.payload,
        &job.content_type,
        &job.headers,
    )
}

fn content(
    queue: &str,
    kind: &str,
    payload: &[u8],
    content_type: &str,
    headers: &[(String, String)],
) -> RandomBits {
    let mut hash = Fnv::default();
    for part in [
        queue.as_bytes(),
        kind.as_bytes(),
        payload,
        content_type.as_bytes(),
    ] {
        hash.part(part);
    }
    for (name, value) in content_headers(headers) {
        hash.part(name.as_bytes());
        hash.part(value.as_bytes());
    }
    RandomBits(hash.0)
}

/// FNV-1a over eight bytes at a time, with a final mix: recognises a repetition, and is no defence.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn part(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }
}
