//! The twelve verbs, each one request.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::StatusCode;
use punctual::engine::{
    Claim, Claimed, Control, Controlled, Edit, Edited, Enqueued, Extend, Extended, Got, Info, List,
    Listing, Maintained, Settle, Settled, Stats, StatsRequest, Target, WaitFor, Waited,
};
use punctual::time::{Stopwatch, Timestamp, seconds, within};
use punctual::wire::{self, Answer, Call};
use punctual::{Engine, Error, ErrorKind, Namespace, NewJob, Result};

use crate::connection::{Connections, Place, Reply, Transport, greeting};

/// The engine behind a gateway.
///
/// Its token needs the scope `admin`: an engine can do everything. A namespace that is not the
/// token's is refused by the gateway.
#[derive(Clone)]
pub struct HttpEngine {
    connections: Arc<Connections>,
    deadline: Duration,
}

/// How long a call waits for its answer by default.
const DEADLINE: Duration = seconds(30);

impl HttpEngine {
    /// The engine behind the gateway on this host and port of this machine, such as
    /// `127.0.0.1:4180`. Connects with the first call.
    pub fn connect(authority: &str, token: Option<&str>) -> Result<Self> {
        Self::connect_by(Transport::Plain, authority, token)
    }

    /// The same, on any machine that the transport allows.
    pub fn connect_by(transport: Transport, authority: &str, token: Option<&str>) -> Result<Self> {
        let greeting = greeting(authority, &transport)?;
        let place = Place::Network(authority.to_owned(), greeting);
        let connections = Connections::new(place, token.map(Into::into));
        Ok(Self::over(connections))
    }

    /// The engine of the process that holds this directory, if it shares it (`punctual serve`,
    /// `punctual work`, an application with `Gateway::share_in`). Connects with the first call, to
    /// a process of the same user only, which needs no token.
    pub fn in_directory(dir: &Path) -> Self {
        let connections = Connections::new(Place::Directory(dir.to_owned()), None);
        Self::over(connections)
    }

    fn over(connections: Connections) -> Self {
        Self {
            connections: Arc::new(connections),
            deadline: DEADLINE,
        }
    }

    /// How long a call may receive nothing, 30 s by default: then it fails as `engine_unavailable`,
    /// and may have taken effect or not. Counted from the last byte that moved, so that a large
    /// call may take its time to be sent. A [`wait`](Engine::wait) lasts until its own end, while
    /// the gateway reports now and then that it is there.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sets the clock of a gateway that serves with one that can be set, for tests.
    pub async fn set_test_clock(&self, now: Timestamp) -> Result<()> {
        let (path, body) = ("/v1/test-clock", format!("{{\"now\":\"{now}\"}}"));
        let reply =
            self.connections
                .post(path, "application/json", None, body.into(), self.deadline);
        let reply = reply.await?;
        if reply.status == StatusCode::OK {
            Ok(())
        } else {
            Err(self.refused(&reply))
        }
    }

    /// The record of who changed what in a namespace, as JSON: the answer of `GET /v1/audit`, the
    /// latest first, at most 1,000.
    pub async fn audit(&self, namespace: &Namespace) -> Result<Bytes> {
        let reply = self
            .connections
            .get("/v1/audit?limit=1000", Some(namespace), self.deadline)
            .await?;
        if reply.status == StatusCode::OK {
            Ok(reply.body)
        } else {
            Err(self.refused(&reply))
        }
    }

    /// The namespace of the token; the default one where the gateway asks for no token.
    pub async fn own_namespace(&self) -> Result<Namespace> {
        let reply = self
            .connections
            .get("/v1/info", None, self.deadline)
            .await?;
        if reply.status != StatusCode::OK {
            return Err(self.refused(&reply));
        }
        let answer: Option<serde_json::Value> = serde_json::from_slice(&reply.body).ok();
        let name = answer
            .as_ref()
            .and_then(|answer| answer["namespace"].as_str());
        Namespace::new(name.ok_or_else(|| {
            let message = "the gateway does not name the token's namespace; \
                           run the same version on both ends";
            Error::new(ErrorKind::Unsupported, message)
        })?)
    }

    /// Makes a call. A connection may be dead without a word, so an answer is not waited for for
    /// ever.
    async fn call(&self, namespace: Option<&Namespace>, call: Call) -> Result<Answer> {
        let bytes = Bytes::from(wire::encode(&call)?);
        let reply = self.connections.call(namespace, bytes, self.deadline);
        self.read(&reply.await?)
    }

    fn read(&self, reply: &Reply) -> Result<Answer> {
        if reply.status != StatusCode::OK {
            return Err(self.refused(reply));
        }
        match wire::decode(&reply.body)? {
            Answer::Failed(failed) => Err(seen_from_here(failed.into())),
            answer => Ok(answer),
        }
    }

    /// What a gateway says that did not pass a call on to its engine.
    fn refused(&self, reply: &Reply) -> Error {
        let (kind, message) = match reply.status {
            StatusCode::UNAUTHORIZED => (
                ErrorKind::InvalidInput,
                "the gateway rejected the token; set PUNCTUAL_TOKEN to the one that serve printed",
            ),
            StatusCode::FORBIDDEN => (
                ErrorKind::InvalidInput,
                "the token does not allow this; it needs the scope admin and the same namespace",
            ),
            StatusCode::NOT_FOUND => (
                ErrorKind::Unsupported,
                "the server is not a gateway, or has another version; run the same version on both ends",
            ),
            StatusCode::PAYLOAD_TOO_LARGE => (
                ErrorKind::BatchTooLarge,
                "the call is larger than the gateway takes; send fewer items",
            ),
            StatusCode::TOO_MANY_REQUESTS => (
                ErrorKind::EngineUnavailable,
                match code_of(reply).as_deref() {
                    Some("too_many_requests") => {
                        "the gateway received too many wrong tokens from this address; wait a minute"
                    }
                    Some("too_many_connections") => {
                        "the gateway has reached its limit of connections for this address; close some, or \
                         raise connections_per_address there"
                    }
                    _ => "the gateway or its proxy is overloaded; wait and retry",
                },
            ),
            StatusCode::SERVICE_UNAVAILABLE => (
                ErrorKind::EngineUnavailable,
                "the gateway is shutting down or its engine is unavailable; send the same ids again",
            ),
            _ => (ErrorKind::Internal, "the gateway sent an unexpected answer"),
        };
        Error::new(kind, message)
            .with("gateway", self.connections.place())
            .with("status", reply.status.as_u16())
    }
}

impl fmt::Debug for HttpEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpEngine({})", self.connections.place())
    }
}

/// An engine that stopped elsewhere is started again there: from here it is away for a while.
fn seen_from_here(error: Error) -> Error {
    if error.kind() != ErrorKind::EngineStopped {
        return error;
    }
    Error::new(ErrorKind::EngineUnavailable, error.message()).operation(error.operation_name())
}

/// What a gateway calls its refusal; what stands before one has other words.
fn code_of(reply: &Reply) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(&reply.body).ok()?;
    body["error"]["code"].as_str().map(Into::into)
}

fn strange() -> Error {
    let message = "the gateway answered another call; please report it";
    Error::new(ErrorKind::Internal, message)
}

/// A connection on which a wait receives nothing for that much longer than the gateway keeps silent
/// is closed.
const ON_THE_WAY: Duration = seconds(1);

/// Makes a call and takes its own answer out.
macro_rules! call {
    ($self:ident, $namespace:expr, $call:expr, $answer:ident) => {
        match $self.call($namespace, $call).await? {
            Answer::$answer(answer) => Ok(answer),
            _ => Err(strange()),
        }
    };
}

#[async_trait]
impl Engine for HttpEngine {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        call!(self, Some(namespace), Call::Enqueue(jobs), Enqueue)
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        call!(self, Some(namespace), Call::Claim(claim), Claim)
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        call!(self, Some(namespace), Call::Extend(leases), Extend)
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        call!(self, Some(namespace), Call::Settle(settle), Settle)
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        let waiting = wire::silence_of_wait(&what);
        let bytes = Bytes::from(wire::encode(&Call::Wait(what, until))?);
        let mut received = Stopwatch::start();
        loop {
            let silence = waiting + self.deadline;
            let ask = (self.connections).call(Some(namespace), bytes.clone(), silence);
            // Before that it is asked again: this connection may be dead and another one not.
            match within(waiting + self.deadline.min(ON_THE_WAY), ask).await {
                Some(Ok(reply)) if reply.status == StatusCode::NO_CONTENT => {
                    received = Stopwatch::start();
                }
                Some(Ok(reply)) => {
                    return match self.read(&reply)? {
                        Answer::Wait(waited) => Ok(waited),
                        _ => Err(strange()),
                    };
                }
                Some(Err(error)) => return Err(error),
                None if received.elapsed() < silence => {}
                None => return Err(self.connections.silent(received.elapsed())),
            }
        }
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        call!(self, Some(namespace), Call::Get(targets, explain), Get)
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        call!(self, Some(namespace), Call::List(list), List)
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        call!(self, Some(namespace), Call::Edit(edit), Edit)
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        call!(self, Some(namespace), Call::Stats(request), Stats)
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        call!(self, Some(namespace), Call::Control(control), Control)
    }

    async fn maintain(&self) -> Result<Maintained> {
        call!(self, None, Call::Maintain, Maintain)
    }

    async fn info(&self) -> Result<Info> {
        let info: Box<Info> = call!(self, None, Call::Info, Info)?;
        Ok(*info)
    }
}

#[cfg(test)]
mod tests;
