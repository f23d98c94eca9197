//! One server: its connections, and whether its functions are loaded.

use punctual::time::within;
use punctual::{Error, ErrorKind, Result};
use redis::{Cmd, Value};

use crate::library::Library;
use crate::transport::address::Host;
use crate::transport::error_mapping::{Recovery, recovery};
use crate::transport::link::{Deadline, Dialer, Link, Live};
use crate::transport::replicas::{Reached, Replicas};

/// What a call does: whether replicas are to have it, and whether it may be sent again when it is
/// not known whether it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It changes nothing, or nothing that is promised.
    Reads,
    /// A second sending changes nothing more.
    Changes,
    /// A second sending would be another change.
    ChangesOnce,
}

/// A server, and whether it is ready.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) link: Link,
    /// For changes that wait for replicas, if they do.
    replicas: Option<Replicas>,
    pub(crate) prepared: tokio::sync::Mutex<Prepared>,
}

/// When the server was last made ready.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// On which connection; another one may be another server.
    pub(crate) generation: u64,
    /// How often it was by then.
    pub(crate) times: u64,
}

/// A connection to a server that was ready for calls when this was made.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) live: Live,
    pub(crate) times: u64,
}

impl Node {
    pub(crate) fn new(host: &Host, dialer: &Dialer, wanted: Option<u8>) -> Self {
        let link = || Link::new(host.clone(), dialer.clone());
        Self {
            link: link(),
            replicas: wanted.map(|wanted| Replicas::new(wanted, link())),
            prepared: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        self.link.host()
    }

    /// A connection, whether the functions are there or not.
    pub(crate) async fn live(&self) -> Result<Live> {
        self.link.live().await
    }

    /// A call met no functions, or older ones: the next one makes the server ready anew, once for
    /// all calls that met the same.
    pub(crate) async fn lacks_functions(&self, met: &Ready) {
        let mut prepared = self.prepared.lock().await;
        if prepared.times == met.times {
            prepared.generation = 0;
        }
    }

    pub(crate) async fn send(&self, live: &Live, command: &Cmd, kind: Kind) -> Result<Reached> {
        match &self.replicas {
            Some(replicas) if kind != Kind::Reads => replicas.send(command).await,
            _ => Ok(Reached::Answer(send(live, command).await)),
        }
    }

    /// Gives up the connection that a call went over; the main one too, so that the server is made
    /// ready anew.
    pub(crate) fn give_up(&self, live: &Live, kind: Kind) {
        self.link.broken(live.generation);
        if let (Some(replicas), true) = (&self.replicas, kind != Kind::Reads) {
            replicas.link.give_up();
        }
    }

    /// The version of the functions in this server, if it has them; older ones are replaced before
    /// the next call.
    pub(crate) async fn functions(&self, library: &Library, live: &Live) -> Result<Option<i64>> {
        let version = library.version_at(live, self.link.host()).await;
        let version = version.inspect_err(|_| self.link.broken(live.generation))?;
        if version.is_none_or(|version| version < library.version()) {
            self.prepared.lock().await.generation = 0;
        }
        Ok(version)
    }

    /// One command to this server and no other, such as a question about its settings.
    pub(crate) async fn ask(
        &self,
        live: &Live,
        command: &Cmd,
        deadline: Deadline,
    ) -> Result<Value> {
        let host = self.link.host();
        match within(deadline.left(), send(live, command)).await {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => match recovery(&error, host) {
                Recovery::Final(error) => Err(error),
                Recovery::Broken => {
                    self.link.broken(live.generation);
                    Err(crate::transport::error_mapping::unreachable(host, &error))
                }
                _ => Err(crate::transport::error_mapping::unreachable(host, &error)),
            },
            None => {
                self.link.broken(live.generation);
                Err(silent(host))
            }
        }
    }
}

pub(crate) fn silent(host: &Host) -> Error {
    let message = format!("redis at {host} gave no answer in time");
    Error::new(ErrorKind::EngineUnavailable, message)
}

async fn send(live: &Live, command: &Cmd) -> redis::RedisResult<Value> {
    command.query_async(&mut live.connection.clone()).await
}
