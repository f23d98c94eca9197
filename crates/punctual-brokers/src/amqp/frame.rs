//! What a message of a broker has beside its body, as one header of its job.

use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The header of a job with the frame.
pub(crate) const HEADER: &str = "amqp";

/// Where a message came from, and its properties.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub(crate) exchange: String,
    pub(crate) key: String,
    /// The broker's properties; those without a value are left out.
    pub(crate) properties: Value,
}

/// Headers that brokers write, and that the relay has read: they differ from delivery to delivery.
fn is_volatile(name: &str) -> bool {
    let prefixes = [
        "x-death",
        "x-first-death",
        "x-last-death",
        "x-delivery-count",
    ];
    name == DELAY || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// The header by which publishers delay a message, in milliseconds.
pub(crate) const DELAY: &str = "x-delay";

impl Frame {
    pub(crate) fn of(delivery: &Delivery) -> Self {
        let headers = delivery.properties.headers();
        let mut properties = delivery.properties.clone();
        if let Some(headers) = headers {
            let mut kept = FieldTable::default();
            for (name, value) in headers.inner() {
                if !is_volatile(name.as_str()) {
                    kept.insert(name.clone(), value.clone());
                }
            }
            properties = properties.with_headers(kept);
        }
        let mut properties = serde_json::to_value(&properties).unwrap_or_default();
        if let Value::Object(fields) = &mut properties {
            fields.retain(|_, value| !value.is_null());
        }
        let (exchange, key) = origin(delivery);
        Self {
            exchange,
            key,
            properties,
        }
    }

    /// The properties to publish with: persistent, with a message id.
    pub(crate) fn to_publish(&self, id: &str) -> Option<BasicProperties> {
        let mut fields = self.properties.clone();
        if fields.is_null() {
            fields = Value::Object(serde_json::Map::new());
        }
        let properties: BasicProperties = match serde_json::from_value(fields) {
            Ok(properties) => properties,
            Err(_) => return None,
        };
        let properties = match properties.message_id() {
            Some(_) => properties,
            None => properties.with_message_id(id.into()),
        };
        Some(properties.with_delivery_mode(2))
    }
}

/// Where a message was published: for a dead letter, before its first death.
fn origin(delivery: &Delivery) -> (String, String) {
    let first = |name| text(header(delivery, name)?);
    let death = deaths(delivery).pop();
    let exchange =
        first("x-first-death-exchange").or_else(|| death.as_ref().map(|one| one.exchange.clone()));
    match (exchange, death) {
        (Some(exchange), Some(death)) => (exchange, death.key),
        _ => (
            delivery.exchange.to_string(),
            delivery.routing_key.to_string(),
        ),
    }
}

pub(crate) fn header<'a>(delivery: &'a Delivery, name: &str) -> Option<&'a AMQPValue> {
    delivery.properties.headers().as_ref()?.inner().get(name)
}

/// A death of a message, as `x-death` has it, the last first.
#[derive(Debug, Clone)]
pub(crate) struct Death {
    pub(crate) reason: String,
    pub(crate) queue: String,
    pub(crate) exchange: String,
    pub(crate) key: String,
    pub(crate) count: i64,
    /// Seconds since 1970.
    pub(crate) time: u64,
}

pub(crate) fn deaths(delivery: &Delivery) -> Vec<Death> {
    let Some(AMQPValue::FieldArray(list)) = header(delivery, "x-death") else {
        return Vec::new();
    };
    let death = |value: &AMQPValue| {
        let AMQPValue::FieldTable(table) = value else {
            return None;
        };
        let of = |name: &str| table.inner().get(name).and_then(text).unwrap_or_default();
        let key = match table.inner().get("routing-keys") {
            Some(AMQPValue::FieldArray(keys)) => keys.as_slice().first().and_then(text),
            _ => None,
        };
        Some(Death {
            reason: of("reason"),
            queue: of("queue"),
            exchange: of("exchange"),
            key: key.unwrap_or_default(),
            count: table.inner().get("count").and_then(whole).unwrap_or(1),
            time: match table.inner().get("time") {
                Some(AMQPValue::Timestamp(seconds)) => *seconds,
                _ => 0,
            },
        })
    };
    list.as_slice().iter().filter_map(death).collect()
}

fn text(value: &AMQPValue) -> Option<String> {
    match value {
        AMQPValue::LongString(text) => Some(text.to_string()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        _ => None,
    }
}

/// A whole number of any width.
pub(crate) fn whole(value: &AMQPValue) -> Option<i64> {
    match value {
        AMQPValue::ShortShortInt(n) => Some((*n).into()),
        AMQPValue::ShortShortUInt(n) => Some((*n).into()),
        AMQPValue::ShortInt(n) => Some((*n).into()),
        AMQPValue::ShortUInt(n) => Some((*n).into()),
        AMQPValue::LongInt(n) => Some((*n).into()),
        AMQPValue::LongUInt(n) => Some((*n).into()),
        AMQPValue::LongLongInt(n) => Some(*n),
        _ => None,
    }
}
