//! What is read of shares: why a job of one waits, which are the largest, when one opens.

use std::ops::Bound;
use std::time::Duration;

use super::Machine;
use super::cursor::Request;
use super::jobs::Loaded;
use super::rows::*;
use super::share_rows::*;
use super::shares::share_key;
use crate::engine::{BlockedShare, Controlled, Cursor, Namespace, Reason, ShareStats};
use crate::error::Result;
use crate::job::JobId;
use crate::time::Timestamp;

/// Shares that statistics read beyond the largest ones.
const SAMPLED: usize = 1_000;

impl Machine {
    /// Places of shares in a queue, lane by lane, for listing.
    pub(super) fn share_places_after(
        &self,
        queue: u32,
        after: Option<&SharePlaceKey>,
        limit: usize,
    ) -> Result<Vec<(SharePlaceKey, Place)>> {
        let start = SharePlaceKey::start_of(queue, 0, "");
        let end = SharePlaceKey::start_of(queue + 1, 0, "");
        let from = after.map_or(Bound::Included(&start), Bound::Excluded);
        let places = &self.rows.share_places;
        places.scan(from, Bound::Excluded(&end), false, limit)
    }

    /// The first instant at which limits of a share with ready jobs open.
    pub(super) fn share_opens(&self, id: u32) -> Result<Option<Timestamp>> {
        if self.derived.shared == 0 || self.queue_state(id)?.shares.is_none() {
            return Ok(None);
        }
        let (start, end) = (ParkKey::start_of(id, 0), ParkKey::start_of(id, 1));
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        let first = self.rows.parked.first(bounds.0, bounds.1)?;
        Ok(first.map(|(key, ())| key.until.max(self.now)))
    }

    /// What the limits of its share say about a ready job, or how many others have a turn first.
    pub(super) fn why_in_share(&self, job: &Loaded, lane: u8) -> Result<Vec<Reason>> {
        let (Some(share), id) = (job.share(), job.spec.queue) else {
            return Ok(Vec::new());
        };
        let share = share.to_owned();
        let Some(row) = self.share_row(id, &share)? else {
            return Ok(Vec::new());
        };
        let limits = self.queue_state(id)?.share_settings();
        let active = row.active;
        let mut reasons = Vec::new();
        if let Some(until) = row.blocked_until.filter(|until| *until > self.now) {
            let share = share.clone();
            reasons.push(match until {
                PAUSED => Reason::SharePaused { share },
                until => Reason::ShareBlocked { share, until },
            });
        }
        if let Some(limit) = limits.concurrency.filter(|limit| active >= *limit) {
            let share = share.clone();
            reasons.push(Reason::ShareConcurrencyReached {
                share,
                limit,
                active,
            });
        }
        if let Some(rate) = limits.rate
            && let Some(until) = row.rate.opens_at(&rate, self.now)
        {
            let share = share.clone();
            reasons.push(Reason::ShareRateReached { share, rate, until });
        }
        let own = row.turns(id, &share).find(|key| key.lane == lane);
        if let Some(own) = own.filter(|_| reasons.is_empty()) {
            let start = TurnKey::start_of(id, lane);
            let bounds = (Bound::Included(&start), Bound::Excluded(&own));
            let ahead = self
                .rows
                .turns
                .scan(bounds.0, bounds.1, false, 1_000)?
                .len();
            if ahead > 0 {
                reasons.push(Reason::ShareTurn { share, ahead });
            }
        }
        Ok(reasons)
    }

    /// Jobs that are claimed before one, of its own share.
    pub(super) fn ahead_in_share(&self, key: &PlaceKey, share: &str, most: usize) -> Result<usize> {
        let start = SharePlaceKey::start_of(key.queue, key.lane, share);
        let own = SharePlaceKey::of(key, share);
        let bounds = (Bound::Included(&start), Bound::Excluded(&own));
        let before = (self.rows.share_places).scan(bounds.0, bounds.1, false, most)?;
        Ok(before.len())
    }

    /// The first jobs of the first few shares of a lane, in the order of turns, and those of closed
    /// ones only if asked for.
    pub(super) fn share_heads(
        &self,
        id: u32,
        lane: u8,
        limit: usize,
    ) -> Result<Vec<(PlaceKey, Place, Timestamp)>> {
        let (start, end) = (TurnKey::start_of(id, lane), TurnKey::start_of(id, lane + 1));
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        let mut heads = Vec::new();
        for (turn, ()) in self.rows.turns.scan(bounds.0, bounds.1, false, limit)? {
            let start = SharePlaceKey::start_of(id, lane, &turn.share);
            let head = (self.rows.share_places).first(Bound::Included(&start), Bound::Unbounded)?;
            let since = self.share_row(id, &turn.share)?;
            let since = since.map_or(Timestamp::ZERO, |row| row.open_since);
            heads.extend(head.map(|(key, place)| (key.place(), place, since)));
        }
        Ok(heads)
    }

    /// The first jobs of a few shares that time has opened and no claim has asked for since, each
    /// with the instant.
    pub(super) fn opened_shares(
        &mut self,
        id: u32,
        limit: usize,
    ) -> Result<Vec<(JobId, Timestamp)>> {
        let mut opened = Vec::new();
        if self.queue_state(id)?.shares.is_none() {
            return Ok(opened);
        }
        let start = ParkKey::start_of(id, 0);
        let end = ParkKey {
            until: self.now + Duration::from_micros(1),
            ..start.clone()
        };
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        for (key, ()) in self.rows.parked.scan(bounds.0, bounds.1, false, limit)? {
            let row = self.share_row(id, &key.share)?;
            for (lane, _) in row.map_or(Vec::new(), |row| row.lanes) {
                let start = SharePlaceKey::start_of(id, lane, &key.share);
                let head =
                    (self.rows.share_places).first(Bound::Included(&start), Bound::Unbounded)?;
                if let Some((place, head)) = head.filter(|(place, _)| place.share == key.share) {
                    opened.push((self.candidate(&place.place(), &head)?, key.until));
                }
            }
        }
        Ok(opened)
    }

    /// The shares of a queue that are blocked or paused, of as many as are examined.
    pub(super) fn blocked_shares(
        &self,
        namespace: &Namespace,
        queue: &str,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Controlled> {
        let request = Request::of(format_args!("blocked {namespace} {queue}"));
        let after = request.text(cursor)?;
        let (mut shares, mut cursor) = (Vec::new(), None);
        let id = self
            .namespace(namespace)
            .and_then(|namespace| self.queue(namespace, queue));
        let Some(id) = id else {
            return Ok(Controlled::BlockedShares { shares, cursor });
        };
        let all = self.queue_state(id)?.shares.as_ref();
        if all.is_some_and(|all| all.row.blocked > 0) {
            let (start, end) = (share_key(id, after.unwrap_or("")), share_key(id + 1, ""));
            let from = match after {
                Some(_) => Bound::Excluded(&start),
                None => Bound::Included(&start),
            };
            let found = (self.rows.shares).scan(from, Bound::Excluded(&end), false, limit)?;
            let last = found.last().filter(|_| found.len() == limit);
            cursor = last.map(|(key, _)| request.cursor(key.text.as_bytes()));
            let blocked = |(key, row): (_, ShareRow)| {
                let QueueText { text, .. } = key;
                let until = row.blocked_until.filter(|until| *until > self.now)?;
                let until = (until != PAUSED).then_some(until);
                Some(BlockedShare::new(text, until))
            };
            shares = found.into_iter().filter_map(blocked).collect();
        }
        Ok(Controlled::BlockedShares { shares, cursor })
    }

    /// The shares with the most ready jobs.
    pub(super) fn top_shares(&self, id: u32, limit: usize) -> Result<Vec<ShareStats>> {
        if limit == 0 || self.queue_state(id)?.shares.is_none() {
            return Ok(Vec::new());
        }
        let key = |queue| LargeShareKey {
            queue,
            class: 0,
            share: String::new(),
        };
        let (start, end) = (key(id), key(id + 1));
        let bounds = (Bound::Included(&start), Bound::Excluded(&end));
        let large = self
            .rows
            .large_shares
            .scan(bounds.0, bounds.1, true, SAMPLED)?;
        let mut rows = Vec::new();
        for (key, ()) in large {
            let row = self.share_row(id, &key.share)?;
            rows.extend(row.map(|row| (key.share, row)));
        }
        if rows.len() < limit {
            let (start, end) = (share_key(id, ""), share_key(id + 1, ""));
            let bounds = (Bound::Included(&start), Bound::Excluded(&end));
            let small = (self.rows.shares).scan(bounds.0, bounds.1, false, SAMPLED)?;
            let small = small.into_iter().filter(|(_, row)| row.class().is_none());
            rows.extend(small.map(|(key, row)| (key.text, row)));
        }
        let limits = self.queue_state(id)?.share_settings();
        let mut shares: Vec<_> = (rows.into_iter())
            .map(|(share, row)| {
                let closed = row.closed(&limits, self.now);
                ShareStats {
                    ready: row.ready(),
                    active: row.active,
                    weight: limits.weight_of(&share),
                    closed: closed.map(|closed| closed.by),
                    opens_at: closed.and_then(|closed| closed.until),
                    share,
                }
            })
            .collect();
        shares.sort_by(|one, other| {
            let most = |share: &ShareStats| std::cmp::Reverse((share.ready, share.active));
            (most(one), &one.share).cmp(&(most(other), &other.share))
        });
        shares.truncate(limit);
        Ok(shares)
    }
}
