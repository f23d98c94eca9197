//! Edits of thousands of jobs, the server killed within them: the record says that one was begun,
//! each job was edited wholly or not at all, and the same said again finishes it.

use std::collections::HashSet;
use std::path::PathBuf;

use punctual_redis::testing::TestServer;
use serde_json::{Value, json};

use crate::serve::Server;
use crate::support::{Punctual, text};

/// An edit is said in calls of a thousand.
const JOBS: usize = 4_000;

const STATES: [&str; 7] = [
    "held",
    "scheduled",
    "ready",
    "active",
    "completed",
    "cancelled",
    "dead",
];

/// How many entries of the record begin a change, and how many end one.
struct Record {
    begun: usize,
    ended: usize,
}

/// Where the jobs are, who serves them, and the record beside them.
struct Under {
    punctual: Punctual,
    engine: String,
    server: Server,
}

impl Under {
    fn start(engine: &str) -> Self {
        let punctual = Punctual::new();
        let server = serve(&punctual, engine);
        Self {
            punctual,
            engine: engine.to_owned(),
            server,
        }
    }

    fn restart(&mut self) {
        self.server.kill();
        self.server = serve(&self.punctual, &self.engine);
    }

    fn ask(&self, head: &str, body: &str) -> Value {
        let answer = self.server.request(head, body);
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Puts these jobs in; the verdict of each.
    fn enqueue(&self, jobs: &[Value]) -> Vec<Value> {
        let mut receipts = Vec::new();
        for some in jobs.chunks(1_000) {
            let body = Value::from(some.to_vec()).to_string();
            let answer = self.ask("POST /v1/jobs", &body);
            receipts.extend(answer["receipts"].as_array().expect("receipts").clone());
        }
        receipts
    }

    /// Enqueues jobs and brings them to the state that the edit takes them from.
    fn prepare(&self, edit: &Edit, name: &str) {
        self.enqueue(&edit.jobs(name));
        if edit.from != "dead" {
            return;
        }
        loop {
            let claim = json!({"queues": [edit.queue], "limit": 1_000, "lease_duration": "60s"})
                .to_string();
            let mut claimed = self.ask("POST /v1/claims", &claim);
            let Value::Array(leases) = claimed["leases"].take() else {
                panic!("no leases: {claimed}");
            };
            if leases.is_empty() {
                return;
            }
            for lease in leases {
                let dead = |job: &Value| json!({"id": job["id"], "attempt": job["attempt"], "outcome": "dead"});
                let jobs = lease["jobs"].as_array().expect("jobs");
                let settlements: Vec<_> = jobs.iter().map(dead).collect();
                let lease = json!({"token": lease["token"], "settlements": settlements});
                self.ask(
                    "POST /v1/settlements",
                    &json!({"leases": [lease]}).to_string(),
                );
            }
        }
    }

    /// The unique keys of the jobs in a state, by the queue's index, each job as that state has
    /// them.
    fn keys(&self, edit: &Edit, state: &str) -> HashSet<String> {
        let queue = edit.queue;
        let mut keys = HashSet::new();
        let mut cursor = String::new();
        loop {
            let head = format!(
                "GET /v1/jobs?queue={queue}&state={state}&payloads=false&limit=1000{cursor}"
            );
            let page = self.ask(&head, "");
            for job in page["jobs"].as_array().expect("jobs") {
                assert_eq!(job["state"], state, "{job}");
                let has_ended = !job["finished_at"].is_null();
                assert_eq!(has_ended, ["cancelled", "dead"].contains(&state), "{job}");
                keys.insert(text(&job["unique"]));
            }
            match page["cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return keys,
            }
        }
    }

    /// What the counters of a queue say of a state.
    fn count(&self, queue: &str, state: &str) -> usize {
        let queues = self.ask(&format!("GET /v1/queues?queue={queue}"), "");
        queues["queues"][0][state].as_u64().expect("a count") as usize
    }

    fn latest_on_record(&self) -> Value {
        self.ask("GET /v1/audit?limit=1", "")["entries"][0].take()
    }

    fn record(&self) -> Record {
        let record = std::fs::read_to_string(audit_of(&self.punctual)).unwrap_or_default();
        let begun = record.matches(r#""phase":"begun""#).count();
        Record {
            begun,
            ended: record.lines().count() - begun,
        }
    }

    /// Says an edit and kills the server within it. Some calls are over too soon to be cut off:
    /// then the next is tried, on more jobs if need be.
    fn cut_off(&mut self, edit: &Edit) {
        for calls in 0..30 {
            let (head, body) = edit.call(&Value::Null);
            let before = self.record();
            let answer = self.server.send(head, &body);
            let is_cut = loop {
                let now = self.record();
                if now.ended > before.ended {
                    break false;
                }
                if now.begun > before.begun {
                    self.server.kill();
                    break self.record().ended == before.ended;
                }
            };
            if is_cut {
                return;
            }
            drop(answer);
            self.restart();
            if self.count(edit.queue, edit.from) < JOBS / 2 {
                self.prepare(edit, &format!("more-{calls}"));
            }
        }
        panic!("no call of {edit:?} could be cut off");
    }

    /// Says an edit to its end.
    fn finish(&self, edit: &Edit) {
        let mut cursor = Value::Null;
        loop {
            let (head, body) = edit.call(&cursor);
            let answer = self.ask(head, &body);
            cursor = answer["cursor"].clone();
            if cursor.is_null() {
                return;
            }
        }
    }
}

fn serve(punctual: &Punctual, engine: &str) -> Server {
    let audit = audit_of(punctual);
    let audit = audit.to_str().expect("text");
    let args = [
        "--engine",
        engine,
        "--no-push",
        "--no-auth",
        "--audit",
        audit,
    ];
    Server::start(punctual, &args)
}

fn audit_of(punctual: &Punctual) -> PathBuf {
    punctual.path("audit.jsonl")
}

/// A change of everything in a queue.
#[derive(Debug)]
struct Edit {
    action: &'static str,
    queue: &'static str,
    /// The states that it takes jobs from and brings them to.
    from: &'static str,
    to: &'static str,
}

impl Edit {
    fn call(&self, cursor: &Value) -> (&'static str, String) {
        let mut body = json!({"dry_run": false});
        if !cursor.is_null() {
            body["cursor"] = cursor.clone();
        }
        let head = match self.action {
            "purge" => {
                body["queue"] = json!(self.queue);
                "POST /v1/queues/purge"
            }
            action => {
                body["action"] = json!(action);
                body["filter"] = json!({"queue": self.queue, "state": self.from});
                "POST /v1/edits"
            }
        };
        (head, body.to_string())
    }

    fn jobs(&self, name: &str) -> Vec<Value> {
        let delay = if self.from == "dead" { "0s" } else { "1h" };
        let job = |number: usize| {
            let key = format!("{name}-{number}");
            json!({"queue": self.queue, "delay": delay, "unique": key, "payload": {"number": number}})
        };
        (0..JOBS).map(job).collect()
    }
}

const CANCEL: Edit = edit("cancel", "scheduled", "cancelled");
const PURGE: Edit = edit("purge", "scheduled", "cancelled");
const REDRIVE: Edit = edit("redrive", "dead", "ready");

const fn edit(action: &'static str, from: &'static str, to: &'static str) -> Edit {
    let queue = action;
    Edit {
        action,
        queue,
        from,
        to,
    }
}

fn edits_are_cut_off_and_said_again(engine: &str) {
    let mut under = Under::start(engine);
    for edit in [CANCEL, PURGE, REDRIVE] {
        under.prepare(&edit, "job");
        under.cut_off(&edit);
        under.restart();

        let (left, edited) = (under.keys(&edit, edit.from), under.keys(&edit, edit.to));
        for state in STATES {
            let listed = match state {
                state if state == edit.from => left.len(),
                state if state == edit.to => edited.len(),
                _ => 0,
            };
            assert_eq!(under.count(edit.queue, state), listed, "{edit:?}: {state}");
        }
        let begun = under.latest_on_record();
        assert_eq!(
            (&begun["action"], &begun["phase"]),
            (&json!(edit.action), &json!("begun"))
        );

        if edit.to == "cancelled" {
            // The key of each job that was edited is free, and of no other.
            let jobs = edit.jobs("job");
            for (job, receipt) in jobs.iter().zip(under.enqueue(&jobs)) {
                let is_held = left.contains(&text(&job["unique"]));
                let expected = if is_held { "merged" } else { "created" };
                assert_eq!(receipt["verdict"], expected, "{edit:?}: {receipt}");
            }
        }
        under.finish(&edit);
        assert_eq!(under.count(edit.queue, edit.from), 0, "{edit:?}");
        assert_eq!(under.latest_on_record()["phase"], "done", "{edit:?}");
        if edit.to == "ready" {
            for receipt in under.enqueue(&edit.jobs("job")) {
                assert_eq!(receipt["verdict"], "merged", "{edit:?}: {receipt}");
            }
        }
    }
}

#[test]
fn an_edit_that_a_kill_cuts_off_is_whole_per_job_and_can_be_said_again() {
    edits_are_cut_off_and_said_again("file:jobs");
}

#[test]
fn so_it_is_with_jobs_on_a_server() {
    let redis = TestServer::start();
    edits_are_cut_off_and_said_again(&redis.address());
}
