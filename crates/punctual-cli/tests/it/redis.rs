//! Tests of the command: redis.

use std::process::Stdio;

use punctual::time::{Stopwatch, seconds};
use punctual_redis::testing::TestServer;

use crate::support::Punctual;

fn on(server: &TestServer) -> (Punctual, String) {
    (Punctual::new(), server.address())
}

#[test]
fn what_works_in_a_directory_works_on_a_server() {
    let server = TestServer::start();
    let (punctual, engine) = on(&server);
    let run = |args: &[&str]| {
        let args = [args, &["--engine", &engine]].concat();
        punctual.run(&args)
    };
    run(&["enqueue", "mail", r#"{"to":"ann"}"#]).exits(0);
    run(&["enqueue", "mail", r#"{"to":"bob"}"#, "--delay", "1h"]).exits(0);
    let listed = run(&["jobs", "list", "--queue", "mail"]);
    assert_eq!(listed.stdout.matches("mail").count(), 4, "{listed:?}");
    run(&["work", "mail", "--exec", "cat > seen", "--until-idle"]).exits(0);
    assert_eq!(punctual.read("seen"), r#"{"to":"ann"}"#);
    let queues = run(&["queues", "list", "-o", "json"]);
    assert!(queues.stdout.contains(r#""scheduled":1"#), "{queues:?}");
    run(&["queues", "purge", "mail", "--yes"]).exits(0);
}

#[test]
fn no_output_shows_a_password() {
    let server = TestServer::with(&["--requirepass", "hunter2"]);
    let punctual = Punctual::new();
    let port = server.port();
    for (engine, code) in [
        (format!("redis://:hunter2@127.0.0.1:{port}"), 0),
        (format!("redis://ann:hunter2@127.0.0.1:{port}"), 2),
        (format!("redis://:hunter2x@127.0.0.1:{port}"), 2),
        ("redis://:hunter2@127.0.0.1:1".into(), 5),
        (format!("redis://:hunter2@127.0.0.1:{port}/99"), 2),
        (format!("redis://:hunter2@127.0.0.1:{port}?no=hunter2"), 2),
        (format!("redis://:hunter2@127.0.0.1:{port}?hunter2"), 2),
    ] {
        let mut command = punctual.command(&["doctor", "--engine", &engine]);
        let ran = command.env("PUNCTUAL_LOG", "debug").output();
        let ran = ran.expect("the binary runs");
        let text = [ran.stdout, ran.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains("hunter2"), "{engine}: {text}");
        assert_eq!(ran.status.code(), Some(code), "{engine}: {text}");
    }
}

#[test]
fn a_killed_worker_s_job_is_done_by_another() {
    let server = TestServer::start();
    let (punctual, engine) = on(&server);
    let run = |args: &[&str]| punctual.run(&[args, &["--engine", &engine]].concat());
    run(&["enqueue", "mail", "{}"]).exits(0);
    let work = |command: &str| {
        let args = ["work", "mail", "--lease-duration", "1s", "--exec", command];
        let mut worker = punctual.command(&[&args[..], &["--engine", &engine]].concat());
        let worker = worker.stdout(Stdio::null()).stderr(Stdio::null());
        worker.spawn().expect("the binary starts")
    };
    let mut first = work("echo > started; exec sleep 5");
    let exists = |name: &str| {
        let path = punctual.path(name);
        while !path.exists() {
            std::thread::yield_now();
        }
    };
    exists("started");
    first.kill().expect("it runs");
    let killed = Stopwatch::start();
    first.wait().expect("it ends");
    let mut second = work("echo > done");
    exists("done");
    assert!(killed.elapsed() < seconds(3), "{:?}", killed.elapsed());
    second.kill().expect("it runs");
    second.wait().expect("it ends");
}
