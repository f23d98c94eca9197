//! Routes that take no query or no body: one that is sent is a mistake, and is refused as unknown
//! fields are.

use std::sync::Arc;

use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};

use crate::decode::shown;
use crate::http::Problem;

/// Bytes of `null`, `{}` or nothing, which clients send where there is nothing to say: an object
/// with a field has more.
const NOTHING: u64 = 4;

/// The described routes of the API. A monitor may add a query: what it asks is not among them.
#[derive(Debug, Clone, Default)]
pub(super) struct Routes(Arc<[Route]>);

#[derive(Debug)]
struct Route {
    method: &'static str,
    /// Such as `/v1/locks/{name}/release`.
    path: String,
    takes_query: bool,
    takes_body: bool,
}

impl Routes {
    pub(super) fn of(description: &OpenApi) -> Self {
        let paths = description.paths.paths.iter();
        let routes = paths
            .filter(|(path, _)| path.starts_with("/v1/"))
            .flat_map(|(path, item)| {
                let operations = [
                    ("GET", &item.get),
                    ("PUT", &item.put),
                    ("POST", &item.post),
                    ("PATCH", &item.patch),
                    ("DELETE", &item.delete),
                ];
                operations.into_iter().filter_map(|(method, operation)| {
                    let operation = operation.as_ref()?;
                    Some(Route {
                        method,
                        path: path.clone(),
                        takes_query: takes_query(operation),
                        takes_body: operation.request_body.is_some(),
                    })
                })
            });
        Self(routes.collect())
    }

    /// Whether a route is asked, and none that takes this.
    fn takes_none(&self, method: &Method, path: &str, takes: impl Fn(&Route) -> bool) -> bool {
        let routes = self.0.iter();
        let mut asked = routes
            .filter(|route| route.method == method.as_str() && is_at(&route.path, path))
            .peekable();
        asked.peek().is_some() && asked.all(|route| !takes(route))
    }
}

/// Whether a path is that of a route, whose segments in braces stand for any.
fn is_at(route: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (route.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted.starts_with('{') || wanted == given => {}
            _ => return false,
        }
    }
}

fn takes_query(operation: &Operation) -> bool {
    let mut parameters = operation.parameters.iter().flatten();
    parameters.any(|one| match one {
        RefOr::T(one) => one.parameter_in == ParameterIn::Query,
        RefOr::Ref(_) => true,
    })
}

/// Refuses a query or a body where none is taken.
pub(super) async fn refuse(State(routes): State<Routes>, request: Request, next: Next) -> Response {
    let (method, uri) = (request.method(), request.uri());
    let query = uri.query().unwrap_or_default();
    if !query.is_empty() && routes.takes_none(method, uri.path(), |route| route.takes_query) {
        let name = query.split(['=', '&']).next().unwrap_or_default();
        return Problem::invalid(format!("unknown field `{}` in the query", shown(name)))
            .hint("this route takes no query; a request has its fields in its body")
            .into_response();
    }
    let body = request.body();
    // One that is sent in chunks has no length before it is read.
    let is_more = match body.size_hint().exact() {
        Some(bytes) => bytes > NOTHING,
        None => !body.is_end_stream(),
    };
    if is_more && routes.takes_none(method, uri.path(), |route| route.takes_body) {
        return Problem::invalid("this route takes no body")
            .hint("leave the body out; GET /openapi.json has the parameters of each route")
            .into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_beside_one_that_takes_a_query_takes_none() {
        let routes = Routes::of(&crate::api::open_api());
        for (method, path, takes_none) in [
            (Method::GET, "/v1/locks", true),
            (Method::POST, "/v1/locks/a%2Fb/release", true),
            (Method::PATCH, "/v1/jobs/7", true),
            (Method::PATCH, "/v1/jobs/by-unique", false),
            (Method::GET, "/v1/jobs", false),
            (Method::GET, "/healthz", false),
            (Method::GET, "/v1/nowhere", false),
        ] {
            let found = routes.takes_none(&method, path, |route| route.takes_query);
            assert_eq!(found, takes_none, "{path}");
        }
    }

    #[test]
    fn a_route_takes_a_body_if_it_describes_one() {
        let routes = Routes::of(&crate::api::open_api());
        for (method, path, takes_none) in [
            (Method::POST, "/v1/flows/order-7/cancel", true),
            (Method::POST, "/v1/flows/order-7/retry", false),
            (Method::GET, "/v1/jobs", true),
            (Method::POST, "/v1/jobs", false),
            (Method::POST, "/v1/calls", false),
        ] {
            let found = routes.takes_none(&method, path, |route| route.takes_body);
            assert_eq!(found, takes_none, "{path}");
        }
    }
}
