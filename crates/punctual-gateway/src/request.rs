//! Bodies and queries, read within bounds.

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use futures_util::StreamExt;
use punctual::time::{Stopwatch, Timestamp, exact_span, parse_span, seconds, within};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::decode::{self, shown};
use crate::http::{Problem, RequestContext, Result};
use crate::shared::Shared;

/// The largest body that is read as a whole.
pub(crate) const BODY_BYTES_MAX: usize = 8 << 20;
/// What a body that has begun takes.
const BODY_BYTES_MIN: usize = 1 << 10;
/// The longest wait that a request may ask for.
pub(crate) const WAIT_SECONDS_MAX: u64 = 60;

/// A body that is JSON.
pub(crate) struct Read<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Read<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self> {
        let bytes = json_bytes(shared, request).await?;
        parse(&bytes).map(Self)
    }
}

/// The bytes of a body that says it is JSON.
pub(crate) async fn json_bytes(shared: &Shared, request: Request) -> Result<Bytes> {
    expect_type(request.headers(), &["application/json"])?;
    body_bytes(shared, request).await
}

/// Refuses a body of another type; forms of other sites cannot send these.
pub(crate) fn expect_type(headers: &HeaderMap, types: &[&str]) -> Result<()> {
    let named = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|value| value.trim().to_ascii_lowercase());
    if named.is_some_and(|named| types.contains(&named.as_str())) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "this route does not accept the content type of the body",
    )
    .hint(format!("send the header Content-Type: {}", types[0])))
}

/// A body as a whole. Its bytes are counted until the request is answered.
pub(crate) async fn body_bytes(shared: &Shared, request: Request) -> Result<Bytes> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let context = request.extensions().get::<RequestContext>().cloned();
    let owner = context
        .as_ref()
        .map(RequestContext::owner)
        .unwrap_or_default();
    let mut permit = shared.bodies.begin(owner);
    let (watch, limit) = (Stopwatch::start(), shared.limits.body);
    let mut stream = request.into_body().into_data_stream();
    let mut bytes: Vec<u8> = Vec::new();
    while let Some(part) =
        next_part(&mut stream, limit, limit.saturating_sub(watch.elapsed())).await?
    {
        let length = bytes.len() + part.len();
        if length > BODY_BYTES_MAX {
            return Err(too_large());
        }
        if length > bytes.capacity() {
            let room = length.next_power_of_two().max(BODY_BYTES_MIN);
            permit.takes(room)?;
            bytes.reserve_exact(room - bytes.len());
        }
        bytes.extend_from_slice(&part);
    }
    let bytes = Bytes::from(bytes);
    if let Some(context) = context {
        context.keeps(permit);
        context.was_sent(&bytes);
    }
    Ok(bytes)
}

fn too_large() -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is over {BODY_BYTES_MAX} bytes"),
    )
    .hint("send fewer jobs per call, or all of them to /v1/bulk")
}

/// The next part of a body that may take `limit` to arrive, if it comes within what is left of
/// that.
pub(crate) async fn next_part(
    stream: &mut axum::body::BodyDataStream,
    limit: Duration,
    left: Duration,
) -> Result<Option<Bytes>> {
    match within(left, stream.next()).await {
        Some(None) => Ok(None),
        Some(Some(Ok(part))) => Ok(Some(part)),
        Some(Some(Err(_))) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "the body ended early",
        )),
        None => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            format!("the body did not arrive within {}", exact_span(limit)),
        )
        .hint("send smaller bodies, or raise body under [limits] of punctual.toml")),
    }
}

/// Reads JSON; says what is wrong with it, and where.
pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    Ok(decode::read(bytes)?)
}

/// The fields of a query.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(fields)) => Ok(Self(fields)),
            Err(rejection) => {
                let said = rejection.body_text();
                let what = said.split_once(": ").map_or(&*said, |(_, what)| what);
                let pairs: Query<Vec<(String, String)>> =
                    Query::try_from_uri(&parts.uri).unwrap_or_default();
                Err(decode::of_query(what, &pairs.0).into())
            }
        }
    }
}

/// The pairs of a query in which names may repeat.
pub(crate) struct Pairs(pub(crate) Vec<(String, String)>);

impl FromRequestParts<Shared> for Pairs {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self> {
        Asked::from_request_parts(parts, shared)
            .await
            .map(|asked| Self(asked.0))
    }
}

impl Pairs {
    /// Every value of a name.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(known, _)| known == name);
        values.map(|(_, value)| value.clone()).collect()
    }

    /// The value of a name that may be there once.
    pub(crate) fn one(&self, name: &str) -> Result<Option<String>> {
        let mut all = self.all(name);
        match all.len() {
            0 | 1 => Ok(all.pop()),
            _ => Err(Problem::invalid(format!("{name} appears twice")).hint("send it once")),
        }
    }

    /// Whether a parameter is `true`; it may appear once.
    pub(crate) fn is_true(&self, name: &str) -> Result<bool> {
        match self.all(name).as_slice() {
            [] => Ok(false),
            [one] if one == "true" => Ok(true),
            [one] if one == "false" => Ok(false),
            [one] => {
                Err(Problem::invalid(format!("{name} is \"{}\"", shown(one)))
                    .hint("use true or false"))
            }
            _ => Err(Problem::invalid(format!("{name} appears twice")).hint("send it once")),
        }
    }

    /// Refuses names that are not known.
    pub(crate) fn only(&self, names: &[&str]) -> Result<()> {
        match self
            .0
            .iter()
            .find(|(name, _)| !names.contains(&name.as_str()))
        {
            Some((name, _)) => Err(Problem::invalid(format!("unknown field `{}`", shown(name)))
                .hint(format!("use {}", names.join(", ")))),
            None => Ok(()),
        }
    }
}

/// The version of `If-Match`, with or without quotes.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<u64>> {
    let Some(value) = headers.get(header::IF_MATCH) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default().trim().trim_matches('"');
    text.parse().map(Some).map_err(|_| {
        Problem::invalid("If-Match is no version").hint("send the version that was read")
    })
}

/// The instant at which a wait ends that was asked for as a span.
pub(crate) fn wait_until(now: Timestamp, wait: Option<&str>) -> Result<Timestamp> {
    let Some(wait) = wait else { return Ok(now) };
    let is = format!("wait is \"{}\"", shown(wait));
    let hint = "use a span of at most 60s, such as \"30s\", and ask again";
    let span = parse_span(wait).map_err(|_| {
        Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid_delay",
            is.clone(),
        )
        .hint(hint)
    })?;
    if span > seconds(WAIT_SECONDS_MAX) {
        return Err(Problem::invalid(is).hint(hint));
    }
    Ok(now + span)
}

/// An answer of a shape.
pub(crate) type Answer<T> = Result<Json<T>>;
