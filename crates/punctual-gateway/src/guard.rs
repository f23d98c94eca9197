//! What stands around every route: ids, hosts, origins, headers, the form of errors.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::http::{Problem, RequestContext, Result};
use crate::shared::Shared;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The page loads nothing from elsewhere and runs nothing that stands in it.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// Runs a request between its checks and the headers of its answer.
pub(crate) async fn guard(
    State(shared): State<Shared>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request_id(request.headers());
    let context = RequestContext::new(id, request.method().clone(), request.uri().path());
    request.extensions_mut().insert(context.clone());
    let mut response = match admit(&shared, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let problem = problem.with_values_of(context.sent());
        problem.log(&context, &shared.log_throttle);
        let body = serde_json::to_vec(&problem.answer(Some(&context))).unwrap_or_default();
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        *response.body_mut() = Body::from(body);
    }
    let status = response.status().as_u16();
    shared.metrics.answered(status);
    let RequestContext {
        id, method, path, ..
    } = &context;
    tracing::debug!(%method, path = &**path, status, request_id = &**id, "answered");
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    let policy = HeaderValue::from_static(CONTENT_POLICY);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    if shared.is_ending() && status != 101 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let unkept = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(unkept);
    response
}

/// The id that the request brings along, if it is a decent one; else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let decent = |id: &&str| {
        let known = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
        (1..=64).contains(&id.len()) && id.bytes().all(known)
    };
    let sent = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    sent.filter(decent)
        .map_or_else(|| uuid::Uuid::new_v4().simple().to_string(), Into::into)
}

/// Other sites may not ask through a browser, not even by a name that they made lead here.
fn admit(shared: &Shared, request: &Request) -> Result<()> {
    let text = |name| {
        let value = request.headers().get(name);
        value.and_then(|value: &HeaderValue| value.to_str().ok())
    };
    if !is_text(request.uri().path()) {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "the path is not UTF-8 text once its % escapes are decoded",
        )
        .hint("escape the UTF-8 bytes of a name: %2F for a slash"));
    }
    let host = text(header::HOST).unwrap_or_default();
    let also_names = request.uri().authority();
    let names_another = also_names.is_some_and(|also| !also.as_str().eq_ignore_ascii_case(host));
    if names_another || request.headers().get_all(header::HOST).iter().count() > 1 {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "the request names two hosts",
        )
        .hint("send one Host header, and the same host where the target is a whole URL"));
    }
    if !is_ours(host, &shared.hosts) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "host_not_allowed",
            "the gateway does not serve that host",
        )
        .hint(
            "use an IP address or localhost, or allow the host with `punctual serve --host NAME`",
        ));
    }
    let foreign = text(header::ORIGIN).is_some_and(|origin| {
        let place = origin.split_once("://").map(|(_, place)| place);
        !place.is_some_and(|place| place.eq_ignore_ascii_case(host))
    });
    if foreign {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "origin_not_allowed",
            "requests from another origin are refused",
        )
        .hint(
            "use the dashboard of this gateway; behind a proxy, forward the Host header as the browser sent it (nginx: proxy_set_header Host $http_host) and name it with `punctual serve --host NAME`",
        ));
    }
    Ok(())
}

/// Whether a path is text without its escapes; a `%` that begins none stands for itself.
fn is_text(path: &str) -> bool {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, behind @ ..] = rest {
        let escape = path_escape(rest);
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() {
            &behind[2..]
        } else {
            behind
        };
    }
    std::str::from_utf8(&bytes).is_ok()
}

fn path_escape(at: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = at else {
        return None;
    };
    let digit = |c: u8| (c as char).to_digit(16);
    u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
}

fn is_ours(host: &str, named: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || named.iter().any(|known| known.eq_ignore_ascii_case(name))
}
