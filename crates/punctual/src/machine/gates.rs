//! The limits of a queue: what may be claimed now, when they open, and since when they are open.
//!
//! Active jobs are those with a lease, so a slot is free in the step that ends one. A rate counts
//! claims. A closed queue costs a claim one read here, whatever waits in it.

use std::ops::Bound;

use super::rows::*;
use super::{Machine, Queue};
use crate::engine::{ClosedLimit, LimitStats, LimitedQueue, QueueSettings, Rate, Reason};
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::JobState;
use crate::time::Timestamp;

/// The limits of a queue and how they stand. Without any it is there while jobs wait that limits
/// kept back, so that they are not late since their due.
#[derive(Debug)]
pub(super) struct Gate {
    concurrency: Option<u64>,
    rate: Option<Rate>,
    row: GateRow,
    /// Whether the row is to be written with this step.
    changed: bool,
    /// Slots that the injected bug never gives back.
    left_behind: u64,
}

/// What is closed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed {
    /// As many are active as may be.
    concurrency: bool,
    /// When the rate opens.
    rate: Option<Timestamp>,
}

impl GateRow {
    fn new() -> Self {
        Self {
            open_since: Timestamp::ZERO,
            rate: RateRow::new(),
        }
    }
}

impl Gate {
    fn new(row: GateRow) -> Self {
        Self {
            concurrency: None,
            rate: None,
            row,
            changed: true,
            left_behind: 0,
        }
    }

    fn has_limits(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }

    fn room(&self, active: u64, now: Timestamp) -> u64 {
        let active = active + self.left_behind;
        let slots = (self.concurrency).map_or(u64::MAX, |most| most.saturating_sub(active));
        let starts = (self.rate).map_or(u64::MAX, |rate| self.row.rate.room(&rate, now));
        slots.min(starts)
    }

    fn closed(&self, active: u64, now: Timestamp) -> Option<Closed> {
        if self.room(active, now) > 0 {
            return None;
        }
        let rate = self
            .rate
            .and_then(|rate| self.row.rate.opens_at(&rate, now));
        let full = |most| active + self.left_behind >= most;
        Some(Closed {
            concurrency: self.concurrency.is_some_and(full),
            rate,
        })
    }

    /// It lets jobs start from that instant on, if not later.
    fn opens(&mut self, at: Timestamp) {
        if at > self.row.open_since {
            self.row.open_since = at;
            self.changed = true;
        }
    }

    /// Obeys other limits. What a rate of the same kind has counted stays.
    fn set(&mut self, settings: &QueueSettings, active: u64, now: Timestamp) {
        let was_closed = self.closed(active, now).is_some();
        let kind = |rate: &Option<Rate>| rate.as_ref().map(std::mem::discriminant);
        if kind(&self.rate) != kind(&settings.rate) {
            self.row.rate = RateRow::new();
        }
        (self.concurrency, self.rate) = (settings.concurrency, settings.rate);
        self.changed = true;
        // The limits of before were to open later: nothing is left of that.
        self.row.open_since = self.row.open_since.min(now);
        match self.closed(active, now) {
            None if was_closed => self.opens(now),
            Some(Closed { rate: Some(at), .. }) => self.opens(at),
            _ => {}
        }
    }
}

impl Queue {
    fn active(&self) -> u64 {
        self.row.counts[JobState::Active as usize]
    }

    /// What of its limits is closed.
    pub(super) fn closed(&self, now: Timestamp) -> Option<Closed> {
        let gate = self.gate.as_ref()?;
        gate.closed(self.active(), now)
    }

    /// Since when its limits let jobs start; an instant that all jobs are due after if it has none.
    pub(super) fn open_since(&self) -> Timestamp {
        let gate = self.gate.as_ref();
        gate.map_or(Timestamp::ZERO, |gate| gate.row.open_since)
    }

    /// Places from which a claim may take, as far as shares decide.
    fn ready(&self) -> u32 {
        (0..20).map(|lane| self.open_places(lane)).sum()
    }

    /// Places of a lane, without those of shares whose limits are closed.
    pub(super) fn open_places(&self, lane: u8) -> u32 {
        let all = self.row.lanes[usize::from(lane)];
        match &self.shares {
            None => all,
            Some(shares) => all.saturating_sub(shares.row.parked(lane)),
        }
    }

    /// Whether it has a place from which a claim may take, of suspects too if asked for.
    pub(super) fn has_open_places(&self, suspects: bool) -> bool {
        let lanes = if suspects { 0..20 } else { 0..10 };
        lanes.into_iter().any(|lane| self.open_places(lane) > 0)
    }
}

impl Closed {
    /// The earliest instant at which time alone lets a job start, of a queue in which leases end
    /// and jobs fall due then.
    pub(super) fn wake_at(
        self,
        has_ready: bool,
        due: Option<Timestamp>,
        lease: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let brings = match (self.concurrency, has_ready) {
            (true, _) => lease,
            (false, true) => return self.rate,
            (false, false) => due.into_iter().chain(lease).min(),
        };
        brings.map(|at| self.rate.map_or(at, |opens| at.max(opens)))
    }

    /// When it opens, if time alone opens it.
    pub(super) fn opens_at(self) -> Option<Timestamp> {
        self.rate.filter(|_| !self.concurrency)
    }
}

impl Machine {
    /// A queue obeys settings.
    pub(super) fn set_settings(&mut self, id: u32, settings: QueueSettings) -> Result<()> {
        let now = self.now;
        let before = self.queue_state(id)?.settings.shares.clone();
        self.queue_mut(id)?.settings = settings.clone();
        self.shares_reported(id, &before.map(|shares| *shares).unwrap_or_default())?;
        let queue = self.queue_mut(id)?;
        if queue.gate.is_none() && !settings.has_limits() {
            return Ok(());
        }
        let active = queue.active();
        let is_new = queue.gate.is_none();
        let new = || Gate::new(GateRow::new()).into();
        let gate = queue.gate.get_or_insert_with(new);
        if (gate.concurrency, gate.rate) == (settings.concurrency, settings.rate) {
            return Ok(());
        }
        gate.set(&settings, active, now);
        self.derived.gates += usize::from(is_new);
        self.signals.notify(id);
        self.drop_idle_gate(id)
    }

    /// After recovery: what the limits have counted.
    pub(super) fn recover_gates(&mut self) -> Result<()> {
        let all = (self.rows.gates).scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)?;
        for (key, row) in all {
            if let Some(queue) = self.derived.queues.get_mut(&key.queue) {
                self.derived.gates += usize::from(queue.gate.is_none());
                let new = || Gate::new(GateRow::new()).into();
                let gate = queue.gate.get_or_insert_with(new);
                (gate.row, gate.changed) = (row, false);
            }
        }
        Ok(())
    }

    /// Writes how limits stand, where that has changed in this step.
    pub(super) fn save_gate(&mut self, id: u32) {
        let Some(queue) = self.derived.queues.get_mut(&id) else {
            return;
        };
        if let Some(gate) = queue.gate.as_mut().filter(|gate| gate.changed) {
            gate.changed = false;
            let row = gate.row.clone();
            self.rows.gates.put(&mut self.journal, gate_key(id), row);
        }
    }

    /// The queue is deleted.
    pub(super) fn forget_gate(&mut self, id: u32) -> Result<()> {
        if let Some(queue) = self.derived.queues.get_mut(&id) {
            self.derived.gates -= usize::from(queue.gate.take().is_some());
        }
        let key = gate_key(id);
        if self.rows.gates.get(&key)?.is_some() {
            self.rows.gates.remove(&mut self.journal, &key);
        }
        Ok(())
    }

    /// A queue without limits, and without jobs that limits kept back, pays for none.
    fn drop_idle_gate(&mut self, id: u32) -> Result<()> {
        let queue = self.queue_state(id)?;
        match &queue.gate {
            Some(gate) if !gate.has_limits() && queue.ready() == 0 => self.forget_gate(id),
            _ => Ok(()),
        }
    }

    pub(super) fn closed(&self, queue: u32) -> Option<Closed> {
        if self.derived.gates == 0 {
            return None;
        }
        self.derived.queues.get(&queue)?.closed(self.now)
    }

    pub(super) fn is_limited(&self, queue: u32) -> bool {
        if self.derived.gates == 0 && self.derived.shared == 0 && self.derived.named.queues == 0 {
            return false;
        }
        let queue = self.derived.queues.get(&queue);
        queue.is_some_and(|queue| {
            let gate = queue.gate.as_ref();
            let has_others = queue.shares.is_some() || queue.named.is_some();
            has_others || gate.is_some_and(|gate| gate.has_limits())
        })
    }

    /// The limited ones among queues, each with since when it is open.
    pub(super) fn limited(&self, queues: &[u32]) -> Vec<LimitedQueue> {
        if self.derived.gates == 0 && self.derived.shared == 0 && self.derived.named.queues == 0 {
            return Vec::new();
        }
        let named = |id: &u32| {
            let queue = self.derived.queues.get(id)?;
            if queue.gate.is_none() && queue.shares.is_none() && queue.named.is_none() {
                return None;
            }
            Some(LimitedQueue {
                queue: queue.name.to_string(),
                open_since: queue.open_since().min(self.now),
                shares: Vec::new(),
                limits: Vec::new(),
            })
        };
        queues.iter().filter_map(named).collect()
    }

    /// How many jobs of a queue a claim may take, that has as many slots left.
    pub(super) fn room(&self, queue: u32, slots: usize) -> usize {
        if !self.is_limited(queue) {
            return usize::MAX;
        }
        let Some(queue) = self.derived.queues.get(&queue) else {
            return usize::MAX;
        };
        let gate = queue.gate.as_ref();
        let room = gate.map_or(u64::MAX, |gate| gate.room(queue.active(), self.now));
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        match is_injected(Bug::ClaimedAheadOfLimit) {
            true => room,
            false => room.min(slots),
        }
    }

    /// That many jobs of a queue were claimed.
    pub(super) fn note_claimed(&mut self, id: u32, jobs: usize) -> Result<()> {
        if jobs == 0 || self.derived.gates == 0 || self.queue_state(id)?.gate.is_none() {
            return Ok(());
        }
        if !is_injected(Bug::TokenAtEnqueue) {
            self.note_started(id, jobs)?;
        }
        self.drop_idle_gate(id)
    }

    fn note_started(&mut self, id: u32, jobs: usize) -> Result<()> {
        let now = self.now;
        let queue = self.queue_mut(id)?;
        if let Some(gate) = &mut queue.gate
            && let Some(rate) = gate.rate
        {
            gate.row.rate.take(&rate, now, jobs as u64);
            gate.changed = true;
            if let Some(at) = gate.row.rate.opens_at(&rate, now) {
                gate.opens(at);
            }
        }
        Ok(())
    }

    /// A job of a queue has left its lease. A slot that was the last one wakes a worker.
    pub(super) fn slot_freed(&mut self, id: u32) -> Result<()> {
        if self.derived.gates == 0 {
            return Ok(());
        }
        let now = self.now;
        let queue = self.queue_state(id)?;
        let Some(most) = queue.gate.as_ref().and_then(|gate| gate.concurrency) else {
            return Ok(());
        };
        if queue.active() + 1 != most {
            return Ok(());
        }
        let queue = self.queue_mut(id)?;
        if let Some(gate) = &mut queue.gate {
            gate.opens(now);
        }
        let queue = self.queue_state(id)?;
        // Time may be left until the rate opens: a worker is to come then.
        if queue.ready() > 0 || queue.due_head.is_some() {
            self.signals.notify(id);
        }
        Ok(())
    }

    /// The injected bugs of limits, at a crash and at an enqueue.
    pub(super) fn misplace_slot(&mut self, id: u32) -> Result<()> {
        if is_injected(Bug::SlotLeftBehind)
            && let Some(gate) = &mut self.queue_mut(id)?.gate
        {
            gate.left_behind += 1;
        }
        Ok(())
    }

    /// Wakes a worker for a queue with new work, or work that is due earlier, unless it is behind a
    /// closed limit: then the slot that is freed wakes one, and of a rate a worker knows when it
    /// opens. `in_line` if the work is one of the jobs that are ready.
    pub(super) fn notify_work(&mut self, id: u32, in_line: bool) -> Result<()> {
        if self.derived.gates == 0 {
            self.signals.notify(id);
            return Ok(());
        }
        if is_injected(Bug::TokenAtEnqueue) && in_line {
            self.note_started(id, 1)?;
        }
        let queue = self.queue_state(id)?;
        let known = match queue.closed(self.now) {
            None => false,
            Some(closed) => closed.concurrency || queue.ready() > u32::from(in_line),
        };
        if !known {
            self.signals.notify(id);
        }
        Ok(())
    }

    /// The reasons why a ready job of a queue does not start.
    pub(super) fn why_limited(&self, id: u32) -> Result<Vec<Reason>> {
        let queue = self.queue_state(id)?;
        let mut reasons = Vec::new();
        let (Some(gate), Some(closed)) = (&queue.gate, queue.closed(self.now)) else {
            return Ok(reasons);
        };
        if let (Some(rate), Some(until)) = (gate.rate, closed.rate) {
            reasons.push(Reason::RateReached { rate, until });
        }
        if let Some(limit) = gate.concurrency.filter(|_| closed.concurrency) {
            let active = queue.active();
            reasons.push(Reason::ConcurrencyReached { limit, active });
        }
        Ok(reasons)
    }

    /// The limits of a queue for statistics; `oldest` is the due of its first ready job.
    pub(super) fn limit_stats(
        &self,
        id: u32,
        oldest: Option<Timestamp>,
    ) -> Result<Option<LimitStats>> {
        let queue = self.queue_state(id)?;
        let Some(gate) = queue.gate.as_ref().filter(|gate| gate.has_limits()) else {
            return Ok(None);
        };
        let closed = queue.closed(self.now);
        let rate = closed.and_then(|closed| closed.rate);
        Ok(Some(LimitStats {
            concurrency: gate.concurrency,
            rate: gate.rate,
            closed: closed.map(|_| match rate {
                Some(_) => ClosedLimit::Rate,
                None => ClosedLimit::Concurrency,
            }),
            opens_at: rate,
            waits: closed.and(oldest).map(|due| self.now - due),
        }))
    }
}

fn gate_key(queue: u32) -> QueueText {
    QueueText {
        queue,
        text: String::new(),
    }
}
