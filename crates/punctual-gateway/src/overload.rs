//! The overload response: 429 for a connection above the limit of its address.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use punctual::time::{seconds, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::http::Problem;
use crate::request::BODY_BYTES_MAX;

/// Answers 429 on connections above the limit of their address.
pub(crate) struct OverloadResponse {
    answer: Arc<str>,
    places: Arc<Semaphore>,
}

/// Responses written at the same time; further connections are closed without one.
const RESPONSES_MAX: usize = 64;
/// A client may write its whole request before it reads. The gateway drains that first: closing on
/// unread bytes would lose the answer. The limits are the total time, a pause, and the bytes.
const DRAIN_TIME: Duration = seconds(10);
const PAUSE: Duration = seconds(1);
const DRAIN_BYTES: usize = BODY_BYTES_MAX + (1 << 20);

impl OverloadResponse {
    /// For a listener that accepts `most` connections of one address.
    pub(crate) fn of(most: usize) -> Self {
        let problem = Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_connections",
            format!("your address has {most} connections, the most that one address may have"),
        )
        .hint(
            "close some, or raise connections_per_address under [limits] of punctual.toml; if many clients share a proxy, list it in trusted_proxies there",
        );
        let body = serde_json::to_string(&problem.answer(None)).unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             retry-after: 1\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        Self {
            answer: answer.into(),
            places: Arc::new(Semaphore::new(RESPONSES_MAX)),
        }
    }

    /// Writes the response, if not too many are being written, and closes.
    pub(crate) fn reject<S>(&self, mut stream: S, tasks: &mut JoinSet<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return;
        };
        let answer = self.answer.clone();
        tasks.spawn(async move {
            // A client that does not read is closed all the same.
            let _ = within(DRAIN_TIME, respond(&mut stream, &answer)).await;
            drop((stream, place));
        });
    }
}

async fn respond(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    answer: &str,
) -> io::Result<()> {
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut buffer = vec![0; 16 << 10];
    let mut left = DRAIN_BYTES;
    while left > 0
        && let Some(read) = within(PAUSE, stream.read(&mut buffer)).await
    {
        match read? {
            0 => break,
            bytes => left = left.saturating_sub(bytes),
        }
    }
    Ok(())
}
