//! The public interface, as users meet it; and the law, run on the memory engine.

mod conformance;
mod contract;
mod dead_letters;
mod examples;
mod histories;
mod locks;
mod queue;
mod queue_jobs;
mod reduced;
mod schedule_oracle;
mod schedule_success;
mod support;
mod testing;
mod worker;
mod worker_batches;
mod worker_effects;
mod worker_faults;
mod worker_idle;
mod worker_joins;
mod worker_leases;
mod worker_metrics;
#[cfg(feature = "otel")]
mod worker_otel;
mod worker_publish;
mod worker_shutdown;
mod worker_steps;
mod worker_suspects;
mod worker_trace;
