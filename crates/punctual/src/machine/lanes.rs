//! Lanes: which jobs may be claimed next. A lane is one priority of one queue (and, ten further on,
//! the suspects of that priority). In it stand ready jobs without a group, and groups that may be
//! claimed from: groups of one lane take turns.

use std::ops::Bound;

use super::Machine;
use super::jobs::Loaded;
use super::named_rows::KeptBack;
use super::rows::*;
use super::share_rows::SharePlaceKey;
use crate::error::Result;
use crate::job::{JobId, JobState};

/// Lanes of suspects begin here.
pub(super) const SUSPECT_LANE: u8 = 10;

pub(super) fn lane_of(priority: u8, suspect: bool) -> u8 {
    if suspect {
        priority + SUSPECT_LANE
    } else {
        priority
    }
}

fn place_key(job: &Loaded) -> PlaceKey {
    PlaceKey {
        queue: job.spec.queue,
        lane: lane_of(job.status.priority, job.is_suspect()),
        behind: u8::from(!job.status.front),
        at: job.status.due,
        seq: job.spec.seq,
    }
}

fn line_key(job: &Loaded, group: &str) -> LineKey {
    LineKey {
        queue: job.spec.queue,
        group: group.to_owned(),
        priority: job.status.priority,
        behind: u8::from(!job.status.front),
        due: job.status.due,
        seq: job.spec.seq,
    }
}

impl GroupRow {
    pub(super) fn empty() -> Self {
        Self {
            active: None,
            holding: None,
            ready: Vec::new(),
            members: 0,
            places: Vec::new(),
            shares: Vec::new(),
        }
    }

    fn add_ready(&mut self, priority: u8, up: bool) {
        match self.ready.iter_mut().find(|(p, _)| *p == priority) {
            Some((_, n)) => *n = if up { *n + 1 } else { n.saturating_sub(1) },
            None if up => self.ready.push((priority, 1)),
            None => {}
        }
        self.ready.retain(|(_, n)| *n > 0);
    }
}

impl Machine {
    /// Puts a ready job in its lane, or in its group's line.
    pub(super) fn line_up(&mut self, job: &Loaded) -> Result<()> {
        let has_limits = !job.limits().is_empty();
        if has_limits {
            self.count_named(job.spec.queue, true)?;
        }
        let Some(group) = job.group() else {
            let (key, place) = (place_key(job), Place::Job(job.key.id));
            if has_limits && let Some(limit) = self.closed_limit(job, &key)? {
                let row = KeptBack::new(&place, job.share(), job.key.id, job.spec.rare.cost());
                return self.keep_back(&key, row, &limit);
            }
            return self.add_place(key, place, job.share());
        };
        let entry = LineEntry {
            id: job.key.id,
            suspect: job.is_suspect(),
            share: job.share().map(str::to_owned),
        };
        self.rows
            .lines
            .put(&mut self.journal, line_key(job, group), entry);
        let mut row = self.group_row(job.spec.queue, group)?;
        row.add_ready(job.status.priority, true);
        self.refresh_group(job.spec.queue, group, row)
    }

    /// Takes a ready job out of its lane or line.
    pub(super) fn line_down(&mut self, job: &Loaded) -> Result<()> {
        if !job.limits().is_empty() {
            self.count_named(job.spec.queue, false)?;
        }
        let Some(group) = job.group() else {
            return self.remove_place(&place_key(job), job.share());
        };
        self.rows
            .lines
            .remove(&mut self.journal, &line_key(job, group));
        let mut row = self.group_row(job.spec.queue, group)?;
        row.add_ready(job.status.priority, false);
        self.refresh_group(job.spec.queue, group, row)
    }

    pub(super) fn add_place(
        &mut self,
        key: PlaceKey,
        place: Place,
        share: Option<&str>,
    ) -> Result<()> {
        if let Some(share) = share {
            // It may come from the line of a limit, while a new bound counts what waits.
            if let Place::Job(id) = &place {
                self.count_waiting(key.queue, share, *id, true)?;
            }
            self.queue_mut(key.queue)?.row.lanes[usize::from(key.lane)] += 1;
            let own = SharePlaceKey::of(&key, share);
            (self.rows.share_places).insert(&mut self.journal, own, place);
            return self.count_place(&key, share, true);
        }
        if let Some(low) = self
            .derived
            .lane_lows
            .get_mut(&(key.queue, key.lane))
            .filter(|low| **low > key)
        {
            *low = key.clone();
        }
        self.queue_mut(key.queue)?.row.lanes[usize::from(key.lane)] += 1;
        let queue = key.queue;
        self.rows.places.insert(&mut self.journal, key, place);
        self.notify_work(queue, true)
    }

    pub(super) fn remove_place(&mut self, key: &PlaceKey, share: Option<&str>) -> Result<()> {
        if self.take_kept_back(key)? {
            return Ok(());
        }
        let lanes = &mut self.queue_mut(key.queue)?.row.lanes;
        let count = &mut lanes[usize::from(key.lane)];
        debug_assert!(*count > 0, "a lane holds what is taken from it");
        *count = count.saturating_sub(1);
        if let Some(share) = share {
            let own = SharePlaceKey::of(key, share);
            self.rows.share_places.remove(&mut self.journal, &own);
            return self.count_place(key, share, false);
        }
        self.rows.places.remove(&mut self.journal, key);
        Ok(())
    }

    /// Where a ready job stands, or its group, if that is in a lane.
    pub(super) fn place_of(&self, job: &Loaded) -> Result<Option<PlaceKey>> {
        let own = place_key(job);
        let Some(group) = job.group() else {
            return Ok(Some(own));
        };
        let row = self.group_row(own.queue, group)?;
        let place = row.places.into_iter().find(|(lane, _)| *lane == own.lane);
        Ok(place.map(|(_, (at, seq))| PlaceKey {
            behind: 1,
            at,
            seq,
            ..own
        }))
    }

    /// The first places of a lane.
    pub(super) fn places(
        &mut self,
        queue: u32,
        lane: u8,
        limit: usize,
    ) -> Result<Vec<(PlaceKey, Place)>> {
        let (start, end) = (
            PlaceKey::start_of(queue, lane),
            PlaceKey::start_of(queue, lane + 1),
        );
        let low = self.derived.lane_lows.get(&(queue, lane)).unwrap_or(&start);
        let found =
            self.rows
                .places
                .scan(Bound::Included(low), Bound::Excluded(&end), false, limit)?;
        // Everything before the first one is gone, and a scan need not step over it again.
        let low = found.first().map_or(end, |(key, _)| key.clone());
        self.derived.lane_lows.insert((queue, lane), low);
        Ok(found)
    }

    /// Places of a lane after a given one, for listing and counting.
    pub(super) fn places_after(
        &self,
        queue: u32,
        lane: u8,
        after: Option<&PlaceKey>,
        limit: usize,
    ) -> Result<Vec<(PlaceKey, Place)>> {
        let (start, end) = (
            PlaceKey::start_of(queue, lane),
            PlaceKey::start_of(queue, lane + 1),
        );
        let low = self.derived.lane_lows.get(&(queue, lane)).unwrap_or(&start);
        let from = match after {
            Some(after) if after >= low => Bound::Excluded(after),
            _ => Bound::Included(low),
        };
        self.rows
            .places
            .scan(from, Bound::Excluded(&end), false, limit)
    }

    /// The job that a place stands for.
    pub(super) fn candidate(&self, key: &PlaceKey, place: &Place) -> Result<JobId> {
        match place {
            Place::Job(id) => Ok(*id),
            Place::Group(group) => {
                let row = self.group_row(key.queue, group)?;
                if let Some(holding) = row.holding {
                    return Ok(holding);
                }
                let head = self.line_head(key.queue, group, key.lane % SUSPECT_LANE)?;
                head.map(|(_, entry)| entry.id)
                    .ok_or_else(|| super::codec::damaged("group"))
            }
        }
    }

    pub(super) fn line_head(
        &self,
        queue: u32,
        group: &str,
        priority: u8,
    ) -> Result<Option<(LineKey, LineEntry)>> {
        Ok(self.line(queue, group, priority, None, 1)?.pop())
    }

    /// Ready jobs of one line of a group, in order.
    pub(super) fn line(
        &self,
        queue: u32,
        group: &str,
        priority: u8,
        after: Option<&LineKey>,
        limit: usize,
    ) -> Result<Vec<(LineKey, LineEntry)>> {
        let key = |priority| LineKey::start_of(queue, group, priority);
        let (start, end) = (key(priority), key(priority + 1));
        let from = after.map_or(Bound::Included(&start), Bound::Excluded);
        self.rows
            .lines
            .scan(from, Bound::Excluded(&end), false, limit)
    }

    /// The first ready jobs of a queue that have a group, by its key.
    pub(super) fn lines_of(&self, queue: u32, limit: usize) -> Result<Vec<JobId>> {
        let key = |queue| LineKey::start_of(queue, "", 0);
        let (start, end) = (Bound::Included(key(queue)), Bound::Excluded(key(queue + 1)));
        let found = (self.rows.lines).scan(start.as_ref(), end.as_ref(), false, limit)?;
        Ok(found.into_iter().map(|(_, entry)| entry.id).collect())
    }

    pub(super) fn group_row(&self, queue: u32, group: &str) -> Result<GroupRow> {
        let key = QueueText {
            queue,
            text: group.to_owned(),
        };
        Ok(self.rows.groups.get(&key)?.unwrap_or_else(GroupRow::empty))
    }

    /// Changes a group's row and puts the group where it now belongs.
    pub(super) fn change_group(
        &mut self,
        queue: u32,
        group: &str,
        change: impl FnOnce(&mut GroupRow),
    ) -> Result<()> {
        let mut row = self.group_row(queue, group)?;
        change(&mut row);
        self.refresh_group(queue, group, row)
    }

    /// A job of a group was enqueued or has settled.
    pub(super) fn change_members(&mut self, job: &Loaded, joins: bool) -> Result<()> {
        let Some(group) = job.group() else {
            return Ok(());
        };
        let key = MemberKey {
            queue: job.spec.queue,
            group: group.to_owned(),
            seq: job.spec.seq,
        };
        if joins {
            self.rows.members.insert(&mut self.journal, key, job.key.id);
        } else {
            self.rows.members.remove(&mut self.journal, &key);
        }
        let id = job.key.id;
        self.change_group(job.spec.queue, group, |row| {
            row.members = if joins {
                row.members + 1
            } else {
                row.members.saturating_sub(1)
            };
            if !joins && row.active == Some(id) {
                row.active = None;
            }
            if !joins && row.holding == Some(id) {
                row.holding = None;
            }
        })
    }

    /// Stands a group in the lanes it may be claimed from, keeping its turn where it has one.
    fn refresh_group(&mut self, queue: u32, group: &str, mut row: GroupRow) -> Result<()> {
        let wanted = self.lanes_of_group(queue, group, &row)?;
        let place = |lane, (at, seq)| PlaceKey {
            queue,
            lane,
            behind: 1,
            at,
            seq,
        };
        let shares = std::mem::take(&mut row.shares);
        let share_of = |lane| {
            shares
                .iter()
                .find(|(of, _)| *of == lane)
                .map(|(_, share)| share)
        };
        for (lane, turn) in std::mem::take(&mut row.places) {
            let stands = |(of, share): &(u8, Option<String>)| {
                *of == lane && share.as_ref() == share_of(lane)
            };
            if wanted.iter().any(stands) {
                let key = place(lane, turn);
                if let Some(job) = self.kept_back_for(&key)?
                    && job != self.candidate(&key, &Place::Group(group.to_owned()))?
                {
                    // Another job comes first now, which may have other limits or none.
                    self.take_kept_back(&key)?;
                    let share = share_of(lane).map(String::as_str);
                    self.add_place(key, Place::Group(group.to_owned()), share)?;
                }
                row.places.push((lane, turn));
            } else {
                let share = share_of(lane).map(String::as_str);
                self.remove_place(&place(lane, turn), share)?;
            }
        }
        for (lane, share) in wanted {
            if row.places.iter().all(|(placed, _)| *placed != lane) {
                let turn = (self.now, self.next_seq(queue)?);
                let group = Place::Group(group.to_owned());
                self.add_place(place(lane, turn), group, share.as_deref())?;
                row.places.push((lane, turn));
            }
            row.shares.extend(share.map(|share| (lane, share)));
        }
        let key = QueueText {
            queue,
            text: group.to_owned(),
        };
        if row.members == 0 && row.ready.is_empty() {
            self.rows.groups.remove(&mut self.journal, &key);
        } else {
            self.rows.groups.put(&mut self.journal, key, row);
        }
        Ok(())
    }

    /// Where a group is to stand: each lane, with the share of its first job there.
    fn lanes_of_group(
        &self,
        queue: u32,
        group: &str,
        row: &GroupRow,
    ) -> Result<Vec<(u8, Option<String>)>> {
        if row.active.is_some() {
            return Ok(Vec::new());
        }
        if let Some(holding) = row.holding {
            let namespace = self.queue_state(queue)?.namespace;
            let job = self.load_indexed(&JobKey {
                namespace,
                id: holding,
            })?;
            let in_line = job.status.place == JobState::Scheduled
                && self.rows.lines.get(&line_key(&job, group))?.is_some();
            let lane = lane_of(job.status.priority, job.is_suspect());
            let place = in_line.then(|| (lane, job.share().map(str::to_owned)));
            return Ok(place.into_iter().collect());
        }
        let mut lanes = Vec::new();
        for (priority, _) in &row.ready {
            if let Some((_, head)) = self.line_head(queue, group, *priority)? {
                lanes.push((lane_of(*priority, head.suspect), head.share));
            }
        }
        Ok(lanes)
    }
}
