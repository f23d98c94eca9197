//! Routes that take no query: a parameter there is a mistake, and is refused as unknown fields are.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};

use crate::decode::shown;
use crate::http::Problem;

/// The described routes of the API. A monitor may add a query: what it asks is not among them.
#[derive(Debug, Clone, Default)]
pub(super) struct Queries(Arc<[Route]>);

#[derive(Debug)]
struct Route {
    method: &'static str,
    /// Such as `/v1/locks/{name}/release`.
    path: String,
    takes_query: bool,
}

impl Queries {
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
                    Some(Route {
                        method,
                        path: path.clone(),
                        takes_query: takes_query(operation.as_ref()?),
                    })
                })
            });
        Self(routes.collect())
    }

    /// Whether a route is asked, and none that takes a query.
    fn takes_none(&self, method: &Method, path: &str) -> bool {
        let routes = self.0.iter();
        let mut asked = routes
            .filter(|route| route.method == method.as_str() && is_at(&route.path, path))
            .peekable();
        asked.peek().is_some() && asked.all(|route| !route.takes_query)
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

/// Refuses a query where none is taken.
pub(super) async fn refuse(
    State(queries): State<Queries>,
    request: Request,
    next: Next,
) -> Response {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    if query.is_empty() || !queries.takes_none(request.method(), uri.path()) {
        return next.run(request).await;
    }
    let name = query.split(['=', '&']).next().unwrap_or_default();
    Problem::invalid(format!("unknown field `{}` in the query", shown(name)))
        .hint("this route takes no query; a request has its fields in its body")
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_beside_one_that_takes_a_query_takes_none() {
        let queries = Queries::of(&crate::api::open_api());
        for (method, path, takes_none) in [
            (Method::GET, "/v1/locks", true),
            (Method::POST, "/v1/locks/a%2Fb/release", true),
            (Method::PATCH, "/v1/jobs/7", true),
            (Method::PATCH, "/v1/jobs/by-unique", false),
            (Method::GET, "/v1/jobs", false),
            (Method::GET, "/healthz", false),
            (Method::GET, "/v1/nowhere", false),
        ] {
            assert_eq!(queries.takes_none(&method, path), takes_none, "{path}");
        }
    }
}
