//! The reference model: limits. It remembers every start, and counts.

use std::time::Duration;

use crate::engine::{Claim, Rate, Reason};
use crate::job::JobState;
use crate::time::Timestamp;

use super::{Left, Space};

/// The limits of a queue that let nothing start.
#[derive(Debug, Default)]
pub(super) struct Closed {
    pub(super) concurrency: bool,
    /// When the rate lets the next job start.
    pub(super) rate: Option<Timestamp>,
}

impl Closed {
    pub(super) fn is_closed(&self) -> bool {
        self.concurrency || self.rate.is_some()
    }
}

impl Space {
    pub(super) fn closed(&self, queue: &str, now: Timestamp) -> Closed {
        let settings = self.settings(queue);
        let full = |most| self.active(queue) >= most;
        Closed {
            concurrency: settings.concurrency.is_some_and(full),
            rate: settings
                .rate
                .and_then(|rate| self.opens_at(queue, &rate, now)),
        }
    }

    pub(super) fn is_limited(&self, queue: &str) -> bool {
        self.settings(queue).has_limits()
    }

    /// Whether it has, or once had, limits: lateness may count from an instant that they chose.
    pub(crate) fn was_limited(&self, queue: &str) -> bool {
        self.limited.iter().any(|limited| limited == queue)
    }

    fn active(&self, queue: &str) -> u64 {
        let here = self.jobs.iter().filter(|job| job.left == Left::Whole);
        let active =
            here.filter(|job| job.record.queue == queue && job.record.state == JobState::Active);
        active.count() as u64
    }

    /// When a window has one start fewer than it may, if it has not now.
    fn opens_at(&self, queue: &str, rate: &Rate, now: Timestamp) -> Option<Timestamp> {
        let Rate::Window { starts, per } = rate else {
            unreachable!("histories have windows only")
        };
        let counts = |at: &Timestamp| now.since(*at) < *per;
        let of_queue = self.starts.iter().filter(|(of, _)| of == queue);
        let mut counted: Vec<Timestamp> = of_queue.map(|(_, at)| *at).filter(counts).collect();
        counted.sort_unstable();
        let over = counted.len().checked_sub(*starts as usize)?;
        Some(counted[over] + *per)
    }

    /// A job of a queue starts.
    pub(super) fn note_start(&mut self, queue: &str, now: Timestamp) {
        self.starts.push((queue.to_owned(), now));
    }

    /// The settings of a queue were written: another kind of rate counts from now.
    pub(super) fn obey_limits(&mut self, queue: &str, had_rate: bool) {
        let settings = self.settings(queue);
        if settings.rate.is_some() != had_rate {
            self.starts.retain(|(of, _)| of != queue);
        }
        if settings.has_limits() && !self.was_limited(queue) {
            self.limited.push(queue.to_owned());
        }
    }

    /// Whether a queue gives the worker of a claim one more job, which has so many of it.
    pub(super) fn gives(&self, queue: &str, claim: &Claim, taken: usize) -> bool {
        let slots = claim
            .worker
            .slots_for(claim.limit)
            .saturating_sub(claim.worker.busy);
        !self.is_limited(queue) || slots as usize > taken
    }

    /// The limits that keep a ready job of a queue back.
    pub(super) fn why_limited(&self, queue: &str, now: Timestamp) -> Vec<Reason> {
        let (settings, closed) = (self.settings(queue), self.closed(queue, now));
        let rate = settings.rate.zip(closed.rate);
        let rate = rate.map(|(rate, until)| Reason::RateReached { rate, until });
        let full = settings.concurrency.filter(|_| closed.concurrency);
        let active = self.active(queue);
        let full = full.map(|limit| Reason::ConcurrencyReached { limit, active });
        rate.into_iter().chain(full).collect()
    }
}

/// The windows of histories: a span that their clocks cross.
pub(crate) const WINDOW: Duration = Duration::from_secs(3);
