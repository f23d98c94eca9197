//! `/v1/events`: changes as they happen, and work without polling, over one WebSocket.

mod frames;
mod watch;

use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::Response;
use punctual::time::{pause, seconds, within};
use tokio::task::JoinSet;

use self::frames::{Frame, Reply};
use self::watch::{Told, Watch};
use crate::access::{Caller, Scope, caller_of};
use crate::api::Undelivered;
use crate::api::claims::{claim_for, extend_for, settle_for};
use crate::doors::Peer;
use crate::problem::{ErrorAnswer, Problem, Result};
use crate::request::{BODY_BYTES_MAX, parse};
use crate::state::Shared;

/// How long a socket may take to say who it is.
const HELLO_SECONDS_MAX: u64 = 5;
/// Tokens are short.
const HELLO_BYTES_MAX: usize = 16 << 10;
/// How often a silent socket is asked whether it is there.
const PING_SECONDS: u64 = 30;
/// What a socket that says nothing keeps for reading; it grows with the frames that come.
const READ_BUFFER_BYTES: usize = 4 << 10;
/// Requests under way on one socket.
const REQUESTS_MAX: usize = 64;
/// No token was shown that is good here.
const UNAUTHORIZED: u16 = 4401;

/// Opens a WebSocket for changes and for work
#[utoipa::path(
    get, path = "/v1/events", tag = "gateway",
    responses((status = 101, description = "frames are told by docs/http-api.md"), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(crate) async fn events(
    State(shared): State<Shared>,
    parts: Parts,
    upgrade: std::result::Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let upgrade = upgrade.map_err(|no| {
        Problem::new(no.status(), "invalid_request", "the request opens no WebSocket")
            .hint("ask by a client of WebSockets (RFC 6455); what happened before is told by GET /v1/jobs and /v1/stats")
    })?;
    let shown = parts.headers.contains_key(header::AUTHORIZATION);
    let caller = shown.then(|| caller_of(&parts, &shared)).transpose()?;
    let peer = parts.extensions.get().copied().unwrap_or(Peer::Unknown);
    let upgrade = upgrade
        .protocols(["punctual.v1"])
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(BODY_BYTES_MAX)
        .max_frame_size(BODY_BYTES_MAX);
    Ok(upgrade.on_upgrade(async move |socket| {
        shared.meters.sockets.increment(1);
        let mut conversation = Socket(socket, shared.limits.reader);
        let ended = converse(&shared, &mut conversation, caller, peer).await;
        if let Err(End(code, why)) = ended {
            conversation.close(code, why).await;
        }
        shared.meters.sockets.decrement(1);
    }))
}

/// Why a socket is closed.
struct End(u16, &'static str);

type Talk<T> = std::result::Result<T, End>;

/// A socket whose reader has a limited time for each frame.
struct Socket(WebSocket, Duration);

impl Socket {
    async fn send(&mut self, message: Message) -> Talk<()> {
        match within(self.1, self.0.send(message)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) => Err(End(close_code::AWAY, "gone")),
            None => Err(End(close_code::AGAIN, "too slow")),
        }
    }

    async fn reply(&mut self, reply: &Reply) -> Talk<()> {
        let text = serde_json::to_string(reply).unwrap_or_default();
        self.send(Message::text(text)).await
    }

    /// The next text; pings are answered below this.
    async fn text(&mut self) -> Talk<String> {
        loop {
            match self.0.recv().await {
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                Some(Ok(Message::Binary(_))) => {
                    return Err(End(close_code::UNSUPPORTED, "frames are JSON texts"));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Err(End(close_code::NORMAL, "")),
                Some(Err(error)) => {
                    let too_long = error.to_string().contains("too long");
                    let code = if too_long {
                        close_code::SIZE
                    } else {
                        close_code::PROTOCOL
                    };
                    return Err(End(code, "a frame could not be read"));
                }
            }
        }
    }

    async fn close(&mut self, code: u16, reason: &'static str) {
        let frame = CloseFrame {
            code,
            reason: reason.into(),
        };
        // Who is gone already cannot be told.
        let _ = within(seconds(1), self.0.send(Message::Close(Some(frame)))).await;
    }
}

async fn converse(
    shared: &Shared,
    socket: &mut Socket,
    caller: Option<Caller>,
    peer: Peer,
) -> Talk<()> {
    let (caller, after) = hello(shared, socket, caller, peer).await?;
    let now = shared.engine.info().await.map(|info| info.now);
    let now = now.map_err(|_| End(close_code::AGAIN, "the engine does not answer"))?;
    let welcome = Reply::welcome(
        caller.namespace.to_string(),
        caller.scopes(),
        now.to_string(),
    );
    socket.reply(&welcome).await?;
    let mut watch = Watch::new(shared.clone(), caller.clone(), after);
    // In tasks of their own: claims hold places among those that wake up, also while this one writes.
    let mut work = JoinSet::new();
    let mut ping = Box::pin(pause(seconds(PING_SECONDS)));
    loop {
        tokio::select! {
            text = socket.text() => match parse::<Frame>(text?.as_bytes()) {
                Err(problem) => socket.reply(&Reply::error(None, problem)).await?,
                Ok(Frame::Ping {}) => socket.reply(&Reply::Pong {}).await?,
                Ok(Frame::Hello { .. }) => {
                    let problem = Problem::invalid("hello was said before");
                    socket.reply(&Reply::error(None, problem)).await?;
                }
                Ok(Frame::Watch(wish)) => {
                    let answer = match caller.need(Scope::Read) {
                        Ok(()) => watch.start(wish).await,
                        Err(problem) => Err(problem),
                    };
                    let reply = answer.unwrap_or_else(|problem| Reply::error(None, problem));
                    socket.reply(&reply).await?;
                }
                Ok(frame) if work.len() >= REQUESTS_MAX => {
                    let problem = Problem::invalid("too many requests are under way on this socket");
                    socket.reply(&Reply::error(frame.reference(), problem)).await?;
                }
                Ok(frame) => {
                    work.spawn(answer(shared.clone(), caller.clone(), frame));
                }
            },
            Some(answered) = work.join_next() => {
                // It ends without an answer only by a panic, which was told where it happened.
                let failed = |_| End(close_code::ERROR, "a request failed");
                let (reply, undelivered) = answered.map_err(failed)?;
                socket.reply(&reply).await?;
                if let Some(undelivered) = undelivered {
                    undelivered.delivered();
                }
            }
            told = watch.next() => match told {
                Told::Reply(reply) => socket.reply(&reply).await?,
                Told::Nothing => {}
            },
            () = &mut ping => {
                socket.send(Message::Ping(Default::default())).await?;
                ping = Box::pin(pause(seconds(PING_SECONDS)));
            }
            () = shared.ending() => return Err(End(close_code::AWAY, "the gateway is ending")),
        }
    }
}

/// Who it is, and the cursor of the change that it saw last.
async fn hello(
    shared: &Shared,
    socket: &mut Socket,
    caller: Option<Caller>,
    peer: Peer,
) -> Talk<(Caller, Option<u64>)> {
    let silent = End(UNAUTHORIZED, "no hello came");
    let text = within(seconds(HELLO_SECONDS_MAX), socket.text())
        .await
        .ok_or(silent)??;
    let no_hello = End(UNAUTHORIZED, "the first frame is no hello");
    if text.len() > HELLO_BYTES_MAX {
        return Err(no_hello);
    }
    let Ok(Frame::Hello { token, after }) = parse::<Frame>(text.as_bytes()) else {
        return Err(no_hello);
    };
    if let Some(caller) = caller {
        return Ok((caller, after));
    }
    match Caller::of(shared, token.as_deref(), None, peer) {
        Ok(caller) => Ok((caller, after)),
        Err(_) => Err(End(UNAUTHORIZED, "no token that is good here was shown")),
    }
}

/// Claims, extends or settles; with what is handed back unless the answer is delivered.
async fn answer(shared: Shared, caller: Caller, frame: Frame) -> (Reply, Option<Undelivered>) {
    let (shared, caller) = (&shared, &caller);
    let reference = frame.reference();
    let mut kept = None;
    let answer = async {
        caller.need(Scope::Work)?;
        let reference = reference.clone();
        match frame {
            Frame::Claim { request, .. } => {
                let request = parse(request.get().as_bytes())?;
                let (answer, undelivered) = claim_for(shared, caller, request).await?;
                kept = undelivered;
                Ok(Reply::Claimed { reference, answer })
            }
            Frame::Extend { request, .. } => {
                let request = parse(request.get().as_bytes())?;
                let answer = extend_for(shared, caller, request).await?;
                Ok(Reply::Extended { reference, answer })
            }
            Frame::Settle { request, .. } => {
                let request = parse(request.get().as_bytes())?;
                let answer = settle_for(shared, caller, request).await?;
                Ok(Reply::Settled { reference, answer })
            }
            _ => Err(Problem::invalid("this frame is no request")),
        }
    };
    let reply = answer.await;
    let reply = reply.unwrap_or_else(|problem: Problem| Reply::error(reference.clone(), problem));
    (reply, kept)
}
