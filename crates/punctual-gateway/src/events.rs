//! `/v1/events`: changes as they happen, and work without polling, over one WebSocket.

mod frames;
mod watch;

use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Extension, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::Response;
use punctual::time::{pause, seconds, within};
use tokio::task::{JoinError, JoinSet};

use self::frames::{Frame, Reference, Reply};
use self::watch::{Watch, WatchEvent};
use crate::auth::{authenticate, caller_of, may_go_on};
use crate::bodies::BodyPermit;
use crate::connection_permit::ConnectionPermit;
use crate::http::Peer;
use crate::http::{Caller, Scope};
use crate::http::{ErrorAnswer, Problem, RequestContext, Result};
use crate::request::{BODY_BYTES_MAX, parse};
use crate::service::{Undelivered, claim_for, extend_for, settle_for};
use crate::shared::Shared;
use crate::upgrade::{TOO_MANY, TOO_SLOW, Upgrade};

/// How long a socket may take to authenticate.
const HELLO_SECONDS_MAX: u64 = 5;
/// Tokens are short.
const HELLO_BYTES_MAX: usize = 16 << 10;
/// Of a caller without the scope `work`: a thousand names are half of that, what is settled can be
/// as much as a body.
const WATCH_BYTES_MAX: usize = 256 << 10;
/// The head of a ping, a pong or a close.
const CONTROL_HEAD_BYTES: usize = 6;

/// What may come until a frame of so many bytes is there: it may come in parts, each with a head,
/// and some of the one before counts as well.
const fn on_the_way(frame_bytes_max: usize) -> usize {
    2 * frame_bytes_max + READ_BUFFER_BYTES
}
/// What a socket that says nothing keeps for reading; it grows with the frames that come.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// Requests under way on one socket.
const REQUESTS_MAX: usize = 64;
/// How long the other end may take to close too.
const CLOSE_TIMEOUT: Duration = seconds(1);
/// No token was shown that is good here.
const UNAUTHORIZED: u16 = 4401;

/// Opens a WebSocket for changes and for work
#[utoipa::path(
    get, path = "/v1/events", tag = "gateway",
    responses((status = 101, description = "docs/http-api.md describes the frames"), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(crate) async fn events(
    State(shared): State<Shared>,
    Extension(context): Extension<RequestContext>,
    parts: Parts,
    upgrade: std::result::Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let upgrade = upgrade.map_err(|no| {
        Problem::new(no.status(), "invalid_request", "the request is not a WebSocket upgrade")
            .hint("connect with a WebSocket client (RFC 6455); GET /v1/jobs and /v1/stats return the past")
    })?;
    let shown = parts.headers.contains_key(header::AUTHORIZATION);
    let caller = shown.then(|| caller_of(&parts, &shared)).transpose()?;
    let peer = parts.extensions.get().copied().unwrap_or(Peer::Unknown);
    let permit = parts.extensions.get::<ConnectionPermit>().cloned();
    let coming = parts
        .extensions
        .get::<Upgrade>()
        .cloned()
        .unwrap_or_default();
    // Before it is a socket: what comes then is counted at once.
    coming.allow(on_the_way(HELLO_BYTES_MAX));
    let upgrade = upgrade
        .protocols(["punctual.v1"])
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(BODY_BYTES_MAX)
        .max_frame_size(BODY_BYTES_MAX);
    Ok(upgrade.on_upgrade(async move |socket| {
        shared.metrics.sockets.increment(1);
        let mut connection = Socket {
            stream: socket,
            reader: shared.limits.reader,
            coming,
            frame_bytes_max: HELLO_BYTES_MAX,
            is_asked: false,
            context,
            shared: shared.clone(),
        };
        let cut_off = async {
            match &permit {
                Some(permit) => permit.cut_off().await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            ended = run_socket(&shared, &mut connection, caller, peer) => ended,
            () = cut_off => Err(ENDING),
        };
        if let Err(End(code, why)) = ended {
            connection.close(code, why).await;
        }
        shared.metrics.sockets.decrement(1);
        drop(permit);
    }))
}

/// Why a socket is closed.
struct End(u16, &'static str);

const ENDING: End = End(close_code::AWAY, "the gateway is shutting down");
const GONE: End = End(UNAUTHORIZED, "the token has expired or was revoked");
const TOO_LONG: End = End(close_code::SIZE, "a frame is too long");

type SocketResult<T> = std::result::Result<T, End>;

/// A socket whose reader has a limited time for each frame.
struct Socket {
    stream: WebSocket,
    reader: Duration,
    coming: Upgrade,
    frame_bytes_max: usize,
    /// Whether a ping went out since something came.
    is_asked: bool,
    /// The request that opened it.
    context: RequestContext,
    shared: Shared,
}

impl Socket {
    async fn send(&mut self, message: Message) -> SocketResult<()> {
        match within(self.reader, self.stream.send(message)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(End(close_code::AWAY, "gone")),
            None => {
                let request_id = &*self.context.id;
                tracing::debug!(
                    request_id,
                    "an event client reads nothing; its socket is closed"
                );
                Err(End(close_code::AGAIN, "too slow"))
            }
        }
    }

    /// Sends a ping, which the client must answer before the next one.
    async fn ping(&mut self) -> SocketResult<()> {
        if std::mem::replace(&mut self.is_asked, true) {
            return Err(End(close_code::AWAY, "gone"));
        }
        self.send(Message::Ping(Default::default())).await
    }

    async fn reply(&mut self, reply: &Reply) -> SocketResult<()> {
        let text = serde_json::to_string(reply).unwrap_or_default();
        self.send(Message::text(text)).await
    }

    async fn refuse(&mut self, reference: Reference, problem: Problem) -> SocketResult<()> {
        let reply = Reply::error(&self.shared, &self.context, reference, problem);
        self.reply(&reply).await
    }

    /// From now on its frames may have so many bytes.
    fn allow(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
        self.coming.allow(on_the_way(frame_bytes_max));
    }

    /// The next text; pings are answered below this.
    async fn text(&mut self) -> SocketResult<String> {
        loop {
            let came = self.stream.recv().await;
            self.is_asked = false;
            match came {
                Some(Ok(Message::Text(text))) => {
                    if text.len() > self.frame_bytes_max {
                        return Err(TOO_LONG);
                    }
                    self.allow(self.frame_bytes_max);
                    return Ok(text.as_str().to_owned());
                }
                Some(Ok(Message::Binary(_))) => {
                    return Err(End(close_code::UNSUPPORTED, "frames must be JSON text"));
                }
                // They count for no frame, also of one that they come in the midst of.
                Some(Ok(Message::Ping(bytes) | Message::Pong(bytes))) => {
                    self.coming.allow_more(bytes.len() + CONTROL_HEAD_BYTES);
                }
                Some(Ok(Message::Close(_))) | None => return Err(End(close_code::NORMAL, "")),
                Some(Err(error)) => {
                    let said = error.to_string();
                    return Err(match () {
                        () if said.contains("too long") => TOO_LONG,
                        () if said.contains(TOO_SLOW) => End(close_code::AGAIN, TOO_SLOW),
                        () if said.contains(TOO_MANY) => End(close_code::AGAIN, TOO_MANY),
                        () => End(close_code::PROTOCOL, "a frame could not be read"),
                    });
                }
            }
        }
    }

    /// The next text, or nothing if the pause is over and none is there.
    async fn text_during(
        &mut self,
        pause: impl Future<Output = ()>,
    ) -> SocketResult<Option<String>> {
        tokio::select! {
            biased;
            text = self.text() => text.map(Some),
            () = pause => Ok(None),
        }
    }

    /// Sends the reason, and reads what still comes: to close earlier could lose the last replies.
    async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame {
            code,
            reason: reason.into(),
        };
        let closing = async {
            if self.stream.send(Message::Close(Some(frame))).await.is_ok() {
                while let Some(Ok(_)) = self.stream.recv().await {}
            }
        };
        // A client that is gone cannot be notified.
        let _ = within(CLOSE_TIMEOUT, closing).await;
    }
}

async fn run_socket(
    shared: &Shared,
    socket: &mut Socket,
    caller: Option<Caller>,
    peer: Peer,
) -> SocketResult<()> {
    let (caller, after) = tokio::select! {
        said = hello(shared, socket, caller, peer) => said?,
        () = shared.ending() => return Err(ENDING),
    };
    socket
        .context
        .set_caller(caller.sees_engine(), caller.owner());
    let permit = shared.bodies.begin(caller.owner());
    socket.coming.counts(permit.another(), shared.limits.body);
    socket.allow(match caller.allows(Scope::Work) {
        true => BODY_BYTES_MAX,
        false => WATCH_BYTES_MAX,
    });
    let now = shared.engine.info().await.map(|info| info.now);
    let now = now.map_err(|_| End(close_code::AGAIN, "the engine does not answer"))?;
    let welcome = Reply::welcome(
        caller.namespace.to_string(),
        caller.scopes(),
        now.to_string(),
    );
    socket.reply(&welcome).await?;
    let mut watch = Watch::new(shared.clone(), caller.clone(), after);
    // In tasks of their own: claims hold places among those that wake up, also while this one
    // writes.
    let mut work = JoinSet::new();
    let mut ping = Box::pin(pause(shared.limits.ping));
    loop {
        tokio::select! {
            text = socket.text_during(&mut ping) => match text?.map(|text| framed(&permit, &text)) {
                _ if !may_go_on(shared, &caller) => return Err(GONE),
                None => {
                    socket.ping().await?;
                    ping = Box::pin(pause(shared.limits.ping));
                }
                Some((_, Err(problem))) => socket.refuse(None, problem).await?,
                Some((_, Ok(Frame::Ping {}))) => socket.reply(&Reply::Pong {}).await?,
                Some((_, Ok(Frame::Hello { .. }))) => {
                    let problem = Problem::invalid("hello was already sent");
                    socket.refuse(None, problem).await?;
                }
                Some((_, Ok(Frame::Watch(wish)))) => {
                    let answer = match caller.need(Scope::Read) {
                        Ok(()) => watch.start(wish).await,
                        Err(problem) => Err(problem),
                    };
                    match answer {
                        Ok(reply) => socket.reply(&reply).await?,
                        Err(problem) => socket.refuse(None, problem).await?,
                    }
                }
                Some((_, Ok(frame))) if work.len() >= REQUESTS_MAX => {
                    let problem = Problem::invalid("too many requests are in flight on this socket");
                    socket.refuse(frame.reference(), problem).await?;
                }
                Some((taken, Ok(frame))) => {
                    let context = socket.context.clone();
                    let answering = answer(shared.clone(), caller.clone(), context, frame);
                    work.spawn(async move {
                        let answered = answering.await;
                        drop(taken);
                        answered
                    });
                }
            },
            Some(answered) = work.join_next() => deliver(socket, answered).await?,
            reported = watch.next() => match reported {
                _ if !may_go_on(shared, &caller) => return Err(GONE),
                WatchEvent::Reply(reply) => socket.reply(&reply).await?,
                WatchEvent::Nothing => {}
            },
            () = shared.ending() => break,
        }
    }
    // No frame is taken any more, and what was taken is answered.
    while let Some(answered) = work.join_next().await {
        deliver(socket, answered).await?;
    }
    Err(ENDING)
}

/// A frame, and the place of its bytes until it is answered.
fn framed(permit: &BodyPermit, text: &str) -> (BodyPermit, Result<Frame>) {
    let mut taken = permit.another();
    let frame = taken
        .takes(text.len())
        .and_then(|()| parse(text.as_bytes()));
    (taken, frame)
}

type Answered = (Reply, Option<Undelivered>);

async fn deliver(
    socket: &mut Socket,
    answered: std::result::Result<Answered, JoinError>,
) -> SocketResult<()> {
    // It ends without an answer only by a panic, which was reported where it happened.
    let failed = |_| End(close_code::ERROR, "a request failed");
    let (reply, undelivered) = answered.map_err(failed)?;
    socket.reply(&reply).await?;
    if let Some(undelivered) = undelivered {
        undelivered.delivered();
    }
    Ok(())
}

/// Its caller, and the cursor of the change that it saw last.
async fn hello(
    shared: &Shared,
    socket: &mut Socket,
    caller: Option<Caller>,
    peer: Peer,
) -> SocketResult<(Caller, Option<u64>)> {
    let silent = End(UNAUTHORIZED, "no hello frame arrived");
    let text = within(seconds(HELLO_SECONDS_MAX), socket.text())
        .await
        .ok_or(silent)?;
    let no_hello = End(UNAUTHORIZED, "the first frame is not hello");
    let text = match text {
        Err(End(close_code::SIZE, _)) => return Err(no_hello),
        text => text?,
    };
    let Ok(Frame::Hello { token, after }) = parse::<Frame>(text.as_bytes()) else {
        return Err(no_hello);
    };
    if let Some(caller) = caller {
        return Ok((caller, after));
    }
    match authenticate(shared, token.as_deref(), None, peer) {
        Ok(caller) => Ok((caller, after)),
        Err(problem) if problem.status == StatusCode::TOO_MANY_REQUESTS => Err(End(
            close_code::AGAIN,
            "too many wrong tokens from this address",
        )),
        Err(_) => Err(End(UNAUTHORIZED, "no valid token was sent")),
    }
}

/// Claims, extends or settles; with what is handed back unless the answer is delivered.
async fn answer(shared: Shared, caller: Caller, context: RequestContext, frame: Frame) -> Answered {
    let (shared, caller, context) = (&shared, &caller, &context);
    let reference = frame.reference();
    let mut kept = None;
    let sent = frame.request().unwrap_or_default().to_owned();
    let answer = async {
        caller.need(Scope::Work)?;
        let reference = reference.clone();
        match frame {
            Frame::Claim { .. } => {
                let request = parse(sent.as_bytes())?;
                let (answer, undelivered) = claim_for(shared, caller, request).await?;
                kept = undelivered;
                Ok(Reply::Claimed { reference, answer })
            }
            Frame::Extend { .. } => {
                let request = parse(sent.as_bytes())?;
                let answer = extend_for(shared, caller, request).await?;
                Ok(Reply::Extended { reference, answer })
            }
            Frame::Settle { .. } => {
                let request = parse(sent.as_bytes())?;
                let answer = settle_for(shared, caller, request).await?;
                Ok(Reply::Settled { reference, answer })
            }
            _ => Err(Problem::invalid("this frame is not a request")),
        }
    };
    let reply = answer.await;
    let reply = reply.unwrap_or_else(|problem: Problem| {
        let problem = problem.with_values_of(sent.as_bytes());
        Reply::error(shared, context, reference.clone(), problem)
    });
    (reply, kept)
}

#[cfg(test)]
mod tests;
