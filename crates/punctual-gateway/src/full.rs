//! What is said to who is one too many.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use punctual::time::{seconds, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::problem::Problem;

/// Turns away whose address has all connections that one may have.
pub(crate) struct Porter {
    answer: Arc<str>,
    places: Arc<Semaphore>,
}

/// How many are told at the same time; others are closed without a word.
const TOLD_MAX: usize = 64;
/// How long one is listened to after that, as to close on what it says would lose the answer, and how much.
const HEARD: Duration = seconds(1);
const HEARD_BYTES: u64 = 64 << 10;

impl Porter {
    /// For a door that lets `most` in from one address.
    pub(crate) fn of(most: usize) -> Self {
        let problem = Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_connections",
            format!("your address has {most} connections, as many as one may have"),
        )
        .hint(
            "close some, or raise connections_per_address under [limits] of punctual.toml; if many share a \
             proxy, name it in trusted_proxies there",
        );
        let body = serde_json::to_string(&problem.answer(None)).unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             retry-after: 1\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        Self {
            answer: answer.into(),
            places: Arc::new(Semaphore::new(TOLD_MAX)),
        }
    }

    /// Says why, if not too many are told just now, and closes.
    pub(crate) fn turn_away<S>(&self, mut stream: S, told: &mut JoinSet<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            return;
        };
        let answer = self.answer.clone();
        told.spawn(async move {
            let telling = async {
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await?;
                let mut rest = stream.take(HEARD_BYTES);
                tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
            };
            // Whoever does not listen is closed all the same.
            let _ = within(HEARD, telling).await;
            drop(place);
        });
    }
}
