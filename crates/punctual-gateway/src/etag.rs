//! Lists and counts that a client already has are not sent again.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::http::Problem;

/// The routes whose answers are asked for again and again.
const ROUTES: [&str; 3] = ["/v1/jobs", "/v1/queues", "/v1/stats"];
/// The field that ends these answers and differs each time.
const NOW: &[u8] = b"\"now\":\"";
/// `"now":"2026-11-21T10:00:00.123456Z"}`
const NOW_BYTES_MAX: usize = 40;

/// Marks an answer by what is in it, but for `now`, and leaves it out for a caller that sends that
/// mark.
pub(crate) async fn unless_known(request: Request, next: Next) -> Response {
    let is_marked = request.method() == Method::GET && ROUTES.contains(&request.uri().path());
    if !is_marked {
        return next.run(request).await;
    }
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // It is in memory as a whole already.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        let message = "the answer was not written to its end";
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
            .into_response();
    };
    let mark = mark_of(&bytes);
    let is_known = known.is_some_and(|known| names(&known, &mark));
    if let Ok(mark) = HeaderValue::from_str(&mark) {
        head.headers.insert(header::ETAG, mark);
    }
    if is_known {
        head.status = StatusCode::NOT_MODIFIED;
        head.headers.remove(header::CONTENT_TYPE);
        head.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(head, Body::empty());
    }
    Response::from_parts(head, Body::from(bytes))
}

/// A weak one: `now` is not in it, and the same may be sent as gzip.
fn mark_of(bytes: &[u8]) -> String {
    let end = bytes.windows(NOW.len()).rposition(|part| part == NOW);
    // Behind it there is an instant and nothing else, or it is not the one that is meant.
    let end = end.filter(|end| bytes.len() - end <= NOW_BYTES_MAX);
    let digest = Sha256::digest(&bytes[..end.unwrap_or(bytes.len())]);
    let hex: String = digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("W/\"{hex}\"")
}

fn names(known: &HeaderValue, mark: &str) -> bool {
    let opaque = mark.trim_start_matches("W/");
    let mut named = known.as_bytes().split(|byte| *byte == b',');
    named.any(|one| {
        let one = one.trim_ascii();
        one == b"*" || one.strip_prefix(b"W/").unwrap_or(one) == opaque.as_bytes()
    })
}
