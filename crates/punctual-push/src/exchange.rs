//! One request and its answer, both bounded.

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, StatusCode};
use punctual::time::{Timestamp, seconds, within};
use punctual::{JobRecord, Namespace};

use crate::connect::Connection;
use crate::guard::Target;
use crate::secret::{Secret, signatures};

/// What a target answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The whole body, if it came in time and is not over [`KEPT_BYTES_MAX`].
    pub(crate) body: Option<Bytes>,
    /// How it starts.
    pub(crate) start: Bytes,
}

/// Bytes of a body that are read; what goes on after that is cut off.
const READ_BYTES_MAX: usize = 64 << 10;
/// Bytes of a body that are kept.
pub(crate) const KEPT_BYTES_MAX: usize = 1 << 10;
/// How long a body may take after its head.
const BODY_SECONDS_MAX: u64 = 10;
/// Bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// Sends it and reads the answer; the caller bounds the time.
pub(crate) async fn exchange(
    connection: Connection,
    request: Request<Full<Bytes>>,
) -> Result<Answer, String> {
    let cut = |error: hyper::Error| format!("the connection broke: {error}");
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .handshake(connection)
        .await
        .map_err(cut)?;
    let asked = async move {
        let response = sender.send_request(request).await.map_err(cut)?;
        let (head, mut body) = response.into_parts();
        let mut read = BytesMut::new();
        let reading = async {
            while let Some(frame) = body.frame().await {
                let Ok(frame) = frame else { return false };
                if let Some(data) = frame.data_ref() {
                    let room = READ_BYTES_MAX.saturating_sub(read.len());
                    read.extend_from_slice(&data[..data.len().min(room)]);
                    if data.len() > room {
                        return false;
                    }
                }
            }
            true
        };
        // The head has said how it went; a body that never ends changes nothing.
        let is_whole = within(seconds(BODY_SECONDS_MAX), reading).await == Some(true);
        let is_kept = is_whole && read.len() <= KEPT_BYTES_MAX;
        let read = read.freeze();
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            start: Bytes::copy_from_slice(&read[..read.len().min(KEPT_BYTES_MAX)]),
            body: is_kept.then_some(read),
        })
    };
    // The connection lives as long as the question: dropped together, nothing goes on behind us.
    let mut asked = std::pin::pin!(asked);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        answer = asked.as_mut() => answer,
        // The answer may have been read before the connection ended.
        _ = connection.as_mut() => asked.await,
    }
}

/// The request that carries a job.
pub(crate) fn request(
    job: &JobRecord,
    namespace: &Namespace,
    target: &Target,
    secrets: &[Secret],
    now: Timestamp,
) -> Result<Request<Full<Bytes>>, String> {
    let url = target.url();
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let mut request = Request::post(path)
        .body(Full::new(job.payload.clone()))
        .map_err(|error| format!("the URL cannot be sent: {error}"))?;
    let headers = request.headers_mut();
    let mut set = |name: &str, value: &str| {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    };
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => set("host", &format!("{host}:{port}")),
        None => set("host", host),
    }
    set(
        "user-agent",
        concat!("punctual/", env!("CARGO_PKG_VERSION")),
    );
    set("accept-encoding", "identity");
    set("connection", "close");
    set("content-type", &job.content_type);
    for (name, value) in job.headers.iter().filter(|(name, _)| !is_ours(name)) {
        set(name, value);
    }
    let id = job.id.to_string();
    let timestamp = now.as_micros() / 1_000_000;
    set("webhook-id", &id);
    set("webhook-timestamp", &timestamp.to_string());
    if !secrets.is_empty() {
        set(
            "webhook-signature",
            &signatures(secrets, &id, timestamp, &job.payload),
        );
    }
    set("punctual-id", &id);
    set("punctual-namespace", namespace.as_str());
    set("punctual-queue", &job.queue);
    set("punctual-kind", &job.kind);
    set("punctual-attempt", &job.attempt.to_string());
    set("punctual-failures", &job.failures.to_string());
    set("punctual-crashes", &job.crashes.to_string());
    set("punctual-max-attempts", &job.max_attempts.to_string());
    set("punctual-priority", &job.priority.to_string());
    set("punctual-due", &job.due.to_string());
    set("punctual-enqueued-at", &job.enqueued_at.to_string());
    if let Some(unique) = &job.unique {
        set("punctual-unique", &unique.key);
    }
    if let Some(group) = &job.group {
        set("punctual-group", &group.key);
    }
    Ok(request)
}

/// Headers that a job cannot set: ours, and those that frame the message.
fn is_ours(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let framing = [
        "host",
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "content-length",
        "content-type",
        "content-encoding",
        "accept-encoding",
        "user-agent",
    ];
    framing.contains(&&*name) || name.starts_with("webhook-") || name.starts_with("punctual-")
}
