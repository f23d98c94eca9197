//! Tests of the command: serve.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Punctual, Ran, text};

/// A `punctual serve` on a free port, ended with the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) announced: Value,
}

impl Server {
    pub(crate) fn start(punctual: &Punctual, args: &[&str]) -> Self {
        Self::start_with(punctual, args, |command| command)
    }

    /// The same, with more said of the process.
    pub(crate) fn start_with(
        punctual: &Punctual,
        args: &[&str],
        with: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0", "-o", "json"], args].concat();
        let mut command = punctual.command(&args);
        let command = with(command.stdout(Stdio::piped()));
        Self::of(command.spawn().expect("it starts"))
    }

    /// One that was started with its output piped, once it can be asked.
    pub(crate) fn of(mut child: Child) -> Self {
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let announced = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line:?}"));
        Self { child, announced }
    }

    pub(crate) fn url(&self) -> String {
        text(&self.announced["url"])
    }

    /// Ends it by SIGTERM; its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }

    /// Ends it by SIGKILL, if it still runs.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().expect("it ends");
    }

    pub(crate) fn request(&self, head: &str, body: &str) -> String {
        self.request_with(head, "", body)
    }

    pub(crate) fn request_with(&self, head: &str, more: &str, body: &str) -> String {
        let mut stream = self.send_with(head, more, body);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Sends a request and does not wait for its answer.
    pub(crate) fn send(&self, head: &str, body: &str) -> TcpStream {
        self.send_with(head, "", body)
    }

    /// The same with more headers, a line each.
    pub(crate) fn send_with(&self, head: &str, more: &str, body: &str) -> TcpStream {
        let address = self.url().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).expect("a connection");
        let length = body.len();
        let head = format!(
            "{head} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n"
        );
        let authorization = match self.announced["token"].as_str() {
            Some(token) => format!("authorization: Bearer {token}\r\n"),
            None => String::new(),
        };
        write!(stream, "{head}{authorization}{more}\r\n{body}").expect("sent");
        stream
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Already ended, in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_job_scheduled_over_http_outlives_the_server() {
    let punctual = Punctual::new();
    let server = Server::start(&punctual, &[]);
    let token = text(&server.announced["token"]);
    assert!(text(&server.announced["dashboard"]).ends_with(&format!("/#token={token}")));
    let body = r#"{"queue":"mail","payload":{"to":"ann"},"delay":"1h"}"#;
    let answer = server.request("POST /v1/jobs", body);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(
        server
            .request("GET /", "")
            .contains("<title>Punctual</title>")
    );
    assert_eq!(server.end(), Some(0));
    let job = punctual.one(&["jobs", "list"]);
    assert_eq!(
        (&job["queue"], &job["state"]),
        (&"mail".into(), &"scheduled".into())
    );
}

#[test]
fn commands_reach_a_directory_that_is_served_through_its_address() {
    let punctual = Punctual::new();
    let server = Server::start(&punctual, &[]);
    let url = server.url();
    let run = |args: &[&str], token: &str| {
        let args = [args, &["--engine", &url, "-o", "json"]].concat();
        let mut command = punctual.command(&args);
        let output = command.env("PUNCTUAL_TOKEN", token).output();
        Ran::from(output.expect("it runs"))
    };
    let token = text(&server.announced["token"]);
    let sent = run(&["enqueue", "mail", "{\"to\":\"ann\"}"], &token).exits(0);
    let id = text(&sent.documents()[0]["id"]);
    let worked = run(&["work", "mail", "--exec", "cat", "--until-idle"], &token);
    worked.exits(0);
    let shown = run(&["jobs", "show", &id], &token).exits(0);
    assert_eq!(shown.documents()[0]["state"], "completed");
    let refused = run(&["jobs", "list"], "another-token-0123456789").exits(2);
    assert!(
        text(&refused.error()["hint"]).contains("PUNCTUAL_TOKEN"),
        "{refused:?}"
    );
    assert_eq!(server.end(), Some(0));
    run(&["jobs", "list"], &token).exits(5);
}

#[test]
fn listen_accepts_localhost_and_explains_a_port_alone() {
    let punctual = Punctual::new();
    let args = ["serve", "--engine", "memory:", "-o", "json", "--listen"];
    for wrong in ["4180", ":4180", "localhost", "unknown.invalid:4180"] {
        let refused = punctual.run(&[&args[..], &[wrong]].concat()).exits(2);
        let said = refused.error()["message"].to_string();
        assert!(said.contains("127.0.0.1:4180"), "{wrong}: {said}");
    }
    let mut command = punctual.command(&[&args[..], &["localhost:0"]].concat());
    let child = command.stdout(Stdio::piped()).spawn();
    let server = Server::of(child.expect("it starts"));
    assert!(server.url().starts_with("http://127.0.0.1:"));
}

#[test]
fn an_address_for_others_needs_a_token_of_ones_own() {
    let punctual = Punctual::new();
    let serve = ["serve", "--listen", "0.0.0.0:0", "--engine", "memory:"];
    let refused = punctual.run(&serve).exits(2);
    assert!(refused.stderr.contains("PUNCTUAL_TOKEN"), "{refused:?}");
    let open = [&serve[..], &["--no-auth"]].concat();
    punctual.run(&open).exits(2);
    let timed = ["serve", "--listen", "127.0.0.1:0", "--test-clock"];
    punctual.run(&timed).exits(2);
    punctual.write("tokens.txt", "too-short shop read\n");
    let file = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        "tokens.txt",
    ];
    let refused = punctual.run(&file).exits(2);
    assert!(refused.stderr.contains("16"), "{refused:?}");
    assert!(!refused.stderr.contains("too-short"), "{refused:?}");
}

/// In the directory no token says whose jobs are meant, so the line that is printed does.
#[test]
fn the_printed_command_names_the_namespace_of_the_tokens() {
    let printed = |tokens: &str, more: &[&str]| {
        let punctual = Punctual::new();
        let file = punctual.write("tokens", tokens);
        let file = file.to_str().expect("a path");
        let serve = ["serve", "--listen", "127.0.0.1:0", "--token-file", file];
        let mut command = punctual.command(&[&serve[..], more].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut lines = lines.map(|line| line.expect("a line"));
        let line = lines.find(|line| line.contains("punctual jobs list"));
        child.kill().and_then(|()| child.wait()).expect("it ends");
        line.expect("the line of the command")
    };
    let shop = "a-token-of-the-shop-0123456789 shop read\n";
    let own = "a-token-of-our-own-0123456789 default read\n";
    assert!(printed(shop, &[]).contains("jobs list --namespace shop  "));
    let both = printed(&format!("{shop}{own}"), &[]);
    assert!(!both.contains("--namespace"), "{both}");
    let named = printed(shop, &["--namespace", "shop"]);
    assert!(named.contains("--namespace shop"), "{named}");
}

#[test]
fn a_test_moves_the_clock_of_a_server_that_allows_it_on_this_machine_only() {
    let punctual = Punctual::new();
    let server = Server::start(&punctual, &["--engine", "memory:", "--test-clock"]);
    let ask = |route: &str, body: &str| -> Value {
        let answer = server.request(route, body);
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
        serde_json::from_str(body).expect("JSON")
    };
    let set = |now: &str| {
        let reported = ask("POST /v1/test-clock", &format!("{{\"now\":\"{now}\"}}"));
        assert_eq!(reported["now"], now);
    };
    let claim = || ask("POST /v1/claims", r#"{"queues":["mail"]}"#)["leases"][0]["jobs"][0].clone();
    set("2026-11-21T10:00:00Z");
    let put = ask("POST /v1/jobs", r#"{"queue":"mail","delay":"30d"}"#);
    assert_eq!(put["due"], "2026-12-21T10:00:00Z", "{put}");
    assert_eq!(claim(), Value::Null);
    set("2026-12-21T09:59:59.999999Z");
    assert_eq!(claim(), Value::Null);
    set("2026-12-21T10:00:00Z");
    assert_eq!(claim()["id"], put["id"]);
    assert_eq!(server.end(), Some(0));

    let elsewhere = [
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--engine",
        "memory:",
        "--test-clock",
    ];
    let mut command = punctual.command(&elsewhere);
    let refused = command.env("PUNCTUAL_TOKEN", "a-token-of-my-own").output();
    let refused = Ran::from(refused.expect("it runs")).exits(2);
    assert!(
        refused.stderr.contains("the test clock is for tests"),
        "{refused:?}"
    );
    let plain = Server::start(&punctual, &["--engine", "memory:"]);
    let body = r#"{"now":"2026-11-21T10:00:00Z"}"#;
    let nowhere = plain.request("POST /v1/test-clock", body);
    assert!(nowhere.starts_with("HTTP/1.1 404"), "{nowhere}");
}

#[test]
fn without_tokens_on_request_everybody_here_may_ask() {
    let punctual = Punctual::new();
    let server = Server::start(&punctual, &["--no-auth", "--engine", "memory:"]);
    assert_eq!(server.announced["token"], Value::Null);
    assert!(
        server
            .request("GET /v1/queues", "")
            .starts_with("HTTP/1.1 200")
    );
    assert_eq!(server.end(), Some(0));
}

#[test]
fn proxies_that_are_trusted_are_named_on_the_line_or_by_the_environment() {
    let punctual = Punctual::new();
    punctual.write("punctual.toml", "[limits]\nfailures = 1\n");
    let usual = ["--engine", "memory:", "--config", "punctual.toml"].as_slice();
    // All show a wrong token.
    let statuses = |server: &Server| {
        ["198.51.100.1", "198.51.100.1", "198.51.100.2"].map(|client| {
            let more =
                format!("authorization: Bearer an-unknown-token\r\nx-forwarded-for: {client}\r\n");
            let answer = server.request_with("GET /v1/queues", &more, "");
            answer["HTTP/1.1 ".len()..][..3].to_owned()
        })
    };
    let start = |args: &[&str], environment: &[(&str, &str)]| {
        Server::start_with(&punctual, &[usual, args].concat(), |command| {
            let token = ("PUNCTUAL_TOKEN", "a-token-of-my-own");
            command.envs([&[token], environment].concat())
        })
    };
    let trusted = "127.0.0.1,10.0.0.0/8";
    let by_line = start(&["--trusted-proxy", trusted], &[]);
    let by_environment = start(&[], &[("PUNCTUAL_TRUSTED_PROXIES", trusted)]);
    for server in [by_line, by_environment] {
        assert_eq!(statuses(&server), ["401", "429", "401"]);
    }
    assert_eq!(statuses(&start(&[], &[])), ["401", "429", "429"]);
}
