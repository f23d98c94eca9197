//! What is said over the socket, in both directions.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::decode::shown;
use crate::http::{ErrorAnswer, Problem, ProblemBody, RequestContext};
use crate::job_json::SpanText;
use crate::json::lease::{ClaimAnswer, ExtendAnswer, SettleAnswer};
use crate::json::queue::QueueList;
use crate::shared::Shared;

/// Whatever a request calls itself; it comes back with the answer.
pub(super) type Reference = Option<serde_json::Value>;

/// What comes in. Requests keep their bytes: a payload inside is stored as it was sent.
pub(super) enum Frame {
    Hello {
        token: Option<String>,
        after: Option<u64>,
    },
    Ping {},
    Watch(Wish),
    Claim {
        reference: Reference,
        request: Box<RawValue>,
    },
    Extend {
        reference: Reference,
        request: Box<RawValue>,
    },
    Settle {
        reference: Reference,
        request: Box<RawValue>,
    },
}

/// Every field that a frame may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnyFrame {
    r#type: String,
    r#ref: Option<Box<RawValue>>,
    token: Option<String>,
    after: Option<u64>,
    #[serde(default)]
    queues: Vec<String>,
    #[serde(default)]
    states: Vec<String>,
    stats: Option<SpanText>,
    request: Option<Box<RawValue>>,
}

/// It is kept while a request waits, and a tree takes many times the bytes of its text.
const REFERENCE_BYTES_MAX: usize = 256;

fn reference<E: serde::de::Error>(raw: &RawValue) -> Result<serde_json::Value, E> {
    if raw.get().len() > REFERENCE_BYTES_MAX {
        return Err(E::custom(
            "ref is longer than 256 bytes; send a number or a short text",
        ));
    }
    serde_json::from_str(raw.get()).map_err(E::custom)
}

impl<'de> Deserialize<'de> for Frame {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let frame = AnyFrame::deserialize(deserializer)?;
        let reference = frame.r#ref.as_deref().map(reference).transpose()?;
        let request = || {
            let missing =
                || serde::de::Error::custom("request is missing; send the body of the HTTP route");
            frame.request.ok_or_else(missing)
        };
        Ok(match &*frame.r#type {
            "hello" => Self::Hello {
                token: frame.token,
                after: frame.after,
            },
            "ping" => Self::Ping {},
            "watch" => Self::Watch(Wish {
                queues: frame.queues,
                states: frame.states,
                stats: frame.stats,
            }),
            "claim" => Self::Claim {
                reference,
                request: request()?,
            },
            "extend" => Self::Extend {
                reference,
                request: request()?,
            },
            "settle" => Self::Settle {
                reference,
                request: request()?,
            },
            other => {
                let kinds = "use hello, ping, watch, claim, extend or settle";
                let message = format!("type is \"{}\"; {kinds}", shown(other));
                return Err(serde::de::Error::custom(message));
            }
        })
    }
}

impl Frame {
    pub(super) fn reference(&self) -> Reference {
        match self {
            Self::Claim { reference, .. }
            | Self::Extend { reference, .. }
            | Self::Settle { reference, .. } => reference.clone(),
            _ => None,
        }
    }

    /// The JSON of its request.
    pub(super) fn request(&self) -> Option<&str> {
        match self {
            Self::Claim { request, .. }
            | Self::Extend { request, .. }
            | Self::Settle { request, .. } => Some(request.get()),
            _ => None,
        }
    }
}

/// What a socket subscribes to; empty lists mean all.
#[derive(Default)]
pub(super) struct Wish {
    pub(super) queues: Vec<String>,
    pub(super) states: Vec<String>,
    /// How often to send counts, if they changed.
    pub(super) stats: Option<SpanText>,
}

/// What goes out.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Reply {
    Welcome {
        namespace: String,
        scopes: Vec<&'static str>,
        now: String,
    },
    Watching {
        cursor: u64,
    },
    Pong {},
    Jobs {
        changes: Vec<ChangeLine>,
        cursor: u64,
    },
    Stats(QueueList),
    Resync {
        cursor: u64,
    },
    Claimed {
        #[serde(rename = "ref")]
        reference: Reference,
        answer: ClaimAnswer,
    },
    Extended {
        #[serde(rename = "ref")]
        reference: Reference,
        answer: ExtendAnswer,
    },
    Settled {
        #[serde(rename = "ref")]
        reference: Reference,
        answer: SettleAnswer,
    },
    Error {
        #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
        reference: Reference,
        error: ProblemBody,
    },
}

impl Reply {
    pub(super) fn welcome(namespace: String, scopes: Vec<&'static str>, now: String) -> Self {
        Self::Welcome {
            namespace,
            scopes,
            now,
        }
    }

    /// Under the id of the request that opened the socket.
    pub(super) fn error(
        shared: &Shared,
        context: &RequestContext,
        reference: Reference,
        problem: Problem,
    ) -> Self {
        problem.log(context, &shared.log_throttle);
        let ErrorAnswer { error } = problem.answer(Some(context));
        Self::Error { reference, error }
    }
}

/// One change of one job.
#[derive(Serialize)]
pub(super) struct ChangeLine {
    pub(super) id: String,
    pub(super) queue: String,
    pub(super) state: &'static str,
    pub(super) at: String,
}
