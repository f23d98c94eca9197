//! The page at `/` and its files, built into the binary.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::api::nowhere;
use crate::problem::Problem;

/// A file, its type, its bytes.
type Asset = (&'static str, &'static str, &'static [u8]);

const ASSETS: [Asset; 4] = [
    (
        "index.html",
        "text/html; charset=utf-8",
        include_bytes!("../assets/index.html"),
    ),
    (
        "app.css",
        "text/css; charset=utf-8",
        include_bytes!("../assets/app.css"),
    ),
    (
        "app.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/app.js"),
    ),
    (
        "icon.svg",
        "image/svg+xml",
        include_bytes!("../assets/icon.svg"),
    ),
];

pub(crate) async fn index(headers: HeaderMap) -> Result<Response, Problem> {
    answer("index.html", &headers)
}

pub(crate) async fn file(
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    answer(&name, &headers)
}

fn answer(name: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let asset = ASSETS.iter().find(|(known, ..)| *known == name);
    let (_, content_type, bytes) = asset.ok_or_else(nowhere)?;
    let digest = Sha256::digest(bytes);
    let tag: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tag = format!("\"{tag}\"");
    let has_it = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let described = [
        (header::CONTENT_TYPE, (*content_type).to_owned()),
        (header::ETAG, tag),
        // Asked for again each time, answered in a line while it is the same.
        (header::CACHE_CONTROL, "no-cache".to_owned()),
    ];
    if has_it {
        return Ok((StatusCode::NOT_MODIFIED, described).into_response());
    }
    Ok((described, *bytes).into_response())
}
