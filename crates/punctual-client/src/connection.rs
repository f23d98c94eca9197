//! Connections that are kept: one per call under way, and never a half-read answer on one of them.
//! The task that makes a call drives its connection, so that no call waits for another task.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::http::request;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use punctual::sync::Lock;
use punctual::time::{Stopwatch, format_span, seconds, within};
use punctual::wire::CONTENT_TYPE;
use punctual::wire::socket::Way;
use punctual::{Error, ErrorKind, Namespace, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::activity::{Activity, ActivityStream};
use crate::tls::Greeting;

/// How rustls calls the certificate of an authority that a server shows as its own.
const AUTHORITY_AS_LEAF: &str = "CaUsedAsEndEntity";
const SELF_SIGNED: &str = "the gateway uses a CA certificate as its own, which is what `openssl req -x509` makes by default; make one for a host, and give it to both sides: \
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout key.pem -out chain.pem -subj /CN=HOST \
    -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:HOST (or IP:ADDRESS)";

/// Idle connections that are kept.
const IDLE_MAX: usize = 64;

/// The gateway may have closed a connection that was idle for longer. A runtime whose only thread
/// was blocked meanwhile has not read the close yet, and would send a call into the closed
/// connection. So the call yields to the runtime first.
const MAY_BE_CLOSED: Duration = seconds(1);

/// Where a gateway is.
#[derive(Clone)]
pub(crate) enum Place {
    /// At this host and port, greeted by TLS or not.
    Network(String, Option<Greeting>),
    /// At the socket in this directory.
    Directory(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(authority, _) => f.write_str(authority),
            Self::Directory(dir) => write!(f, "{}", dir.display()),
        }
    }
}

/// A gateway and the connections to it.
pub(crate) struct Connections {
    place: Place,
    token: Option<String>,
    idle: Mutex<Vec<Connection>>,
}

/// One that carries a call at a time.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: Driver,
    activity: Activity,
    idle: Stopwatch,
}

/// Reads and writes a connection; ends with it.
type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What came back.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// What became of a request on one connection.
enum Sent {
    Answered(Reply),
    /// The other end had closed it before: nothing has left.
    Unsent(Box<Request<Full<Bytes>>>),
}

impl Connections {
    pub(crate) fn new(place: Place, token: Option<String>) -> Self {
        Self {
            place,
            token,
            idle: Mutex::default(),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Sends bytes to a path and answers what comes back; `silence` as in [`Connections::send`].
    pub(crate) async fn post(
        &self,
        path: &str,
        content_type: &str,
        namespace: Option<&Namespace>,
        body: Bytes,
        silence: Duration,
    ) -> Result<Reply> {
        let request = Request::post(path).header(header::CONTENT_TYPE, content_type);
        self.send(request, namespace, body, silence).await
    }

    /// Answers what is at a path; `silence` as in [`Connections::send`].
    pub(crate) async fn get(
        &self,
        path: &str,
        namespace: Option<&Namespace>,
        silence: Duration,
    ) -> Result<Reply> {
        let request = Request::get(path);
        let body = Bytes::new();
        self.send(request, namespace, body, silence).await
    }

    /// Given up once no byte has moved for `silence`, in either direction, or no server was reached
    /// in it. A call whose future is dropped takes its connection with it.
    async fn send(
        &self,
        request: request::Builder,
        namespace: Option<&Namespace>,
        body: Bytes,
        silence: Duration,
    ) -> Result<Reply> {
        let host = match &self.place {
            Place::Network(authority, _) => authority,
            Place::Directory(_) => "localhost",
        };
        let mut request = request.header(header::HOST, host);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(namespace) = namespace {
            request = request.header("x-punctual-namespace", namespace.as_str());
        }
        let request = request.body(Full::new(body)).map_err(|error| {
            Error::new(
                ErrorKind::InvalidInput,
                "the token has characters that a header cannot carry",
            )
            .source(error)
        })?;
        // One that was kept may have been closed by the other end meanwhile: then hyper hands the
        // request back unsent.
        let mut request = request;
        while let Some(kept) = self.kept() {
            if kept.idle.elapsed() > MAY_BE_CLOSED {
                tokio::task::yield_now().await;
            }
            match self.exchange(kept, request, silence).await? {
                Sent::Answered(reply) => return Ok(reply),
                Sent::Unsent(unsent) => request = *unsent,
            }
        }
        let fresh = within(silence, self.open()).await;
        let fresh = fresh.ok_or_else(|| self.silent(silence))??;
        match self.exchange(fresh, request, silence).await? {
            Sent::Answered(reply) => Ok(reply),
            Sent::Unsent(_) => Err(self.unreached(io::ErrorKind::ConnectionReset.into())),
        }
    }

    async fn exchange(
        &self,
        connection: Connection,
        request: Request<Full<Bytes>>,
        silence: Duration,
    ) -> Result<Sent> {
        let Connection {
            mut sender,
            mut driver,
            activity,
            ..
        } = connection;
        let exchange = async {
            if sender.ready().await.is_err() {
                return Ok(Sent::Unsent(Box::new(request)));
            }
            let response = match sender.try_send_request(request).await {
                Ok(response) => response,
                Err(mut error) => {
                    return match error.take_message() {
                        Some(unsent) => Ok(Sent::Unsent(Box::new(unsent))),
                        None => Err(self.cut(error.into_error())),
                    };
                }
            };
            let status = response.status();
            let body = response.into_body().collect().await;
            let body = body.map_err(|error| self.cut(error))?.to_bytes();
            Ok(Sent::Answered(Reply { status, body }))
        };
        let exchange = driven(&mut driver, exchange);
        let (sent, is_open) = match activity.unless_silent(silence, exchange).await {
            Some((sent, is_open)) => (sent?, is_open),
            None => return Err(self.silent(silence)),
        };
        if is_open && matches!(sent, Sent::Answered(_)) {
            self.keep(Connection {
                sender,
                driver,
                activity,
                idle: Stopwatch::start(),
            });
        }
        Ok(sent)
    }

    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.locked();
        std::iter::from_fn(|| idle.pop()).find(|kept| !kept.sender.is_closed())
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.locked();
        if idle.len() < IDLE_MAX && !connection.sender.is_closed() {
            idle.push(connection);
        }
    }

    async fn open(&self) -> Result<Connection> {
        let activity = Activity::new();
        match &self.place {
            Place::Network(authority, greeting) => {
                let stream = TcpStream::connect(authority).await;
                let stream = stream.map_err(|error| self.unreached(error))?;
                // Small calls at once; a socket that refuses that works all the same.
                let _ = stream.set_nodelay(true);
                // Below TLS: what moves there is what the other end has.
                let stream = ActivityStream {
                    stream,
                    activity: activity.clone(),
                };
                match greeting {
                    None => self.greet(stream, activity).await,
                    Some(Greeting { connector, name }) => {
                        let secured = connector.connect(name.clone(), stream).await;
                        let secured = secured.map_err(|error| self.distrusted(error))?;
                        self.greet(secured, activity).await
                    }
                }
            }
            Place::Directory(dir) => {
                let reach = async { UnixStream::connect(Way::into(dir)?.path()).await };
                let stream = reach.await.map_err(|error| self.unreached(error))?;
                let stream = ActivityStream {
                    stream,
                    activity: activity.clone(),
                };
                self.greet(stream, activity).await
            }
        }
    }

    async fn greet<S>(&self, stream: S, activity: Activity) -> Result<Connection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.cut(error))?;
        let driver = Box::pin(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the gateway broke");
            }
        });
        Ok(Connection {
            sender,
            driver,
            activity,
            idle: Stopwatch::start(),
        })
    }

    /// Nothing moved for so long.
    pub(crate) fn silent(&self, span: Duration) -> Error {
        let span = format_span(span);
        let message = format!("the gateway did not answer within {span}; send the same ids again");
        Error::new(ErrorKind::EngineUnavailable, message).with("gateway", &self.place)
    }

    fn distrusted(&self, error: io::Error) -> Error {
        let message = match error.to_string() {
            reported if reported.contains(AUTHORITY_AS_LEAF) => SELF_SIGNED,
            _ => {
                "the gateway's certificate is not trusted, or it does not use TLS; name its CA file with ?ca=FILE, and use the host of the certificate"
            }
        };
        Error::new(ErrorKind::EngineUnavailable, message)
            .with("gateway", &self.place)
            .source(error)
    }

    fn unreached(&self, error: io::Error) -> Error {
        let message = match &self.place {
            Place::Network(..) => {
                "the gateway cannot be reached; is `punctual serve` running there?"
            }
            Place::Directory(_) => {
                "the process that held the data directory no longer answers; send the same ids to the process that opens it next"
            }
        };
        Error::new(ErrorKind::EngineUnavailable, message)
            .with("gateway", &self.place)
            .source(error)
    }

    fn cut(&self, error: hyper::Error) -> Error {
        let message = match error.is_parse() {
            true => "the server there does not speak HTTP; if it uses TLS, write https://",
            false => "the gateway's answer ended early; send the same ids again",
        };
        Error::new(ErrorKind::EngineUnavailable, message)
            .with("gateway", &self.place)
            .source(error)
    }

    /// The bytes of a call, to a gateway in the same version.
    pub(crate) async fn call(
        &self,
        namespace: Option<&Namespace>,
        body: Bytes,
        silence: Duration,
    ) -> Result<Reply> {
        let path = "/v1/calls";
        self.post(path, CONTENT_TYPE, namespace, body, silence)
            .await
    }
}

/// What a call answers while its own task drives its connection, and whether that is still open.
async fn driven<T>(driver: &mut Driver, call: impl Future<Output = T>) -> (T, bool) {
    let mut call = pin!(call);
    let mut is_open = true;
    poll_fn(|context| {
        // What one of them does lets the other go on; else the task would wake itself.
        for _ in 0..ROUNDS {
            let answer = call.as_mut().poll(context);
            if is_open {
                is_open = driver.as_mut().poll(context).is_pending();
            }
            if let Poll::Ready(answer) = answer {
                return Poll::Ready((answer, is_open));
            }
        }
        Poll::Pending
    })
    .await
}

/// A request, the head of its answer, its body and the end of that take a round each.
const ROUNDS: usize = 4;

/// How calls travel to a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// In the clear, to this machine only.
    Plain,
    /// In the clear to any host: everyone on the way can read the token and every job.
    PlainAnywhere,
    /// By TLS, to a server whose certificate is of the authorities in this PEM file, or of those of
    /// the system.
    Tls(Option<PathBuf>),
}

/// Refuses to send a token in the clear to another machine, unless the transport allows it. Greets
/// by TLS if the transport asks for it.
pub(crate) fn greeting(authority: &str, transport: &Transport) -> Result<Option<Greeting>> {
    let refuse = |message: &'static str| {
        Error::new(ErrorKind::InvalidInput, message).with("gateway", authority)
    };
    let Some((host, port)) = authority.rsplit_once(':') else {
        let message = "the gateway's address names no port; write it like 127.0.0.1:4180";
        return Err(refuse(message));
    };
    if port.parse::<u16>().is_err() {
        return Err(refuse("the gateway's port is not a number from 0 to 65535"));
    }
    let address = authority.parse::<SocketAddr>();
    let is_loopback = address.map_or(host.eq_ignore_ascii_case("localhost"), |address| {
        address.ip().to_canonical().is_loopback()
    });
    match transport {
        Transport::Plain if !is_loopback => Err(refuse(
            "a gateway on another machine would receive the token unencrypted; use https://, a tunnel such as `ssh -L 4180:127.0.0.1:4180`, or add ?plaintext=allow",
        )),
        Transport::Plain | Transport::PlainAnywhere => Ok(None),
        Transport::Tls(authorities) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Greeting::new(host, authorities.as_deref()).map(Some)
        }
    }
}
