//! The twelve verbs as bytes: what a gateway and its callers exchange.
//!
//! A version and MessagePack with named fields. It is for the same version on both ends; other
//! programs speak the JSON of the gateway.

pub mod socket;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::{
    Claim, Claimed, Control, Controlled, Edit, Edited, Engine, Enqueued, Extend, Extended, Got,
    Info, List, Listing, Maintained, Namespace, Settle, Settled, Stats, StatsRequest, Target,
    WaitFor, Waited, WorkerPlace,
};
use crate::error::{Error, ErrorKind, Result, interned};
use crate::job::NewJob;
use crate::time::{Timestamp, seconds};

/// What the bytes are called in a `Content-Type`.
pub const CONTENT_TYPE: &str = "application/vnd.punctual.calls+msgpack";

/// One call of one verb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is named after its verb")]
pub enum Call {
    Enqueue(Vec<NewJob>),
    Claim(Claim),
    Extend(Vec<Extend>),
    Settle(Settle),
    Wait(WaitFor, Timestamp),
    Get(Vec<Target>, bool),
    List(List),
    Edit(Edit),
    Stats(StatsRequest),
    Control(Control),
    Maintain,
    Info,
}

/// The answer to a [`Call`], under the same name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is named after its verb")]
pub enum Answer {
    Enqueue(Enqueued),
    Claim(Claimed),
    Extend(Extended),
    Settle(Settled),
    Wait(Waited),
    Get(Vec<Option<Got>>),
    List(Listing),
    Edit(Edited),
    Stats(Stats),
    Control(Controlled),
    Maintain(Maintained),
    Info(Box<Info>),
    Failed(Failed),
}

impl Call {
    /// Makes the call, for a worker of another process.
    pub async fn run(self, engine: &dyn Engine, namespace: &Namespace) -> Answer {
        let answer = match self {
            Self::Enqueue(jobs) => engine.enqueue(namespace, jobs).await.map(Answer::Enqueue),
            Self::Claim(claim) => {
                let claim = Claim {
                    place: WorkerPlace::Elsewhere,
                    ..claim
                };
                engine.claim(namespace, claim).await.map(Answer::Claim)
            }
            Self::Extend(leases) => engine.extend(namespace, leases).await.map(Answer::Extend),
            Self::Settle(settle) => engine.settle(namespace, settle).await.map(Answer::Settle),
            Self::Wait(what, until) => engine.wait(namespace, what, until).await.map(Answer::Wait),
            Self::Get(targets, explain) => engine
                .get(namespace, targets, explain)
                .await
                .map(Answer::Get),
            Self::List(list) => engine.list(namespace, list).await.map(Answer::List),
            Self::Edit(edit) => engine.edit(namespace, edit).await.map(Answer::Edit),
            Self::Stats(request) => engine.stats(namespace, request).await.map(Answer::Stats),
            Self::Control(control) => engine
                .control(namespace, control)
                .await
                .map(Answer::Control),
            Self::Maintain => engine.maintain().await.map(Answer::Maintain),
            Self::Info => engine.info().await.map(Box::new).map(Answer::Info),
        };
        answer.unwrap_or_else(|error| Answer::Failed(Failed::from(&error)))
    }
}

/// How long, at most, a gateway is silent during a wait. Then it answers `204` without a body, and
/// the client calls again. So the client notices a dead connection.
pub fn silence_of_wait(what: &WaitFor) -> Duration {
    match what {
        WaitFor::Work(_) => seconds(4),
        _ => seconds(30),
    }
}

/// An error that travels: all but its source, which travels as a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    kind: ErrorKind,
    message: String,
    operation: String,
    context: Vec<(String, String)>,
}

impl From<&Error> for Failed {
    fn from(error: &Error) -> Self {
        let pairs = error
            .context()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut context: Vec<_> = pairs.collect();
        if let Some(source) = std::error::Error::source(error) {
            context.push(("cause".into(), source.to_string()));
        }
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
            operation: error.operation_name().to_owned(),
            context,
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        let mut error = Self::new(failed.kind, failed.message);
        if !failed.operation.is_empty() {
            error = error.operation(interned(&failed.operation));
        }
        for (name, value) in &failed.context {
            error = error.with(interned(name), value);
        }
        error
    }
}

/// The version of calls and answers: their first byte.
pub const VERSION: u8 = 1;

/// The bytes of a call or an answer: its version, then MessagePack.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![VERSION];
    match rmp_serde::encode::write_named(&mut bytes, value) {
        Ok(()) => Ok(bytes),
        Err(error) => {
            let message = "a call could not be written as bytes";
            Err(Error::new(ErrorKind::Codec, message).source(error))
        }
    }
}

/// The call or answer that these bytes are; another version than [`VERSION`] is refused.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let message = "the other end does not speak this version's calls; \
                   run the same version of punctual on both";
    match bytes.split_first() {
        Some((&VERSION, bytes)) => rmp_serde::from_slice(bytes)
            .map_err(|error| Error::new(ErrorKind::Codec, message).source(error)),
        first => {
            let version = first.map_or("none".into(), |(version, _)| version.to_string());
            Err(Error::new(ErrorKind::Codec, message).with("version", version))
        }
    }
}

#[cfg(test)]
mod tests;
