//! Many queues as one.

use std::collections::BTreeMap;

use punctual::engine::{DueBucket, MinuteStats};
use punctual::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::minutes::{DueLine, MinuteLine, Quantiles};

/// Full minutes that are recent, beside the one that runs.
const RECENT_MINUTES: u64 = 5;
const MINUTE_US: u64 = 60_000_000;

/// Several queues as one: counts are added up, medians weighted, of 99th percentiles the worst.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Total {
    history: Vec<MinuteLine>,
    due: Vec<DueLine>,
}

/// What happened to a queue in the last five full minutes and the one that runs.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Recent {
    enqueued: u64,
    claimed: u64,
    completed: u64,
    failed: u64,
    dead: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_us: Option<Quantiles>,
}

/// So many minutes before an instant.
pub(crate) fn minutes_before(at: Timestamp, minutes: u64) -> Timestamp {
    Timestamp::from_micros(at.as_micros().saturating_sub(minutes * MINUTE_US))
}

/// Adds up queues.
#[derive(Debug)]
pub(crate) struct Sum {
    since: Timestamp,
    recent: Timestamp,
    minutes: BTreeMap<Timestamp, Minute>,
    due: BTreeMap<(Timestamp, Timestamp), u64>,
}

impl Sum {
    /// Of the minutes up to `now`, so many.
    pub(crate) fn new(now: Timestamp, reported: u64) -> Self {
        let begun = Timestamp::from_micros(now.as_micros() / MINUTE_US * MINUTE_US);
        Self {
            since: minutes_before(now, reported),
            recent: minutes_before(begun, RECENT_MINUTES),
            minutes: BTreeMap::new(),
            due: BTreeMap::new(),
        }
    }

    /// Adds what falls due.
    pub(crate) fn due(&mut self, buckets: Vec<DueBucket>) {
        for bucket in buckets.into_iter().filter(|bucket| bucket.jobs > 0) {
            *self.due.entry((bucket.from, bucket.until)).or_default() += bucket.jobs;
        }
    }

    /// Adds the past of one queue; answers its recent part, unless nothing happened.
    pub(crate) fn history(&mut self, history: &[MinuteStats]) -> Option<Recent> {
        let mut recent: Option<Minute> = None;
        for minute in history {
            if minute.minute >= self.since {
                self.minutes
                    .entry(minute.minute)
                    .or_insert_with(|| Minute::at(minute.minute))
                    .add(minute);
            }
            if minute.minute >= self.recent {
                recent
                    .get_or_insert_with(|| Minute::at(self.recent))
                    .add(minute);
            }
        }
        let sum = recent?.sum();
        Some(Recent {
            enqueued: sum.enqueued,
            claimed: sum.claimed,
            completed: sum.completed,
            failed: sum.failed,
            dead: sum.dead,
            lateness_us: sum.lateness_us.map(|(p50, p99)| Quantiles { p50, p99 }),
        })
    }

    pub(crate) fn total(self) -> Total {
        let due = self.due.into_iter().map(|((from, until), jobs)| {
            let bucket = DueBucket::new(from, until, jobs);
            DueLine::from(&bucket)
        });
        Total {
            due: due.collect(),
            history: self
                .minutes
                .into_values()
                .map(|minute| MinuteLine::from(&minute.sum()))
                .collect(),
        }
    }
}

/// One minute of several queues, its medians not divided yet.
#[derive(Debug)]
struct Minute {
    counts: MinuteStats,
    lateness: Weighted,
    run_time: Weighted,
}

#[derive(Debug, Default)]
struct Weighted {
    sum: u128,
    weight: u128,
    worst: u64,
}

impl Weighted {
    fn add(&mut self, (p50, p99): (u64, u64), weight: u64) {
        let weight = u128::from(weight.max(1));
        self.sum += u128::from(p50) * weight;
        self.weight += weight;
        self.worst = self.worst.max(p99);
    }

    fn quantiles(&self) -> Option<(u64, u64)> {
        let p50 = self.sum.checked_div(self.weight)?;
        Some((p50 as u64, self.worst))
    }
}

impl Minute {
    fn at(minute: Timestamp) -> Self {
        Self {
            counts: MinuteStats::new(minute),
            lateness: Weighted::default(),
            run_time: Weighted::default(),
        }
    }

    fn add(&mut self, minute: &MinuteStats) {
        let counts = &mut self.counts;
        counts.enqueued += minute.enqueued;
        counts.claimed += minute.claimed;
        counts.completed += minute.completed;
        counts.failed += minute.failed;
        counts.dead += minute.dead;
        counts.cancelled += minute.cancelled;
        if let Some(pair) = minute.lateness_us {
            self.lateness.add(pair, minute.claimed);
        }
        if let Some(pair) = minute.run_time_us {
            let ended = minute.completed + minute.failed;
            self.run_time.add(pair, ended);
        }
    }

    fn sum(self) -> MinuteStats {
        let mut minute = self.counts;
        minute.lateness_us = self.lateness.quantiles();
        minute.run_time_us = self.run_time.quantiles();
        minute
    }
}
