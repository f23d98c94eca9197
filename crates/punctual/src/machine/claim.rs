//! Claim: a lease of what is ready.

use std::sync::Arc;

use super::jobs::Loaded;
use super::lanes::SUSPECT_LANE;
use super::rows::*;
use super::shares::Turn;
use super::{Machine, OpenLease};
use crate::engine::{
    Claim, ClaimOrder, Claimed, Lease, LimitedQueue, Namespace, Token, WakeBy, WorkerPlace,
};
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::{Hold, JobState};
use crate::time::Timestamp;

/// Expired jobs that one claim settles; then what it has is its answer, and there is more.
const EXPIRED_MAX: usize = 125;

/// Queue and share, or named limit, that a claim took from, and since when it lets jobs start.
type OpenedShare = (u32, String, Timestamp);

/// What a claim has taken so far.
struct Take {
    limit: usize,
    bytes_left: usize,
    full: bool,
    expired: usize,
    jobs: Vec<Loaded>,
    /// The token that the lease will get.
    fence: u64,
    /// Free slots of the worker: of limited queues it is given no more.
    slots: usize,
    /// Shares of jobs that were due before their limits opened, and when these did.
    opened: Opened,
    /// Lines of named limits that were read, by queue and limit.
    lines: Vec<(u32, String)>,
    /// Places that named limits keep back since this claim.
    kept_back: usize,
}

/// What opened after jobs of a claim were due.
#[derive(Default)]
struct Opened {
    shares: Vec<OpenedShare>,
    limits: Vec<OpenedShare>,
}

impl Take {
    fn slots_left(&self) -> usize {
        self.slots.saturating_sub(self.jobs.len())
    }

    fn has_room(&self) -> bool {
        !self.full && self.jobs.len() < self.limit
    }

    /// Counts a job that was expired and settled; whether that is enough for one claim.
    fn met_expired(&mut self) -> bool {
        self.expired += 1;
        self.full = self.expired >= EXPIRED_MAX;
        self.full
    }

    /// Counts a place that a named limit keeps back from now on; whether that is enough for one
    /// claim.
    fn met_closed(&mut self) -> bool {
        self.kept_back += 1;
        self.met_expired()
    }

    fn fits(&mut self, job: &Loaded) -> bool {
        let bytes = job.spec.payload.len();
        self.full = !self.jobs.is_empty() && bytes > self.bytes_left;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        !self.full
    }
}

impl Machine {
    /// Takes due jobs under a lease; see [`Engine::claim`](crate::Engine::claim).
    pub fn claim(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        claim: &Claim,
    ) -> Result<Claimed> {
        self.checks(now).claim(claim)?;
        self.begin(now)?;
        let namespace = self.namespace_or_new(namespace);
        let queues: Vec<u32> = claim
            .queues
            .iter()
            .map(|queue| self.queue_or_new(namespace, queue))
            .collect();
        self.history
            .seen(namespace, &claim.worker, claim.limit, self.now);
        for queue in &queues {
            self.open_shares(*queue)?;
        }
        let mut limited = self.limited(&queues);
        let slots = claim.worker.slots_for(claim.limit) as usize;
        let slots = slots.saturating_sub(claim.worker.busy as usize);
        let lease = match self
            .derived
            .claims
            .get(&(namespace, claim.worker.id.0, claim.nonce))
            .copied()
        {
            Some(fence) => Some(self.lease_again(fence)?),
            None => {
                let (lease, opened) = self.claim_lease(namespace, &queues, claim, slots)?;
                self.announce_opened(&mut limited, opened)?;
                lease
            }
        };
        let open: Vec<u32> = queues
            .iter()
            .copied()
            .filter(|queue| !self.is_paused(*queue))
            .collect();
        let mut left = false;
        self.signals.quiet(&queues);
        for queue in &open {
            if self.has_work(&[*queue], claim.mode.is_alone()) {
                // A worker without a free slot leaves a limited queue to others.
                left |= slots > 0 || !self.is_limited(*queue);
                self.signals.notify(*queue);
            }
        }
        let wake_at = if left {
            Some(self.now)
        } else {
            self.wake_at(&open)?
        };
        let suspects_wait = open.iter().any(|queue| {
            let waits =
                (SUSPECT_LANE..2 * SUSPECT_LANE).any(|lane| self.open_places(*queue, lane) > 0);
            waits && self.closed(*queue).is_none()
        });
        Ok(Claimed {
            leases: lease.into_iter().collect(),
            now: self.now,
            wake_at,
            suspects_wait,
            wake_by: WakeBy::Claimer,
            limited,
        })
    }

    fn claim_lease(
        &mut self,
        namespace: u32,
        queues: &[u32],
        claim: &Claim,
        slots: usize,
    ) -> Result<(Option<Lease>, Opened)> {
        let fence = self.next_fence();
        let bytes_left = self.limits.claim_bytes(claim.max_bytes);
        let mut take = Take {
            limit: claim.limit,
            bytes_left,
            full: false,
            expired: 0,
            jobs: Vec::new(),
            fence,
            slots,
            opened: Opened::default(),
            lines: Vec::new(),
            kept_back: 0,
        };
        if claim.mode.is_alone() {
            self.take_suspect(namespace, queues, &mut take)?;
        }
        let alone = claim.mode.is_alone() && !take.jobs.is_empty();
        if !alone {
            match claim.order {
                ClaimOrder::Strict => {
                    for queue in queues {
                        self.take_from(namespace, *queue, usize::MAX, &mut take)?;
                    }
                }
                ClaimOrder::Turns => self.take_turns(namespace, queues, &mut take)?,
            }
        }
        self.file_lines(&mut take)?;
        if take.jobs.is_empty() {
            return Ok((None, Opened::default()));
        }
        let opened = std::mem::take(&mut take.opened);
        let lease = self.open_lease(namespace, claim, alone, take)?;
        Ok((Some(lease), opened))
    }

    /// Files the lines again whose limits a claim read: it may have closed them.
    fn file_lines(&mut self, take: &mut Take) -> Result<()> {
        take.lines.sort_unstable();
        take.lines.dedup();
        for (queue, limit) in std::mem::take(&mut take.lines) {
            self.file_line(queue, &limit)?;
        }
        Ok(())
    }

    /// Reports since when shares are open, of which jobs were claimed that were due before that.
    fn announce_opened(&self, limited: &mut [LimitedQueue], opened: Opened) -> Result<()> {
        for (id, limit, since) in opened.limits {
            let name = &self.queue_state(id)?.name;
            let queue = limited.iter_mut().find(|one| one.queue == **name);
            if let Some(queue) = queue
                && !queue.limits.iter().any(|(known, _)| *known == limit)
            {
                queue.limits.push((limit, since));
            }
        }
        for (id, share, since) in opened.shares {
            let name = &self.queue_state(id)?.name;
            let queue = limited.iter_mut().find(|one| one.queue == **name);
            // The same for each job of a share, unless its limits have closed within this claim.
            if let Some(queue) = queue
                && !queue.shares.iter().any(|(known, _)| *known == share)
            {
                queue.shares.push((share, since));
            }
        }
        Ok(())
    }

    fn take_turns(&mut self, namespace: u32, queues: &[u32], take: &mut Take) -> Result<()> {
        let mut turn = queues.to_vec();
        while take.has_room() && !turn.is_empty() {
            let mut next = Vec::with_capacity(turn.len());
            for queue in turn {
                if self.take_from(namespace, queue, 1, take)? == 1 {
                    next.push(queue);
                }
            }
            turn = next;
        }
        Ok(())
    }

    /// Takes the first suspect of the first queue that has one.
    fn take_suspect(&mut self, namespace: u32, queues: &[u32], take: &mut Take) -> Result<()> {
        for queue in queues
            .iter()
            .filter(|queue| !self.is_paused(**queue))
            .copied()
            .collect::<Vec<_>>()
        {
            if self.room(queue, take.slots_left()) == 0 {
                continue;
            }
            let lines = self.open_lines(queue, 1)?;
            take.lines
                .extend(lines.into_iter().map(|limit| (queue, limit)));
            for lane in SUSPECT_LANE..2 * SUSPECT_LANE {
                self.take_lane(namespace, queue, lane, 1, take)?;
                if !take.jobs.is_empty() {
                    return self.note_claimed(queue, take.jobs.len());
                }
            }
        }
        Ok(())
    }

    /// Takes from a queue by priority; how many it took.
    fn take_from(
        &mut self,
        namespace: u32,
        queue: u32,
        most: usize,
        take: &mut Take,
    ) -> Result<usize> {
        let before = take.jobs.len();
        let most = most.min(self.room(queue, take.slots_left()));
        if most == 0 || self.is_paused(queue) {
            return Ok(0);
        }
        loop {
            let kept_back = take.kept_back;
            let want = most - (take.jobs.len() - before);
            let lines = self.open_lines(queue, want.min(take.limit))?;
            take.lines
                .extend(lines.into_iter().map(|limit| (queue, limit)));
            for lane in 0..SUSPECT_LANE {
                let taken = take.jobs.len() - before;
                if !take.has_room() || taken == most {
                    break;
                }
                self.take_lane(namespace, queue, lane, most - taken, take)?;
            }
            // A job that went from one limit's line to another's leaves room for the next one.
            let is_done = !take.has_room() || take.jobs.len() - before == most;
            if is_done || take.kept_back == kept_back {
                break;
            }
        }
        let taken = take.jobs.len() - before;
        self.note_claimed(queue, taken)?;
        Ok(taken)
    }

    fn take_lane(
        &mut self,
        namespace: u32,
        queue: u32,
        lane: u8,
        most: usize,
        take: &mut Take,
    ) -> Result<()> {
        let start = take.jobs.len();
        while take.has_room() && take.jobs.len() - start < most && self.open_places(queue, lane) > 0
        {
            if self.derived.shared > 0 && self.lane_shares(queue, lane).is_some() {
                if !self.take_turn(namespace, queue, lane, take)? {
                    return Ok(());
                }
                continue;
            }
            let want = (take.limit - take.jobs.len()).min(most - (take.jobs.len() - start));
            let places = self.places(queue, lane, want)?;
            if places.is_empty() {
                debug_assert!(false, "a lane's count is the number of its places");
                return Ok(());
            }
            let alone = |(_, place): &(PlaceKey, Place)| match place {
                Place::Job(id) => Some(JobKey { namespace, id: *id }),
                Place::Group(_) => None,
            };
            self.read_ahead(&places.iter().filter_map(alone).collect::<Vec<_>>())?;
            for (key, place) in places {
                let id = self.candidate(&key, &place)?;
                let job = self.load_indexed(&JobKey { namespace, id })?;
                if self.expire_if_late(job.clone())? {
                    if take.met_expired() {
                        return Ok(());
                    }
                    continue;
                }
                if self.keep_back_closed(&key, &place, None, &job)? {
                    if take.met_closed() {
                        return Ok(());
                    }
                    continue;
                }
                if !take.fits(&job) {
                    return Ok(());
                }
                self.activate(job, take, None)?;
            }
        }
        Ok(())
    }

    /// Takes a job of the share whose turn it is in a lane; whether there may be more.
    fn take_turn(&mut self, namespace: u32, queue: u32, lane: u8, take: &mut Take) -> Result<bool> {
        let Some(turn) = self.next_turn(queue, lane)? else {
            return Ok(false);
        };
        let (found, pass, since) = match &turn {
            Turn::Others(pass) => (self.places(queue, lane, 1)?.pop(), *pass, None),
            Turn::Share(share) => {
                let (pass, since) = self.share_stands(queue, lane, share)?;
                let head = self.share_head(queue, lane, share)?;
                if head.is_none() {
                    return Ok(!take.met_expired());
                }
                (head, pass, Some((share, since)))
            }
        };
        let Some((key, place)) = found else {
            debug_assert!(false, "a lane's count is the number of its places");
            return Ok(false);
        };
        let id = self.candidate(&key, &place)?;
        let job = self.load_indexed(&JobKey { namespace, id })?;
        if self.expire_if_late(job.clone())? {
            return Ok(!take.met_expired());
        }
        let share = since.as_ref().map(|(share, _)| share.as_str());
        if self.keep_back_closed(&key, &place, share, &job)? {
            return Ok(!take.met_closed());
        }
        if !take.fits(&job) {
            return Ok(false);
        }
        if let Some((share, since)) = since.filter(|(_, since)| *since > job.status.due) {
            take.opened.shares.push((queue, share.clone(), since));
        }
        self.activate(job, take, Some((lane, pass)))?;
        if let Turn::Others(pass) = turn {
            self.others_had_turn(queue, lane, pass)?;
        }
        Ok(true)
    }

    /// Makes a ready job active under the lease's fence.
    fn activate(
        &mut self,
        mut job: Loaded,
        take: &mut Take,
        turn: Option<(u8, u64)>,
    ) -> Result<()> {
        let (now, id) = (self.now, job.key.id);
        if let Some(group) = job.group().map(str::to_owned) {
            self.change_group(job.spec.queue, &group, |row| {
                row.holding = None;
                row.active = (!is_injected(Bug::GroupOvertaken)).then_some(id);
            })?;
        }
        self.leave_line(&job)?;
        if let Some((lane, pass)) = turn {
            self.share_started(&job, lane, pass)?;
        }
        let opened = self.named_started(&job)?.into_iter();
        let queue = job.spec.queue;
        (take.opened.limits).extend(opened.map(|(limit, since)| (queue, limit, since)));
        let status = job.status_mut();
        status.place = JobState::Active;
        status.attempt += 1;
        status.started_at = Some(now);
        status.fence = take.fence;
        if job
            .spec
            .unique
            .as_ref()
            .is_some_and(|unique| unique.hold == Hold::UntilStarted)
        {
            self.free_key(&job)?;
        }
        self.save(&job);
        let (key, spec) = (job.key.clone(), job.spec.clone());
        self.derived.active.insert(key, spec);
        self.count(job.spec.queue, JobState::Active, true)?;
        self.history.claimed(job.spec.queue, now);
        self.changed(&job);
        take.jobs.push(job);
        Ok(())
    }

    fn open_lease(
        &mut self,
        namespace: u32,
        claim: &Claim,
        alone: bool,
        take: Take,
    ) -> Result<Lease> {
        let Take { fence, jobs, .. } = take;
        let deadline = self.now + claim.lease_duration;
        let ids = jobs.iter().map(|job| job.key.id).collect();
        let row = LeaseRow {
            namespace,
            nonce: RandomBits(claim.nonce),
            worker: claim.worker.id.0,
            alone,
            with_engine: claim.place == WorkerPlace::WithEngine,
            jobs: ids,
        };
        self.rows
            .leases
            .insert(&mut self.journal, FenceKey { fence }, Arc::new(row));
        let row = DeadlineRow {
            deadline,
            lease_duration: claim.lease_duration,
            extended_after_pause: false,
        };
        self.rows
            .deadlines
            .insert(&mut self.journal, FenceKey { fence }, row);
        let mut queues: Vec<u32> = jobs.iter().map(|job| job.spec.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        let open = OpenLease {
            namespace,
            queues,
            remaining: jobs.len() as u32,
            worker: claim.worker.id.0,
            nonce: claim.nonce,
            lease_duration: claim.lease_duration,
            deadline,
            extended_after_pause: false,
        };
        self.derived.open_lease(fence, open);
        let jobs = jobs
            .iter()
            .map(|job| self.record(job))
            .collect::<Result<_>>()?;
        Ok(Lease {
            token: Token {
                fence,
                nonce: claim.nonce,
            },
            deadline,
            jobs,
        })
    }

    /// The lease of a claim whose answer was lost: what is left of it.
    fn lease_again(&mut self, fence: u64) -> Result<Lease> {
        let row = self
            .rows
            .leases
            .get(&FenceKey { fence })?
            .ok_or_else(|| super::codec::damaged("lease"))?;
        let mut jobs = Vec::new();
        for id in &row.jobs {
            if let Some(job) = self.leased(row.namespace, *id, fence)? {
                jobs.push(self.record(&job)?);
            }
        }
        let deadline = self
            .derived
            .leases
            .get(&fence)
            .map_or(self.now, |lease| lease.deadline);
        Ok(Lease {
            token: row.token(fence),
            deadline,
            jobs,
        })
    }

    /// A number larger than every fence before it, over restarts and lost writes too.
    fn next_fence(&mut self) -> u64 {
        self.counters.fence = (self.counters.fence + 1).max(self.now.as_micros());
        self.counters.fence
    }

    pub(super) fn is_paused(&self, queue: u32) -> bool {
        self.derived
            .queues
            .get(&queue)
            .is_some_and(|queue| queue.row.paused)
    }

    /// Places of a lane from which a claim may take.
    fn open_places(&self, queue: u32, lane: u8) -> u32 {
        let queue = self.derived.queues.get(&queue);
        queue.map_or(0, |queue| queue.open_places(lane))
    }

    /// Whether a claim at once could answer something.
    pub(super) fn has_work(&self, queues: &[u32], alone: bool) -> bool {
        let unmoved = |queue: &u32| {
            let head = self
                .derived
                .queues
                .get(queue)
                .and_then(|queue| queue.due_head);
            head.is_some_and(|head| head <= self.now)
        };
        queues.iter().any(|queue| {
            let state = self.derived.queues.get(queue);
            let ready = state.is_some_and(|queue| queue.has_open_places(alone));
            let ready = ready || unmoved(queue) || self.has_open_line(*queue);
            ready && self.closed(*queue).is_none()
        })
    }
}
