//! Tests of the gateway over HTTP: locks.

use punctual::time::{millis, seconds};
use serde_json::json;

use crate::support::serve;

#[tokio::test]
async fn a_lock_is_taken_extended_and_released() {
    let under = serve().await;
    let take = json!({"name": "deploy", "lease_duration": "30s"}).to_string();
    let taken = under.send("POST", "/v1/locks", take.clone()).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let first = taken.json();
    let refused = under.send("POST", "/v1/locks", take.clone()).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "conflict");
    assert!(refused.body.contains("lock is held"), "{refused:?}");

    // Extended, it outlives its first lease.
    let extend =
        json!({"leases": [{"token": first["token"], "lease_duration": "30s"}]}).to_string();
    for _ in 0..4 {
        under.clock.advance(seconds(15));
        let extended = under.send("POST", "/v1/extensions", extend.clone()).await;
        assert_eq!(extended.status, 200, "{extended:?}");
    }
    assert_eq!(
        under.send("POST", "/v1/locks", take.clone()).await.status,
        409
    );

    let release = json!({"token": first["token"]}).to_string();
    let path = "/v1/locks/deploy/release";
    assert_eq!(under.send("POST", path, release.clone()).await.status, 204);
    let second = under.send("POST", "/v1/locks", take).await.json();
    assert!(second["fence"].as_u64() > first["fence"].as_u64());
    // The token of before releases nothing.
    let lost = under.send("POST", path, release).await;
    assert_eq!(
        (lost.status, &lost.json()["error"]["code"]),
        (409, &json!("lease_lost"))
    );
}

#[tokio::test]
async fn a_waiter_for_a_lock_has_it_with_the_release() {
    let under = serve().await;
    let taken = under
        .send("POST", "/v1/locks", r#"{"name":"a"}"#)
        .await
        .json();
    let release = json!({"token": taken["token"]}).to_string();
    let is_seen_and_released = async {
        // The waiter is shown beside the holder, and among the workers it is not.
        loop {
            under.clock.advance(millis(50));
            let listed = under.get("/v1/locks").await.json();
            let lock = &listed["locks"][0];
            assert_eq!(
                (&lock["name"], &lock["holder"]["ticket"]),
                (&json!("a"), &taken["id"])
            );
            if lock["waiters"].as_array().is_some_and(|all| all.len() == 1) {
                break;
            }
        }
        let stats = under.get("/v1/stats").await.json();
        assert_eq!(stats["workers"], json!([]));
        under.send("POST", "/v1/locks/a/release", release).await
    };
    let (waited, released) = tokio::join!(
        under.send("POST", "/v1/locks", r#"{"name":"a","wait":"60s"}"#),
        is_seen_and_released,
    );
    assert_eq!((waited.status, released.status), (200, 204), "{waited:?}");
}

#[tokio::test]
async fn malformed_locks_are_refused() {
    let under = serve().await;
    for (body, status) in [
        (r#"{"name":"a b"}"#, 422),
        (r#"{"name":""}"#, 422),
        (r#"{"name":"a","wait":"61s"}"#, 422),
        (r#"{"name":"a","lease_duration":"0s"}"#, 422),
        (r#"{"name":"a","for":"1s"}"#, 422),
        (r#"{}"#, 422),
    ] {
        let refused = under.send("POST", "/v1/locks", body).await;
        assert_eq!(refused.status, status, "{body}: {refused:?}");
    }
    let release = r#"{"token":"1-00000000000000aa"}"#;
    assert_eq!(
        under
            .send("POST", "/v1/locks/a/release", release)
            .await
            .status,
        409
    );
    assert_eq!(
        under
            .send("POST", "/v1/locks/a%20b/release", release)
            .await
            .status,
        422
    );
    assert_eq!(
        under
            .send("POST", "/v1/locks/a/release", r#"{"token":"x"}"#)
            .await
            .status,
        422
    );
}

#[tokio::test]
async fn a_lock_with_a_slash_in_its_name_is_released_by_its_escape() {
    let under = serve().await;
    let take = r#"{"name":"stock/7"}"#;
    let taken = under.send("POST", "/v1/locks", take).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let release = json!({"token": taken.json()["token"]}).to_string();
    let path = "/v1/locks/stock%2F7/release";
    assert_eq!(under.send("POST", path, release).await.status, 204);
    let long = json!({"name": "a".repeat(124)}).to_string();
    let refused = under.send("POST", "/v1/locks", long).await;
    let hint = refused.json()["error"]["hint"].clone();
    assert_eq!(hint, "use 1 to 123 of a-z A-Z 0-9 . _ - : /");
}
