//! Metrics of a worker.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use crate::job::Outcome;

/// Which handles count a job: its queue's and its kind's place in the worker's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) queue: u16,
    pub(super) kind: u16,
}

/// The worker's metrics. Labels are bounded: the worker's own queues and registered kinds, and
/// `other`. Handles are made once, at the first use, with the recorder installed by then.
pub(super) struct Metrics {
    queues: Vec<String>,
    kinds: Vec<String>,
    cells: Vec<OnceLock<Cell>>,
    active: Gauge,
    lease_lost: Counter,
}

struct Cell {
    claimed: Counter,
    retries: Counter,
    outcomes: [Counter; OUTCOMES.len()],
    lateness: Histogram,
    /// Made with the first job that waited: few queues have limits.
    limit_wait: OnceLock<Histogram>,
    run_time: Histogram,
}

const OUTCOMES: [&str; 7] = [
    "completed",
    "retry",
    "snooze",
    "cancelled",
    "dead",
    "released",
    "hold",
];
const OTHER: &str = "other";

impl Metrics {
    /// The kinds in their order.
    pub(super) fn new(mut queues: Vec<String>, mut kinds: Vec<String>) -> Self {
        queues.push(OTHER.into());
        kinds.push(OTHER.into());
        let cells = queues.len() * kinds.len();
        Self {
            queues,
            kinds,
            cells: std::iter::repeat_with(OnceLock::new).take(cells).collect(),
            active: gauge!("punctual_active"),
            lease_lost: counter!("punctual_lease_lost_total"),
        }
    }

    pub(super) fn labels(&self, queue: &str, kind: &str) -> Labels {
        let (queues, kinds) = (self.queues.len() - 1, self.kinds.len() - 1);
        let known = self.queues[..queues].iter().position(|name| name == queue);
        let of_kind = self.kinds[..kinds].binary_search_by(|name| name.as_str().cmp(kind));
        Labels {
            queue: known.unwrap_or(queues) as u16,
            kind: of_kind.unwrap_or(kinds) as u16,
        }
    }

    pub(super) fn claimed(&self, labels: Labels) {
        self.cell(labels).claimed.increment(1);
    }

    pub(super) fn started(&self, labels: Labels, lateness: Duration, limited: Duration) {
        self.active.increment(1);
        let cell = self.cell(labels);
        cell.lateness.record(lateness);
        if !limited.is_zero() {
            let limit_wait = || {
                let (queue, kind) = self.names(labels);
                histogram!("punctual_limit_wait_seconds", "queue" => queue, "kind" => kind)
            };
            cell.limit_wait.get_or_init(limit_wait).record(limited);
        }
    }

    /// A handler's task is over; without a run time its slot had been given up before.
    pub(super) fn ended(&self, labels: Labels, run_time: Option<Duration>) {
        self.active.decrement(1);
        if let Some(run_time) = run_time {
            self.cell(labels).run_time.record(run_time);
        }
    }

    pub(super) fn settled(&self, labels: Labels, outcome: &Outcome) {
        let cell = self.cell(labels);
        let at = match outcome {
            Outcome::Completed => 0,
            Outcome::Retry { .. } => 1,
            Outcome::Snooze { .. } => 2,
            Outcome::Cancelled => 3,
            Outcome::Dead => 4,
            Outcome::Released => 5,
            Outcome::Hold { .. } => 6,
        };
        cell.outcomes[at].increment(1);
        if at == 1 {
            cell.retries.increment(1);
        }
    }

    pub(super) fn lease_lost(&self, jobs: usize) {
        self.lease_lost.increment(jobs as u64);
    }

    fn names(&self, labels: Labels) -> (String, String) {
        let queue = &self.queues[usize::from(labels.queue)];
        (queue.clone(), self.kinds[usize::from(labels.kind)].clone())
    }

    fn cell(&self, labels: Labels) -> &Cell {
        let (queue, kind) = (usize::from(labels.queue), usize::from(labels.kind));
        self.cells[queue * self.kinds.len() + kind].get_or_init(|| {
            let (queue, kind) = self.names(labels);
            let both = [("queue", queue.clone()), ("kind", kind.clone())];
            let outcomes = OUTCOMES.map(|outcome| {
                let (queue, kind) = (queue.clone(), kind.clone());
                counter!(
                    "punctual_settled_total",
                    "queue" => queue, "kind" => kind, "outcome" => outcome
                )
            });
            Cell {
                claimed: counter!("punctual_claimed_total", &both),
                retries: counter!("punctual_retries_total", &both),
                outcomes,
                lateness: histogram!("punctual_lateness_seconds", &both),
                limit_wait: OnceLock::new(),
                run_time: histogram!("punctual_run_time_seconds", &both),
            }
        })
    }
}
