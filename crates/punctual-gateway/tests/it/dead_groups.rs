//! `GET /v1/dead-groups`: what it answers, for whom, and which parameters it refuses.

use serde_json::{Value, json};

use crate::support::{OTHER, Under, WORKER, serve};

/// Enqueues one job per error, and settles each as dead with that error.
async fn die(under: &Under, queue: &str, kind: &str, errors: &[&str]) {
    let jobs: Vec<Value> = errors
        .iter()
        .map(|_| json!({"queue": queue, "kind": kind}))
        .collect();
    let sent = under
        .send("POST", "/v1/jobs", json!(jobs).to_string())
        .await;
    assert_eq!(sent.status, 200, "{sent:?}");
    let claim = json!({"queues": [queue], "limit": errors.len()});
    let claimed = under
        .send_as(WORKER, "POST", "/v1/claims", claim.to_string())
        .await
        .json();
    let lease = &claimed["leases"][0];
    let jobs = lease["jobs"].as_array().expect("a lease of these jobs");
    assert_eq!(jobs.len(), errors.len());
    let dead: Vec<Value> = (jobs.iter().zip(errors))
        .map(|(job, error)| {
            json!({"id": job["id"], "attempt": job["attempt"], "outcome": "dead", "error": error})
        })
        .collect();
    let settle = json!({"leases": [{"token": lease["token"], "settlements": dead}]});
    let settled = under
        .send_as(WORKER, "POST", "/v1/settlements", settle.to_string())
        .await;
    assert_eq!(settled.status, 200, "{settled:?}");
}

async fn groups(under: &Under, query: &str) -> Value {
    let reply = under.get(&format!("/v1/dead-groups{query}")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

/// Queue, kind, error and number of jobs of each group.
fn shown(answer: &Value) -> Vec<(&str, &str, &str, u64)> {
    let groups = answer["groups"].as_array().expect("a list");
    groups
        .iter()
        .map(|group| {
            let text = |name| group[name].as_str().expect("a text");
            let jobs = group["jobs"].as_u64().expect("a number");
            (text("queue"), text("kind"), text("error"), jobs)
        })
        .collect()
}

#[tokio::test]
async fn dead_letters_are_grouped_by_queue_kind_and_error() {
    let under = serve().await;
    let timeouts = [
        "timeout after 10 ms",
        "timeout after 25 ms",
        "timeout after 7 ms",
    ];
    die(&under, "mail", "mail.send", &timeouts).await;
    die(
        &under,
        "mail",
        "mail.check",
        &["timeout after 9 ms", "no such user"],
    )
    .await;
    let all = groups(&under, "").await;
    let largest = ("mail", "mail.send", "timeout after # ms", 3);
    assert_eq!(shown(&all)[0], largest);
    assert_eq!(shown(&all).len(), 3, "{all}");
    let counts = (&all["others"], &all["examined"], &all["complete"]);
    assert_eq!(counts, (&json!(0), &json!(5), &json!(true)));

    let first = &all["groups"][0];
    assert_eq!(first["search"], "timeout after");
    assert!(first["first"].as_str() <= first["last"].as_str(), "{first}");
    let example = first["example"].as_str().expect("an id");
    let job = under.get(&format!("/v1/jobs/{example}")).await.json();
    assert_eq!(
        (&job["state"], &job["kind"]),
        (&json!("dead"), &json!("mail.send"))
    );
    // `search` leads to the jobs of the group.
    let listed = under
        .get("/v1/jobs?state=dead&queue=mail&kind=mail.send&error=timeout%20after")
        .await
        .json();
    assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(3), "{listed}");
}

#[tokio::test]
async fn the_parameters_of_dead_groups_narrow_what_it_answers() {
    let under = serve().await;
    die(
        &under,
        "mail",
        "send",
        &["no such user", "timeout after 9 ms"],
    )
    .await;
    die(&under, "orders", "pay", &["card 4711 refused"]).await;
    let of_orders = groups(&under, "?queue=orders").await;
    assert_eq!(shown(&of_orders), [("orders", "pay", "card # refused", 1)]);
    let both = groups(&under, "?queue=orders&queue=mail").await;
    assert_eq!(shown(&both).len(), 3, "{both}");
    let by_kind = groups(&under, "?kind=send&error=such").await;
    assert_eq!(shown(&by_kind), [("mail", "send", "no such user", 1)]);
    let one = groups(&under, "?limit=1").await;
    assert_eq!((shown(&one).len(), &one["others"]), (1, &json!(2)));
    for query in [
        "?limit=0",
        "?limit=201",
        "?limit=x",
        "?kind=a%20b",
        "?state=dead",
    ] {
        let reply = under.get(&format!("/v1/dead-groups{query}")).await;
        assert_eq!(reply.status, 422, "{query}: {reply:?}");
    }
}

#[tokio::test]
async fn dead_groups_of_one_namespace_have_nothing_of_another() {
    let under = serve().await;
    die(&under, "mail", "send", &["no such user"]).await;
    let other = under.send_as(OTHER, "GET", "/v1/dead-groups", "").await;
    assert_eq!(other.status, 200, "{other:?}");
    let other = other.json();
    assert_eq!(
        (&other["groups"], &other["examined"]),
        (&json!([]), &json!(0))
    );
}
