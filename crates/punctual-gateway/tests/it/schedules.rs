//! Tests of the gateway over HTTP: schedules.

use serde_json::{Value, json};

use crate::support::{ADMIN, Reply, START, Under, serve};

const BEAT: &str = "/v1/schedules/beat";

fn beat() -> Value {
    json!({
        "cron": ["0 9 * * MON"], "zone": "Europe/Berlin", "overlap": "buffer_one",
        "job": {"queue": "reports", "payload": {"kind": "weekly"}},
    })
}

async fn put_at(under: &Under, version: u64, schedule: &Value) -> Reply {
    let authorization = format!("Bearer {ADMIN}");
    let version = format!("\"{version}\"");
    let headers = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("content-type", "application/json"),
        ("if-match", &*version),
    ];
    let body = schedule.to_string();
    under.send_with(&headers, "PUT", BEAT, body).await
}

#[tokio::test]
async fn a_schedule_is_written_read_and_removed() {
    let under = serve().await;
    let sent = under.send("PUT", BEAT, beat().to_string()).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    let read = under.get(BEAT).await.json();
    assert_eq!(read, sent.json());
    assert_eq!(read["next"][0], "2026-09-28T07:00:00Z");
    assert_eq!(read["next"].as_array().map(Vec::len), Some(16));
    let schedule = &read["schedule"];
    assert_eq!(schedule["job"]["payload"], json!({"kind": "weekly"}));
    assert_eq!(schedule["overlap"], "buffer_one");
    // What is read can be sent again, and changes nothing.
    let again = under.send("PUT", BEAT, schedule.to_string()).await;
    assert_eq!(again.json(), read);
    let listed = under.get("/v1/schedules").await.json();
    assert_eq!(listed, json!({"schedules": [read]}));
    let removed = under.send("DELETE", BEAT, "").await;
    assert_eq!(removed.json(), json!({"name": "beat", "removed": true}));
    let gone = under.get(BEAT).await;
    assert_eq!((gone.status, &*gone.code()), (404, "not_found"));
}

#[tokio::test]
async fn a_schedule_is_written_over_the_version_that_was_read() {
    let under = serve().await;
    let sent = put_at(&under, 0, &beat()).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    let version = sent.json()["version"].as_u64().expect("a version");
    let mut other = beat();
    other["overlap"] = json!("allow");
    let late = put_at(&under, 0, &other).await;
    assert_eq!((late.status, &*late.code()), (409, "version_conflict"));
    let written = put_at(&under, version, &other).await;
    assert_eq!(written.json()["schedule"]["overlap"], "allow");
}

#[tokio::test]
async fn a_run_by_hand_is_a_job_that_names_its_schedule() {
    let under = serve().await;
    under.send("PUT", BEAT, beat().to_string()).await;
    let run = under.send("POST", &format!("{BEAT}/run"), "").await.json();
    assert_eq!(run["verdict"], "created", "{run}");
    let id = run["id"].as_str().expect("an id");
    let job = under.get(&format!("/v1/jobs/{id}")).await.json();
    let at = START.to_string();
    assert_eq!(job["schedule"], json!({"name": "beat", "at": at}));
    // The first one has not begun: with `buffer_one` no second one waits behind it.
    let again = under.send("POST", &format!("{BEAT}/run"), "").await.json();
    assert_eq!(
        (&again["verdict"], &again["holder"]),
        (&json!("merged"), &json!(id))
    );
}

#[tokio::test]
async fn a_schedule_is_paused_resumed_skipped_and_backfilled() {
    let under = serve().await;
    under.send("PUT", BEAT, beat().to_string()).await;
    let post = async |what: &str, body: Value| {
        let path = format!("{BEAT}/{what}");
        let reply = under.send("POST", &path, body.to_string()).await;
        assert_eq!(reply.status, 200, "{what}: {reply:?}");
        reply.json()
    };
    let paused = post("pause", json!({"note": "holiday"})).await;
    assert_eq!(paused["schedule"]["note"], "holiday");
    assert_eq!(paused["schedule"]["paused"], true);
    assert_eq!(
        post("resume", json!(null)).await["schedule"]["paused"],
        false
    );
    let skipped = post("skip", json!(null)).await;
    assert_eq!(skipped["next"][0], "2026-10-05T07:00:00Z");
    assert_eq!(skipped["skipped"], 1);
    let stretch = |dry_run: bool| json!({"from": "2026-09-01T00:00:00Z", "to": "2026-09-14T07:00:00Z", "dry_run": dry_run});
    let answer = post("backfill", stretch(true)).await;
    let instants = json!(["2026-09-07T07:00:00Z"]);
    assert_eq!(
        (&answer["instants"], &answer["runs"]),
        (&instants, &json!([]))
    );
    let done = post("backfill", stretch(false)).await;
    assert_eq!(done["runs"][0]["verdict"], "created");
    let again = post("backfill", stretch(false)).await;
    assert_eq!(again["runs"][0]["verdict"], "duplicate");
}

#[tokio::test]
async fn a_preview_shows_the_next_runs_and_writes_nothing() {
    let under = serve().await;
    let path = "/v1/schedules/night/preview";
    let schedule = json!({
        "cron": ["30 2 * * *"], "zone": "Europe/Berlin", "job": {"queue": "a"},
    });
    let ask = |count: u64| {
        let from = "2026-03-28T00:00:00Z";
        json!({"schedule": schedule, "from": from, "count": count}).to_string()
    };
    let reply = under.send("POST", path, ask(3)).await;
    assert_eq!(reply.status, 200);
    let preview = reply.json();
    let instants = [
        "2026-03-28T01:30:00Z",
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:30:00Z",
    ];
    assert_eq!(preview["instants"], json!(instants));
    assert_eq!(preview["runs"][1]["clock"], "moved_by_gap");
    assert_eq!(preview["runs"][2].get("clock"), None);
    assert_eq!(preview["zone"], "Europe/Berlin");
    for count in [0, 101] {
        assert_eq!(under.send("POST", path, ask(count)).await.status, 422);
    }
    let stored = under.get("/v1/schedules").await.json();
    assert_eq!(stored["schedules"], json!([]));
}

#[tokio::test]
async fn a_wrong_schedule_is_refused_with_its_remedy() {
    let under = serve().await;
    for (change, part) in [
        (json!({"cron": ["0 0 30 2 *"]}), "never runs"),
        (json!({"zone": "UTC+3"}), "UTC+3"),
        (json!({"every": ["0s"]}), "every"),
        (json!({"missed": "all", "missed_max": 101}), "missed"),
        (json!({"missed_max": 5}), "missed_max"),
        (json!({"job": {"queue": "a", "delay": "1m"}}), "delay"),
        (json!({"job": {"queue": "a", "id": ID}}), "job.id"),
        (json!({"job": {}}), "queue"),
    ] {
        let mut schedule = beat();
        for (name, value) in change.as_object().expect("a change") {
            schedule[name] = value.clone();
        }
        let reply = under.send("PUT", BEAT, schedule.to_string()).await;
        let error = reply.json()["error"].take();
        assert_eq!(reply.status, 422, "{change}: {error}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.contains(part), "{change}: {error}");
    }
    let sent = json!({"queue": "a", "id": "02f9eeb6-3bf7-873f-92c6-5bfee01bc100"});
    let refused = under.send("POST", "/v1/jobs", sent.to_string()).await;
    assert_eq!((refused.status, &*refused.code()), (422, "reserved_id"));
}

const ID: &str = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";

/// A program that writes its schedules at each start does not undo the pause of a person.
#[tokio::test]
async fn a_schedule_that_is_written_again_stays_paused() {
    let under = serve().await;
    under.send("PUT", BEAT, beat().to_string()).await;
    let note = json!({"note": "vendor is down"}).to_string();
    under.send("POST", "/v1/schedules/beat/pause", note).await;
    let again = under.send("PUT", BEAT, beat().to_string()).await.json();
    assert_eq!(again["schedule"]["paused"], true, "{again}");
    assert_eq!(again["schedule"]["note"], "vendor is down");
    let mut other = beat();
    other["paused"] = json!(false);
    let resumed = under.send("PUT", BEAT, other.to_string()).await.json();
    assert_eq!(resumed["schedule"]["paused"], false, "{resumed}");
    assert_eq!(resumed["schedule"]["note"], "");
}

#[tokio::test]
async fn a_grace_beside_missed_all_is_refused() {
    let under = serve().await;
    let mut wrong = beat();
    wrong["missed"] = json!("all");
    wrong["grace"] = json!("5s");
    let refused = under.send("PUT", BEAT, wrong.to_string()).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(
        refused.json().to_string().contains("omit grace"),
        "{refused:?}"
    );
    let gone = under.get("/v1/schedules/night").await.json();
    assert!(gone.to_string().contains("no schedule night"), "{gone}");
}
