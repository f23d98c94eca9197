//! RabbitMQ, by AMQP 0-9-1: queues as sources, exchanges as sinks.

mod bindings;
mod emit;
mod frame;
mod take;

use lapin::{Connection, ConnectionProperties};
use punctual::time::{seconds, within};

use crate::host::{Failure, Result};

pub(crate) use emit::emit;
pub(crate) use take::{Options, delay, take};

/// Connects once: the relay starts this process again after a failure.
async fn connect(address: &str) -> Result<Connection> {
    if !address.starts_with("amqp://") && !address.starts_with("amqps://") {
        let text = "not an address of a broker; write amqp://USER:PASSWORD@HOST:PORT/VHOST";
        return Err(Failure::new(text));
    }
    let properties = ConnectionProperties::default();
    match within(seconds(10), Connection::connect(address, properties)).await {
        Some(connected) => connected.map_err(|error| Failure::of("the broker", error)),
        None => Err(Failure::new(
            "the broker does not answer in 10 s; is it running?",
        )),
    }
}

fn failed(error: lapin::Error) -> Failure {
    Failure::of("the broker", error)
}
