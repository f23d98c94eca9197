//! Minutes of a queue, and jobs that fall due, as JSON.

use punctual::engine::{DueBucket, MinuteStats};
use serde::Serialize;
use utoipa::ToSchema;

/// Jobs that fall due within a span.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct DueLine {
    from: String,
    until: String,
    jobs: u64,
}

/// One minute of a queue.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct MinuteLine {
    minute: String,
    enqueued: u64,
    claimed: u64,
    completed: u64,
    failed: u64,
    dead: u64,
    cancelled: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lateness_us: Option<Quantiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_time_us: Option<Quantiles>,
}

/// Median and 99th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub(super) struct Quantiles {
    pub(super) p50: u64,
    pub(super) p99: u64,
}

impl From<&DueBucket> for DueLine {
    fn from(bucket: &DueBucket) -> Self {
        Self {
            from: bucket.from.to_string(),
            until: bucket.until.to_string(),
            jobs: bucket.jobs,
        }
    }
}

impl From<&MinuteStats> for MinuteLine {
    fn from(minute: &MinuteStats) -> Self {
        let quantiles = |pair: Option<(u64, u64)>| pair.map(|(p50, p99)| Quantiles { p50, p99 });
        Self {
            minute: minute.minute.to_string(),
            enqueued: minute.enqueued,
            claimed: minute.claimed,
            completed: minute.completed,
            failed: minute.failed,
            dead: minute.dead,
            cancelled: minute.cancelled,
            lateness_us: quantiles(minute.lateness_us),
            run_time_us: quantiles(minute.run_time_us),
        }
    }
}
