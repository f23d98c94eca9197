//! Shares: the jobs of one key take turns with those of others, by weight, and have limits of
//! their own.
//!
//! The order is start-time fair queueing behind the rounds of what is active: a share's round is
//! its active jobs by its weight, rounded down, and its pass grows by the inverse of its weight
//! with each job that is claimed. A share that comes back begins one turn behind the last claim,
//! so that nothing needs to be remembered of one without jobs: it has neither credit nor debt.
//! Redis has the same in `share.lua`.

use std::ops::Bound;

use super::Machine;
use super::jobs::Loaded;
use super::rows::*;
use super::share_rows::*;
use crate::engine::{ClosedShare, ShareSettings};
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::time::Timestamp;

/// How much a turn of weight 1 raises a pass: every weight up to 1,000 divides it well.
const TURN: u64 = 1_000_000;
/// Shares that one claim files anew, besides those it claims from.
pub(super) const EXAMINED_MAX: usize = 250;
/// Idle shares that one claim forgets.
const FORGOTTEN: usize = 16;
/// A share of at least two to the power of this many jobs is in the order of the largest.
const MANY_ACTIVE: u8 = 4;
/// The settings of shares by default.
static EQUAL: ShareSettings = ShareSettings::new();

/// The shares of a queue, in memory.
#[derive(Debug)]
pub(super) struct Shares {
    pub(super) row: SharesRow,
    pub(super) changed: bool,
}

/// Why no job of a share may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) by: ClosedShare,
    /// When time opens it, if time does.
    pub(super) until: Option<Timestamp>,
}

/// Whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    /// Jobs without a share.
    Others(u64),
    Share(String),
}

impl ShareRow {
    /// What keeps its jobs from starting.
    pub(super) fn closed(&self, limits: &ShareSettings, now: Timestamp) -> Option<Closed> {
        let rate = limits.rate.and_then(|rate| self.rate.opens_at(&rate, now));
        let blocked = self.blocked_until.filter(|until| *until > now);
        let until = rate.into_iter().chain(blocked).max();
        let full = limits.concurrency.is_some_and(|most| self.active >= most);
        let paused = blocked == Some(PAUSED);
        let by = match (blocked, full, rate) {
            (Some(PAUSED), ..) => ClosedShare::Paused,
            (Some(_), ..) => ClosedShare::Blocked,
            (_, true, _) => ClosedShare::Concurrency,
            (.., Some(_)) => ClosedShare::Rate,
            _ => return None,
        };
        Some(Closed {
            by,
            until: until.filter(|_| !full && !paused),
        })
    }

    /// Until when something is to be remembered of it.
    fn remembered(&self, limits: &ShareSettings, now: Timestamp) -> Option<Timestamp> {
        let rate = limits
            .rate
            .and_then(|rate| self.rate.counts_until(&rate, now));
        let blocked = self.blocked_until.filter(|until| *until > now);
        rate.into_iter().chain(blocked).max()
    }

    pub(super) fn turns<'a>(
        &'a self,
        queue: u32,
        share: &'a str,
    ) -> impl Iterator<Item = TurnKey> + use<'a> {
        let lanes = self.round.map(|round| (round, self.lanes.iter()));
        lanes.into_iter().flat_map(move |(round, lanes)| {
            lanes.map(move |(lane, (pass, _))| TurnKey {
                queue,
                lane: *lane,
                round,
                pass: *pass,
                share: share.to_owned(),
            })
        })
    }

    /// Its place among shares of many jobs.
    pub(super) fn class(&self) -> Option<u8> {
        let class = (self.ready() + self.active).checked_ilog2()? as u8;
        (class >= MANY_ACTIVE).then_some(class)
    }
}

impl SharesRow {
    fn new() -> Self {
        Self {
            shares: 0,
            blocked: 0,
            active: 0,
            lanes: Vec::new(),
            checked: None,
        }
    }

    pub(super) fn lane(&self, lane: u8) -> Option<LaneShares> {
        let found = self.lanes.iter().find(|(of, _)| *of == lane);
        found.map(|(_, lane)| *lane)
    }

    fn lane_mut(&mut self, lane: u8) -> &mut LaneShares {
        let at = self.lanes.iter().position(|(of, _)| *of == lane);
        let at = at.unwrap_or_else(|| {
            self.lanes.push((lane, LaneShares::default()));
            self.lanes.len() - 1
        });
        &mut self.lanes[at].1
    }

    /// Places in a lane whose share's limits are closed.
    pub(super) fn parked(&self, lane: u8) -> u32 {
        self.lane(lane).map_or(0, |lane| lane.parked as u32)
    }

    /// Counts the places of a share in or out.
    fn count(&mut self, row: &ShareRow, up: bool) {
        for (lane, (_, places)) in &row.lanes {
            let lane = self.lane_mut(*lane);
            let parked = if row.round.is_none() { *places } else { 0 };
            if up {
                (lane.places, lane.parked) = (lane.places + places, lane.parked + parked);
            } else {
                lane.places = lane.places.saturating_sub(*places);
                lane.parked = lane.parked.saturating_sub(parked);
            }
        }
    }
}

/// The pass of a share one turn behind the last claim.
fn behind(turn: u64, weight: u32) -> u64 {
    turn + TURN / u64::from(weight.max(1))
}

impl super::Queue {
    /// The settings of its shares.
    pub(super) fn share_settings(&self) -> ShareSettings {
        let shares = self.settings.shares.as_deref();
        shares.cloned().unwrap_or_default()
    }
}

impl Machine {
    pub(super) fn share_row(&self, queue: u32, share: &str) -> Result<Option<ShareRow>> {
        self.rows.shares.get(&share_key(queue, share))
    }

    /// Changes a share's row, and files it where it now belongs. Its lanes may be changed by places
    /// only through [`Machine::count_place`].
    pub(super) fn change_share(
        &mut self,
        id: u32,
        share: &str,
        change: impl FnOnce(&mut ShareRow, &mut SharesRow),
    ) -> Result<()> {
        let now = self.now;
        let before = self.share_row(id, share)?;
        let super::Queue {
            settings, shares, ..
        } = self.queue_mut(id)?;
        let limits = settings.shares.as_deref().unwrap_or(&EQUAL);
        let is_new = shares.is_none();
        let fresh = || Shares {
            row: SharesRow::new(),
            changed: true,
        };
        let all = shares.get_or_insert_with(|| Box::new(fresh()));
        all.changed = true;
        let all = &mut all.row;
        let was = before.clone().unwrap_or_else(ShareRow::empty);
        let mut row = was.clone();
        all.count(&was, false);
        let (was_active, was_blocked) = (was.active, was.blocked_until.is_some());
        change(&mut row, all);
        row.lanes.retain(|(_, (_, places))| *places > 0);
        row.blocked_until = row.blocked_until.filter(|until| *until > now);
        file(&mut row, limits, limits.weight_of(share), now);
        all.count(&row, true);
        all.lanes.retain(|(_, lane)| lane.places > 0);
        all.active = all.active + row.active - was_active;
        all.blocked = all.blocked + u64::from(row.blocked_until.is_some()) - u64::from(was_blocked);
        let is_gone = row.active == 0 && row.lanes.is_empty() && row.parked.is_none();
        all.shares = all.shares + u64::from(!is_gone) - u64::from(before.is_some());
        let none_left = all.shares == 0;
        if none_left {
            *shares = None;
        }
        self.derived.shared += usize::from(is_new);
        if none_left {
            self.derived.shared -= 1;
            self.rows
                .queue_shares
                .remove(&mut self.journal, &share_key(id, ""));
        }
        self.refile(id, share, &was, &row)?;
        let key = share_key(id, share);
        match (is_gone, before.is_some()) {
            (false, _) => self.rows.shares.put(&mut self.journal, key, row),
            (true, true) => self.rows.shares.remove(&mut self.journal, &key),
            (true, false) => {}
        }
        Ok(())
    }

    /// Moves the entries of a share in the orders by turn, by instant and by size.
    fn refile(&mut self, id: u32, share: &str, was: &ShareRow, row: &ShareRow) -> Result<()> {
        let (old, new): (Vec<_>, Vec<_>) = (
            was.turns(id, share).collect(),
            row.turns(id, share).collect(),
        );
        for key in old.iter().filter(|key| !new.contains(key)) {
            self.rows.turns.remove(&mut self.journal, key);
        }
        for key in new.iter().filter(|key| !old.contains(key)) {
            self.rows.turns.insert(&mut self.journal, key.clone(), ());
        }
        if was.parked != row.parked {
            let key = |(is_idle, until)| ParkKey {
                queue: id,
                is_idle,
                until,
                share: share.to_owned(),
            };
            if let Some(parked) = was.parked {
                self.rows.parked.remove(&mut self.journal, &key(parked));
            }
            if let Some(parked) = row.parked {
                self.rows.parked.put(&mut self.journal, key(parked), ());
            }
        }
        if was.class() != row.class() {
            let key = |class| LargeShareKey {
                queue: id,
                class,
                share: share.to_owned(),
            };
            if let Some(class) = was.class() {
                self.rows
                    .large_shares
                    .remove(&mut self.journal, &key(class));
            }
            if let Some(class) = row.class() {
                self.rows
                    .large_shares
                    .put(&mut self.journal, key(class), ());
            }
        }
        let more = row.ready() > was.ready();
        let opens = row.round.is_some() && (was.round.is_none() || more);
        let is_earlier = |until: Timestamp| was.parked.is_none_or(|(_, was)| until < was);
        let waits = row
            .parked
            .is_some_and(|(is_idle, until)| is_idle == 0 && is_earlier(until));
        // A worker is to learn of work, or of the instant at which there will be some.
        if opens || waits {
            self.notify_work(id, opens && more)?;
        }
        Ok(())
    }

    /// A place of a share in a lane comes or goes.
    pub(super) fn count_place(&mut self, key: &PlaceKey, share: &str, up: bool) -> Result<()> {
        let weight = self.weight(key.queue, share)?;
        let lane = key.lane;
        self.change_share(key.queue, share, |row, all| {
            let turn = all.lane(lane).map_or(0, |lane| lane.turn);
            let at = row.lanes.iter().position(|(of, _)| *of == lane);
            match (at, up) {
                (Some(at), true) => row.lanes[at].1.1 += 1,
                (Some(at), false) => {
                    let places = &mut row.lanes[at].1.1;
                    *places = places.saturating_sub(1);
                }
                (None, true) => row.lanes.push((lane, (behind(turn, weight), 1))),
                (None, false) => debug_assert!(false, "a share has what is taken from it"),
            }
        })
    }

    fn weight(&self, queue: u32, share: &str) -> Result<u32> {
        let settings = self.queue_state(queue)?.settings.shares.as_deref();
        Ok(settings.map_or(1, |settings| settings.weight_of(share)))
    }

    /// Whether jobs with a share stand in a lane: then turns decide there.
    pub(super) fn lane_shares(&self, queue: u32, lane: u8) -> Option<LaneShares> {
        let queue = self.derived.queues.get(&queue)?;
        queue.shares.as_ref()?.row.lane(lane)
    }

    /// Whose turn it is in a lane in which shares have places.
    pub(super) fn next_turn(&mut self, id: u32, lane: u8) -> Result<Option<Turn>> {
        let Some(stands) = self.lane_shares(id, lane) else {
            return Ok(None);
        };
        let (start, end) = (TurnKey::start_of(id, lane), TurnKey::start_of(id, lane + 1));
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        let first = self.rows.turns.first(bounds.0, bounds.1)?;
        let queue = self.queue_state(id)?;
        let all = u64::from(queue.row.lanes[usize::from(lane)]);
        if all <= stands.places {
            self.set_others(id, lane, None)?;
            return Ok(first.map(|(key, ())| Turn::Share(key.share)));
        }
        let active = queue.row.counts[crate::job::JobState::Active as usize];
        let round = active
            - queue
                .shares
                .as_ref()
                .map_or(0, |all| all.row.active)
                .min(active);
        let pass = match stands.others {
            Some(pass) => pass.max(stands.turn),
            None => behind(stands.turn, 1),
        };
        self.set_others(id, lane, Some(pass))?;
        Ok(Some(match first {
            Some((key, ())) if (key.round, key.pass) < (round, pass) => Turn::Share(key.share),
            _ => Turn::Others(pass),
        }))
    }

    fn set_others(&mut self, id: u32, lane: u8, pass: Option<u64>) -> Result<()> {
        let stands = self.lane_shares(id, lane);
        if stands.is_some_and(|lane| lane.others != pass)
            && let Some(all) = &mut self.queue_mut(id)?.shares
        {
            all.row.lane_mut(lane).others = pass;
            all.changed = true;
        }
        Ok(())
    }

    /// A job without a share was claimed from a lane in which shares have places.
    pub(super) fn others_had_turn(&mut self, id: u32, lane: u8, pass: u64) -> Result<()> {
        if self.lane_shares(id, lane).is_none() {
            return Ok(());
        }
        if let Some(all) = &mut self.queue_mut(id)?.shares {
            let stands = all.row.lane_mut(lane);
            stands.turn = stands.turn.max(pass);
            if !is_injected(Bug::PassNotRaised) {
                stands.others = Some(pass + TURN);
            }
            all.changed = true;
        }
        Ok(())
    }

    /// The first place of a share in a lane; `None` if its limits are closed by now, and it is
    /// filed so.
    pub(super) fn share_head(
        &mut self,
        queue: u32,
        lane: u8,
        share: &str,
    ) -> Result<Option<(PlaceKey, Place)>> {
        let row = self.share_row(queue, share)?;
        let row = row.ok_or_else(|| super::codec::damaged("share"))?;
        let limits = self.queue_state(queue)?.settings.shares.as_deref();
        if limits.is_some_and(|limits| row.closed(limits, self.now).is_some()) {
            self.change_share(queue, share, |_, _| {})?;
            return Ok(None);
        }
        let start = SharePlaceKey::start_of(queue, lane, share);
        let found = (self.rows.share_places).first(Bound::Included(&start), Bound::Unbounded)?;
        let (key, place) = found.ok_or_else(|| super::codec::damaged("share"))?;
        debug_assert_eq!((key.lane, key.share.as_str()), (lane, share));
        Ok(Some((key.place(), place)))
    }

    /// A job of a share has left its place, and gets a lease: it had its turn.
    pub(super) fn share_started(&mut self, job: &Loaded, lane: u8, pass: u64) -> Result<()> {
        let Some(share) = job.share().map(str::to_owned) else {
            return Ok(());
        };
        let id = job.spec.queue;
        let now = self.now;
        let weight = self.weight(id, &share)?;
        let rate = self.queue_state(id)?.settings.shares.as_ref();
        let rate = rate.and_then(|settings| settings.rate);
        self.change_share(id, &share, |row, all| {
            row.active += 1;
            if let Some(rate) = rate {
                row.rate.take(&rate, now, 1);
            }
            if let Some((_, stands)) = all.lanes.iter_mut().find(|(of, _)| *of == lane) {
                stands.turn = stands.turn.max(pass);
            }
            if is_injected(Bug::PassNotRaised) {
                return;
            }
            if let Some((_, (own, _))) = row.lanes.iter_mut().find(|(of, _)| *of == lane) {
                *own = behind(pass, weight);
            }
        })
    }

    /// The pass of a share in a lane, and since when its limits let its jobs start.
    pub(super) fn share_stands(
        &self,
        queue: u32,
        lane: u8,
        share: &str,
    ) -> Result<(u64, Timestamp)> {
        let row = self.share_row(queue, share)?;
        let row = row.ok_or_else(|| super::codec::damaged("share"))?;
        let found = row.lanes.iter().find(|(of, _)| *of == lane);
        Ok((found.map_or(0, |(_, (pass, _))| *pass), row.open_since))
    }

    /// A job of a share has left its lease: its share has no credit for the time that it ran.
    pub(super) fn share_freed(&mut self, job: &Loaded) -> Result<()> {
        let Some(share) = job.share().map(str::to_owned) else {
            return Ok(());
        };
        let now = self.now;
        self.change_share(job.spec.queue, &share, |row, all| {
            row.active = row.active.saturating_sub(1);
            if row.round.is_none() {
                row.open_since = row.open_since.max(now);
            }
            catch_up(row, all);
        })
    }

    /// Shares of a queue whose limits have opened by now stand among turns again.
    pub(super) fn open_shares(&mut self, id: u32) -> Result<()> {
        if self.derived.shared == 0 || self.queue_state(id)?.shares.is_none() {
            return Ok(());
        }
        self.check_shares(id)?;
        if is_injected(Bug::ParkedForgotten) {
            return Ok(());
        }
        for (is_idle, limit) in [(0, EXAMINED_MAX), (1, FORGOTTEN)] {
            let start = ParkKey::start_of(id, is_idle);
            let until = Timestamp::from_micros(self.now.as_micros() + 1);
            let end = ParkKey {
                until,
                ..start.clone()
            };
            let bounds = (Bound::Included(&start), Bound::Excluded(&end));
            for (key, ()) in self.rows.parked.scan(bounds.0, bounds.1, false, limit)? {
                self.change_share(id, &key.share, |row, all| {
                    row.open_since = row.open_since.max(key.until);
                    catch_up(row, all);
                })?;
            }
        }
        Ok(())
    }

    /// Writes what the shares of a queue have together, if that has changed in this step.
    pub(super) fn save_shares(&mut self, id: u32) {
        let Some(queue) = self.derived.queues.get_mut(&id) else {
            return;
        };
        if let Some(all) = queue.shares.as_mut().filter(|all| all.changed) {
            all.changed = false;
            let row = all.row.clone();
            let key = share_key(id, "");
            self.rows.queue_shares.put(&mut self.journal, key, row);
        }
    }

    /// After recovery: which queues have shares.
    pub(super) fn recover_shares(&mut self) -> Result<()> {
        let all = &self.rows.queue_shares;
        for (key, row) in all.scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX)? {
            if let Some(queue) = self.derived.queues.get_mut(&key.queue) {
                let changed = false;
                queue.shares = Some(Box::new(Shares { row, changed }));
                self.derived.shared += 1;
            }
        }
        Ok(())
    }
}

/// A share that could not be claimed from has no credit for that time.
pub(super) fn catch_up(row: &mut ShareRow, all: &mut SharesRow) {
    for (lane, (pass, _)) in &mut row.lanes {
        let turn = all.lane(*lane).map_or(0, |lane| lane.turn);
        *pass = (*pass).max(turn);
    }
}

/// Says where a share is to be filed: among turns, or by the instant at which it is filed again.
fn file(row: &mut ShareRow, limits: &ShareSettings, weight: u32, now: Timestamp) {
    let closed = row.closed(limits, now);
    let is_ready = row.ready() > 0;
    row.round = (is_ready && closed.is_none()).then(|| row.active / u64::from(weight.max(1)));
    row.parked = match (closed, is_ready) {
        (Some(closed), true) => closed.until.map(|until| (0, until)),
        (None, true) => None,
        (_, false) => row.remembered(limits, now).map(|until| (1, until)),
    };
    if let Some(Closed {
        until: Some(until), ..
    }) = closed
    {
        row.open_since = row.open_since.max(until);
    }
}

pub(super) fn share_key(queue: u32, share: &str) -> QueueText {
    QueueText {
        queue,
        text: share.to_owned(),
    }
}

#[cfg(test)]
mod tests;
