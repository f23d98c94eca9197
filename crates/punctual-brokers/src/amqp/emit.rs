//! An exchange as a sink: each job is published, persistent and mandatory, and confirmed.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Confirmation};
use punctual::push::{AmqpTarget, TARGET};

use super::frame::{Frame, HEADER};
use super::{connect, declare, failed};
use crate::host::{Failure, Out, Put, Result, SinkHost};

/// How a job ended: done, or why not and whether no retry can mend that.
type Ended = Result<(), (String, bool)>;

pub(crate) async fn emit(
    address: &str,
    to: Option<String>,
    to_type: Option<String>,
    (key, only): (String, Vec<String>),
) -> Result<()> {
    let connection = connect(address).await?;
    let channel = connection.create_channel().await.map_err(failed)?;
    if let (Some(exchange), Some(kind)) = (&to, &to_type) {
        declare(&channel, exchange, kind).await?;
    }
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await
        .map_err(failed)?;
    let mut host = SinkHost::start();
    let mut published = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some((id, ended)) = published.next(), if !published.is_empty() => {
                let (id, ended): (String, Result<Ended>) = (id, ended);
                host.answer(&id, ended?).await?;
            }
            put = host.next() => {
                let Put { id, job } = put?;
                match publish(&channel, &id, &job, (to.as_deref(), &key), &only).await? {
                    Ok(confirmed) => {
                        published.push(confirmed.map(move |ended| (id, ended)).boxed());
                    }
                    Err(why) => host.answer(&id, Err((why, true))).await?,
                }
            }
        }
    }
}

/// Whether a name is that of the pattern, or begins so where the pattern ends with `*`.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => pattern == name,
    }
}

/// The value of a header of a job, whatever the case of its name.
fn header<'a>(job: &'a Out, name: &str) -> Option<&'a str> {
    let headers = job.headers.as_ref()?.as_object()?;
    let mut named = headers.iter();
    let (_, value) = named.find(|(own, _)| own.eq_ignore_ascii_case(name))?;
    value.as_str()
}

/// The exchange and the routing key: what the command says, the target of the job, or where its
/// message came from, in this order.
fn destination(
    to: Option<&str>,
    key: &str,
    aimed: Option<AmqpTarget<'_>>,
    frame: Option<&Frame>,
) -> Option<(String, String)> {
    let own = match (aimed, frame) {
        (Some(target), _) => Some((target.exchange, target.key)),
        (None, Some(frame)) => Some((frame.exchange.as_str(), frame.key.as_str())),
        (None, None) => None,
    };
    let exchange = to.or(own.map(|(exchange, _)| exchange))?;
    let key = own.map_or(key, |(_, key)| key);
    Some((exchange.to_owned(), key.to_owned()))
}

/// The headers of a job that came from no broker, without those that are for Punctual.
fn own_headers(job: &Out) -> FieldTable {
    let mut table = FieldTable::default();
    let headers = job.headers.as_ref().and_then(|headers| headers.as_object());
    for (name, value) in headers.into_iter().flatten() {
        let is_ours = name.to_ascii_lowercase().starts_with("punctual-");
        if let (false, Some(text)) = (is_ours, value.as_str()) {
            table.insert(name.as_str().into(), AMQPValue::LongString(text.into()));
        }
    }
    table
}

type Confirmed = futures_util::future::BoxFuture<'static, Result<Ended>>;

/// Sends a job; answers what waits for its confirm, or why it can never be sent.
async fn publish(
    channel: &Channel,
    id: &str,
    job: &Out,
    (to, key): (Option<&str>, &str),
    only: &[String],
) -> Result<Result<Confirmed, String>> {
    let body = match (&job.payload, &job.payload_base64) {
        (Some(json), _) => json.get().as_bytes().to_vec(),
        (None, Some(text)) => match BASE64_STANDARD.decode(text) {
            Ok(body) => body,
            Err(_) => return Ok(Err("the payload is no base64".into())),
        },
        (None, None) => Vec::new(),
    };
    let frame = header(job, HEADER);
    let frame: Option<Frame> = frame.and_then(|text| serde_json::from_str(text).ok());
    let target = header(job, TARGET).filter(|target| AmqpTarget::is(target));
    let aimed = match target.map(AmqpTarget::parse) {
        Some(Ok(target)) => Some(target),
        // Where every job goes is said, so its own target does not matter.
        Some(Err(_)) if to.is_some() => None,
        Some(Err(error)) => return Ok(Err(error.message().to_owned())),
        None => None,
    };
    let Some((exchange, key)) = destination(to, key, aimed, frame.as_ref()) else {
        let why = "the job has no target amqp:EXCHANGE/KEY and came from no broker; name an \
                   exchange by --to";
        return Ok(Err(why.into()));
    };
    let Some(mut properties) = frame.clone().unwrap_or_default().to_publish(id) else {
        return Ok(Err("the header amqp has no properties of AMQP".into()));
    };
    if let (None, Some(kind)) = (properties.content_type(), &job.content_type) {
        properties = properties.with_content_type(kind.as_str().into());
    }
    if frame.is_none() {
        properties = properties.with_headers(own_headers(job));
    }
    if !only.is_empty() && !only.iter().any(|one| matches(one, &exchange)) {
        let why = format!("the exchange {exchange:?} is not allowed; add it to the relay file");
        return Ok(Err(why));
    }
    let mandatory = BasicPublishOptions {
        mandatory: true,
        ..Default::default()
    };
    let name = exchange.as_str().into();
    let sent = channel.basic_publish(name, key.as_str().into(), mandatory, &body, properties);
    let confirm = sent.await.map_err(failed)?;
    let confirmed = async move {
        Ok(match confirm.await.map_err(failed)? {
            Confirmation::Ack(None) => Ok(()),
            Confirmation::Ack(Some(_)) => {
                let why = format!("unroutable: exchange {exchange:?} has no queue for key {key:?}");
                Err((why, false))
            }
            Confirmation::Nack(_) => Err(("the broker did not take it (nack)".into(), false)),
            Confirmation::NotRequested => return Err(Failure::new("the broker confirms nothing")),
        })
    };
    Ok(Ok(confirmed.boxed()))
}
