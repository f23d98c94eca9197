//! Jobs that are posted, by the binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::serve::Server;
use crate::support::{Punctual, text};

/// A target on a free port: it hands over each request, and who reads it answers.
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    requests: Receiver<Request>,
}

pub(crate) struct Request {
    stream: TcpStream,
    /// Its headers, in lower case, one per line.
    head: String,
    /// The same as they came.
    raw: String,
    body: String,
}

impl Target {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (send, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(request) = stream.ok().and_then(Request::read) else {
                    continue;
                };
                if send.send(request).is_err() {
                    return;
                }
            }
        });
        Self { address, requests }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn next(&self) -> Request {
        let next = self.requests.recv_timeout(Duration::from_secs(60));
        next.expect("a request in time")
    }
}

impl Request {
    fn read(stream: TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut raw = String::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            if line.trim().is_empty() {
                break;
            }
            raw += &line;
        }
        let head = raw.to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length?.trim().parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        Some(Self {
            stream,
            head,
            raw,
            body,
        })
    }

    fn answer(self, status: &str) {
        self.says(status, "ok");
    }

    pub(crate) fn says(mut self, status: &str, body: &str) {
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        self.stream.write_all(answer.as_bytes()).expect("it reads");
    }

    fn header(&self, name: &str) -> &str {
        let start = format!("{name}: ");
        let found = self.head.lines().find_map(|line| line.strip_prefix(&start));
        found.unwrap_or_default()
    }

    /// A header's value, letters as they came.
    fn raw(&self, name: &str) -> String {
        let lines = self.head.lines().zip(self.raw.lines());
        let start = format!("{name}: ");
        let found = lines.into_iter().find(|(line, _)| line.starts_with(&start));
        found.map_or(String::new(), |(_, line)| line[start.len()..].to_owned())
    }
}

/// A process that is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits over HTTP until the job is settled.
fn settled(server: &Server, id: &str) -> Value {
    let answer = server.request(&format!("GET /v1/jobs/{id}?wait=60s"), "");
    let body = answer.split("\r\n\r\n").nth(1).expect("a body");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {answer}"))
}

fn enqueue(server: &Server, job: &Value) -> String {
    enqueue_with(server, "", job)
}

/// The same by a request with more headers.
fn enqueue_with(server: &Server, more: &str, job: &Value) -> String {
    let answer = server.request_with("POST /v1/jobs", more, &job.to_string());
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let body = answer.split("\r\n\r\n").nth(1).expect("a body");
    let receipt: Value = serde_json::from_str(body).expect("JSON");
    text(&receipt["id"])
}

#[test]
fn a_worker_posts_the_jobs_of_a_queue_signs_them_and_asks_no_proxy() {
    let punctual = Punctual::new();
    let target = Target::start();
    let proxy = Target::start();
    let trap = format!("http://{}", proxy.address);
    let ids = ["1", "2"].map(|payload| punctual.enqueue(&["jobs", payload, "--retention", "1h"]));
    let url = target.url();
    let mut command = punctual.command(&["work", "jobs", "--http", &url, "--until-idle"]);
    let child = command
        .env("PUNCTUAL_PUSH_SECRET", SECRET)
        // A trap that no process reads: a client that asks a proxy waits for ever.
        .envs(["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"].map(|name| (name, &trap)))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut child = Killed(child);
    for _ in 0..2 {
        let request = target.next();
        assert!(
            request.head.starts_with("post /hook http/1.1"),
            "{}",
            request.head
        );
        assert!(request.header("webhook-signature").starts_with("v1,"));
        assert!(ids.contains(&request.header("punctual-id").to_owned()));
        assert!(["1", "2"].contains(&&*request.body));
        request.answer("200 OK");
    }
    assert!(child.0.wait().expect("it ends").success());
    assert!(proxy.requests.try_recv().is_err());
    for id in &ids {
        let job = punctual.one(&["jobs", "show", id]);
        assert_eq!(
            (&job["state"], &job["result_base64"]),
            (&json!("completed"), &json!("b2s="))
        );
    }
}

#[test]
fn a_job_for_a_url_and_its_outcome_are_posted_by_the_server() {
    let punctual = Punctual::new();
    let target = Target::start();
    let place = target.address.to_string();
    let server = Server::start(&punctual, &["--push-allow", &place]);
    let job = json!({"queue": "mail", "payload": {"to": "ann"}, "delay": "50ms",
        "target": target.url(), "callback": target.url()});
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let id = enqueue_with(&server, &format!("traceparent: {trace}\r\n"), &job);
    let first = target.next();
    assert_eq!(first.body, r#"{"to":"ann"}"#);
    assert_eq!(first.header("punctual-queue"), "http:mail");
    assert_eq!(first.header("traceparent"), trace);
    first.answer("200 OK");
    let reported = target.next();
    let said: Value = serde_json::from_str(&reported.body).expect("JSON");
    assert_eq!(
        (&said["id"], &said["state"]),
        (&json!(id), &json!("completed"))
    );
    assert_eq!(reported.header("traceparent"), trace);
    reported.answer("204 No Content");
    assert_eq!(settled(&server, &id)["state"], "completed");

    let inner = json!({"queue": "mail", "target": "http://127.0.0.1:1/"}).to_string();
    let refused = server.request("POST /v1/jobs", &inner);
    assert!(refused.starts_with("HTTP/1.1 422"), "{refused}");
    assert!(refused.contains("target_refused"), "{refused}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn the_end_of_a_job_that_no_worker_saw_is_posted_too() {
    let punctual = Punctual::new();
    let target = Target::start();
    let (url, place) = (target.url(), target.address.to_string());
    let asks = ["mail", "{}", "--delay", "1h", "--callback", &url];
    let id = punctual.enqueue(&[&asks[..], &["--push-allow", &place]].concat());
    punctual.json(&["jobs", "cancel", &id]);
    let server = Server::start(&punctual, &["--push-allow", &place]);
    let reported = target.next();
    let said: Value = serde_json::from_str(&reported.body).expect("JSON");
    let said = ["id", "state", "cancelled"].map(|field| text(&said[field]));
    assert_eq!(said, [&*id, "cancelled", "requested"]);
    reported.answer("204 No Content");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_dead_letter_is_posted_to_the_operator_wherever_that_url_leads() {
    let punctual = Punctual::new();
    let target = Target::start();
    punctual.enqueue(&["mail", "1", "--max-attempts", "1"]);
    punctual.json(&["work", "mail", "--exec", "false", "--until-idle"]);
    let server = Server::start(&punctual, &["--alert", &target.url()]);
    let alert = target.next();
    let said: Value = serde_json::from_str(&alert.body).expect("JSON");
    let reported = (
        &said["alert"],
        &said["state"],
        &said["queue"],
        &said["value"],
    );
    assert_eq!(
        reported,
        (&json!("dead"), &json!("firing"), &json!("mail"), &json!(1))
    );
    alert.answer("204 No Content");
    // Only that URL: its host is as closed as before.
    let near = format!("{}/other", target.url());
    let near = json!({"queue": "mail", "target": near}).to_string();
    let refused = server.request("POST /v1/jobs", &near);
    assert!(refused.contains("target_refused"), "{refused}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_delivery_whose_worker_is_killed_is_made_by_another() {
    let punctual = Punctual::new();
    let target = Target::start();
    let server = Server::start(&punctual, &["--no-push"]);
    let id = enqueue(&server, &json!({"queue": "jobs", "payload": 7}));
    let (url, engine) = (target.url(), server.url());
    let work = || {
        let args = [
            "work",
            "jobs",
            "--http",
            &url,
            "--engine",
            &engine,
            "--lease-duration",
            "1s",
        ];
        let mut command = punctual.command(&args);
        command
            .env("PUNCTUAL_TOKEN", text(&server.announced["token"]))
            .stdout(Stdio::null());
        Killed(command.spawn().expect("it starts"))
    };
    let doomed = work();
    let first = target.next();
    assert_eq!(first.header("punctual-attempt"), "1");
    drop(doomed);
    let _second = work();
    let again = target.next();
    assert_eq!(again.header("punctual-attempt"), "2");
    assert_eq!(again.header("punctual-crashes"), "1");
    assert_eq!(again.header("webhook-id"), first.header("webhook-id"));
    assert_eq!(again.body, "7");
    again.answer("200 OK");
    assert_eq!(settled(&server, &id)["state"], "completed");
}

#[test]
fn a_target_that_is_not_public_is_refused_at_creation_with_the_remedy() {
    let punctual = Punctual::with_data();
    let line = r#"{"queue":"mail","target":"http://localhost:3000/"}"#;
    let file = punctual.write("jobs.jsonl", format!("{line}\n"));
    let local = "http://localhost:3000/";
    let header = format!("punctual-target={local}");
    for args in [
        &["mail", "{}", "--target", local][..],
        &["mail", "{}", "--callback", local],
        &["http:mail", "{}", "--header", &header],
        &["--from", file.to_str().expect("a path")],
    ] {
        let args = [&["enqueue"], args].concat();
        let ran = punctual.run(&args).exits(2);
        assert!(
            ran.stderr.contains("--push-allow localhost:3000"),
            "{ran:?}"
        );
        let opened = [&args[..], &["--push-allow", "localhost:3000"]].concat();
        punctual.run(&opened).exits(0);
    }
    assert_eq!(punctual.json(&["jobs", "list"]).len(), 4);
}

#[test]
fn a_command_leaves_jobs_with_a_target_to_the_poster() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["mail", "1", "--target", "https://example.com/hook"]);
    let job = punctual.one(&["jobs", "show", &id]);
    assert_eq!(
        (&job["queue"], &job["kind"]),
        (&json!("http:mail"), &json!("mail"))
    );
    let work = ["work", "http:mail", "--exec", "false", "--until-idle"];
    assert_eq!(punctual.json(&work)[0]["outcome"], "snoozed");
    let job = punctual.one(&["jobs", "show", &id]);
    assert_eq!(
        (&job["state"], &job["failures"]),
        (&json!("scheduled"), &json!(0))
    );
}

#[test]
fn a_malformed_target_on_a_broker_is_refused_with_the_remedy() {
    let punctual = Punctual::with_data();
    let line = r#"{"queue":"mail","target":"amqp:orders"}"#;
    let file = punctual.write("jobs.jsonl", format!("{line}\n"));
    for args in [
        &["mail", "{}", "--target", "amqp:orders"][..],
        &["mail", "{}", "--target", "amqp://guest@127.0.0.1/orders"],
        &["--from", file.to_str().expect("a path")],
    ] {
        let ran = punctual.run(&[&["enqueue"], args].concat()).exits(2);
        assert!(ran.stderr.contains("write amqp:EXCHANGE/KEY"), "{ran:?}");
    }
    assert_eq!(punctual.json(&["jobs", "list"]).len(), 0);
    // What comes by a relay is refused there, as any message that is no job.
    let source = format!("echo '{{\"name\":\"1\",\"job\":{line}}}'; read -r answer");
    let args = ["relay", "exec", "--source", &source, "--until-idle"];
    punctual.run(&args).exits(0);
    let dead = punctual.json(&["jobs", "list", "--queue", "relay.exec.refused"]);
    assert!(
        text(&dead[0]["last_error"]).contains("write amqp:EXCHANGE/KEY"),
        "{dead:?}"
    );
    let id = punctual.enqueue(&["mail", "1", "--target", "amqp:orders/paid"]);
    assert_eq!(punctual.one(&["jobs", "show", &id])["queue"], "amqp:mail");
    let work = ["work", "amqp:mail", "--exec", "false", "--until-idle"];
    assert_eq!(punctual.json(&work)[0]["outcome"], "snoozed");
    // Nothing listens there, and nothing is posted: a page is not what the job is for.
    let id = punctual.enqueue(&["post", "1", "--target", "amqp:orders/paid"]);
    let nowhere = "http://127.0.0.1:9/";
    let work = ["work", "amqp:post", "--http", nowhere, "--until-idle"];
    assert_eq!(punctual.json(&work)[0]["outcome"], "snoozed");
    let shown = punctual.one(&["jobs", "show", &id]);
    assert!(text(&shown["last_error"]).contains("amqp-emit"), "{shown}");
}

#[test]
fn a_job_for_a_broker_says_that_it_waits_for_a_relay() {
    let punctual = Punctual::with_data();
    let id = punctual.enqueue(&["mail", "1", "--target", "amqp:orders/paid"]);
    let reported = punctual.run(&["jobs", "explain", &id]).exits(0).stdout;
    assert!(reported.contains("punctual relay amqp-emit"), "{reported}");
}

#[test]
fn what_cannot_be_posted_to_or_signed_with_is_reported_at_once() {
    let punctual = Punctual::with_data();
    let file = punctual.write("secrets", "# ours\nshop whsec_short\n");
    let file = file.to_str().expect("text");
    let good = "http://localhost:3000/";
    for (args, reported) in [
        (&["work", "jobs"][..], "--exec"),
        (
            &["work", "jobs", "--exec", "true", "--http", good],
            "--http",
        ),
        (&["work", "jobs", "--http", "localhost:3000"], "--http"),
        (&["work", "jobs", "--http", "ftp://localhost/"], "scheme"),
        (
            &["work", "jobs", "--http", good, "--secret-file", file],
            "line 2",
        ),
        (
            &[
                "work",
                "jobs",
                "--http",
                good,
                "--push-allow",
                "10.0.0.0/99",
            ],
            "10.0.0.0/99",
        ),
        (
            &["enqueue", "jobs", "1", "--target", "example.com"],
            "--target",
        ),
        (&["serve", "--no-push", "--alert", good], "--alert"),
        (
            &["serve", "--listen", "127.0.0.1:0", "--alert", "nowhere"],
            "--alert",
        ),
    ] {
        let ran = punctual.run(args).exits(2);
        assert!(ran.stderr.contains(reported), "{args:?}: {ran:?}");
        assert!(!ran.stderr.contains("whsec_short"), "{ran:?}");
    }
}

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The code of docs/push.md in that language.
fn shown(language: &str) -> String {
    let page = include_str!("../../../../docs/push.md");
    let start = format!("```{language}\n");
    let code = page.split(&start).nth(1).expect("a block");
    code.split("```").next().expect("its end").to_owned()
}

/// What a receiver with the page's code says of each request.
fn judged(
    punctual: &Punctual,
    program: &str,
    file: &str,
    code: &str,
    tries: &Value,
) -> Vec<String> {
    let file = punctual.write(file, code);
    let case = json!({"secret": SECRET, "tries": tries}).to_string();
    let ran = std::process::Command::new(program)
        .args([file.as_os_str(), case.as_ref()])
        .output()
        .expect("it runs");
    let said = String::from_utf8(ran.stdout).expect("text");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    said.lines().map(str::to_owned).collect()
}

#[test]
fn receivers_that_verify_as_the_page_says_take_ours_and_refuse_all_else() {
    let punctual = Punctual::new();
    let target = Target::start();
    punctual.enqueue(&["jobs", r#"{"to":"ännchen"}"#]);
    let url = target.url();
    let mut command = punctual.command(&["work", "jobs", "--http", &url, "--until-idle"]);
    // The receiver knows the first of two.
    let secrets = format!("{SECRET},whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
    let child = command
        .env("PUNCTUAL_PUSH_SECRET", secrets)
        .stdout(Stdio::null());
    let mut child = Killed(child.spawn().expect("it starts"));
    let request = target.next();
    let ours = json!({
        "webhook-id": request.raw("webhook-id"),
        "webhook-timestamp": request.raw("webhook-timestamp"),
        "webhook-signature": request.raw("webhook-signature"),
    });
    let body = request.body.clone();
    request.answer("200 OK");
    assert!(child.0.wait().expect("it ends").success());

    let with = |name: &str, value: Value| {
        let mut headers = ours.clone();
        headers[name] = value;
        headers
    };
    let later: u64 = text(&ours["webhook-timestamp"]).parse().expect("seconds");
    // Signed by the right secret, but years ago: a replay.
    let replayed = json!({"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="});
    let tries = json!([
        [ours, body],
        [ours, format!("{body} ")],
        [with("webhook-id", "other".into()), body],
        [
            with("webhook-timestamp", (later + 1).to_string().into()),
            body
        ],
        [with("webhook-signature", "v1,AAAA".into()), body],
        [with("webhook-signature", "".into()), body],
        [replayed, r#"{"test": 2432232314}"#],
    ]);
    let wanted = [
        "taken", "refused", "refused", "refused", "refused", "refused", "refused",
    ];
    let python = shown("python")
        + r#"
import json, sys
case = json.loads(sys.argv[1])
for headers, body in case["tries"]:
    try:
        verify(case["secret"], headers, body.encode())
        print("taken")
    except ValueError:
        print("refused")
"#;
    assert_eq!(
        judged(&punctual, "python3", "verify.py", &python, &tries),
        wanted
    );
    let node = shown("js")
        + r#"
const sent = JSON.parse(process.argv[2]);
for (const [headers, body] of sent.tries) {
  try {
    verify(sent.secret, headers, Buffer.from(body));
    console.log("taken");
  } catch {
    console.log("refused");
  }
}
"#;
    assert_eq!(
        judged(&punctual, "node", "verify.mjs", &node, &tries),
        wanted
    );
}
