//! Celery on Redis: messages of kombu in a list per priority, and those that workers hold.

use async_trait::async_trait;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use punctual::Result;
use serde::Deserialize;
use serde_json::Value;

use super::address::Address;
use super::found::{Foreign, Format, Found, Place, Read, Shape, of_text};
use super::there::names_like;
use crate::redis::Connection;

#[derive(Debug)]
pub(super) struct Celery {
    queue: String,
    prefix: String,
}

impl Celery {
    pub(super) fn new(address: &Address) -> Self {
        Self {
            queue: address.queue.clone(),
            prefix: address.prefix.clone().unwrap_or_default(),
        }
    }
}

/// The steps of priorities, from the first on.
const STEPS: [u8; 3] = [3, 6, 9];

#[derive(Debug, Deserialize)]
struct Message {
    body: String,
    #[serde(rename = "content-type")]
    content_type: String,
    headers: Headers,
    properties: Properties,
}

#[derive(Debug, Deserialize)]
struct Headers {
    task: Option<String>,
    id: Option<String>,
    eta: Option<String>,
    expires: Option<Value>,
    retries: Option<u32>,
    group: Option<String>,
    timelimit: Option<(Option<f64>, Option<f64>)>,
}

#[derive(Debug, Deserialize)]
struct Properties {
    body_encoding: Option<String>,
    priority: Option<u8>,
    delivery_info: Option<Info>,
    delivery_tag: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Info {
    routing_key: Option<String>,
}

impl Message {
    fn of(found: &[u8], is_held: bool) -> Option<Self> {
        if !is_held {
            return serde_json::from_slice(found).ok();
        }
        let (message, _, _): (Self, Value, Value) = serde_json::from_slice(found).ok()?;
        Some(message)
    }
}

#[async_trait]
impl Format for Celery {
    async fn check(&self, _: &mut Connection) -> Result<Option<String>> {
        Ok(None)
    }

    fn places(&self, workers_stopped: bool) -> Vec<Place> {
        let queue = format!("{}{}", self.prefix, self.queue);
        let mut places = vec![Place::new(&queue, Shape::Tail, "queue")];
        places.extend(
            STEPS.map(|step| Place::new(format!("{queue}\u{6}\u{16}{step}"), Shape::Tail, "queue")),
        );
        let held = Place::new(format!("{}unacked", self.prefix), Shape::Held, "unacked");
        places.push(match workers_stopped {
            true => held,
            false => held.stays("a worker holds it; stop all and use --workers-stopped"),
        });
        places
    }

    async fn queues(&self, connection: &mut Connection) -> Result<Vec<String>> {
        let bindings = format!("{}_kombu.binding.", self.prefix);
        let mut queues = names_like(connection, (&bindings, "")).await?;
        // What workers speak with each other by.
        queues.retain(|name| !name.contains("pidbox") && !name.starts_with("celeryev"));
        Ok(queues)
    }

    fn name(&self, item: &[u8]) -> String {
        let message = Message::of(item, item.starts_with(b"["));
        // A retry has the id of its task, and another delivery tag.
        let tag = message.and_then(|message| message.properties.delivery_tag);
        tag.unwrap_or_else(|| String::from_utf8_lossy(item).into_owned())
    }

    fn read(&self, found: &Found) -> Read {
        let stays = |why: &str| Read::Stays(why.to_owned());
        let is_held = found.state == "unacked";
        let Some(message) = Message::of(&found.item, is_held) else {
            return stays("it is no message of Celery");
        };
        let info = message.properties.delivery_info;
        let key = info.and_then(|info| info.routing_key);
        if is_held && key.as_deref() != Some(self.queue.as_str()) {
            return Read::OfAnother;
        }
        let Some(task) = message.headers.task else {
            return stays("it is a message of Celery's older protocol");
        };
        let body = match message.properties.body_encoding.as_deref() {
            Some("base64") => match BASE64_STANDARD.decode(&message.body) {
                Ok(body) => Bytes::from(body),
                Err(_) => return stays("its body is no base64"),
            },
            _ => Bytes::from(message.body),
        };
        let is_json = message.content_type == "application/json";
        if is_json && has_canvas(&body) {
            return stays("canvas: a chain, a chord or a callback is in it");
        }
        let mut headers = Vec::new();
        headers.extend(message.headers.id.map(|id| ("celery-id".to_owned(), id)));
        let group = message.headers.group;
        headers.extend(group.map(|group| ("celery-group".to_owned(), group)));
        if !is_json {
            headers.push(("celery-content-type".into(), message.content_type));
        }
        let eta = message.headers.eta.as_deref().map(of_text);
        let expires = message.headers.expires.map(|expires| match expires {
            Value::String(text) => of_text(&text),
            _ => None,
        });
        if eta == Some(None) || matches!(expires, Some(None)) {
            return stays("its eta or expires is malformed");
        }
        let (hard, soft) = message.headers.timelimit.unwrap_or_default();
        Read::Job(Box::new(Foreign {
            kind: task,
            payload: body,
            content_type: Some(if is_json {
                "application/json"
            } else {
                "application/octet-stream"
            }),
            due: eta.flatten(),
            expires_at: expires.flatten(),
            priority: message.properties.priority.map(|priority| priority.min(9)),
            failures: message.headers.retries.unwrap_or(0).min(1_000_000),
            timeout: (hard.or(soft))
                .and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok()),
            headers,
            ..Foreign::default()
        }))
    }
}

/// Whether `[args, kwargs, embed]` embeds what shall follow.
fn has_canvas(body: &[u8]) -> bool {
    let Ok(Value::Array(parts)) = serde_json::from_slice(body) else {
        return false;
    };
    let embed = parts.get(2);
    let follows = |name: &str| {
        let value = embed.and_then(|embed| embed.get(name));
        match value {
            None | Some(Value::Null) => false,
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        }
    };
    ["callbacks", "errbacks", "chain", "chord"]
        .into_iter()
        .any(follows)
}
