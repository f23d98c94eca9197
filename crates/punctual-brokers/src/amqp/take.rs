//! A queue of a broker as a source: messages are acknowledged once their jobs are stored.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind};
use punctual::time::{Timestamp, millis, within};
use serde_json::{Map, Value, json};

use super::frame::{DELAY, Death, Frame, HEADER, deaths, header, whole};
use super::{at_start, bindings, connect, declare, failed, refusal};
use crate::host::{Failure, Host, Line, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Messages that are taken and not yet acknowledged, at most
    #[arg(long, default_value_t = 500)]
    batch: u16,
    /// Take the message_id of publishers for the identity of a message
    #[arg(long)]
    trust_message_id: bool,
}

/// Takes from a queue that is there.
pub(crate) async fn take(address: &str, queue: &str, options: &Options) -> Result<()> {
    let connection = connect(address).await?;
    let channel = connection.create_channel().await.map_err(failed)?;
    consume(&channel, queue, options, None).await
}

/// The exchange to which messages go when they are due, if it is to be declared.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// The exchange to which messages go, to declare it
    #[arg(long, requires = "to_type")]
    to: Option<String>,
    /// Its type
    #[arg(long, requires = "to")]
    to_type: Option<String>,
}

/// Declares the exchange to which publishers send, and takes from a queue behind it.
pub(crate) async fn delay(
    address: &str,
    exchange: &str,
    management: Option<&str>,
    target: &Target,
    options: &Options,
) -> Result<()> {
    let queue = format!("punctual.{exchange}");
    let connection = connect(address).await?;
    bindings::check(address, management, exchange, &queue).await?;
    let channel = connection.create_channel().await.map_err(failed)?;
    // Before the first message is due: consumers bind to it as soon as this relay runs.
    if let (Some(to), Some(kind)) = (&target.to, &target.to_type) {
        declare(&channel, to, kind).await?;
    }
    let declared = channel.exchange_declare(
        exchange.into(),
        ExchangeKind::Fanout,
        ExchangeDeclareOptions {
            durable: true,
            ..Default::default()
        },
        FieldTable::default(),
    );
    declared.await.map_err(|error| {
        let is_setting = refusal(&error).is_some();
        let text = "the exchange cannot be declared as a durable fanout; delete the old one first, and \
                    bind consumers to the target exchange";
        let mut failure = Failure::of(text, error);
        failure.is_setting = is_setting;
        failure
    })?;
    let mut arguments = FieldTable::default();
    arguments.insert(
        "x-queue-type".into(),
        AMQPValue::LongString("quorum".into()),
    );
    let durable = QueueDeclareOptions {
        durable: true,
        ..Default::default()
    };
    channel
        .queue_declare(queue.as_str().into(), durable, arguments)
        .await
        .map_err(at_start)?;
    let bound = channel.queue_bind(
        queue.as_str().into(),
        exchange.into(),
        "".into(),
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    bound.await.map_err(at_start)?;
    consume(&channel, &queue, options, Some(CRASHES_MAX)).await
}

/// The crashes of a delayed message: a relay only publishes it, so that one which is killed says
/// nothing of the message. After the usual three it would be dead as poison.
const CRASHES_MAX: u32 = 1_000_000;

/// Takes messages; their jobs may have so many crashes, if not as many as usual.
async fn consume(
    channel: &Channel,
    queue: &str,
    options: &Options,
    crashes: Option<u32>,
) -> Result<()> {
    channel
        .basic_qos(options.batch, BasicQosOptions::default())
        .await
        .map_err(failed)?;
    let consuming = channel.basic_consume(
        queue.into(),
        "".into(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let mut consumer = consuming.await.map_err(at_start)?;
    let mut host = Host::start();
    // From here on a failure is an outage, also before the first message.
    host.say(json!({"keeps_refused": false})).await?;
    loop {
        let Some(first) = consumer.next().await else {
            return Err(Failure::new(
                "the broker ended the consumer; was the queue deleted?",
            ));
        };
        let mut batch = vec![first.map_err(failed)?];
        // What is on its way comes along; the first does not wait for more than that.
        while batch.len() < usize::from(options.batch)
            && let Some(Some(next)) = within(millis(1), consumer.next()).await
        {
            batch.push(next.map_err(failed)?);
        }
        let lines: Vec<Line> = batch
            .iter()
            .map(|delivery| line(delivery, options.trust_message_id, crashes))
            .collect();
        // What was refused is a dead job: it is the broker's no more.
        host.hand_over(&lines).await?;
        if let Some(last) = batch.last() {
            let all = BasicAckOptions { multiple: true };
            channel
                .basic_ack(last.delivery_tag, all)
                .await
                .map_err(failed)?;
        }
    }
}

/// A message with a larger body is refused here: a line of the relay has a bound.
const BODY_BYTES_MAX: usize = 1 << 20;
/// As much of it is kept.
const BODY_BYTES_KEPT: usize = 128 << 10;

/// A message, by the id of its publisher, or a name of its own: a broker gives none.
fn line(delivery: &Delivery, trusts: bool, crashes: Option<u32>) -> Line {
    let id = delivery.properties.message_id().as_ref().filter(|_| trusts);
    let name = id.map_or_else(|| uuid::Uuid::new_v4().to_string(), ToString::to_string);
    if delivery.data.len() > BODY_BYTES_MAX {
        let text = BASE64_STANDARD.encode(&delivery.data[..BODY_BYTES_KEPT]);
        let bytes = delivery.data.len();
        return Line {
            name,
            job: json!({"payload_base64": text}).to_string(),
            bad: Some(format!("the body has {bytes} bytes; at most 1 MiB is read")),
        };
    }
    let mut job = Map::new();
    if let Some(crashes) = crashes {
        job.insert("max_crashes".into(), crashes.into());
    }
    match serde_json::from_slice::<Value>(&delivery.data) {
        // Numbers and blanks may be written otherwise: only text without either stays as it is.
        Ok(value) if value.to_string().as_bytes() == delivery.data => {
            job.insert("payload".into(), value);
        }
        _ => {
            let text = BASE64_STANDARD.encode(&delivery.data);
            job.insert("payload_base64".into(), text.into());
        }
    }
    let kind = delivery
        .properties
        .content_type()
        .as_ref()
        .map(ToString::to_string);
    let kind = kind.filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or_else(|| punctual_relay::content_type_of(&delivery.data).into());
    job.insert("content_type".into(), kind.into());
    let frame = serde_json::to_string(&Frame::of(delivery)).unwrap_or_default();
    job.insert("headers".into(), json!({HEADER: frame}));
    let deaths = deaths(delivery);
    if !deaths.is_empty() {
        add_past(&mut job, &deaths);
    } else if let Some(delay) = header(delivery, DELAY) {
        // What is no span is refused with its text.
        let delay = match whole(delay) {
            Some(ms) => format!("{ms}ms"),
            None => format!("{delay:?}").chars().take(64).collect(),
        };
        job.insert("delay".into(), delay.into());
    }
    Line {
        name,
        job: Value::Object(job).to_string(),
        bad: None,
    }
}

/// The most attempts that a job keeps.
const ATTEMPTS_MAX: usize = 10;

/// The deaths of a message as the past of a dead job, the first first.
fn add_past(job: &mut Map<String, Value>, deaths: &[Death]) {
    let at = |death: &Death| Timestamp::from_millis(death.time.saturating_mul(1_000)).to_string();
    let why = |death: &Death| {
        format!(
            "{} in queue {} ({} times)",
            death.reason, death.queue, death.count
        )
    };
    let attempts = deaths
        .iter()
        .rev()
        .take(ATTEMPTS_MAX)
        .zip(1..)
        .map(|(death, n)| {
            json!({
                "attempt": n, "started_at": at(death), "ended_at": at(death),
                "outcome": "dead", "error": why(death),
            })
        });
    let attempts: Vec<Value> = attempts.collect();
    let last = &deaths[0];
    let past = [
        ("state", "dead".into()),
        ("dead", "permanent".into()),
        ("due", at(last).into()),
        ("enqueued_at", at(last).into()),
        ("finished_at", at(last).into()),
        ("attempt", attempts.len().into()),
        ("failures", attempts.len().into()),
        ("last_error", why(last).into()),
        ("attempts", attempts.into()),
    ];
    job.extend(past.map(|(name, value)| (name.to_owned(), value)));
}
