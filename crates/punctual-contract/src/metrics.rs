//! Metrics: what the server exports to Prometheus, and what a Rust program records.

/// How a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that goes up and down.
    Gauge,
    /// A count that only grows.
    Counter,
    /// Spans, by buckets.
    Histogram,
}

impl Kind {
    /// Its name in the text format of Prometheus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it counts.
    pub kind: Kind,
    /// Its labels; empty for none.
    pub labels: &'static str,
    /// What it counts: the help text.
    pub help: &'static str,
    /// What the page says besides; empty for nothing.
    pub note: &'static str,
}

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static str,
    help: &'static str,
    note: &'static str,
) -> Metric {
    Metric {
        name,
        kind,
        labels,
        help,
        note,
    }
}

/// Every metric, in the order of `docs/watching.md`.
pub const METRICS: &[Metric] = &[
    metric(
        "punctual_jobs",
        Kind::Gauge,
        "queue, state",
        "Jobs by queue and state, the queues with most jobs by name.",
        "of the token's namespace, as all that has the label `queue` or `limit`",
    ),
    metric(
        "punctual_oldest_due_seconds",
        Kind::Gauge,
        "queue",
        "Age of the oldest due job that could be claimed.",
        "",
    ),
    metric(
        "punctual_queue_paused",
        Kind::Gauge,
        "queue",
        "Whether a queue is paused.",
        "",
    ),
    metric(
        "punctual_queue_limited",
        Kind::Gauge,
        "queue",
        "Whether a limit of a queue is closed, of queues that have limits.",
        "[limits](limits.md)",
    ),
    metric(
        "punctual_queue_limit_wait_seconds",
        Kind::Gauge,
        "queue",
        "How long the oldest due job waits at a closed limit.",
        "it is not late meanwhile",
    ),
    metric(
        "punctual_limit_active",
        Kind::Gauge,
        "limit",
        "Active jobs with a named limit, of the first 100 by name.",
        "[named limits](limits.md#named-limits)",
    ),
    metric(
        "punctual_limit_waiting",
        Kind::Gauge,
        "limit",
        "Ready jobs that a named limit keeps from starting.",
        "",
    ),
    metric(
        "punctual_limit_closed",
        Kind::Gauge,
        "limit",
        "Whether a named limit is closed.",
        "",
    ),
    metric(
        "punctual_queue_late",
        Kind::Gauge,
        "queue",
        "Whether due jobs of a queue wait although a worker has a free slot.",
        "as above; for `other` their number",
    ),
    metric(
        "punctual_lateness_seconds",
        Kind::Histogram,
        "",
        "Handler start minus due, as measured by workers.",
        "from the instant the claim was sent, so at most that; of the token's namespace, as the next five rows",
    ),
    metric(
        "punctual_run_time_seconds",
        Kind::Histogram,
        "",
        "Handler run time, as measured by workers.",
        "",
    ),
    metric(
        "punctual_enqueued_total",
        Kind::Counter,
        "verdict",
        "Jobs that were sent, by verdict.",
        "a Rust program has it by `queue` and `kind` too",
    ),
    metric(
        "punctual_claimed_total",
        Kind::Counter,
        "queue",
        "Attempts started.",
        "",
    ),
    metric(
        "punctual_settled_total",
        Kind::Counter,
        "outcome",
        "Attempts settled, by outcome.",
        "",
    ),
    metric(
        "punctual_retries_total",
        Kind::Counter,
        "",
        "Failed attempts that will be retried.",
        "",
    ),
    metric(
        "punctual_lease_lost_total",
        Kind::Counter,
        "",
        "Calls answered lease_lost.",
        "",
    ),
    metric(
        "punctual_limit_wait_seconds",
        Kind::Histogram,
        "queue, kind",
        "What started jobs had waited at limits of their queues, not counted as late.",
        "only in a Rust program that runs a `Worker`",
    ),
    metric(
        "punctual_active",
        Kind::Gauge,
        "",
        "Handlers running in this process.",
        "",
    ),
    metric(
        "punctual_workers",
        Kind::Gauge,
        "",
        "Workers that claimed in the last minute.",
        "",
    ),
    metric(
        "punctual_schedules_overdue",
        Kind::Gauge,
        "",
        "Schedules without a run that completed for longer than expected, at most 100.",
        "[schedules](schedules.md)",
    ),
    metric(
        "punctual_flows",
        Kind::Gauge,
        "state",
        "Flows by state, of the first 10,000 by name; settled ones while they are kept.",
        "[flows](flows.md) of the token's namespace",
    ),
    metric(
        "punctual_flow_still_seconds",
        Kind::Gauge,
        "",
        "The longest time that a running flow has had no step that ended, as this process saw.",
        "it waits for a person, a signal or a worker",
    ),
    metric(
        "punctual_published_total",
        Kind::Counter,
        "result",
        "Messages published by this process: matched, unmatched, or with an outcome.",
        "[topics](topics.md); `matched`, `unmatched` or `with_outcome` of an attempt",
    ),
    metric(
        "punctual_relay_up",
        Kind::Gauge,
        "relay",
        "Whether a relay runs.",
        "[relays](relay.md#relays-of-a-server) of the token's namespace that this server runs",
    ),
    metric(
        "punctual_relay_lag",
        Kind::Gauge,
        "relay",
        "Messages that wait in the source of a relay, if it reports them.",
        "",
    ),
    metric(
        "punctual_relay_received_total",
        Kind::Counter,
        "relay",
        "Messages that a relay took from its source.",
        "`rate()` of the totals is their rate",
    ),
    metric(
        "punctual_relay_enqueued_total",
        Kind::Counter,
        "relay",
        "Jobs that a relay stored.",
        "",
    ),
    metric(
        "punctual_relay_emitted_total",
        Kind::Counter,
        "relay",
        "Jobs that the other system took.",
        "",
    ),
    metric(
        "punctual_relay_refused_total",
        Kind::Counter,
        "relay",
        "Messages that are no jobs, and jobs that the other system refused.",
        "",
    ),
    metric(
        "punctual_relay_restarts_total",
        Kind::Counter,
        "relay",
        "Starts of a relay after a failure.",
        "",
    ),
    metric(
        "punctual_healthy",
        Kind::Gauge,
        "",
        "Whether the engine is healthy, as /healthz reports.",
        "",
    ),
    metric(
        "punctual_clock_jumps_total",
        Kind::Counter,
        "",
        "Backward clock steps, and pauses longer than half a lease.",
        "",
    ),
    metric(
        "punctual_store_bytes",
        Kind::Gauge,
        "",
        "Bytes that the store uses in memory and on disk.",
        "scope `operator`",
    ),
    metric(
        "punctual_fsync_seconds",
        Kind::Histogram,
        "",
        "Syncs of the embedded engine's log to disk.",
        "scope `operator`",
    ),
    metric(
        "punctual_engine_seconds",
        Kind::Histogram,
        "verb",
        "Round trips to the engine by verb.",
        "",
    ),
    metric(
        "punctual_http_requests_total",
        Kind::Counter,
        "status",
        "Requests by status class.",
        "",
    ),
    metric("punctual_sockets", Kind::Gauge, "", "Open WebSockets.", ""),
    metric(
        "punctual_body_bytes",
        Kind::Gauge,
        "",
        "Bytes of request bodies that are being received.",
        "",
    ),
];
