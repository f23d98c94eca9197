//! The buckets of histograms.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::HistogramFn;

/// Upper bounds in seconds, and how they are written.
const BOUNDS: [(f64, &str); 14] = [
    (0.000_5, "0.0005"),
    (0.001, "0.001"),
    (0.002_5, "0.0025"),
    (0.005, "0.005"),
    (0.01, "0.01"),
    (0.025, "0.025"),
    (0.05, "0.05"),
    (0.1, "0.1"),
    (0.25, "0.25"),
    (1.0, "1"),
    (5.0, "5"),
    (60.0, "60"),
    (3_600.0, "3600"),
    (f64::INFINITY, "+Inf"),
];

/// A histogram of spans in seconds.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    counts: [AtomicU64; BOUNDS.len()],
    sum_us: AtomicU64,
}

impl Buckets {
    /// Spans up to and with each bound, and their sum in seconds.
    pub(super) fn read(&self) -> (Vec<(&'static str, u64)>, f64) {
        let mut total = 0;
        let up_to = BOUNDS.iter().zip(&self.counts).map(|((_, bound), count)| {
            total += count.load(Ordering::Relaxed);
            (*bound, total)
        });
        let up_to = up_to.collect();
        (up_to, self.sum_us.load(Ordering::Relaxed) as f64 / 1e6)
    }
}

impl HistogramFn for Buckets {
    fn record(&self, seconds: f64) {
        let index = BOUNDS.iter().position(|(bound, _)| seconds <= *bound);
        let index = index.unwrap_or(BOUNDS.len() - 1);
        self.counts[index].fetch_add(1, Ordering::Relaxed);
        let us = (seconds * 1e6).round() as u64;
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}
