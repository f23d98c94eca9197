//! Databases and brokers that `scripts/test-relay` starts.

mod crashes;
mod databases;
mod drills;
mod exec_examples;
mod rabbitmq;
mod targets;
mod ttl;

/// The address that a script put into the environment.
fn address(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set; run scripts/test-relay, which starts the server")
    })
}
