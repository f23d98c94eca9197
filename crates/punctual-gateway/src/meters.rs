//! What the gateway itself counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    requests: [AtomicU64; 5],
    pub(crate) sockets: AtomicU64,
    pub(crate) claimed: AtomicU64,
    pub(crate) settled: AtomicU64,
    pub(crate) lease_lost: AtomicU64,
    pub(crate) lateness: Buckets,
    pub(crate) run_time: Buckets,
}

impl Meters {
    /// Counts a request by the class of its status.
    pub(crate) fn answered(&self, status: u16) {
        if let Some(class) = self.requests.get(usize::from(status / 100).wrapping_sub(1)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts what workers measured: lateness and run times, page by page.
    pub(crate) fn reported(&self, pages: &[(Vec<u64>, Vec<u64>)]) {
        for (lateness_us, run_time_us) in pages {
            lateness_us.iter().for_each(|us| self.lateness.record(*us));
            run_time_us.iter().for_each(|us| self.run_time.record(*us));
        }
    }

    pub(crate) fn write(&self, text: &mut String) {
        use std::fmt::Write as _;
        let _ = writeln!(text, "# TYPE punctual_http_requests_total counter");
        for (index, count) in self.requests.iter().enumerate() {
            let (class, count) = (index + 1, count.load(Ordering::Relaxed));
            let _ = writeln!(
                text,
                "punctual_http_requests_total{{status=\"{class}xx\"}} {count}"
            );
        }
        for (name, count) in [
            ("punctual_jobs_claimed_total", &self.claimed),
            ("punctual_jobs_settled_total", &self.settled),
            ("punctual_lease_lost_total", &self.lease_lost),
        ] {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "# TYPE {name} counter\n{name} {count}");
        }
        let sockets = self.sockets.load(Ordering::Relaxed);
        let _ = writeln!(
            text,
            "# TYPE punctual_sockets gauge\npunctual_sockets {sockets}"
        );
        self.lateness.write(text, "punctual_lateness_seconds");
        self.run_time.write(text, "punctual_run_time_seconds");
    }
}

/// Upper bounds in microseconds, and how they are written in seconds.
const BOUNDS: [(u64, &str); 12] = [
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (1_000_000, "1"),
    (5_000_000, "5"),
    (60_000_000, "60"),
    (3_600_000_000, "3600"),
    (u64::MAX, "+Inf"),
];

/// A histogram of microseconds.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    counts: [AtomicU64; BOUNDS.len()],
    sum_us: AtomicU64,
}

impl Buckets {
    fn record(&self, us: u64) {
        let index = BOUNDS.iter().position(|(bound, _)| us <= *bound);
        self.counts[index.unwrap_or(BOUNDS.len() - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    fn write(&self, text: &mut String, name: &str) {
        use std::fmt::Write as _;
        let _ = writeln!(text, "# TYPE {name} histogram");
        let mut total = 0;
        for ((_, bound), count) in BOUNDS.iter().zip(&self.counts) {
            total += count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {total}");
        }
        let sum = self.sum_us.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = writeln!(text, "{name}_sum {sum}\n{name}_count {total}");
    }
}
