//! The reference model: `wake_at`.

use crate::job::JobState;
use crate::time::Timestamp;

use super::{Choice, Entry, Space};

impl Space {
    /// The next chance, or an earlier instant of those that may be one if that is what it says.
    pub(super) fn wake_at(
        &self,
        now: Timestamp,
        queues: &[String],
        choice: Choice<'_>,
    ) -> Option<Timestamp> {
        if queues.iter().all(|queue| self.is_paused(queue)) {
            return None;
        }
        let next = self.next_chance(now, queues);
        let said = match choice {
            Choice::Of(claimed) => claimed.wake_at,
            Choice::Own => None,
        };
        let earlier = |said: &Timestamp| *said > now && next.is_none_or(|next| *said < next);
        said.filter(|said| earlier(said) && self.may_be_a_chance(*said))
            .or(next)
    }

    /// An end that is one only if it keeps a job back: to know, an engine would have to look.
    fn may_be_a_chance(&self, at: Timestamp) -> bool {
        let ends = |job: &Entry| [job.record.expires_at, job.key_period_end()].contains(&Some(at));
        self.lease_ends.contains(&at) || self.jobs.iter().any(ends)
    }

    /// The earliest instant at which a job of these queues falls due, a lease of theirs ends, or
    /// something ends that keeps another job back.
    fn next_chance(&self, now: Timestamp, queues: &[String]) -> Option<Timestamp> {
        let asked = |job: &usize| {
            let is_in = |queue: &String| self.jobs[*job].is_in(queue) && !self.is_paused(queue);
            queues.iter().any(is_in)
        };
        let of_jobs = (0..self.jobs.len())
            .filter(asked)
            .flat_map(|job| self.chance(job, now));
        let is_open = |queue: &&String| !self.is_paused(queue);
        let of_rates = queues.iter().filter(is_open);
        let of_rates = of_rates.filter_map(|queue| self.rate_brings(queue, now));
        of_jobs.chain(of_rates).min()
    }

    /// When a job changes what a claim of its queue can answer. At a closed limit it is the end of
    /// a lease that does, and nothing before the rate opens.
    fn chance(&self, job: usize, now: Timestamp) -> Option<Timestamp> {
        let closed = self.closed(&self.jobs[job].record.queue, now);
        let own = self.own_chance(job, now);
        let is_lease = self.jobs[job].state(now) == JobState::Active;
        let first = match closed.concurrency {
            true => own.filter(|_| is_lease),
            false => own.into_iter().chain(self.chance_of_others(job, now)).min(),
        };
        first.map(|at| closed.rate.map_or(at, |opens| at.max(opens)))
    }

    /// When the rate of a queue opens, if a job waits for that alone.
    fn rate_brings(&self, queue: &str, now: Timestamp) -> Option<Timestamp> {
        let closed = self.closed(queue, now);
        let waits = (0..10).any(|priority| !self.heads_of(queue, now, false, priority).is_empty());
        closed.rate.filter(|_| waits && !closed.concurrency)
    }

    fn own_chance(&self, job: usize, now: Timestamp) -> Option<Timestamp> {
        let job = &self.jobs[job];
        match job.state(now) {
            JobState::Scheduled => Some(job.record.due),
            JobState::Active => job.record.lease_until,
            _ => None,
        }
    }

    fn chance_of_others(&self, job: usize, now: Timestamp) -> Option<Timestamp> {
        let entry = &self.jobs[job];
        let followed = self.follower(entry.record.id).is_some();
        let expires = followed || self.keeps_its_group_back(job, now);
        let expiry = (entry.record.expires_at).filter(|_| entry.is_pending() && expires);
        let period = (entry.key_period_end()).filter(|_| entry.holds_key && followed);
        expiry.into_iter().chain(period).min()
    }

    /// Whether a ready job of its group could go if it went.
    fn keeps_its_group_back(&self, job: usize, now: Timestamp) -> bool {
        let entry = &self.jobs[job];
        let holds = entry.holds_group_back();
        let in_front = entry.record.is_suspect() && entry.state(now) == JobState::Ready;
        let behind = |other: &Entry| {
            other.record.id != entry.record.id
                && other.state(now) == JobState::Ready
                && (holds || other.place() > entry.place())
        };
        (holds || in_front) && self.of_same_group(job, behind).is_some()
    }
}
