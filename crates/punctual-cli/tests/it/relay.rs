//! Relays, as processes that are killed.

use std::process::{Child, Stdio};

use punctual::time::{millis, pause};
use punctual_redis::testing::TestServer;

use crate::serve::Server;
use crate::support::{Punctual, text};

/// A relay that is killed when this is dropped.
pub(crate) struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn start(punctual: &Punctual, args: &[&str]) -> Relay {
    let mut command = punctual.command(args);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Relay(child.expect("it starts"))
}

pub(crate) async fn client(server: &TestServer) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(server.address()).expect("an address");
    client
        .get_multiplexed_async_connection()
        .await
        .expect("it runs")
}

async fn length(client: &mut redis::aio::MultiplexedConnection, key: &str) -> u64 {
    redis::cmd("LLEN")
        .arg(key)
        .query_async(client)
        .await
        .expect("it answers")
}

#[tokio::test]
async fn a_list_relay_that_is_killed_loses_and_doubles_nothing() {
    let server = TestServer::start();
    let mut redis = client(&server).await;
    let items: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    let () = redis::cmd("LPUSH")
        .arg("mail")
        .arg(&items)
        .query_async(&mut redis)
        .await
        .expect("it answers");
    let punctual = Punctual::with_data();
    let address = server.address();
    let args = [
        "relay",
        "redis-list",
        "--redis",
        &address,
        "--key",
        "mail",
        "--into",
        "mail",
        "--batch",
        "10",
    ];
    for left in [390, 300, 150] {
        let relay = start(&punctual, &args);
        while length(&mut redis, "mail").await > left {
            pause(millis(1)).await;
        }
        drop(relay);
    }
    punctual
        .run(&[&args[..], &["--until-idle"]].concat())
        .exits(0);
    let exported = punctual.run(&["export"]).exits(0).documents();
    let number = |job: &serde_json::Value| job["payload"].as_u64();
    let mut seen: Vec<u64> = exported.iter().filter_map(number).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..400).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_dry_run_shows_the_unit_of_scores_and_takes_nothing() {
    let server = TestServer::start();
    let mut redis = client(&server).await;
    let add = |score: &'static str, member: &'static str| {
        let mut add = redis::cmd("ZADD");
        add.arg("delayed").arg(score).arg(member);
        add
    };
    let () = add("1795454266026", "a")
        .query_async(&mut redis)
        .await
        .expect("it answers");
    let punctual = Punctual::new();
    let address = server.address();
    let args = [
        "relay",
        "redis-zset",
        "--redis",
        &address,
        "--key",
        "delayed",
        "--into",
        "orders",
        "--dry-run",
    ];
    let shown = punctual.one(&args);
    assert_eq!(
        (text(&shown["unit"]), text(&shown["due"][0])),
        ("ms".into(), "2026-11-23T17:17:46.026Z".into())
    );
    let () = add("3", "b")
        .query_async(&mut redis)
        .await
        .expect("it answers");
    let shown = punctual.one(&args);
    assert_eq!(
        (text(&shown["unit"]), &shown["refused"]),
        ("ms".into(), &1.into())
    );
    let () = redis::cmd("ZREM")
        .arg("delayed")
        .arg("a")
        .query_async(&mut redis)
        .await
        .expect("it answers");
    let refused = punctual.run(&args).exits(2);
    assert!(refused.stderr.contains("no instant"), "{refused:?}");
}

#[test]
fn what_needs_the_second_binary_says_how_to_build_it() {
    let punctual = Punctual::new();
    for args in [
        &["relay", "outbox", "--sql", "sqlite:x"][..],
        &[
            "relay", "amqp", "--amqp", "amqp://x", "--queue", "q", "--into", "q",
        ],
    ] {
        let mut command = punctual.command(args);
        // The binary beside the tests is not on the way.
        let ran = command
            .env("PUNCTUAL_RELAY_BINARY", "none")
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(3), "{text}");
        assert!(
            text.contains("cargo install --path crates/punctual-brokers"),
            "{text}"
        );
    }
    for name in [
        "outbox",
        "amqp",
        "amqp-delay",
        "amqp-emit",
        "exec",
        "redis-list",
    ] {
        punctual.run(&["relay", name, "--help"]).exits(0);
    }
}

#[test]
fn the_tables_of_an_outbox_are_printed_for_each_database() {
    let punctual = Punctual::new();
    for dialect in ["postgres", "mysql", "sqlite"] {
        let ran = punctual
            .run(&["outbox", "ddl", "--dialect", dialect])
            .exits(0);
        assert!(
            ran.stdout.contains("CREATE TABLE punctual_outbox_refused"),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn files_become_jobs_by_the_example_in_python() {
    let punctual = Punctual::with_data();
    std::fs::create_dir(punctual.path("inbox")).expect("a directory");
    for n in 0..3 {
        punctual.write(&format!("inbox/{n}.txt"), format!("file {n}"));
    }
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/relay-exec/source.py"
    );
    let source = format!("python3 {example} inbox");
    let relay = start(
        &punctual,
        &["relay", "exec", "--source", &source, "--into", "files"],
    );
    while std::fs::read_dir(punctual.path("inbox"))
        .expect("a directory")
        .count()
        > 0
    {
        pause(millis(5)).await;
    }
    drop(relay);
    let listed = punctual.json(&["jobs", "list", "--queue", "files"]);
    assert_eq!(listed.len(), 3, "{listed:?}");
}

#[test]
fn a_sink_gets_the_jobs_of_a_queue() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["out", r#"{"to":"ann"}"#]);
    let sink = r#"sh -c 'read -r line; echo "$line" > got; echo "{\"id\":\"$(printf %s "$line" | cut -d\" -f4)\",\"done\":true}"; cat'"#;
    punctual
        .run(&[
            "relay",
            "exec",
            "--sink",
            sink,
            "--queue",
            "out",
            "--until-idle",
        ])
        .exits(0);
    let got: serde_json::Value = serde_json::from_str(&punctual.read("got")).expect("JSON");
    assert_eq!(text(&got["job"]["payload"]["to"]), "ann");
    assert_eq!(punctual.state(&id), "completed");
}

/// What a server says of its only relay.
fn relay_of(server: &Server) -> serde_json::Value {
    let answer = server.request("GET /v1/relays", "");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let reported: serde_json::Value = serde_json::from_str(body).expect("JSON");
    reported["relays"][0].clone()
}

#[tokio::test]
async fn a_server_runs_relays_and_starts_one_that_fails_again() {
    let redis_server = TestServer::start();
    let mut redis = client(&redis_server).await;
    let set = async |redis: &mut redis::aio::MultiplexedConnection, words: &[&str]| {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let _: redis::Value = command.query_async(redis).await.expect("it answers");
    };
    // A key of another type: a person has to mend it.
    set(&mut redis, &["SET", "mail", "text"]).await;
    let punctual = Punctual::with_data();
    let address = redis_server.address();
    let place = address.trim_start_matches("redis://").trim_end_matches('/');
    let file = format!(
        "[allow.default]\naddresses = [\"{place}\"]\ntopics = [\"mail\"]\n\n[[relay]]\n\
         name = \"mail\"\nkind = \"redis-list\"\nredis = \"{address}\"\nkey = \"mail\"\ninto = \"mail\"\n"
    );
    punctual.write("relays.toml", &file);
    let server = Server::start(&punctual, &["--no-auth", "--relay", "relays.toml"]);
    while relay_of(&server)["state"] != "down" {
        pause(millis(10)).await;
    }
    let reported = relay_of(&server);
    assert!(
        text(&reported["last_error"]).contains("another type"),
        "{reported}"
    );
    let health = server.request("GET /healthz", "");
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    assert!(health.contains("relay mail is down"), "{health}");
    set(&mut redis, &["DEL", "mail"]).await;
    set(&mut redis, &["LPUSH", "mail", "1", "2"]).await;
    while relay_of(&server)["enqueued"] != 2 {
        pause(millis(50)).await;
    }
    let reported = relay_of(&server);
    assert_eq!(reported["state"], "running", "{reported}");
    assert!(reported["restarts"].as_u64() >= Some(1), "{reported}");
    let metrics = server.request("GET /metrics", "");
    assert!(metrics.contains("punctual_relay_enqueued_total{relay=\"mail\"} 2"));
    assert_eq!(server.end(), Some(0));

    punctual.write("relays.toml", file.replace("topics = [\"mail\"]", ""));
    let refused = punctual
        .run(&["serve", "--no-auth", "--relay", "relays.toml"])
        .exits(2);
    assert!(
        refused.stderr.contains("topics of [allow.default]"),
        "{refused:?}"
    );
}

#[test]
fn two_sources_without_a_name_do_not_share_identities() {
    let punctual = Punctual::with_data();
    for payload in ["1", "2", "2"] {
        let source =
            format!("echo '{{\"name\":\"17\",\"job\":{{\"payload\":{payload}}}}}'; read -r answer");
        let args = [
            "relay",
            "exec",
            "--source",
            &source,
            "--into",
            "q",
            "--until-idle",
        ];
        punctual.run(&args).exits(0);
    }
    let listed = punctual.json(&["jobs", "list", "--queue", "q"]);
    assert_eq!(listed.len(), 2, "{listed:?}");
}

#[tokio::test]
async fn jobs_of_sidekiq_are_shown_taken_and_put_back() {
    let server = TestServer::start();
    let mut redis = client(&server).await;
    let items = [
        r#"{"class":"Hard","args":[1],"jid":"a","queue":"mail"}"#,
        r#"{"class":"Hard","args":[2],"jid":"b","queue":"mail","bid":"x"}"#,
    ];
    let () = redis::cmd("LPUSH")
        .arg("queue:mail")
        .arg(&items)
        .query_async(&mut redis)
        .await
        .expect("it answers");
    let punctual = Punctual::with_data();
    let from = format!("sidekiq://127.0.0.1:{}/mail", server.port());
    let args = ["migrate", "--from", &from, "--into", "mail"];
    let plan = punctual.one(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(plan["takes"]["queue"]["jobs"], 1, "{plan}");
    assert_eq!(plan["kinds"]["Hard"], 1, "{plan}");
    assert_eq!(
        plan["stays"]["it is of a batch"]["samples"][0], "b",
        "{plan}"
    );
    let moved = punctual.one(&args);
    assert_eq!(moved["enqueued"], 1, "{moved}");
    let listed = punctual.json(&["jobs", "list", "--queue", "mail"]);
    assert_eq!(text(&listed[0]["kind"]), "Hard");
    let back = punctual.one(&[&args[..], &["--undo"]].concat());
    assert_eq!(
        (&back["returned"], &back["ran"]),
        (&1.into(), &0.into()),
        "{back}"
    );
    assert_eq!(length(&mut redis, "queue:mail").await, 2);
    for wrong in ["sidekiq://127.0.0.1", "resque://127.0.0.1/mail"] {
        let refused = punctual.run(&["migrate", "--from", wrong, "--into", "mail"]);
        assert!(refused.exits(2).stderr.contains("bullmq://HOST:PORT/QUEUE"));
    }
}

#[test]
fn what_a_relay_cannot_do_is_refused_before_it_begins() {
    let punctual = Punctual::with_data();
    for wrong in [&["--remember", "30d"][..], &["--name", "a b"]] {
        for kind in ["redis-list", "redis-zset"] {
            let place = ["--redis", "127.0.0.1:1", "--key", "k", "--into", "q"];
            let args = [&["relay", kind], &place[..], wrong].concat();
            let refused = punctual.run(&args).exits(2);
            assert!(!refused.stderr.contains("relaying"), "{refused:?}");
        }
    }
    punctual.write(
        "relays.toml",
        "[allow.default]\ncommands = [\"*\"]\n\n[[relay]]\nname = \"a\"\nkind = \"exec\"\n\
         source = \"cat\"\nremember = \"30d\"\n",
    );
    let refused = punctual
        .run(&["serve", "--no-auth", "--relay", "relays.toml"])
        .exits(2);
    assert!(refused.stderr.contains("remember"), "{refused:?}");
}

/// A supervisor reads the exit code: 2 is for a person, 5 for another try.
#[tokio::test]
async fn a_wrong_setting_exits_with_2_and_says_which() {
    let server = TestServer::start();
    let mut redis = client(&server).await;
    let () = redis::cmd("CONFIG")
        .arg(&["SET", "requirepass", "right"])
        .query_async(&mut redis)
        .await
        .expect("it answers");
    let punctual = Punctual::with_data();
    let address = format!("redis://app:hunter2@127.0.0.1:{}", server.port());
    let list = [
        "relay",
        "redis-list",
        "--redis",
        &address,
        "--key",
        "mail",
        "--into",
        "mail",
    ];
    let ran = punctual.run(&list).exits(2);
    let said = &ran.stderr;
    assert!(
        said.contains("user: app") && !said.contains("hunter2"),
        "{said}"
    );
    let exec = [
        "relay",
        "exec",
        "--source",
        "echo 'error: no such table' >&2; exit 78",
    ];
    let ran = punctual.run(&exec).exits(2);
    assert!(ran.stderr.contains("no such table"), "{ran:?}");
    // So does a sink, at its first job.
    let command = "echo 'error: the broker refuses the password' >&2; exit 78";
    let sink = ["relay", "exec", "--sink", command, "--queue", "out"];
    for more in [&[][..], &["--until-idle"]] {
        punctual.run(&["enqueue", "out", "1"]).exits(0);
        let ran = punctual.run(&[&sink[..], more].concat()).exits(2);
        assert!(ran.stderr.contains("refuses the password"), "{ran:?}");
    }
}

#[tokio::test]
async fn a_migration_from_a_mistyped_queue_exits_with_3_and_names_queues() {
    let server = TestServer::start();
    let mut redis = client(&server).await;
    let () = redis::cmd("SADD")
        .arg(&["queues", "mail"])
        .query_async(&mut redis)
        .await
        .expect("it answers");
    let punctual = Punctual::with_data();
    let from = format!("sidekiq://127.0.0.1:{}/mial", server.port());
    let args = ["migrate", "--from", &from, "--into", "mail"];
    for more in [&["--dry-run"][..], &[], &["--watch"]] {
        let ran = punctual.run(&[&args[..], more].concat()).exits(3);
        assert!(ran.stderr.contains("queues there: mail"), "{ran:?}");
    }
    punctual.run(&[&args[..], &["--undo"]].concat()).exits(3);
}
