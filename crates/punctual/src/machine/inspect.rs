//! Get and list.

use std::ops::Bound;

use bytes::Bytes;

use super::Machine;
use super::codec::{Reader, Writer};
use super::cursor::{Fixed, Request, bad_cursor};
use super::jobs::Loaded;
use super::named_rows::KeptBackKey;
use super::rows::*;
use super::share_rows::SharePlaceKey;
use crate::engine::{Filter, Got, List, ListBy, Listing, Namespace, Target};
use crate::error::Result;
use crate::job::{JobId, JobState};
use crate::time::Timestamp;

/// What a search found.
pub(super) struct Found {
    pub(super) jobs: Vec<Loaded>,
    pub(super) examined: usize,
    /// Where the search goes on.
    pub(super) position: Option<Vec<u8>>,
}

/// Entries of an index, each with the position after it; one that stands for no job of
/// the search is examined all the same, so that a call is bounded.
pub(super) type Candidates = Vec<(Option<JobId>, Vec<u8>)>;

impl Machine {
    /// Answers jobs; see [`Engine::get`](crate::Engine::get).
    pub fn get(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        targets: &[Target],
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.checks(now).targets(targets)?;
        self.begin(now)?;
        targets
            .iter()
            .map(|target| self.get_one(namespace, target, explain))
            .collect()
    }

    fn get_one(
        &mut self,
        namespace: &Namespace,
        target: &Target,
        explain: bool,
    ) -> Result<Option<Got>> {
        let (Some(id), Some(namespace)) =
            (self.resolve(namespace, target)?, self.namespace(namespace))
        else {
            return Ok(None);
        };
        let key = JobKey { namespace, id };
        let Some(job) = self.load(&key)? else {
            let tombstone = self.rows.tombstones.get(&key)?;
            return Ok(tombstone.map(|tombstone| Got::Tombstone {
                id,
                state: tombstone.state,
                result: tombstone.result,
                finished_at: tombstone.finished_at,
            }));
        };
        let job = if self.expire_if_late(job.clone())? {
            self.load_indexed(&key)?
        } else {
            job
        };
        let explanation = if explain {
            Some(self.explain(&job)?)
        } else {
            None
        };
        Ok(Some(Got::Job(Box::new(self.record(&job)?), explanation)))
    }

    /// Lists jobs; see [`Engine::list`](crate::Engine::list).
    pub fn list(&mut self, now: Timestamp, namespace: &Namespace, list: &List) -> Result<Listing> {
        self.checks(now).list(list)?;
        let (by, filter) = (&list.by, &list.filter);
        let request = Request::of(format_args!("list {namespace} {by:?} {filter:?}"));
        let position = request.position(list.cursor.as_ref())?;
        self.begin(now)?;
        let found = self.find(namespace, by, filter, position, list.limit)?;
        let mut jobs = Vec::with_capacity(found.jobs.len());
        for job in &found.jobs {
            let mut record = self.record(job)?;
            if !list.payloads {
                record.memos.clear();
                record.payload = Bytes::new();
            }
            jobs.push(record);
        }
        Ok(Listing {
            jobs,
            examined: found.examined,
            cursor: found.position.map(|position| request.cursor(&position)),
            now: self.now,
        })
    }

    /// Reads an index for what a filter matches, a bounded number.
    pub(super) fn find(
        &mut self,
        namespace: &Namespace,
        by: &ListBy,
        filter: &Filter,
        position: Option<&[u8]>,
        limit: usize,
    ) -> Result<Found> {
        let nothing = Found {
            jobs: Vec::new(),
            examined: 0,
            position: None,
        };
        let Some(namespace) = self.namespace(namespace) else {
            return Ok(nothing);
        };
        let candidates = self.candidates(namespace, by, position, limit)?;
        let Some(candidates) = candidates else {
            return Ok(nothing);
        };
        let examined = candidates.len();
        let position = (examined == limit)
            .then(|| candidates.last().map(|(_, after)| after.clone()))
            .flatten();
        let mut jobs = Vec::new();
        for (id, _) in candidates {
            let Some(id) = id else { continue };
            let Some(job) = self.load(&JobKey { namespace, id })? else {
                continue;
            };
            if matches!(by, ListBy::State { state, .. } if *state != job.status.state(self.now)) {
                continue;
            }
            if matches!(by, ListBy::Limit { name } if !job.limits().contains(name)) {
                continue;
            }
            if filter.matches(&self.record(&job)?, self.now) {
                jobs.push(job);
            }
        }
        Ok(Found {
            jobs,
            examined,
            position,
        })
    }

    fn candidates(
        &mut self,
        namespace: u32,
        by: &ListBy,
        cursor: Option<&[u8]>,
        limit: usize,
    ) -> Result<Option<Candidates>> {
        let queue = match by {
            ListBy::All => return self.by_id(namespace, cursor, limit).map(Some),
            ListBy::Limit { name } => {
                return self.by_limit(namespace, name, cursor, limit).map(Some);
            }
            ListBy::State { queue, .. }
            | ListBy::Unique { queue, .. }
            | ListBy::Group { queue, .. } => self.queue(namespace, queue),
        };
        let Some(queue) = queue else { return Ok(None) };
        let found = match by {
            ListBy::State { state, .. } => self.by_state(queue, *state, cursor, limit)?,
            ListBy::Unique { key, .. } => {
                let holder = self.holder(queue, key)?;
                let ids = holder
                    .into_iter()
                    .flat_map(|holder| [Some(holder.id), holder.follower])
                    .flatten();
                let seen = match cursor {
                    None => 0,
                    Some([nth]) => *nth,
                    Some(_) => return Err(bad_cursor()),
                };
                let numbered = ids.zip(1..).skip(usize::from(seen)).take(limit);
                numbered.map(|(id, nth)| (Some(id), vec![nth])).collect()
            }
            ListBy::Group { key, .. } => self.by_group(queue, key, cursor, limit)?,
            ListBy::All | ListBy::Limit { .. } => Vec::new(),
        };
        Ok(Some(found))
    }

    fn by_id(&self, namespace: u32, cursor: Option<&[u8]>, limit: usize) -> Result<Candidates> {
        let start = JobKey {
            namespace,
            id: JobId::from_bytes([0; 16]),
        };
        let end = JobKey {
            namespace: namespace + 1,
            id: JobId::from_bytes([0; 16]),
        };
        let fixed = Fixed::first(&start, 4);
        let after: Option<JobKey> = fixed.read(cursor)?;
        let from = after
            .as_ref()
            .map_or(Bound::Included(&start), Bound::Excluded);
        let found = self
            .rows
            .specs
            .scan(from, Bound::Excluded(&end), false, limit)?;
        Ok(found
            .into_iter()
            .map(|(key, _)| (Some(key.id), fixed.write(&key)))
            .collect())
    }

    pub(super) fn by_state(
        &mut self,
        queue: u32,
        state: JobState,
        cursor: Option<&[u8]>,
        limit: usize,
    ) -> Result<Candidates> {
        match state {
            JobState::Held => {
                let (start, end) = (
                    SeqKey { queue, seq: 0 },
                    SeqKey {
                        queue: queue + 1,
                        seq: 0,
                    },
                );
                let fixed = Fixed::first(&start, 4);
                let after: Option<SeqKey> = fixed.read(cursor)?;
                let from = after
                    .as_ref()
                    .map_or(Bound::Included(&start), Bound::Excluded);
                let found = self
                    .rows
                    .held
                    .scan(from, Bound::Excluded(&end), false, limit)?;
                Ok(found
                    .into_iter()
                    .map(|(key, id)| (Some(id), fixed.write(&key)))
                    .collect())
            }
            JobState::Scheduled => {
                let fixed = Fixed::first(&DueKey::start_of(queue), 4);
                let after: Option<DueKey> = fixed.read(cursor)?;
                let found =
                    self.rows
                        .due
                        .page(queue, after.map(|key| (key.due, key.seq)), limit)?;
                let scheduled = self.are_scheduled(queue, &found)?;
                Ok(found
                    .into_iter()
                    .zip(scheduled)
                    .map(|((key, id), is)| (is.then_some(id), fixed.write(&key)))
                    .collect())
            }
            JobState::Ready => self.ready_jobs(queue, cursor, limit),
            JobState::Active => self.active_jobs(queue, cursor, limit),
            JobState::Completed | JobState::Cancelled | JobState::Dead => {
                self.kept_jobs(queue, state, cursor, limit)
            }
        }
    }

    /// Settled jobs, the latest first.
    fn kept_jobs(
        &self,
        queue: u32,
        state: JobState,
        cursor: Option<&[u8]>,
        limit: usize,
    ) -> Result<Candidates> {
        let key = |state| KeptKey {
            queue,
            state,
            finished_at: Timestamp::ZERO,
            seq: 0,
        };
        let (start, end) = (key(state as u8), key(state as u8 + 1));
        let fixed = Fixed::first(&start, 5);
        let before: Option<KeptKey> = fixed.read(cursor)?;
        let to = before
            .as_ref()
            .map_or(Bound::Excluded(&end), Bound::Excluded);
        let found = self
            .rows
            .kept
            .scan(Bound::Included(&start), to, true, limit)?;
        Ok(found
            .into_iter()
            .map(|(key, kept)| (Some(kept.id), fixed.write(&key)))
            .collect())
    }

    /// Ready jobs: ungrouped ones lane by lane, then those of shares, then groups by key, then due
    /// ones not yet moved; those that named limits keep back last.
    fn ready_jobs(
        &mut self,
        queue: u32,
        cursor: Option<&[u8]>,
        limit: usize,
    ) -> Result<Candidates> {
        let (mut part, mut rest) = match cursor {
            None | Some([]) => (0, None),
            Some([part @ 0..=23, rest @ ..]) => (*part, (!rest.is_empty()).then_some(rest)),
            Some(_) => return Err(bad_cursor()),
        };
        let mut found: Candidates = Vec::new();
        while found.len() < limit && part <= 23 {
            let want = limit - found.len();
            let here = match part {
                0..20 => self.lane_jobs(queue, part, rest, want)?,
                20 => self.share_jobs(queue, rest, want)?,
                21 => self.line_jobs(queue, rest, want)?,
                22 => self.unmoved_jobs(queue, rest, want)?,
                _ => self.kept_back_jobs(queue, rest, want)?,
            };
            let stay = |(id, after): (Option<JobId>, Vec<u8>)| (id, [vec![part], after].concat());
            found.extend(here.into_iter().map(stay));
            rest = None;
            if found.len() < limit {
                part += 1;
            }
        }
        Ok(found)
    }

    /// Which places in the due index are of scheduled jobs: others are held until then.
    fn are_scheduled(&self, queue: u32, found: &[(DueKey, JobId)]) -> Result<Vec<bool>> {
        let namespace = self.queue_state(queue)?.namespace;
        let key = |(_, id): &(DueKey, JobId)| JobKey { namespace, id: *id };
        let keys: Vec<JobKey> = found.iter().map(key).collect();
        self.rows.status.read_ahead(keys.iter())?;
        let is = |key: &JobKey| {
            let status = self.rows.status.get(key)?;
            Ok(status.is_none_or(|status| status.place != JobState::Held))
        };
        keys.iter().map(is).collect()
    }

    fn lane_jobs(
        &self,
        queue: u32,
        lane: u8,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Candidates> {
        let fixed = Fixed::first(&PlaceKey::start_of(queue, lane), 5);
        let after: Option<PlaceKey> = fixed.read(after)?;
        let places = self.places_after(queue, lane, after.as_ref(), limit)?;
        let found = places.into_iter();
        // The jobs of a group are found in its line.
        Ok(found
            .map(|(key, place)| (place.job(), fixed.write(&key)))
            .collect())
    }

    fn share_jobs(&self, queue: u32, after: Option<&[u8]>, limit: usize) -> Result<Candidates> {
        let fixed = Fixed::first(&SharePlaceKey::start_of(queue, 0, ""), 4);
        let after: Option<SharePlaceKey> = fixed.read(after)?;
        let places = self.share_places_after(queue, after.as_ref(), limit)?;
        let found = places.into_iter();
        Ok(found
            .map(|(key, place)| (place.job(), fixed.write(&key)))
            .collect())
    }

    fn kept_back_jobs(&self, queue: u32, after: Option<&[u8]>, limit: usize) -> Result<Candidates> {
        let fixed = Fixed::first(&KeptBackKey::start_of(queue, "", 0), 4);
        let after: Option<KeptBackKey> = fixed.read(after)?;
        let places = self.kept_back_after(queue, after.as_ref(), limit)?;
        let found = places.into_iter();
        Ok(found
            .map(|(key, row)| (row.alone(), fixed.write(&key)))
            .collect())
    }

    fn line_jobs(&self, queue: u32, after: Option<&[u8]>, limit: usize) -> Result<Candidates> {
        let key = |queue| LineKey::start_of(queue, "", 0);
        let (start, end) = (key(queue), key(queue + 1));
        let fixed = Fixed::first(&start, 4);
        let after: Option<LineKey> = fixed.read(after)?;
        let from = after
            .as_ref()
            .map_or(Bound::Included(&start), Bound::Excluded);
        let found = self
            .rows
            .lines
            .scan(from, Bound::Excluded(&end), false, limit)?;
        Ok(found
            .into_iter()
            .map(|(key, entry)| (Some(entry.id), fixed.write(&key)))
            .collect())
    }

    fn unmoved_jobs(
        &mut self,
        queue: u32,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Candidates> {
        let fixed = Fixed::first(&DueKey::start_of(queue), 4);
        let after: Option<DueKey> = fixed.read(after)?;
        let found = self
            .rows
            .due
            .page(queue, after.map(|key| (key.due, key.seq)), limit)?;
        let scheduled = self.are_scheduled(queue, &found)?;
        let found = found.into_iter().zip(scheduled);
        let due = found.take_while(|((key, _), _)| key.due <= self.now);
        Ok(due
            .map(|((key, id), is)| (is.then_some(id), fixed.write(&key)))
            .collect())
    }

    /// Active jobs, lease by lease in the order of their fences.
    pub(super) fn active_jobs(
        &self,
        queue: u32,
        cursor: Option<&[u8]>,
        limit: usize,
    ) -> Result<Candidates> {
        let (fence, place) = match cursor {
            None => (0, 0),
            Some(bytes) => {
                let mut reader = Reader(bytes);
                let bad = |_| bad_cursor();
                let fence = reader.u64().map_err(bad)?;
                let place = reader.u32().map_err(bad)?;
                if !reader.0.is_empty() {
                    return Err(bad_cursor());
                }
                (fence, place as usize + 1)
            }
        };
        let mut found = Vec::new();
        for open in self.queue_state(queue)?.leases.range(fence..).copied() {
            let key = FenceKey { fence: open };
            let Some(lease) = self.rows.leases.get(&key)? else {
                continue;
            };
            let skip = if open == fence { place } else { 0 };
            for (index, id) in lease.jobs.iter().enumerate().skip(skip) {
                let job = self.leased(lease.namespace, *id, open)?;
                let job = job.filter(|job| job.spec.queue == queue);
                let mut after = Writer::default();
                after.u64(open);
                after.u32(index as u32);
                found.push((job.map(|job| job.key.id), after.0));
                if found.len() == limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    fn by_group(
        &self,
        queue: u32,
        group: &str,
        cursor: Option<&[u8]>,
        limit: usize,
    ) -> Result<Candidates> {
        let key = |seq| MemberKey {
            queue,
            group: group.to_owned(),
            seq,
        };
        let (start, end) = (key(0), key(u64::MAX));
        let fixed = Fixed::but_last(&start, size_of::<u64>());
        let after: Option<MemberKey> = fixed.read(cursor)?;
        let from = after
            .as_ref()
            .map_or(Bound::Included(&start), Bound::Excluded);
        let found = self
            .rows
            .members
            .scan(from, Bound::Included(&end), false, limit)?;
        Ok(found
            .into_iter()
            .map(|(key, id)| (Some(id), fixed.write(&key)))
            .collect())
    }
}
