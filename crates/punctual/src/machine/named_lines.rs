//! Lines of named limits: ready places of a queue that a closed limit keeps back. Each has left its
//! lane, so that a claim costs what it takes; it comes back when its limit is open.

use std::ops::Bound;

use super::Machine;
use super::jobs::Loaded;
use super::lanes::SUSPECT_LANE;
use super::named_rows::*;
use super::rows::*;
use crate::error::Result;
use crate::job::JobId;
use crate::time::{Timestamp, seconds};

/// Queues that a freed slot of a limit wakes; others read the limit once a second.
const QUEUES_WOKEN: usize = 64;
/// Lines of one queue that one claim reads.
const LINES_OPENED: usize = 64;
/// Jobs of one line that statistics read: of the first one another limit may be closed.
const HEADS: usize = 4;
/// How often a queue reads a full limit that does not know it.
const POLL_EVERY: std::time::Duration = seconds(1);

fn line_key(queue: u32, limit: &str) -> QueueText {
    QueueText {
        queue,
        text: limit.to_owned(),
    }
}

impl Machine {
    /// A job with named limits came into the line of its queue or got a lease, or has left it.
    pub(super) fn count_named(&mut self, id: u32, up: bool) -> Result<()> {
        self.change_named_jobs(id, |all| {
            all.jobs = if up {
                all.jobs + 1
            } else {
                all.jobs.saturating_sub(1)
            };
        })
    }

    fn change_named_jobs(&mut self, id: u32, change: impl FnOnce(&mut NamedJobs)) -> Result<()> {
        let queue = self.queue_mut(id)?;
        let before = queue.named.take();
        let had = before.is_some();
        let none = || Box::new(NamedJobs::NONE);
        let mut all = before.unwrap_or_else(none);
        change(&mut all);
        let has = *all != NamedJobs::NONE;
        queue.named = has.then_some(all);
        let queues = &mut self.derived.named.queues;
        *queues = (*queues + usize::from(has)).saturating_sub(usize::from(had));
        if had && !has {
            let key = line_key(id, "");
            self.rows.named_jobs.remove(&mut self.journal, &key);
        }
        Ok(())
    }

    /// Writes how many jobs with named limits a queue has, if it has any.
    pub(super) fn save_named_jobs(&mut self, id: u32) {
        let queue = self.derived.queues.get(&id);
        if let Some(all) = queue.and_then(|queue| queue.named.as_deref()) {
            let (key, row) = (line_key(id, ""), all.clone());
            self.rows.named_jobs.put(&mut self.journal, key, row);
        }
    }

    /// Whether a place before this one waits for a limit: it is not to be overtaken by jobs that
    /// cost less.
    pub(super) fn waits_before(&self, place: &PlaceKey, limit: &str) -> Result<bool> {
        if !self.has_kept_back(place.queue) {
            return Ok(false);
        }
        let lane = place.lane / SUSPECT_LANE * SUSPECT_LANE;
        let first = self.first_kept_back(place.queue, limit, lane)?;
        Ok(first.is_some_and(|(key, _)| key.place() < *place))
    }

    fn has_kept_back(&self, queue: u32) -> bool {
        self.kept_back_of(queue) > 0
    }

    /// Places of a queue that named limits keep back.
    pub(super) fn kept_back_of(&self, queue: u32) -> u64 {
        if self.derived.named.queues == 0 {
            return 0;
        }
        let queue = self.derived.queues.get(&queue);
        let named = queue.and_then(|queue| queue.named.as_ref());
        named.map_or(0, |all| all.kept_back)
    }

    /// Puts a place that stands in no lane into the line of a limit.
    pub(super) fn keep_back(&mut self, key: &PlaceKey, row: KeptBack, limit: &str) -> Result<()> {
        let queue = key.queue;
        let namespace = self.queue_state(queue)?.namespace;
        let own = KeptBackKey::of(key, limit);
        self.rows.kept_back.put(&mut self.journal, own, row);
        let by = KeptBy {
            limit: limit.to_owned(),
        };
        (self.rows.kept_by).put(&mut self.journal, key.clone(), by);
        let line = self.rows.limit_lines.get(&line_key(queue, limit))?;
        let is_new = line.is_none();
        let mut line = line.unwrap_or(LimitLine {
            places: 0,
            until: Timestamp::MAX,
        });
        line.places += 1;
        if is_new {
            let opens = opens_key(queue, limit, line.until);
            self.rows.limit_opens.put(&mut self.journal, opens, ());
        }
        (self.rows.limit_lines).put(&mut self.journal, line_key(queue, limit), line);
        self.change_named(namespace, limit, |row| {
            row.waiting += 1;
            if is_new && row.queues.len() < QUEUES_WOKEN {
                row.queues.push(queue);
            }
        })?;
        self.change_named_jobs(queue, |all| all.kept_back += 1)?;
        self.file_line(queue, limit)
    }

    /// Takes a place out of the line of the limit that keeps it back; whether one does.
    pub(super) fn take_kept_back(&mut self, key: &PlaceKey) -> Result<bool> {
        if !self.has_kept_back(key.queue) {
            return Ok(false);
        }
        let Some(by) = self.rows.kept_by.get(key)? else {
            return Ok(false);
        };
        self.leave_limit(key, &by.limit)?;
        self.file_line(key.queue, &by.limit)?;
        Ok(true)
    }

    fn leave_limit(&mut self, key: &PlaceKey, limit: &str) -> Result<()> {
        let queue = key.queue;
        let namespace = self.queue_state(queue)?.namespace;
        let own = KeptBackKey::of(key, limit);
        self.rows.kept_back.remove(&mut self.journal, &own);
        self.rows.kept_by.remove(&mut self.journal, key);
        let line = self.rows.limit_lines.get(&line_key(queue, limit))?;
        let mut line = line.ok_or_else(|| super::codec::damaged("line of a limit"))?;
        line.places = line.places.saturating_sub(1);
        let is_gone = line.places == 0;
        if is_gone {
            let opens = opens_key(queue, limit, line.until);
            self.rows.limit_opens.remove(&mut self.journal, &opens);
            (self.rows.limit_lines).remove(&mut self.journal, &line_key(queue, limit));
        } else {
            (self.rows.limit_lines).put(&mut self.journal, line_key(queue, limit), line);
        }
        self.change_named(namespace, limit, |row| {
            row.waiting = row.waiting.saturating_sub(1);
            if is_gone {
                row.queues.retain(|other| *other != queue);
            }
        })?;
        self.change_named_jobs(queue, |all| all.kept_back = all.kept_back.saturating_sub(1))
    }

    /// Files a line by when its first place may go, and wakes a worker for it if that is news.
    pub(super) fn file_line(&mut self, queue: u32, limit: &str) -> Result<()> {
        let Some(mut line) = self.rows.limit_lines.get(&line_key(queue, limit))? else {
            return Ok(());
        };
        let Some((_, head)) = self.first_kept_back(queue, limit, 0)? else {
            return Ok(());
        };
        let namespace = self.queue_state(queue)?.namespace;
        let limits = self.limits_of(namespace, limit);
        let row = self.named_row(namespace, limit)?;
        let closed = row.closed(&limits, head.cost, self.now);
        let is_woken = row.queues.contains(&queue);
        // One that came when others had all places takes one that is free by now.
        let adopts = !is_woken && row.queues.len() < QUEUES_WOKEN;
        let until = match closed.map(|closed| closed.until) {
            None => self.now,
            Some(Some(until)) => until,
            Some(None) if is_woken || adopts => Timestamp::MAX,
            Some(None) => self.now + POLL_EVERY,
        };
        if adopts && until == Timestamp::MAX {
            self.change_named(namespace, limit, |row| row.queues.push(queue))?;
        }
        let is_news = until <= self.now || until < line.until;
        if until != line.until {
            let opens = opens_key(queue, limit, line.until);
            self.rows.limit_opens.remove(&mut self.journal, &opens);
            line.until = until;
            let opens = opens_key(queue, limit, until);
            self.rows.limit_opens.put(&mut self.journal, opens, ());
            (self.rows.limit_lines).put(&mut self.journal, line_key(queue, limit), line);
        }
        if is_news {
            self.notify_work(queue, false)?;
        }
        Ok(())
    }

    /// The first place of a line in that lane or one after it.
    fn first_kept_back(
        &self,
        queue: u32,
        limit: &str,
        lane: u8,
    ) -> Result<Option<(KeptBackKey, KeptBack)>> {
        let start = KeptBackKey::start_of(queue, limit, lane);
        let end = KeptBackKey::start_of(queue, limit, u8::MAX);
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        self.rows.kept_back.first(bounds.0, bounds.1)
    }

    /// Places of a queue whose limits are open stand in their lanes again, so many of them and a
    /// suspect of each limit. The limits whose lines were read; their lines are to be filed again
    /// after the claim.
    pub(super) fn open_lines(&mut self, queue: u32, want: usize) -> Result<Vec<String>> {
        let due = self.due_lines(queue)?;
        let mut left = want;
        let mut opened = Vec::with_capacity(due.len());
        for key in due {
            self.open_line(queue, &key.limit, &mut left)?;
            opened.push(key.limit);
            if left == 0 {
                break;
            }
        }
        Ok(opened)
    }

    /// The first lines of a queue that are open by now.
    fn due_lines(&self, queue: u32) -> Result<Vec<OpensKey>> {
        if !self.has_kept_back(queue) {
            return Ok(Vec::new());
        }
        let start = OpensKey::start_of(queue);
        let end = OpensKey {
            until: Timestamp::from_micros(self.now.as_micros() + 1),
            ..start.clone()
        };
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        let due = (self.rows.limit_opens).scan(bounds.0, bounds.1, false, LINES_OPENED)?;
        Ok(due.into_iter().map(|(key, ())| key).collect())
    }

    /// The first few jobs of lines of a queue that are open, each with the instant.
    pub(super) fn opened_lines(&mut self, queue: u32) -> Result<Vec<(JobId, Timestamp)>> {
        let mut opened = Vec::new();
        for key in self.due_lines(queue)? {
            let start = KeptBackKey::start_of(queue, &key.limit, 0);
            let end = KeptBackKey::start_of(queue, &key.limit, u8::MAX);
            let bounds = (Bound::Included(&start), Bound::Excluded(&end));
            let first = (self.rows.kept_back).scan(bounds.0, bounds.1, false, HEADS)?;
            opened.extend(first.into_iter().map(|(_, kept)| (kept.job, key.until)));
        }
        Ok(opened)
    }

    fn open_line(&mut self, queue: u32, limit: &str, left: &mut usize) -> Result<()> {
        let namespace = self.queue_state(queue)?.namespace;
        let limits = self.limits_of(namespace, limit);
        // What would be counted if those that go back to their lanes started.
        let mut row = self.named_row(namespace, limit)?;
        while *left > 0
            && let Some((key, kept)) = self.first_kept_back(queue, limit, 0)?
            && key.lane < SUSPECT_LANE
            && row.closed(&limits, kept.cost, self.now).is_none()
        {
            row.start(&limits, kept.cost, self.now);
            self.back_to_lane(&key, &kept, limit)?;
            *left -= 1;
        }
        let suspect = self.first_kept_back(queue, limit, SUSPECT_LANE)?;
        if let Some((key, kept)) = suspect
            && row.closed(&limits, kept.cost, self.now).is_none()
        {
            self.back_to_lane(&key, &kept, limit)?;
        }
        self.file_line(queue, limit)
    }

    fn back_to_lane(&mut self, key: &KeptBackKey, kept: &KeptBack, limit: &str) -> Result<()> {
        let place = key.place();
        self.leave_limit(&place, limit)?;
        self.add_place(place, kept.place(), kept.share.as_deref())
    }

    /// Keeps back a place that a claim met, if a limit of its job is closed; whether it did.
    pub(super) fn keep_back_closed(
        &mut self,
        key: &PlaceKey,
        place: &Place,
        share: Option<&str>,
        job: &Loaded,
    ) -> Result<bool> {
        if job.limits().is_empty() {
            return Ok(false);
        }
        let Some(limit) = self.closed_limit(job, key)? else {
            return Ok(false);
        };
        self.remove_place(key, share)?;
        let row = KeptBack::new(place, share, job.key.id, job.spec.rare.cost());
        self.keep_back(key, row, &limit)?;
        Ok(true)
    }

    /// The job whose limits keep back a place of a group, if one does.
    pub(super) fn kept_back_for(&self, key: &PlaceKey) -> Result<Option<JobId>> {
        if !self.has_kept_back(key.queue) {
            return Ok(None);
        }
        let Some(by) = self.rows.kept_by.get(key)? else {
            return Ok(None);
        };
        let row = (self.rows.kept_back).get(&KeptBackKey::of(key, &by.limit))?;
        Ok(row.map(|row| row.job))
    }

    /// When the first line of a queue opens, as far as time decides.
    pub(super) fn line_opens(&self, queue: u32) -> Result<Option<Timestamp>> {
        if !self.has_kept_back(queue) {
            return Ok(None);
        }
        let (start, end) = (OpensKey::start_of(queue), OpensKey::start_of(queue + 1));
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        let first = self.rows.limit_opens.first(bounds.0, bounds.1)?;
        let until = first.map(|(key, ())| key.until);
        Ok(until
            .filter(|until| *until < Timestamp::MAX)
            .map(|until| until.max(self.now)))
    }

    /// Whether a line of a queue is open by now.
    pub(super) fn has_open_line(&self, queue: u32) -> bool {
        let opens = self.line_opens(queue);
        opens.is_ok_and(|opens| opens.is_some_and(|at| at <= self.now))
    }

    /// Places of a queue that limits keep back, limit by limit, for listing.
    pub(super) fn kept_back_after(
        &self,
        queue: u32,
        after: Option<&KeptBackKey>,
        limit: usize,
    ) -> Result<Vec<(KeptBackKey, KeptBack)>> {
        let start = KeptBackKey::start_of(queue, "", 0);
        let end = KeptBackKey::start_of(queue + 1, "", 0);
        let from = after.map_or(Bound::Included(&start), Bound::Excluded);
        let all = &self.rows.kept_back;
        all.scan(from, Bound::Excluded(&end), false, limit)
    }

    /// Jobs before a place in the line of the limit that keeps it back, counted up to a bound; none
    /// if no limit does.
    pub(super) fn ahead_in_limit(&self, key: &PlaceKey, most: usize) -> Result<Option<usize>> {
        if !self.has_kept_back(key.queue) {
            return Ok(None);
        }
        let Some(by) = self.rows.kept_by.get(key)? else {
            return Ok(None);
        };
        let start = KeptBackKey::start_of(key.queue, &by.limit, 0);
        let own = KeptBackKey::of(key, &by.limit);
        let bounds = (Bound::Included(&start), Bound::Excluded(&own));
        let ahead = (self.rows.kept_back).scan(bounds.0, bounds.1, false, most)?;
        Ok(Some(ahead.len()))
    }
}

impl NamedJobs {
    const NONE: Self = Self {
        jobs: 0,
        kept_back: 0,
    };
}

fn opens_key(queue: u32, limit: &str, until: Timestamp) -> OpensKey {
    OpensKey {
        queue,
        until,
        limit: limit.to_owned(),
    }
}
