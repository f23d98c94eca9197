//! RabbitMQ, by AMQP 0-9-1: queues as sources, exchanges as sinks.

mod bindings;
mod emit;
mod frame;
mod take;

use lapin::options::ExchangeDeclareOptions;
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use punctual::time::{seconds, within};

use crate::host::{Failure, Result};

pub(crate) use emit::emit;
pub(crate) use take::{Options, Target, delay, take};

/// Connects once: the relay starts this process again after a failure.
async fn connect(address: &str) -> Result<Connection> {
    const FORM: &str = "not an address of a broker; write amqp://USER:PASSWORD@HOST:PORT/VHOST";
    let uri: AMQPUri = address.parse().map_err(|_| Failure::setting(FORM))?;
    let properties = ConnectionProperties::default();
    let connected = Connection::connect(address, properties);
    let error = match within(seconds(10), connected).await {
        Some(Ok(connection)) => return Ok(connection),
        Some(Err(error)) => error,
        None => {
            let text = "the broker does not answer in 10 s; is it running?";
            return Err(Failure::new(text));
        }
    };
    let (user, vhost) = (&uri.authority.userinfo.username, &uri.vhost);
    Err(match refusal(&error) {
        Some(ACCESS_REFUSED) => Failure::setting(format!(
            "the broker refuses the user {user:?} or the password; check both in the address: {error}"
        )),
        Some(NOT_ALLOWED) => Failure::setting(format!(
            "the broker has no vhost {vhost:?}, or the user {user:?} may not use it: {error}"
        )),
        _ => Failure::of("the broker does not answer; is it running?", error),
    })
}

/// Declares an exchange to which messages go, durable.
async fn declare(channel: &Channel, exchange: &str, kind: &str) -> Result<()> {
    let durable = ExchangeDeclareOptions {
        durable: true,
        ..Default::default()
    };
    let kind = match kind {
        "direct" => ExchangeKind::Direct,
        "fanout" => ExchangeKind::Fanout,
        "topic" => ExchangeKind::Topic,
        "headers" => ExchangeKind::Headers,
        other => ExchangeKind::Custom(other.into()),
    };
    let declared = channel.exchange_declare(exchange.into(), kind, durable, FieldTable::default());
    declared.await.map_err(at_start)
}

/// Reply codes of AMQP that no retry mends.
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const PRECONDITION_FAILED: u16 = 406;
const COMMAND_INVALID: u16 = 503;
const NOT_ALLOWED: u16 = 530;

/// The reply code with which the broker refused.
fn refusal(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        lapin::ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}

/// An error of what is declared or consumed at the start.
fn at_start(error: lapin::Error) -> Failure {
    let what = match refusal(&error) {
        Some(ACCESS_REFUSED) => "the user may not do that at the broker",
        Some(NOT_FOUND) => "the broker has no such queue or exchange",
        Some(PRECONDITION_FAILED) => "the queue or the exchange is there with other settings",
        Some(COMMAND_INVALID | NOT_ALLOWED) => "the broker does not allow that",
        _ => return failed(error),
    };
    Failure::setting(format!("{what}: {error}"))
}

fn failed(error: lapin::Error) -> Failure {
    Failure::of("the broker", error)
}
