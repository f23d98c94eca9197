//! Records with their versions: each kind is read with its version, and written at it only.

use serde_json::{Value, json};

use crate::support::{ADMIN, Reply, Under, serve};

/// A kind of record: where it is written, where it is read, and two values.
struct Kind {
    path: &'static str,
    read: &'static str,
    one: Value,
    other: Value,
}

fn kinds() -> [Kind; 4] {
    let schedule = |span: &str| json!({"every": [span], "job": {"queue": "mail"}});
    [
        Kind {
            path: "/v1/queues/mail/limits",
            read: "/v1/queues/mail/limits",
            one: json!({"concurrency": 3}),
            other: json!({"shares": {"weights": {"acme": 5}}}),
        },
        Kind {
            path: "/v1/limits/smtp",
            read: "/v1/limits/smtp",
            one: json!({"concurrency": 3}),
            other: json!({"rate": {"starts": 5, "per": "1m"}}),
        },
        Kind {
            path: "/v1/subscriptions/mailer",
            read: "/v1/subscriptions",
            one: json!({"pattern": "a.>", "queue": "mail"}),
            other: json!({"pattern": "b.>", "queue": "mail"}),
        },
        Kind {
            path: "/v1/schedules/beat",
            read: "/v1/schedules/beat",
            one: schedule("1h"),
            other: schedule("2h"),
        },
    ]
}

async fn at(under: &Under, version: &str, method: &str, path: &str, body: String) -> Reply {
    let authorization = format!("Bearer {ADMIN}");
    let headers = [
        ("host", "localhost"),
        ("authorization", &authorization),
        ("content-type", "application/json"),
        ("if-match", version),
    ];
    under.send_with(&headers, method, path, body).await
}

async fn version_of(under: &Under, kind: &Kind) -> String {
    let version = &under.get(kind.read).await.json()["version"];
    let version = version.as_u64().expect("a version");
    assert!(version > 0, "{}", kind.path);
    version.to_string()
}

#[tokio::test]
async fn each_kind_of_record_is_written_at_its_version_only() {
    let under = serve().await;
    for kind in kinds() {
        let put = async |version: &str, body: &Value| {
            at(&under, version, "PUT", kind.path, body.to_string()).await
        };
        let refused = |reply: &Reply| {
            let reported = (reply.status, reply.code());
            assert_eq!(reported, (409, "version_conflict".into()), "{}", kind.path);
        };
        refused(&put("7", &kind.one).await);
        assert_eq!(put("0", &kind.one).await.status, 200, "{}", kind.path);
        let first = version_of(&under, &kind).await;
        refused(&put("0", &kind.other).await);
        assert_eq!(put(&first, &kind.other).await.status, 200, "{}", kind.path);
        let second = version_of(&under, &kind).await;
        assert_ne!(first, second);
        refused(&put(&first, &kind.one).await);
        let quoted = format!("\"{second}\"");
        assert_eq!(put(&quoted, &kind.one).await.status, 200, "{}", kind.path);
        for wrong in ["x", "", "-1", "1.5", "\"", "18446744073709551616"] {
            let reply = put(wrong, &kind.other).await;
            let reported = (reply.status, reply.code());
            assert_eq!(reported, (422, "invalid_input".into()), "{wrong:?}");
        }
        let last = version_of(&under, &kind).await;
        let delete =
            async |version: &str| at(&under, version, "DELETE", kind.path, String::new()).await;
        refused(&delete(&second).await);
        assert_eq!(delete(&last).await.status, 200, "{}", kind.path);
    }
}

#[tokio::test]
async fn writers_that_read_the_same_version_lose_nothing() {
    let under = serve().await;
    for kind in kinds() {
        let set = under.send("PUT", kind.path, kind.one.to_string()).await;
        assert_eq!(set.status, 200, "{set:?}");
        let version = version_of(&under, &kind).await;
        let put = |body: &Value| at(&under, &version, "PUT", kind.path, body.to_string());
        let (first, second) = (put(&kind.other).await, put(&kind.one).await);
        assert_eq!((first.status, second.status), (200, 409), "{}", kind.path);
    }
}
