//! The reference model: claim.

use crate::engine::{Claim, ClaimOrder, Claimed, Lease, Token, WakeBy, WorkerPlace};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobState, check_name};
use crate::time::{Timestamp, days, millis};

use super::enqueue::is_until_started;
use super::{Holding, Space, Turn};

/// Who makes the choices that the law leaves open.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice<'a> {
    /// The model: the line whose first job comes first, and the next fence.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the stand-in of the tests"))]
    Own,
    /// The engine that answered this: its lines and fences, where it was free to choose them.
    Of(&'a Claimed),
}

impl Choice<'_> {
    /// The job that was chosen for that place, over all leases.
    fn job(&self, place: usize) -> Option<JobId> {
        match self {
            Self::Own => None,
            Self::Of(claimed) => (claimed.leases.iter().flat_map(|lease| &lease.jobs))
                .nth(place)
                .map(|job| job.id),
        }
    }

    /// The leases as sizes and fences; the last one takes what is over.
    fn leases(&self, next_fence: u64) -> Vec<(usize, u64)> {
        match self {
            Self::Of(claimed) if !claimed.leases.is_empty() => (claimed.leases.iter())
                .map(|lease| (lease.jobs.len(), lease.token.fence))
                .collect(),
            _ => vec![(usize::MAX, next_fence)],
        }
    }
}

impl Space {
    /// What a claim answers.
    pub(crate) fn claim(
        &mut self,
        now: Timestamp,
        claim: &Claim,
        choice: Choice<'_>,
    ) -> Result<Claimed> {
        check(claim)?;
        self.saw_worker(now, claim);
        let again = |holding: &&Holding| {
            holding.worker == claim.worker.id && holding.token.nonce == claim.nonce
        };
        let again: Vec<Holding> = self.holdings.iter().filter(again).cloned().collect();
        if !again.is_empty() {
            return Ok(self.answer(now, claim, choice, &again));
        }
        let suspect = if claim.mode.is_alone() {
            self.chosen_suspect(now, claim, choice)
        } else {
            None
        };
        let chosen = match suspect {
            Some(suspect) => {
                let queue = self.jobs[suspect].record.queue.clone();
                self.note_start(&queue, now);
                vec![suspect]
            }
            None => self.chosen_jobs(now, claim, choice),
        };
        let holdings = self.hold_out(now, claim, choice, &chosen, suspect.is_some());
        Ok(self.answer(now, claim, choice, &holdings))
    }

    fn chosen_suspect(&self, now: Timestamp, claim: &Claim, choice: Choice<'_>) -> Option<usize> {
        let has_one = |queue: &&String| {
            self.gives(queue, claim, 0) && !self.heads(queue, now, true).is_empty()
        };
        let queue = claim.queues.iter().find(has_one)?;
        self.pick(&self.heads(queue, now, true), choice.job(0))
    }

    /// The jobs in the order of the claim; each is active from its choice on.
    fn chosen_jobs(&mut self, now: Timestamp, claim: &Claim, choice: Choice<'_>) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        let mut bytes_left = self.limits.claim_bytes(claim.max_bytes);
        let mut turn = 0;
        while chosen.len() < claim.limit {
            let queues = (0..claim.queues.len()).map(|n| match claim.order {
                ClaimOrder::Strict => n,
                ClaimOrder::Turns => (turn + n) % claim.queues.len(),
            });
            let found = queues
                .filter(|n| self.gives(&claim.queues[*n], claim, chosen.len()))
                .map(|n| (n, self.heads(&claim.queues[n], now, false)))
                .find(|(_, heads)| !heads.is_empty());
            let Some((queue, heads)) = found else {
                break;
            };
            turn = queue + 1;
            let size = |job: usize| self.jobs[job].record.payload.len();
            let fits = |job: usize| chosen.is_empty() || size(job) <= bytes_left;
            let wanted = choice.job(chosen.len());
            let ended = matches!(choice, Choice::Of(_)) && wanted.is_none();
            if ended && heads.iter().any(|head| !fits(*head)) {
                break;
            }
            match self.pick(&heads, wanted) {
                Some(job) if fits(job) => {
                    bytes_left = bytes_left.saturating_sub(size(job));
                    self.jobs[job].record.state = JobState::Active;
                    self.note_start(&claim.queues[queue], now);
                    chosen.push(job);
                }
                _ => break,
            }
        }
        chosen
    }

    /// The job that was wanted if it is one of these, else the first of them.
    fn pick(&self, heads: &[usize], wanted: Option<JobId>) -> Option<usize> {
        let is_wanted = |head: &&usize| Some(self.jobs[**head].record.id) == wanted;
        (heads.iter().find(is_wanted))
            .or_else(|| heads.iter().min_by_key(|head| self.jobs[**head].place()))
            .copied()
    }

    /// The first claimable job of each line of the first priority of a queue that has any.
    fn heads(&self, queue: &str, now: Timestamp, suspects: bool) -> Vec<usize> {
        if self.is_paused(queue) || self.closed(queue, now).is_closed() {
            return Vec::new();
        }
        (0..10)
            .map(|priority| self.heads_of(queue, now, suspects, priority))
            .find(|heads| !heads.is_empty())
            .unwrap_or_default()
    }

    /// The first job of each line of one priority that may be claimed.
    pub(super) fn heads_of(
        &self,
        queue: &str,
        now: Timestamp,
        suspects: bool,
        priority: u8,
    ) -> Vec<usize> {
        let stands_there = |job: &usize| {
            let record = &self.jobs[*job].record;
            record.priority == priority
                && record.is_suspect() == suspects
                && self.may_be_claimed(*job, queue, now)
                && !self.line_holds_back(*job, now)
        };
        let mut heads: Vec<usize> = Vec::new();
        for job in (0..self.jobs.len()).filter(stands_there) {
            let entry = &self.jobs[job];
            let line = |other: &usize| self.jobs[*other].group_key() == entry.group_key();
            match heads.iter().position(line) {
                None => heads.push(job),
                Some(at) if entry.place() < self.jobs[heads[at]].place() => heads[at] = job,
                Some(_) => {}
            }
        }
        heads
    }

    /// Whether it is ready and its group lets it go.
    pub(super) fn may_be_claimed(&self, job: usize, queue: &str, now: Timestamp) -> bool {
        let entry = &self.jobs[job];
        entry.is_in(queue)
            && entry.state(now) == JobState::Ready
            && self.group_active(job).is_none()
            && self.group_held_by(job).is_none()
    }

    /// Whether a job before it in the line of its group waits for another kind of claim: a suspect
    /// for one that is alone, or one that is none for any.
    fn line_holds_back(&self, job: usize, now: Timestamp) -> bool {
        let entry = &self.jobs[job];
        let before = self.of_same_group(job, |other| {
            other.record.is_suspect() != entry.record.is_suspect()
                && other.state(now) == JobState::Ready
                && other.record.priority == entry.record.priority
                && other.place() < entry.place()
        });
        before.is_some() && !entry.holds_group_back()
    }

    /// The active job of a job's group, if there is one.
    pub(super) fn group_active(&self, job: usize) -> Option<usize> {
        self.of_same_group(job, |other| other.is_active())
    }

    /// The other job that waits for its next attempt and holds a job's group back.
    pub(super) fn group_held_by(&self, job: usize) -> Option<usize> {
        self.of_same_group(job, |other| other.holds_group_back())
            .filter(|by| *by != job)
    }

    pub(super) fn of_same_group(
        &self,
        job: usize,
        is: impl Fn(&super::Entry) -> bool,
    ) -> Option<usize> {
        let entry = &self.jobs[job];
        entry.group_key()?;
        (self.jobs.iter()).position(|other| {
            other.is_in(&entry.record.queue) && other.group_key() == entry.group_key() && is(other)
        })
    }

    fn hold_out(
        &mut self,
        now: Timestamp,
        claim: &Claim,
        choice: Choice<'_>,
        chosen: &[usize],
        alone: bool,
    ) -> Vec<Holding> {
        let mut holdings = Vec::new();
        let mut rest = chosen;
        let leases = choice.leases(self.fence + 1);
        for (nth, (jobs, fence)) in leases.iter().enumerate() {
            let last = nth + 1 == leases.len();
            let (lease, left) = rest.split_at(if last {
                rest.len()
            } else {
                (*jobs).min(rest.len())
            });
            rest = left;
            if lease.is_empty() {
                continue;
            }
            let holding = Holding {
                token: Token {
                    fence: (*fence).max(self.fence + 1),
                    nonce: claim.nonce,
                },
                worker: claim.worker.id,
                deadline: now + claim.lease_duration,
                span: claim.lease_duration,
                extended_after_pause: false,
                alone,
                with_engine: claim.place == WorkerPlace::WithEngine,
                jobs: lease.iter().map(|job| self.jobs[*job].record.id).collect(),
            };
            self.fence = holding.token.fence;
            for job in lease {
                self.start(*job, now, &holding);
            }
            self.holdings.push(holding.clone());
            holdings.push(holding);
        }
        holdings
    }

    fn start(&mut self, job: usize, now: Timestamp, holding: &Holding) {
        let entry = &mut self.jobs[job];
        if is_until_started(&entry.record) {
            entry.holds_key = false;
        }
        entry.turn = Turn::ByDue;
        let record = &mut entry.record;
        record.state = JobState::Active;
        record.attempt += 1;
        record.started_at = Some(now);
        record.worker = Some(holding.worker.0);
        record.lease_until = Some(holding.deadline);
    }

    fn answer(
        &self,
        now: Timestamp,
        claim: &Claim,
        choice: Choice<'_>,
        holdings: &[Holding],
    ) -> Claimed {
        let job = |id: &JobId| self.find_whole(*id).map(|job| self.jobs[job].seen(now));
        let lease = |holding: &Holding| Lease {
            token: holding.token,
            deadline: holding.deadline,
            jobs: holding.jobs.iter().filter_map(job).collect(),
        };
        let ready = |suspects: bool| {
            (claim.queues.iter()).any(|queue| !self.heads(queue, now, suspects).is_empty())
        };
        let for_it = |suspects: bool| {
            let of = |queue: &&String| self.gives(queue, claim, 0);
            (claim.queues.iter().filter(of))
                .any(|queue| !self.heads(queue, now, suspects).is_empty())
        };
        let more = for_it(false) || claim.mode.is_alone() && for_it(true);
        Claimed {
            leases: holdings.iter().map(lease).collect(),
            now,
            wake_at: if more {
                Some(now)
            } else {
                self.wake_at(now, &claim.queues, choice)
            },
            suspects_wait: ready(true),
            wake_by: WakeBy::Claimer,
            limited: Vec::new(),
        }
    }
}

fn check(claim: &Claim) -> Result<()> {
    let refuse = |what: &str| {
        Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{what} is out of range"),
        ))
    };
    for queue in &claim.queues {
        check_name("queue", queue)?;
    }
    if claim.queues.is_empty() || claim.queues.len() > 64 {
        return refuse("number of queues");
    }
    if !(1..=1_000).contains(&claim.limit) {
        return refuse("limit");
    }
    if claim.lease_duration < millis(1) || claim.lease_duration > days(1) {
        return refuse("lease_duration");
    }
    Ok(())
}
