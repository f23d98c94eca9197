//! Tests of the gateway over HTTP: audit.

use punctual_gateway::{Gateway, Token, Tokens};
use serde_json::{Value, json};

use crate::support::{ADMIN, OTHER, READER, serve, serving};

async fn entries(under: &crate::support::Under) -> Vec<Value> {
    let answer = under.get("/v1/audit").await.json();
    answer["entries"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn every_change_by_a_person_is_on_record_and_nothing_else() {
    let under = serve().await;
    under.send("POST", "/v1/jobs", r#"{"queue":"mail"}"#).await;
    let dry = json!({"action": "cancel", "filter": {"queue": "mail"}, "dry_run": true});
    under.send("POST", "/v1/edits", dry.to_string()).await;
    under.get("/v1/queues/settings?queue=mail").await;
    assert_eq!(entries(&under).await, Vec::<Value>::new());

    let cancel = json!({"action": "cancel", "filter": {"queue": "mail"}, "dry_run": false});
    under.send("POST", "/v1/edits", cancel.to_string()).await;
    let unknown = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
    under
        .send("DELETE", &format!("/v1/jobs/{unknown}"), "")
        .await;
    for verb in ["pause", "resume"] {
        let path = format!("/v1/queues/{verb}");
        under.send("POST", &path, r#"{"queue":"mail"}"#).await;
    }
    let purge = r#"{"queue":"mail","dry_run":false}"#;
    under.send("POST", "/v1/queues/purge", purge).await;
    let settings = r#"{"queue":"mail","max_pending":5,"on_full":"refuse","version":9}"#;
    under.send("PUT", "/v1/queues/settings", settings).await;

    let reported: Vec<String> = entries(&under)
        .await
        .iter()
        .rev()
        .map(|entry| {
            let words = ["action", "on", "phase"].map(|field| entry[field].as_str().expect("text"));
            format!("{} {}", words.join(" "), entry["matched"])
        })
        .collect();
    assert_eq!(
        reported,
        [
            "cancel jobs queue=mail done 1",
            &format!("cancel job {unknown} done 0"),
            "pause mail done 1",
            "resume mail done 1",
            "purge mail done 0",
            "write queue/mail failed null",
        ]
    );
}

#[tokio::test]
async fn the_record_is_for_admins_of_that_namespace() {
    let under = serve().await;
    under
        .send("POST", "/v1/queues/pause", r#"{"queue":"mail"}"#)
        .await;
    assert_eq!(entries(&under).await.len(), 1);
    let others = under.send_as(OTHER, "GET", "/v1/audit", "").await;
    assert_eq!(others.json(), json!({"entries": []}));
    let reader = under.send_as(READER, "GET", "/v1/audit", "").await;
    assert_eq!((reader.status, reader.code().as_str()), (403, "forbidden"));
    assert_eq!(under.get("/v1/audit?limit=0").await.status, 422);
}

#[tokio::test]
async fn a_token_is_called_by_its_name() {
    let named = Token::parse(&format!("{ADMIN} shop admin"))
        .expect("a token")
        .named("ann");
    let under = serving(|engine| Gateway::new(engine, Tokens::new(vec![named]))).await;
    under
        .send("POST", "/v1/queues/pause", r#"{"queue":"mail"}"#)
        .await;
    assert_eq!(entries(&under).await[0]["who"], "ann");
}
