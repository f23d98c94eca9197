//! The adapters, through the binary: databases and brokers that are real.

mod amqp;
mod outbox;
mod support;

/// What needs a server: `scripts/test-relay` starts them.
mod servers;
