//! What those who begin get wrong, and what they copy from the pages.

use serde_json::{Value, json};

use crate::support::{ADMIN, Reply, Under, serve};

const ID: &str = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";

/// Each has a code, and names what is wrong and what to do about it.
fn assert_reported(reply: &Reply, status: u16, code: &str, message: &str, hint: &str) {
    let error = &reply.json()["error"];
    let text = |name: &str| error[name].as_str().unwrap_or_default();
    assert_eq!((reply.status, text("code")), (status, code), "{error}");
    assert!(text("message").contains(message), "{message:?} in {error}");
    assert!(text("hint").contains(hint), "{hint:?} in {error}");
    assert!(!text("request_id").is_empty(), "{error}");
}

#[tokio::test]
async fn mistakes_in_jobs_get_a_message_and_a_hint() {
    let under = serve().await;
    for (method, path, body, status, code, message, hint) in [
        (
            "POST",
            "/v1/jobs",
            r#"{"queue":"a","delay":"5 minutes"}"#,
            422,
            "invalid_delay",
            "5 minutes",
            "such as 30m",
        ),
        (
            "POST",
            "/v1/jobs",
            r#"{"queue":"a","dealy":"5m"}"#,
            422,
            "invalid_input",
            "`dealy`",
            "delay",
        ),
        (
            "POST",
            "/v1/jobs",
            "{}",
            422,
            "invalid_input",
            "queue is missing",
            "send queue",
        ),
        (
            "POST",
            "/v1/jobs",
            "queue=a",
            400,
            "invalid_json",
            "line 1, column 1",
            "double quotes",
        ),
        (
            "POST",
            "/v1/job",
            "{}",
            404,
            "not_found",
            "no such route",
            "/openapi.json",
        ),
        (
            "PUT",
            "/v1/jobs",
            "{}",
            405,
            "method_not_allowed",
            "method",
            "Allow",
        ),
    ] {
        let reply = under.send(method, path, body.to_owned()).await;
        assert_reported(&reply, status, code, message, hint);
    }
}

#[tokio::test]
async fn mistakes_in_routes_get_a_message_and_a_hint() {
    let under = serve().await;
    let large = " ".repeat((8 << 20) + 1);
    for (method, path, body, status, code, message, hint) in [
        (
            "POST",
            "/v1/jobs",
            large.as_str(),
            413,
            "body_too_large",
            "8388608",
            "/v1/bulk",
        ),
        (
            "GET",
            "/v1/jobs?queue=a&cursor=zzz",
            "",
            422,
            "invalid_input",
            "cursor is \"zzz\"",
            "omit it to start over",
        ),
        (
            "GET",
            "/v1/jobs/7",
            "",
            422,
            "invalid_input",
            "\"7\"",
            "by-unique",
        ),
        (
            "GET",
            "/v1/jobs/by-unique?queue=a",
            "",
            422,
            "invalid_input",
            "key is missing",
            "unique key",
        ),
        (
            "GET",
            "/v1/locks?foo=1",
            "",
            422,
            "invalid_input",
            "unknown field `foo` in the query",
            "takes no query",
        ),
        (
            "POST",
            "/v1/locks?wait=30s",
            r#"{"name":"a"}"#,
            422,
            "invalid_input",
            "unknown field `wait` in the query",
            "in its body",
        ),
        (
            "GET",
            "/v1/limits/a%ffb",
            "",
            400,
            "invalid_request",
            "not UTF-8",
            "%2F",
        ),
        (
            "GET",
            &*format!("/v1/jobs/{ID}"),
            "",
            404,
            "not_found",
            "no such job",
            "retention",
        ),
        (
            "GET",
            "/v1/events",
            "",
            400,
            "invalid_request",
            "WebSocket",
            "WebSocket client",
        ),
    ] {
        let reply = under.send(method, path, body.to_owned()).await;
        assert_reported(&reply, status, code, message, hint);
    }
}

#[tokio::test]
async fn a_body_where_a_route_takes_none_is_refused() {
    let under = serve().await;
    let flow = r#"{"name":"a","seal":false,"steps":[{"name":"b","job":{"queue":"q"}}]}"#;
    let sent = under.send("POST", "/v1/flows", flow.to_owned()).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    let cancel = async |body: &str| {
        under
            .send("POST", "/v1/flows/a/cancel", body.to_owned())
            .await
    };
    let reply = cancel(r#"{"from":"b"}"#).await;
    let (message, hint) = ("takes no body", "leave the body out");
    assert_reported(&reply, 422, "invalid_input", message, hint);
    let flow = under.get("/v1/flows/a").await.json();
    assert_eq!(flow["state"], "open", "nothing was cancelled");
    for body in ["", "{}", "null"] {
        assert_eq!(cancel(body).await.status, 200, "{body:?}");
    }
}

#[tokio::test]
async fn a_wrong_token_gets_a_message_and_a_hint() {
    let under = serve().await;
    for token in ["", "Bearer a-token-of-another", ADMIN] {
        let headers = [
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("authorization", token),
        ];
        let headers = &headers[..if token.is_empty() { 2 } else { 3 }];
        let reply = under
            .send_with(headers, "POST", "/v1/jobs", r#"{"queue":"a"}"#)
            .await;
        assert_reported(
            &reply,
            401,
            "unauthorized",
            "no valid token",
            "Authorization: Bearer",
        );
    }
}

#[tokio::test]
async fn a_refused_change_of_a_job_says_what_is_possible() {
    let under = serve().await;
    let path = format!("/v1/jobs/{ID}");
    let body = format!(r#"{{"queue":"a","id":"{ID}","delay":"1h"}}"#);
    assert_eq!(under.send("POST", "/v1/jobs", body).await.status, 201);
    let redrive = r#"{"redrive":true}"#;
    let reply = under.send("PATCH", &path, redrive).await;
    assert_reported(&reply, 409, "wrong_state", "scheduled", "run it now");
    assert_eq!(
        under
            .send("PATCH", &path, r#"{"run_now":true}"#)
            .await
            .status,
        200
    );
    let claim = r#"{"queues":["a"]}"#;
    assert_eq!(under.send("POST", "/v1/claims", claim).await.status, 200);
    let reply = under.send("PATCH", &path, redrive).await;
    assert_reported(&reply, 409, "job_active", "running", "cancel");
}

/// The first JSON below a heading of the page.
fn example(heading: &str) -> String {
    let page = include_str!("../../../../docs/http-api.md");
    let (_, below) = page.split_once(heading).expect(heading);
    let (_, block) = below.split_once("```json\n").expect(heading);
    block.split("```").next().unwrap_or_default().to_owned()
}

async fn works(under: &Under, heading: &str) -> Value {
    let path = heading.split_whitespace().nth(2).expect(heading);
    let reply = under.send("POST", path, example(heading)).await;
    assert!(matches!(reply.status, 200 | 201), "{heading}: {reply:?}");
    reply.json()
}

#[tokio::test]
async fn the_requests_of_the_page_work_as_they_are_printed() {
    let under = serve().await;
    let receipt = works(&under, "### POST /v1/jobs ").await;
    assert_eq!(receipt["verdict"], "created");
    let put = under
        .send("POST", "/v1/jobs", r#"{"queue":"mail","kind":"mail.send"}"#)
        .await;
    assert_eq!(put.status, 201, "{put:?}");
    let claimed = works(&under, "### POST /v1/claims\n").await;
    assert_eq!(claimed["leases"][0]["jobs"][0]["kind"], "mail.send");
}

#[tokio::test]
async fn a_refused_change_of_one_job_says_when_it_was_refused() {
    let under = serve().await;
    let id = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
    let job = json!({"queue": "mail", "id": id, "unique": "k"}).to_string();
    under.send("POST", "/v1/jobs", job).await;
    let claim = json!({"queues": ["mail"], "lease_duration": "10m"}).to_string();
    under.send("POST", "/v1/claims", claim).await;
    let unknown = "01994f2e-8a51-7c3e-8000-ffffffffffff";
    let now = under.get("/v1/queues").await.json()["now"].clone();
    for (method, path, status) in [
        ("PATCH", format!("/v1/jobs/{id}"), 409),
        (
            "PATCH",
            "/v1/jobs/by-unique?queue=mail&key=k".to_owned(),
            409,
        ),
        ("PATCH", format!("/v1/jobs/{unknown}"), 404),
        ("DELETE", format!("/v1/jobs/{id}?forget=true"), 409),
        ("DELETE", format!("/v1/jobs/{unknown}"), 404),
    ] {
        let body = if method == "PATCH" {
            r#"{"priority":1}"#
        } else {
            ""
        };
        let reported = under.send(method, &path, body).await;
        assert_eq!(reported.status, status, "{method} {path}: {reported:?}");
        assert_eq!(
            reported.json()["error"]["now"],
            now,
            "{method} {path}: {reported:?}"
        );
    }
}
