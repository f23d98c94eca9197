//! Every metric, with its kind and its help text.
//!
//! Generated from `punctual-contract`; change the tables there and run `cargo run -p
//! punctual-contract`.

/// Name, kind and help.
#[rustfmt::skip]
pub(super) const METRICS: &[(&str, &str, &str)] = &[
    ("punctual_jobs", "gauge", "Jobs by queue and state, the queues with most jobs by name."),
    ("punctual_oldest_due_seconds", "gauge", "Age of the oldest due job that could be claimed."),
    ("punctual_queue_paused", "gauge", "Whether a queue is paused."),
    ("punctual_queue_limited", "gauge", "Whether a limit of a queue is closed, of queues that have limits."),
    ("punctual_queue_limit_wait_seconds", "gauge", "How long the oldest due job waits at a closed limit."),
    ("punctual_limit_active", "gauge", "Active jobs with a named limit, of the first 100 by name."),
    ("punctual_limit_waiting", "gauge", "Ready jobs that a named limit keeps from starting."),
    ("punctual_limit_closed", "gauge", "Whether a named limit is closed."),
    ("punctual_queue_late", "gauge", "Whether due jobs of a queue wait although a worker has a free slot."),
    ("punctual_lateness_seconds", "histogram", "Handler start minus due, as measured by workers."),
    ("punctual_run_time_seconds", "histogram", "Handler run time, as measured by workers."),
    ("punctual_enqueued_total", "counter", "Jobs that were sent, by verdict."),
    ("punctual_claimed_total", "counter", "Attempts started."),
    ("punctual_settled_total", "counter", "Attempts settled, by outcome."),
    ("punctual_retries_total", "counter", "Failed attempts that will be retried."),
    ("punctual_lease_lost_total", "counter", "Calls answered lease_lost."),
    ("punctual_limit_wait_seconds", "histogram", "What started jobs had waited at limits of their queues, not counted as late."),
    ("punctual_active", "gauge", "Handlers running in this process."),
    ("punctual_workers", "gauge", "Workers that claimed in the last minute."),
    ("punctual_schedules_overdue", "gauge", "Schedules without a run that completed for longer than expected, at most 100."),
    ("punctual_flows", "gauge", "Flows by state, of the first 10,000 by name; settled ones while they are kept."),
    ("punctual_flow_still_seconds", "gauge", "The longest time that a running flow has had no step that ended, as this process saw."),
    ("punctual_published_total", "counter", "Messages published by this process: matched, unmatched, or with an outcome."),
    ("punctual_relay_up", "gauge", "Whether a relay runs."),
    ("punctual_relay_lag", "gauge", "Messages that wait in the source of a relay, if it reports them."),
    ("punctual_relay_received_total", "counter", "Messages that a relay took from its source."),
    ("punctual_relay_enqueued_total", "counter", "Jobs that a relay stored."),
    ("punctual_relay_emitted_total", "counter", "Jobs that the other system took."),
    ("punctual_relay_refused_total", "counter", "Messages that are no jobs, and jobs that the other system refused."),
    ("punctual_relay_restarts_total", "counter", "Starts of a relay after a failure."),
    ("punctual_healthy", "gauge", "Whether the engine is healthy, as /healthz reports."),
    ("punctual_clock_jumps_total", "counter", "Backward clock steps, and pauses longer than half a lease."),
    ("punctual_store_bytes", "gauge", "Bytes that the store uses in memory and on disk."),
    ("punctual_fsync_seconds", "histogram", "Syncs of the embedded engine's log to disk."),
    ("punctual_engine_seconds", "histogram", "Round trips to the engine by verb."),
    ("punctual_http_requests_total", "counter", "Requests by status class."),
    ("punctual_sockets", "gauge", "Open WebSockets."),
    ("punctual_body_bytes", "gauge", "Bytes of request bodies that are being received."),
];
