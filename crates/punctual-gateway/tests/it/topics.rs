//! Tests of the gateway over HTTP: subscriptions and publishing.

use serde_json::{Value, json};

use crate::support::{Reply, Under, serve};

const MAILER: &str = "/v1/subscriptions/mailer";
const ID: &str = "01994f2e-8a51-7c3e-8000-000000000001";

async fn subscribe(under: &Under, name: &str, subscription: Value) -> Reply {
    let path = format!("/v1/subscriptions/{name}");
    under.send("PUT", &path, subscription.to_string()).await
}

async fn publish(under: &Under, path: &str, message: Value) -> Reply {
    under.send("POST", path, message.to_string()).await
}

fn mailer() -> Value {
    let filters = json!([{"on": "country", "one_of": ["de", "at"]}]);
    json!({"pattern": "orders.*.paid", "queue": "mail", "delivery": "enqueue", "filters": filters})
}

fn paid(country: &str) -> Value {
    let job = json!({"id": ID, "payload": {"order": 7}, "headers": {"country": country}});
    json!({"subject": "orders.eu.paid", "job": job})
}

#[tokio::test]
async fn a_subscription_is_written_listed_and_removed() {
    let under = serve().await;
    let sent = subscribe(&under, "mailer", mailer()).await;
    assert_eq!(sent.status, 200, "{sent:?}");
    let mut reported = mailer();
    reported["name"] = json!("mailer");
    assert_eq!(sent.json(), reported);
    // The characters of a pattern may stand in a name.
    let all = json!({"pattern": "orders.#", "queue": "audit"});
    let named = subscribe(&under, "audit%3Aorders.%3E", all).await.json();
    assert_eq!(
        (&named["name"], &named["pattern"]),
        (&json!("audit:orders.>"), &json!("orders.>"))
    );
    let listed = under.get("/v1/subscriptions").await.json();
    let version = &listed["version"];
    assert_eq!(
        listed,
        json!({"subscriptions": [named, reported], "version": version})
    );
    let removed = under.send("DELETE", MAILER, "").await.json();
    assert_eq!(removed, json!({"name": "mailer", "removed": true}));
    let again = under.send("DELETE", MAILER, "").await.json();
    assert_eq!(again, json!({"name": "mailer", "removed": false}));
    let recorded = under.get("/v1/audit").await.json();
    assert_eq!(recorded["entries"][0]["on"], "topics", "{recorded}");
}

#[tokio::test]
async fn a_message_goes_to_the_matching_queues_once() {
    let under = serve().await;
    subscribe(&under, "mailer", mailer()).await;
    let published = publish(&under, "/v1/publish", paid("de")).await;
    assert_eq!(published.status, 200, "{published:?}");
    let reported = published.json();
    assert_eq!(
        (&reported["id"], &reported["matched"]),
        (&json!(ID), &json!(1))
    );
    let copy = &reported["copies"][0];
    assert_eq!(
        (&copy["subscription"], &copy["verdict"]),
        (&json!("mailer"), &json!("created"))
    );
    let path = format!("/v1/jobs/{}", copy["id"].as_str().expect("an id"));
    let job = under.get(&path).await.json();
    assert_eq!(
        (&job["queue"], &job["kind"]),
        (&json!("mail"), &json!("mail"))
    );
    assert_eq!(job["headers"]["punctual-subject"], "orders.eu.paid");
    let again = publish(&under, "/v1/publish", paid("de")).await.json();
    assert_eq!(again["copies"][0]["verdict"], "duplicate");
    let absent = publish(&under, "/v1/publish", paid("fr")).await.json();
    assert_eq!(
        (&absent["matched"], &absent["copies"]),
        (&json!(0), &json!([]))
    );
}

#[tokio::test]
async fn a_match_names_the_receivers_and_why_others_are_none() {
    let under = serve().await;
    subscribe(&under, "mailer", mailer()).await;
    let matched = publish(&under, "/v1/publish/match", paid("fr"))
        .await
        .json();
    assert_eq!(matched["matched"], 0);
    let line = &matched["subscriptions"][0];
    assert_eq!(
        (&line["name"], &line["matches"]),
        (&json!("mailer"), &json!(false))
    );
    let why_not = line["why_not"].as_str().expect("a reason");
    assert!(why_not.contains("country is \"fr\""), "{why_not}");
    let stats = under.get("/v1/queues").await.json();
    assert_eq!(stats["queues"], json!([]), "nothing is stored");
}

#[tokio::test]
async fn malformed_subscriptions_and_messages_are_refused() {
    let under = serve().await;
    let with = |name: &str, value: Value| {
        let mut subscription = mailer();
        subscription[name] = value;
        subscription
    };
    for (wrong, remedy) in [
        (with("pattern", json!("a.>.b")), "`*` for one token"),
        (with("pattern", json!("a..b")), "empty token"),
        (with("queue", json!("http:x")), "whose handler sends"),
        (with("delivery", json!("drop")), "enqueue"),
        (with("filters", json!([{"on": "a"}])), "tests nothing"),
        (with("filters", json!([{"on": "@kind", "min": 1}])), "texts"),
        (
            with("filters", json!([{"on": "@payload", "exists": true}])),
            "@group",
        ),
        (with("filter", json!([])), "filters"),
    ] {
        let reply = subscribe(&under, "mailer", wrong.clone()).await;
        assert!([400, 422].contains(&reply.status), "{wrong}: {reply:?}");
        assert!(reply.body.contains(remedy), "{wrong}: {}", reply.body);
    }
    for (subject, job, remedy) in [
        ("a.*", json!({}), "patterns of subscriptions"),
        ("a", json!({"queue": "mail"}), "leave them out"),
        ("a", json!({"priority": 10}), "priority"),
        (
            "a",
            json!({"headers": {"punctual-publishes": "32"}}),
            "loop",
        ),
    ] {
        let message = json!({"subject": subject, "job": job});
        let reply = publish(&under, "/v1/publish", message.clone()).await;
        assert!([400, 422].contains(&reply.status), "{message}: {reply:?}");
        assert!(reply.body.contains(remedy), "{message}: {}", reply.body);
    }
}

#[tokio::test]
async fn a_worker_publishes_with_its_outcome() {
    let under = serve().await;
    subscribe(&under, "mailer", mailer()).await;
    let reminder = json!({"queue": "mail", "delay": "1h", "unique": "order-7"}).to_string();
    under.send("POST", "/v1/jobs", reminder).await;
    let claimed = async || {
        under
            .send("POST", "/v1/jobs", json!({"queue": "pay"}).to_string())
            .await;
        let claim = json!({"queues": ["pay"]}).to_string();
        let lease = under.send("POST", "/v1/claims", claim).await.json()["leases"][0].clone();
        (lease["token"].clone(), lease["jobs"][0]["id"].clone())
    };
    for (country, matched) in [("de", 1), ("fr", 0)] {
        let (token, id) = claimed().await;
        let mut message = paid(country);
        message["job"]
            .as_object_mut()
            .expect("an object")
            .remove("id");
        let effects = json!([
            {"publish": message},
            {"enqueue": {"queue": "next"}},
            {"cancel": {"queue": "mail", "unique": "order-7"}},
        ]);
        let settled = json!({"id": id, "attempt": 1, "outcome": "completed", "effects": effects});
        let call = json!({"leases": [{"token": token, "settlements": [settled]}]}).to_string();
        let reply = under.send("POST", "/v1/settlements", call).await.json();
        let line = &reply["leases"][0]["settlements"][0];
        assert_eq!(
            (&line["verdict"], &line["matched"]),
            (&json!("settled"), &json!([matched]))
        );
        let effects = line["effects"].as_array().expect("a list");
        assert_eq!(
            (effects.len(), &effects[0]["verdict"]),
            (2, &json!("created")),
            "{line}"
        );
    }
    let queues = under.get("/v1/queues").await.json();
    let of = |name: &str| {
        let all = queues["queues"].as_array().expect("a list");
        let queue = all.iter().find(|queue| queue["queue"] == name);
        queue.map(|queue| (queue["ready"].clone(), queue["cancelled"].clone()))
    };
    assert_eq!(
        of("mail"),
        Some((json!(1), json!(1))),
        "a copy, and the reminder"
    );
    assert_eq!(of("next").map(|counts| counts.0), Some(json!(2)));
}

/// The worker passes no header on: the job that it settles says how many publishes there were.
#[tokio::test]
async fn a_loop_ends_whatever_a_worker_passes_on() {
    let under = serve().await;
    let echo = json!({"pattern": "ping", "queue": "echo"});
    subscribe(&under, "echo", echo).await;
    let first = json!({"subject": "ping", "job": {}});
    assert_eq!(
        publish(&under, "/v1/publish", first.clone()).await.status,
        200
    );
    let mut runs = 0;
    loop {
        let claim = json!({"queues": ["echo"]}).to_string();
        let lease = under.send("POST", "/v1/claims", claim).await.json()["leases"][0].clone();
        let (token, id) = (&lease["token"], &lease["jobs"][0]["id"]);
        assert!(id.is_string(), "each publish has a copy: {lease}");
        runs += 1;
        let settled = json!({"id": id, "attempt": 1, "outcome": "completed", "effects": [{"publish": first}]});
        let call = json!({"leases": [{"token": token, "settlements": [settled]}]}).to_string();
        let reply = under.send("POST", "/v1/settlements", call).await;
        if reply.status != 200 {
            assert!(reply.body.contains("loop"), "{reply:?}");
            break;
        }
        assert!(runs < 40, "the loop never ends");
    }
    assert_eq!(runs, 32, "the 33rd publish is refused");
    // A publish of its own counts what its caller passes on, and nothing else.
    assert_eq!(publish(&under, "/v1/publish", first).await.status, 200);
}

/// One settlement whose publish is refused leaves the others of its call as they are.
#[tokio::test]
async fn a_refused_publish_refuses_its_own_settlement_only() {
    let under = serve().await;
    let echo = json!({"pattern": "ping", "queue": "echo"});
    subscribe(&under, "echo", echo).await;
    for publishes in ["1", "32", "1"] {
        let headers = json!({"punctual-publishes": publishes});
        let job = json!({"queue": "pay", "headers": headers}).to_string();
        under.send("POST", "/v1/jobs", job).await;
    }
    let claim = json!({"queues": ["pay"], "limit": 3}).to_string();
    let lease = under.send("POST", "/v1/claims", claim).await.json()["leases"][0].clone();
    let ping = json!([{"publish": {"subject": "ping", "job": {}}}]);
    let settles = |effects: &Value, which: &[usize]| {
        let one = |nth: &usize| {
            let id = &lease["jobs"][*nth]["id"];
            json!({"id": id, "attempt": 1, "outcome": "completed", "effects": effects})
        };
        let settlements: Vec<Value> = which.iter().map(one).collect();
        json!({"leases": [{"token": lease["token"], "settlements": settlements}]}).to_string()
    };
    let reply = under
        .send("POST", "/v1/settlements", settles(&ping, &[0, 1, 2]))
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let settled = &reply.json()["leases"][0]["settlements"];
    for (nth, verdict) in ["settled", "publish_refused", "settled"].iter().enumerate() {
        assert_eq!(settled[nth]["id"], lease["jobs"][nth]["id"]);
        assert_eq!(settled[nth]["verdict"], *verdict, "{settled}");
    }
    assert_eq!(settled[0]["matched"], json!([1]));
    assert_eq!(settled[2]["matched"], json!([1]));
    let why = settled[1]["error"].as_str().expect("it says why");
    assert!(why.contains("32 publishes"), "{why}");
    let alone = under
        .send("POST", "/v1/settlements", settles(&ping, &[1]))
        .await;
    assert_eq!(alone.status, 422, "nothing is left of the call: {alone:?}");
    let without = settles(&json!([]), &[1]);
    let reply = under.send("POST", "/v1/settlements", without).await;
    let settled = &reply.json()["leases"][0]["settlements"][0];
    assert_eq!(settled["verdict"], "settled", "its lease held: {reply:?}");
}
