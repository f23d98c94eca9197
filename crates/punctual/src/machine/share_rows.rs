//! The rows of shares: where their jobs stand, whose turn is next, and what is counted of each.

use super::fields::{key, row};
use super::flow_work::NIL;
use super::rows::{PlaceKey, RateRow};
use crate::job::JobId;
use crate::time::Timestamp;

/// Until when a paused share is blocked: no block lasts that long. Redis has the same number, which
/// its scripts know exactly.
pub(crate) const PAUSED: Timestamp = Timestamp::from_micros((1 << 53) - 1);

key!(
    /// A place in a lane of a job with a share, or of a group whose first job has one.
    SharePlaceKey {
        queue: u32,
        lane: u8,
        share: String,
        behind: u8,
        at: Timestamp,
        seq: u64,
    }
);

impl SharePlaceKey {
    pub(crate) fn of(key: &PlaceKey, share: &str) -> Self {
        Self {
            queue: key.queue,
            lane: key.lane,
            share: share.to_owned(),
            behind: key.behind,
            at: key.at,
            seq: key.seq,
        }
    }

    /// At or before every place of a share in a lane.
    pub(crate) fn start_of(queue: u32, lane: u8, share: &str) -> Self {
        Self::of(&PlaceKey::start_of(queue, lane), share)
    }

    /// The place, of any share.
    pub(crate) fn place(&self) -> PlaceKey {
        PlaceKey {
            queue: self.queue,
            lane: self.lane,
            behind: self.behind,
            at: self.at,
            seq: self.seq,
        }
    }
}

key!(
    /// A share that may be claimed from, in the order of turns.
    TurnKey { queue: u32, lane: u8, round: u64, pass: u64, share: String }
);

impl TurnKey {
    /// At or before every turn of a lane.
    pub(crate) fn start_of(queue: u32, lane: u8) -> Self {
        Self {
            queue,
            lane,
            round: 0,
            pass: 0,
            share: String::new(),
        }
    }
}

key!(
    /// A share that is examined again at an instant: ready jobs may start then, or nothing more is
    /// to be remembered of it.
    ParkKey { queue: u32, is_idle: u8, until: Timestamp, share: String }
);

impl ParkKey {
    /// At or before every share of a queue that waits for an instant, with ready jobs or without.
    pub(crate) fn start_of(queue: u32, is_idle: u8) -> Self {
        Self {
            queue,
            is_idle,
            until: Timestamp::ZERO,
            share: String::new(),
        }
    }
}

key!(
    /// A share of many jobs: those with the most come last.
    LargeShareKey { queue: u32, class: u8, share: String }
);

row!(
    /// A share: gone when it has no jobs and nothing to remember.
    ShareRow {
        /// Its jobs that have a lease.
        active: u64,
        /// By lane in which it has ready jobs: its pass there, and its places.
        lanes: Vec<(u8, (u64, u64))>,
        /// The round in which its turns are filed, while it may be claimed from.
        round: Option<u64>,
        /// When it is examined again, and whether nothing of it is ready.
        parked: Option<(u8, Timestamp)>,
        blocked_until: Option<Timestamp>,
        /// Since when its limits let its jobs start.
        open_since: Timestamp,
        rate: RateRow,
    }
);

impl ShareRow {
    pub(crate) fn empty() -> Self {
        Self {
            active: 0,
            lanes: Vec::new(),
            round: None,
            parked: None,
            blocked_until: None,
            open_since: Timestamp::ZERO,
            rate: RateRow::new(),
        }
    }

    /// Its places in all lanes.
    pub(crate) fn ready(&self) -> u64 {
        self.lanes.iter().map(|(_, (_, places))| places).sum()
    }
}

row!(
    /// What the shares of a queue have together: only while there are any.
    SharesRow {
        /// How many have a row.
        shares: u64,
        /// How many of them are blocked.
        blocked: u64,
        /// Jobs with a share that have a lease.
        active: u64,
        /// By lane in which shares have ready jobs.
        lanes: Vec<(u8, LaneShares)>,
        /// After a change of the limits: the last share that was examined since.
        checked: Option<String>,
    }
);

/// The shares that have ready jobs in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LaneShares {
    /// Where turns are: the largest pass with which one was claimed.
    pub(crate) turn: u64,
    /// The pass of jobs without a share, while there are any.
    pub(crate) others: Option<u64>,
    /// Places of shares.
    pub(crate) places: u64,
    /// Those of them whose share's limits are closed.
    pub(crate) parked: u64,
}

key!(
    /// A job of a share that waits, counted under a bound that was set then.
    WaitingKey { queue: u32, since: u64, share: String, id: JobId }
);

impl WaitingKey {
    /// At or before every job that is counted under a bound.
    pub(crate) fn start_of(queue: u32, since: u64) -> Self {
        Self {
            queue,
            since,
            share: String::new(),
            id: NIL,
        }
    }

    /// The count of its share.
    pub(crate) fn count(&self) -> WaitingCountKey {
        WaitingCountKey {
            queue: self.queue,
            since: self.since,
            share: self.share.clone(),
        }
    }
}

key!(
    /// How many jobs of a share wait.
    WaitingCountKey { queue: u32, since: u64, share: String }
);

row!(
    /// That count: none while it is zero.
    WaitingCountRow {
        jobs: u64,
    }
);

row!(
    /// A queue bounds how many jobs of a share wait.
    ShareBoundRow {
        /// The version of the record that set it.
        since: u64,
        /// Where the count of jobs is that waited then: their state, the last one done.
        state: Option<u8>,
        position: Option<Vec<u8>>,
    }
);
