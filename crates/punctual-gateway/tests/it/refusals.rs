//! What a request that cannot be done is answered: the field, what stands there, what may.

use serde_json::{Value, json};

use crate::support::{ADMIN, Under, serve};

/// Words of parsers that say nothing to who asks.
const RAW: [&str; 14] = [
    "struct ",
    "enum ",
    "variant",
    "expected",
    "invalid type",
    "invalid value",
    "invalid digit",
    "deserialize",
    "untagged",
    "provided string",
    "usize",
    "u32",
    "Line",
    "Request",
];
const ID: &str = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";

/// What is wrong with the answer.
fn complaint(place: &str, error: &Value, parts: &[&str]) -> Option<String> {
    let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
    let (message, hint) = (text("message"), text("hint"));
    let reported = format!("{message}; {hint}");
    let raw = RAW.iter().find(|raw| reported.contains(**raw));
    let missing = parts.iter().find(|part| !reported.contains(**part));
    let is_long = message.chars().count() > 300 || hint.chars().count() > 400;
    let hides = reported.chars().any(|c| c.is_control() || c == '\u{202e}');
    let is_wrong = raw.is_some() || missing.is_some() || is_long || hides;
    is_wrong.then(|| format!("{place}: {reported:?}, {raw:?} in it, {missing:?} not"))
}

async fn refused(
    under: &Under,
    method: &str,
    path: &str,
    body: &str,
    parts: &[&str],
) -> Option<String> {
    let reply = under.send(method, path, body.to_owned()).await;
    let short: String = format!("{path} {body}").chars().take(120).collect();
    let place = format!("{method} {short}");
    match reply.status {
        400 | 422 => complaint(&place, &reply.json()["error"], parts),
        _ => Some(format!("{place}: {reply:?}")),
    }
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// A request a line, and what its refusal has to say. `JOB` is the path of a job, `lease` and
/// `settle` stand for what is around the rest.
const BODIES: &str = r#"
POST /v1/jobs 7 => a number | an object
POST /v1/jobs {} => queue is missing | 1 to 128
POST /v1/jobs {"queue":7} => queue is 7 | 1 to 128
POST /v1/jobs {"queue":"a b"} => queue | a b | 1 to 128
POST /v1/jobs [{"queue":"a"},{"queue":"a","priority":-1}] => priority is -1 | 0 (first)
POST /v1/jobs {"queue":"a","priority":10} => priority | 10 | 0
POST /v1/jobs {"queue":"a","id":"7"} => id "7" | UUID
POST /v1/jobs {"queue":"a","max_attempts":0} => max_attempts | 0 | at least 1
POST /v1/jobs {"queue":"a","timeout":"0s"} => timeout | 0 | 365 days
POST /v1/jobs {"queue":"a","retry":{"policy":"soon"}} => retry.policy is "soon" | fixed or list
POST /v1/jobs {"queue":"a","target":"ftp://x"} => scheme | https
POST /v1/jobs {"queue":"a","colour":1} => `colour` | payload
POST /v1/jobs {"queue":"a","payload_base64":7} => payload_base64 is 7 | a string
PATCH JOB [] => an array | an object
PATCH JOB {} => run_now
PATCH JOB {"priority":"first"} => priority is "first" | 0 (first)
PATCH JOB {"cancel":"yes"} => cancel is "yes" | true or false
PATCH /v1/jobs/7 {"cancel":true} => id | "7" | UUID
POST /v1/edits {} => action is missing | "redrive"
POST /v1/edits {"action":"kill","ids":[]} => action | kill | "redrive"
POST /v1/edits {"action":5,"ids":[]} => action is 5 | "redrive"
POST /v1/edits {"action":{"reprioritise":300},"ids":[]} => reprioritise | 300 | 9 (last)
POST /v1/edits {"action":"cancel","ids":[7]} => ids[0] is 7 | UUIDs
POST /v1/edits {"action":"cancel","ids":["7"]} => id | "7" | UUID
POST /v1/edits {"action":"cancel","targets":[5]} => targets[0] is 5 | {"id"}
POST /v1/edits {"action":"cancel","filter":{"queue":"a"},"dry_run":true,"limit":0} => limit is 0 | 1 to 1000
POST /v1/edits {"action":"cancel","filter":{"state":"odd"},"dry_run":true} => state | odd | scheduled
POST /v1/edits {"action":"cancel","filter":{"queue":"a"},"dry_run":true,"cursor":"!"} => cursor is "!" | last answer
POST /v1/claims {} => queues is missing | 1 to 64
POST /v1/claims {"queues":"mail"} => queues is "mail" | an array of 1 to 64
POST /v1/claims {"queues":["a"],"limit":-1} => limit is -1 | 1 to 1000
POST /v1/claims {"queues":["a"],"limit":0} => limit is 0 | 1 to 1000
POST /v1/claims {"queues":["a"],"limit":1001} => limit is 1001 | 1 to 1000
POST /v1/claims {"queues":["a"],"lease_duration":"0s"} => lease_duration | 0 | 1 ms to 1 day
POST /v1/claims {"queues":["a"],"lease_duration":10} => lease_duration is 10 | "30s"
POST /v1/claims {"queues":["a"],"wait":"2m"} => wait is "2m" | 60s
POST /v1/claims {"queues":["a"],"wait":"soon"} => wait is "soon" | 60s
POST /v1/claims {"queues":["a"],"order":"odd"} => order is "odd" | strict or turns
POST /v1/claims {"queues":["a"],"order":5} => order is 5 | strict or turns
POST /v1/settlements settle "outcome":5 => outcome is 5 | completed, retry
PUT /v1/queues/settings {"queue":"a","version":0,"on_full":5} => on_full is 5 | refuse or
POST /v1/claims {"queues":["a"],"nonce":"x"} => nonce is "x" | 16 hexadecimal
POST /v1/claims {"queues":["a"],"worker":{"id":"x"}} => worker.id is "x" | UUID
POST /v1/claims {"queues":["a"],"worker":{"slots":-1}} => worker.slots is -1 | 0 to 4294967295
POST /v1/extensions {"leases":{}} => leases is an object | an array
POST /v1/extensions {"leases":[{"token":"x"}]} => token is "x" | claim
POST /v1/extensions lease "jobs":["x"] => id | "x" | UUID
POST /v1/extensions lease "lease_duration":true => leases[0].lease_duration is true | "30s"
POST /v1/settlements settle "outcome":"done" => outcome is "done" | completed, retry, snooze
POST /v1/settlements settle "outcome":"completed","attempt":2 => attempt appears twice
POST /v1/settlements settle "outcome":"snooze" => after | 30s
POST /v1/settlements settle "outcome":"snooze","after":"x" => after is "x" | a unit of d
POST /v1/settlements settle "outcome":"cancelled","stopped":"x" => stopped is "x" | token, aborted
POST /v1/settlements settle "outcome":"completed","effects":[7] => effects[0] is 7 | enqueue, clear, cancel, signal, publish
POST /v1/queues/pause {} => queue is missing | 1 to 128
POST /v1/queues/resume {"queue":[]} => queue is an array | 1 to 128
POST /v1/queues/purge {"queue":"a"} => dry_run is missing | true or false
POST /v1/queues/purge {"queue":"a","dry_run":1} => dry_run is 1 | true or false
POST /v1/queues/delete {} => queue is missing | 1 to 128
PATCH /v1/jobs/01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a {"payload":1,"payload_base64":"MQ=="} => payload and payload_base64 | one is enough
POST /v1/edits {"action":{"update_payload":{}},"ids":[]} => update_payload needs payload | payload_base64
PUT /v1/queues/settings {"queue":"a"} => version is missing | an integer
PUT /v1/queues/settings {"queue":"a","version":0,"max_pending":-1} => max_pending is -1 | from 0
POST /v1/publish {"subject":"a"} => job is missing | an object
POST /v1/publish {"subject":"a","job":"x"} => job is "x" | an object
PUT /v1/schedules/a {} => job is missing | an object
POST /v1/settlements settle "outcome":"completed","effects":[{"clear":{"name":"a"}}] => job is missing | UUID
PUT /v1/queues/settings {"queue":"a","version":0,"on_full":"x"} => on_full is "x" | refuse or dead_letter_oldest
"#;
/// Spans as they were sent, not as they are kept, and fields inside others by their whole name.
const AS_SENT: &str = r#"
POST /v1/jobs {"queue":"a","remember":"30d"} => (remember: 30d) | 7 days
POST /v1/jobs {"queue":"a","remember":"720h"} => (remember: 720h)
POST /v1/jobs {"queue":"a","remember":"720h","payload":{"remember":"30d"}} => (remember: 720h)
POST /v1/jobs [{"queue":"a","timeout":"1h"},{"queue":"a","timeout":"9000h"}] => (timeout: 9000h)
POST /v1/jobs {"queue":"a","delay":"70000000h"} => delay: 70000000h
POST /v1/claims {"queues":["a"],"lease_duration":"48h"} => (lease_duration: 48h)
POST /v1/extensions lease "lease_duration":"48h" => (lease_duration: 48h)
POST /v1/settlements settle "outcome":"snooze","after":"70000000h" => (after: 70000000h)
POST /v1/settlements settle "outcome":"snooze","after":5 => after is 5 | "30s"
PUT /v1/queues/a/limits {"rate":{"starts":5,"per":"9000h"}} => rate.per is out of range (rate.per: 9000h)
PUT /v1/queues/a/limits {"shares":{"rate":{"starts":5,"per":true}}} => shares.rate.per is true | "30s"
POST /v1/queues/a/block {"share":"s","span":"9000h"} => (span: 9000h)
PUT /v1/schedules/a {"job":{"queue":"a"},"every":["0.5ms"]} => (every: 0.5ms)
POST /v1/jobs {"queue":"a","unique":{"key":""}} => unique.key is empty | 256 bytes
POST /v1/jobs {"queue":"a","unique":{"key":7}} => unique.key is 7 | a string
POST /v1/jobs {"queue":"a","unique":{"policy":"keep"}} => unique.key is missing
POST /v1/jobs {"queue":"a","unique":{"key":"k","policy":"x"}} => unique.policy is "x" | keep, replace
POST /v1/jobs {"queue":"a","unique":{"key":"k","hold":"x"}} => unique.hold is "x" | settled, started
POST /v1/jobs {"queue":"a","unique":{"key":"k","policy":"refresh","max_wait":"9000h"}} => unique.max_wait: 9000h
POST /v1/jobs {"queue":"a","unique":{"key":"k","colour":1}} => `unique.colour` | use key, policy
POST /v1/jobs {"queue":"a","unique":["k"]} => unique is an array | a string, or {"key"
POST /v1/jobs {"queue":"a","group":{"key":""}} => group.key is empty | 256 bytes
POST /v1/jobs {"queue":"a","group":{"key":"k","on_retry":"x"}} => group.on_retry is "x" | hold or pass
POST /v1/jobs {"queue":"a","retry":{"policy":"fixed","span":"2400h","jitter":false}} => (retry.span: 2400h)
POST /v1/jobs {"queue":"a","retry":{"policy":"fixed","span":5,"jitter":false}} => retry.span is 5 | "30s"
POST /v1/jobs {"queue":"a","retry":{"policy":"fixed","span":"5s","jitter":true,"cap":"5s"}} => `retry.cap` | span, jitter
POST /v1/jobs {"queue":"a","retry":{"policy":"list","spans":["1s","2400h"]}} => (retry.spans: 2400h)
POST /v1/jobs {"queue":"a","retry":["fixed","5s",true]} => retry is an array | "exponential"
POST /v1/jobs {"queue":"a","limits":["a","b c"]} => limits[1] name has
POST /v1/jobs {"queue":"a","limits":[7]} => limits[0] is 7 | names of limits
POST /v1/jobs {"queue":"a","cost":"x"} => cost is "x" | 1 to 1,000
POST /v1/jobs {"queue":"a","share":7} => share is 7 | 256 bytes
"#;
const QUERIES: &str = r#"
GET /v1/jobs?limit=-1 => limit is "-1" | 1 to 1000
GET /v1/jobs?limit=x => limit is "x" | 1 to 1000
GET /v1/jobs?limit=1e9 => limit is "1e9" | 1 to 1000
GET /v1/jobs?limit=201 => limit is 201 | 1 to 200
GET /v1/jobs?payloads=no => payloads is "no" | true or false
GET /v1/jobs?colour=1 => `colour` | due_before
GET /v1/jobs?state=odd => state | odd | scheduled
GET /v1/jobs?due_from=now => due_from is "now" | 2026-11-21T10:00:00Z
GET /v1/jobs?cursor=! => cursor is "!" | last answer
GET /v1/jobs?queue=a&queue=b => queue appears twice
GET /v1/jobs/by-unique?queue=a => key is missing
GET /v1/jobs/7 => id | "7" | UUID
GET JOB?explain=1 => explain is "1" | true or false
DELETE JOB?forget=x => forget is "x" | true or false
GET /v1/queues?colour=1 => `colour` | queue
GET /v1/queues/settings => queue is missing | 1 to 128
GET /v1/stats?minutes=0 => minutes is "0" | 1 to 1440
GET /v1/stats?due=1 => due is "1" | true or false
GET /v1/stats?due=true&due=true => due appears twice
GET /v1/audit?limit=0 => limit is 0 | 1 to 1000
GET /v1/audit?limit=x => limit is "x" | 1 to 1000
"#;

#[tokio::test]
async fn every_refused_field_is_named_with_what_it_takes() {
    let under = serve().await;
    let mut complaints = Vec::new();
    let lease = |rest: &str| format!(r#"{{"leases":[{{"token":"1-00c0ffee00c0ffee",{rest}}}]}}"#);
    let settle = |rest: &str| {
        lease(&format!(
            r#""settlements":[{{"id":"{ID}","attempt":1,{rest}}}]"#
        ))
    };
    let rows = BODIES.lines().chain(AS_SENT.lines()).chain(QUERIES.lines());
    for row in rows.filter(|row| !row.is_empty()) {
        let (request, parts) = row.split_once(" => ").expect(row);
        let (method, rest) = request.split_once(' ').expect(row);
        let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let path = path.replace("JOB", &format!("/v1/jobs/{ID}"));
        let body = match body.split_once(' ') {
            Some(("lease", rest)) => lease(rest),
            Some(("settle", rest)) => settle(rest),
            _ => body.to_owned(),
        };
        let parts: Vec<&str> = parts.split(" | ").collect();
        complaints.extend(refused(&under, method, &path, &body, &parts).await);
    }
    assert_none(&complaints);
}

#[tokio::test]
async fn errors_about_hostile_input_are_short_and_visible() {
    let under = serve().await;
    let mut complaints = Vec::new();
    let long = "x\u{202e}\n\u{1b}[31m\"`".repeat(2_000);
    let of = |name: &str| json!({"queue": "a", name: long.as_str()}).to_string();
    for body in [
        of("delay"),
        of("at"),
        of("priority"),
        of("id"),
        of("queue"),
        of("kind"),
        of("retry"),
        of("headers"),
        of("content_type"),
        of(&long),
        json!(long.as_str()).to_string(),
        json!({"queue": format!("http:{}", "q".repeat(100_000))}).to_string(),
    ] {
        complaints.extend(refused(&under, "POST", "/v1/jobs", &body, &[]).await);
    }
    let claim = json!({"queues": ["a"], "wait": long.as_str()}).to_string();
    complaints.extend(refused(&under, "POST", "/v1/claims", &claim, &[]).await);
    let edit = json!({"action": "cancel", "filter": {"state": long.as_str()}, "dry_run": true});
    complaints.extend(refused(&under, "POST", "/v1/edits", &edit.to_string(), &[]).await);
    let escaped = "%1b%E2%80%AEx".repeat(2_000);
    for path in [
        "/v1/jobs?limit=",
        "/v1/jobs?state=",
        "/v1/jobs?due_from=",
        "/v1/stats?minutes=",
        "/v1/queues?",
        "/v1/jobs/",
    ] {
        complaints.extend(refused(&under, "GET", &format!("{path}{escaped}"), "", &[]).await);
    }
    let lines = format!(
        "{{\"queue\":\"a\",\"priority\":{}}}\n7\n{{\"queue\":\"a\",\"remember\":\"720h\"}}\n",
        json!(long.as_str())
    );
    let authorization = format!("Bearer {ADMIN}");
    let headers = [
        ("host", "localhost"),
        ("authorization", &*authorization),
        ("content-type", "application/x-ndjson"),
    ];
    let bulk = under.send_with(&headers, "POST", "/v1/bulk", lines).await;
    let mut verdicts = bulk.body.lines();
    for parts in [
        &["priority is", "9 (last)"][..],
        &["a number", "an object"],
        &["(remember: 720h)", "7 days"],
    ] {
        let verdict: Value =
            serde_json::from_str(verdicts.next().expect("a verdict")).expect("JSON");
        complaints.extend(complaint("/v1/bulk", &verdict["error"], parts));
    }
    let mut socket = under.socket().await;
    socket.say(json!({"type": "hello", "token": ADMIN})).await;
    assert_eq!(socket.json().await["type"], "welcome");
    for (frame, parts) in [
        (
            json!({"type": long.as_str()}),
            &["type is", "claim, extend"][..],
        ),
        (
            json!({"type": "claim", "request": {"queues": 5}}),
            &["queues is 5", "1 to 64"],
        ),
        (json!({"type": "claim"}), &["request is missing"]),
        (
            json!({"type": "claim", "request": {"queues": ["a"], "lease_duration": "48h"}}),
            &["(lease_duration: 48h)"],
        ),
        (
            json!({"type": "watch", "stats": 5}),
            &["stats is 5", "\"30s\""],
        ),
        (
            json!({"type": "watch", "states": ["odd"]}),
            &["state", "odd", "scheduled"],
        ),
        (json!({"type": 5}), &["type is 5", "a string"]),
    ] {
        socket.say(frame.clone()).await;
        let reply = socket.json().await;
        assert_eq!(reply["type"], "error", "{frame}");
        complaints.extend(complaint("socket", &reply["error"], parts));
    }
    assert_none(&complaints);
}
