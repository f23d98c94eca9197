//! What is to be settled, and when: batches are kept until they are answered.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::engine::SettleVerdict;
use crate::worker::publish::is_conflict;
use crate::worker::slots::Ended;

/// Kept outside of the settler's loop, so that one that is started again sends the same content.
#[derive(Default)]
pub(crate) struct Outbox(Vec<Batch>);

pub(super) struct Batch {
    pub(super) ended: Vec<Ended>,
    /// Whether what the engine refused was taken out of it.
    pub(super) plain: bool,
    backoff: Backoff,
    /// How often its messages met other subscriptions than they were matched with.
    conflicts: u32,
    /// When to send it again, if it was not answered.
    again_at: Option<Duration>,
}

/// Conflicts after each of which a batch is matched again without a pause.
const AT_ONCE: u32 = 3;
/// As many calls at once.
const CALLS_MAX: usize = 64;

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in what has ended, lease by lease. What is of a lease with a batch that was not
    /// answered goes with that one: its part of the engine may be away.
    pub(super) fn take_in(&mut self, ended: Vec<Ended>) {
        let fresh = match self.0.iter().any(Batch::is_unanswered) {
            true => ended
                .into_iter()
                .filter_map(|ended| self.join(ended))
                .collect(),
            false => ended,
        };
        if !fresh.is_empty() {
            self.0.push(Batch::new(fresh));
        }
    }

    /// Puts what has ended to the batch of its lease that was not answered; hands it back if there
    /// is none.
    fn join(&mut self, ended: Ended) -> Option<Ended> {
        let mut batches = self.0.iter_mut().filter(|batch| batch.is_unanswered());
        match batches.find(|batch| batch.ended[0].held.token == ended.held.token) {
            Some(batch) => batch.ended.push(ended),
            None => return Some(ended),
        }
        None
    }

    /// The places of those to be sent now, all at once; none that is to be sent again waits longer
    /// than `most`.
    pub(super) fn due(&mut self, now: Duration, most: Duration) -> Vec<usize> {
        for batch in &mut self.0 {
            batch.again_at = batch.again_at.map(|at| at.min(now.saturating_add(most)));
        }
        let is_due = |batch: &Batch| batch.again_at.is_none_or(|at| at <= now);
        let due = self.0.iter().enumerate().filter(|(_, batch)| is_due(batch));
        due.map(|(place, _)| place).take(CALLS_MAX).collect()
    }

    /// When the first of those that were not answered is to be sent again.
    pub(super) fn next(&self) -> Option<Duration> {
        self.0.iter().filter_map(|batch| batch.again_at).min()
    }

    pub(super) fn at(&self, place: usize) -> &Batch {
        &self.0[place]
    }

    pub(super) fn remove(&mut self, place: usize) -> Batch {
        self.0.remove(place)
    }

    /// To be sent next.
    pub(super) fn put(&mut self, batches: impl IntoIterator<Item = Batch>) {
        self.0.extend(batches);
    }

    /// A batch was not answered. One of several leases comes apart, lease by lease, to be sent at
    /// once: only part of the engine may be away. One of a lease waits for longer and longer.
    pub(super) fn unanswered(&mut self, place: usize, now: Duration) {
        let mut leases = self.0.remove(place).apart();
        if let [lease] = &mut leases[..] {
            lease.again_at = Some(now + lease.backoff.pause());
        }
        self.0.extend(leases);
    }
}

impl Batch {
    pub(super) fn new(ended: Vec<Ended>) -> Self {
        Self {
            ended,
            plain: false,
            backoff: Backoff::engine(),
            conflicts: 0,
            again_at: None,
        }
    }

    fn is_unanswered(&self) -> bool {
        self.again_at.is_some() && !self.plain
    }

    /// Takes out what was not settled, as subscriptions changed: it is matched again, at once the
    /// first times.
    pub(super) fn take_conflicts(
        &mut self,
        verdicts: &[SettleVerdict],
        now: Duration,
    ) -> Option<Self> {
        let mut pairs = self.ended.iter().zip(verdicts);
        if !pairs.any(|(ended, verdict)| is_conflict(ended, verdict)) {
            return None;
        }
        let pairs = std::mem::take(&mut self.ended).into_iter().zip(verdicts);
        let (again, settled): (Vec<_>, Vec<_>) =
            pairs.partition(|(ended, verdict)| is_conflict(ended, verdict));
        self.ended = settled.into_iter().map(|(ended, _)| ended).collect();
        let mut batch = Self::new(again.into_iter().map(|(ended, _)| ended).collect());
        batch.backoff = self.backoff.clone();
        batch.conflicts = self.conflicts + 1;
        if batch.conflicts > AT_ONCE {
            batch.again_at = Some(now + batch.backoff.pause());
        }
        Some(batch)
    }

    fn apart(self) -> Vec<Self> {
        let first = self.ended.first().map(|ended| ended.held.token);
        if self
            .ended
            .iter()
            .all(|ended| Some(ended.held.token) == first)
        {
            return vec![self];
        }
        let mut leases: Vec<Self> = Vec::new();
        for ended in self.ended {
            let token = ended.held.token;
            match leases.last_mut() {
                Some(lease) if lease.ended[0].held.token == token => lease.ended.push(ended),
                _ => leases.push(Self {
                    plain: self.plain,
                    ..Self::new(vec![ended])
                }),
            }
        }
        leases
    }
}
