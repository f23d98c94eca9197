//! What is said to who is one too many.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use punctual::time::{seconds, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::problem::Problem;
use crate::request::BODY_BYTES_MAX;

/// Turns away whose address has all connections that one may have.
pub(crate) struct OverloadResponse {
    answer: Arc<str>,
    places: Arc<Semaphore>,
}

/// How many are told at the same time; others are closed without a word.
const RESPONSES_MAX: usize = 64;
/// Whoever writes first and reads then is heard out before the connection is closed: to close on what
/// still comes would lose the answer. So long in all, with such a pause, and so much: a whole request.
const DRAIN_TIME: Duration = seconds(10);
const PAUSE: Duration = seconds(1);
const DRAIN_BYTES: usize = BODY_BYTES_MAX + (1 << 20);

impl OverloadResponse {
    /// For a listener that lets `most` in from one address.
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

    /// Says why, if not too many are told just now, and closes.
    pub(crate) fn reject<S>(&self, mut stream: S, told: &mut JoinSet<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return;
        };
        let answer = self.answer.clone();
        told.spawn(async move {
            // Whoever does not listen is closed all the same.
            let _ = within(DRAIN_TIME, tell(&mut stream, &answer)).await;
            drop((stream, place));
        });
    }
}

async fn tell(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: &str) -> io::Result<()> {
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut heard = vec![0; 16 << 10];
    let mut left = DRAIN_BYTES;
    while left > 0
        && let Some(read) = within(PAUSE, stream.read(&mut heard)).await
    {
        match read? {
            0 => break,
            bytes => left = left.saturating_sub(bytes),
        }
    }
    Ok(())
}
