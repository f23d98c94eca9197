//! The page at `/` and its files, built into the binary.

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

use crate::shared::Shared;

/// A route per file, and that of the page itself.
pub(crate) fn routes() -> Router<Shared> {
    let page = async |headers: HeaderMap| answer(&ASSETS[0], &headers);
    ASSETS
        .iter()
        .fold(Router::new().route("/", get(page)), |router, asset| {
            let file = move |headers: HeaderMap| async move { answer(asset, &headers) };
            router.route(&format!("/{}", asset.0), get(file))
        })
}

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

fn answer((_, content_type, bytes): &Asset, headers: &HeaderMap) -> Response {
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
        return (StatusCode::NOT_MODIFIED, described).into_response();
    }
    (described, *bytes).into_response()
}
