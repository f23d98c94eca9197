//! Metrics in the text format of Prometheus.

use std::fmt::{Display, Write as _};

/// A text in the format of Prometheus, family by family.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// Begins a family: its samples follow at once.
    pub(crate) fn family(&mut self, name: &str, kind: &str) {
        if let Some((_, help)) = HELP.iter().find(|(known, _)| *known == name) {
            let _ = writeln!(self.0, "# HELP {name} {help}");
        }
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
    }

    /// One sample; labels as they stand between the braces.
    pub(crate) fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    /// A family of one sample.
    pub(crate) fn gauge(&mut self, name: &str, value: impl Display) {
        self.family(name, "gauge");
        self.sample(name, "", value);
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

const HELP: [(&str, &str); 38] = [
    (
        "punctual_jobs",
        "Jobs by queue and state, the queues with most jobs by name.",
    ),
    (
        "punctual_oldest_due_seconds",
        "Age of the oldest due job that could be claimed.",
    ),
    ("punctual_queue_paused", "Whether a queue is paused."),
    (
        "punctual_queue_limited",
        "Whether a limit of a queue is closed, of queues that have limits.",
    ),
    (
        "punctual_queue_limit_wait_seconds",
        "How long the oldest due job waits at a closed limit.",
    ),
    (
        "punctual_limit_active",
        "Active jobs with a named limit, of the first 100 by name.",
    ),
    (
        "punctual_limit_waiting",
        "Ready jobs that a named limit keeps from starting.",
    ),
    ("punctual_limit_closed", "Whether a named limit is closed."),
    (
        "punctual_queue_late",
        "Whether due jobs of a queue wait although a worker has a free slot.",
    ),
    (
        "punctual_schedules_overdue",
        "Schedules without a run that completed for longer than expected, at most 100.",
    ),
    (
        "punctual_flows",
        "Flows by state, of the first 10,000 by name; settled ones while they are kept.",
    ),
    (
        "punctual_flow_still_seconds",
        "The longest time that a running flow has had no step that ended, as this process saw.",
    ),
    (
        "punctual_published_total",
        "Messages published by this process: matched, unmatched, or with an outcome.",
    ),
    (
        "punctual_workers",
        "Workers that claimed in the last minute.",
    ),
    (
        "punctual_healthy",
        "Whether the engine is healthy, as /healthz reports.",
    ),
    (
        "punctual_clock_jumps_total",
        "Backward clock steps, and pauses longer than half a lease.",
    ),
    (
        "punctual_store_bytes",
        "Bytes that the store uses in memory and on disk.",
    ),
    ("punctual_http_requests_total", "Requests by status class."),
    ("punctual_sockets", "Open WebSockets."),
    (
        "punctual_body_bytes",
        "Bytes of request bodies that are being received.",
    ),
    ("punctual_claimed_total", "Attempts started."),
    ("punctual_settled_total", "Attempts settled, by outcome."),
    (
        "punctual_retries_total",
        "Failed attempts that will be retried.",
    ),
    ("punctual_lease_lost_total", "Calls answered lease_lost."),
    (
        "punctual_lateness_seconds",
        "Handler start minus due, as measured by workers.",
    ),
    (
        "punctual_limit_wait_seconds",
        "What started jobs had waited at limits of their queues, not counted as late.",
    ),
    (
        "punctual_run_time_seconds",
        "Handler run time, as measured by workers.",
    ),
    (
        "punctual_engine_seconds",
        "Round trips to the engine by verb.",
    ),
    (
        "punctual_fsync_seconds",
        "Syncs of the embedded engine's log to disk.",
    ),
    (
        "punctual_enqueued_total",
        "Jobs that were sent, by verdict.",
    ),
    ("punctual_active", "Handlers running in this process."),
    ("punctual_relay_up", "Whether a relay runs."),
    (
        "punctual_relay_lag",
        "Messages that wait in the source of a relay, if it reports them.",
    ),
    (
        "punctual_relay_received_total",
        "Messages that a relay took from its source.",
    ),
    ("punctual_relay_enqueued_total", "Jobs that a relay stored."),
    (
        "punctual_relay_emitted_total",
        "Jobs that the other system took.",
    ),
    (
        "punctual_relay_refused_total",
        "Messages that are no jobs, and jobs that the other system refused.",
    ),
    (
        "punctual_relay_restarts_total",
        "Starts of a relay after a failure.",
    ),
];
