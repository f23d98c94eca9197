//! Targets on RabbitMQ: `amqp:EXCHANGE/KEY`.

use crate::error::{Error, ErrorKind, Result};

/// What targets on RabbitMQ start with, and the names of queues of jobs that have one.
pub const AMQP_PREFIX: &str = "amqp:";
/// The queue of jobs with a target on RabbitMQ for which none was named.
pub const AMQP_DEFAULT_QUEUE: &str = "amqp:default";

/// The bounds of AMQP 0-9-1 for names and keys are 255 bytes; RabbitMQ takes names of 127.
const EXCHANGE_BYTES_MAX: usize = 127;
const KEY_BYTES_MAX: usize = 255;

/// Whether jobs of that queue are published to RabbitMQ, each to its target.
pub fn is_amqp_queue(name: &str) -> bool {
    name.starts_with(AMQP_PREFIX)
}

/// Where a job is published on RabbitMQ.
///
/// ```
/// use punctual::push::AmqpTarget;
///
/// let target = AmqpTarget::parse("amqp:orders/order.7.paid")?;
/// assert_eq!((target.exchange, target.key), ("orders", "order.7.paid"));
/// // Without a name it is the default exchange, whose routing keys are names of queues.
/// assert_eq!(AmqpTarget::parse("amqp:/mail")?.exchange, "");
/// assert!(AmqpTarget::parse("amqp:orders").is_err());
/// # Ok::<(), punctual::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AmqpTarget<'a> {
    /// The exchange; empty for the default one.
    pub exchange: &'a str,
    /// The routing key; it may be empty, and may have a `/`.
    pub key: &'a str,
}

impl<'a> AmqpTarget<'a> {
    /// Whether a target is one of RabbitMQ, however well it is written.
    pub fn is(target: &str) -> bool {
        let scheme = target.get(..AMQP_PREFIX.len());
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(AMQP_PREFIX))
    }

    /// Reads a target.
    ///
    /// # Errors
    /// `permanent`: the text starts with `target_refused` and says what is wrong.
    pub fn parse(target: &'a str) -> Result<Self> {
        let Some(rest) = target.strip_prefix(AMQP_PREFIX) else {
            return Err(refused("it does not start with amqp:"));
        };
        if rest.starts_with("//") {
            let why = "it is the address of a broker, which the relay has";
            return Err(refused(why));
        }
        let Some((exchange, key)) = rest.split_once('/') else {
            return Err(refused(
                "it has no / between the exchange and the routing key",
            ));
        };
        if exchange.len() > EXCHANGE_BYTES_MAX {
            return Err(refused("its exchange is over 127 bytes"));
        }
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
        if !exchange.bytes().all(is_good) {
            return Err(refused("its exchange has more than a-z A-Z 0-9 . _ - :"));
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(refused("its routing key is over 255 bytes"));
        }
        if key.chars().any(char::is_control) {
            return Err(refused("its routing key has control characters"));
        }
        if exchange.is_empty() && key.is_empty() {
            return Err(refused("it names neither an exchange nor a routing key"));
        }
        Ok(Self { exchange, key })
    }
}

fn refused(why: &str) -> Error {
    let text = format!("target_refused: {why}; write amqp:EXCHANGE/KEY, as amqp:orders/paid");
    Error::new(ErrorKind::Permanent, text)
}
