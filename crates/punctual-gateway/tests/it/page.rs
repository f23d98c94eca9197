//! Tests of the gateway over HTTP: page.

use serde_json::json;

use crate::support::{ADMIN, Reply, Under, serve};

async fn get(under: &Under, path: &str, headers: &[(&str, &str)]) -> Reply {
    let authorization = format!("Bearer {ADMIN}");
    let usual = [("host", "localhost"), ("authorization", &*authorization)];
    under
        .send_with(&[&usual[..], headers].concat(), "GET", path, "")
        .await
}

#[tokio::test]
async fn files_of_the_page_are_small_with_gzip_and_not_sent_again() {
    let under = serve().await;
    let gzip = [("accept-encoding", "gzip")];
    let mut total = 0;
    for path in ["/", "/app.js", "/app.css", "/icon.svg"] {
        let plain = get(&under, path, &[]).await;
        assert!(!plain.headers.contains_key("content-encoding"));
        let small = get(&under, path, &gzip).await;
        assert_eq!(small.body, plain.body, "{path}");
        total += small.length;
        let tag = small.headers["etag"].to_str().expect("text").to_owned();
        assert_eq!(plain.headers["etag"], *tag);
        let again = get(&under, path, &[gzip[0], ("if-none-match", &tag)]).await;
        assert_eq!((again.status, again.length), (304, 0), "{path}");
    }
    assert!(total < 150_000, "the page is {total} bytes");
}

#[tokio::test]
async fn long_lists_are_compressed_and_short_or_streamed_answers_are_not() {
    let under = serve().await;
    let gzip = [
        ("accept-encoding", "gzip, deflate, br"),
        ("content-type", "application/x-ndjson"),
    ];
    let jobs = format!(
        "[{}]",
        vec![json!({"queue": "mail"}).to_string(); 100].join(",")
    );
    under.send("POST", "/v1/jobs", jobs).await;
    let list = get(&under, "/v1/jobs?queue=mail&limit=100", &gzip).await;
    assert_eq!(list.json()["jobs"].as_array().map(Vec::len), Some(100));
    assert_eq!(list.headers["content-encoding"], "gzip");
    assert!(
        list.headers["vary"]
            .to_str()
            .is_ok_and(|vary| vary.contains("accept-encoding"))
    );
    assert!(
        list.length * 4 < list.body.len(),
        "{} of {}",
        list.length,
        list.body.len()
    );
    let short = get(&under, "/v1/queues", &gzip).await;
    assert!(!short.headers.contains_key("content-encoding"), "{short:?}");
    let lines = "{\"queue\":\"mail\"}\n".repeat(100);
    let authorization = format!("Bearer {ADMIN}");
    let headers = [
        &[("host", "localhost"), ("authorization", &*authorization)],
        &gzip[..],
    ]
    .concat();
    let bulk = under.send_with(&headers, "POST", "/v1/bulk", lines).await;
    assert!(
        bulk.length > 1_024 && !bulk.headers.contains_key("content-encoding"),
        "{bulk:?}"
    );
}
