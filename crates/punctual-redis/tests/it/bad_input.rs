//! What is wrong is named, with what to do about it, and changes nothing.

use futures_util::future::join_all;
use punctual::engine::{Action, Edit, EnqueueVerdict, Filter, List, ListBy, Select, StatsRequest};
use punctual::time::millis;
use punctual::{Engine, ErrorKind, Namespace, NewJob};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::client::{connect, drain, enqueue, here, job, of_all_records, options};

async fn refusal(options: Options) -> punctual::Error {
    let connected = RedisEngine::connect(options.deadline(millis(500))).await;
    connected.expect_err("refused")
}

#[tokio::test]
async fn a_silent_address_is_reported() {
    let error = refusal(options("redis://127.0.0.1:1")).await;
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_user_or_database_is_reported() {
    let server = TestServer::with(&["--requirepass", "right"]);
    let port = server.port();
    for (address, named) in [
        (format!("redis://127.0.0.1:{port}"), "password"),
        (format!("redis://:wrong@127.0.0.1:{port}"), "password"),
        (format!("redis://who:right@127.0.0.1:{port}"), "user"),
        (format!("redis://:right@127.0.0.1:{port}/77"), "database"),
    ] {
        let error = refusal(options(&address)).await;
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(named), "{error}");
        let shown = format!("{error:?}");
        assert!(
            !shown.contains("right") && !shown.contains("wrong"),
            "{shown}"
        );
    }
}

/// A server that says of itself what it is asked to, and knows no functions.
async fn says(info: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                    let parts: usize = line.trim_start_matches('*').trim().parse().unwrap_or(0);
                    let mut words = Vec::new();
                    for _ in 0..parts {
                        line.clear();
                        let _ = stream.read_line(&mut line).await;
                        let length: usize =
                            line.trim_start_matches('$').trim().parse().unwrap_or(0);
                        let mut word = vec![0; length + 2];
                        let _ = stream.read_exact(&mut word).await;
                        words.push(String::from_utf8_lossy(&word[..length]).into_owned());
                    }
                    line.clear();
                    let answer = match words.first().map(String::as_str) {
                        Some("INFO") => format!("${}\r\n{info}\r\n", info.len()),
                        Some("CONFIG") => "*0\r\n".into(),
                        _ => "-ERR unknown command\r\n".into(),
                    };
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    format!("redis://127.0.0.1:{port}")
}

#[tokio::test]
async fn a_server_that_is_too_old_is_named() {
    let address = says("redis_version:6.2.14\r\nmaxmemory_policy:noeviction\r\n").await;
    let error = refusal(options(&address)).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("Redis 7.0 or later"), "{error}");
}

#[tokio::test]
async fn a_server_without_functions_is_named() {
    let address = says("redis_version:7.2.4\r\nmaxmemory_policy:noeviction\r\n").await;
    let error = refusal(options(&address)).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("has no functions"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_no_redis_is_reported() {
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let error = refusal(options(&format!("redis://127.0.0.1:{port}"))).await;
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
}

#[tokio::test]
async fn a_key_of_our_names_that_is_not_ours_is_damage() {
    let server = TestServer::start();
    server.cli(&["SET", "punctual:{default/0}:s", "mine"]);
    let engine = connect(&server.address()).await;
    let error = enqueue(&engine).await.expect_err("not ours");
    assert_eq!(error.kind(), ErrorKind::DataDamaged, "{error}");
    assert_eq!(server.cli(&["GET", "punctual:{default/0}:s"]), "mine");
}

/// Every key that a shard may have by itself, and some of those of a queue.
const OURS: &str = "s b b:0 b:7 b:31 sd:0 sd:31 sh:16 pg u md rec ws fw rv o of mp f e xp kp up w ot d:orders n:orders tb:orders \
    ts:orders h:orders g:orders l:orders gm:orders hi:orders hb:orders k:4:orders k:6:orders \
    r:0:orders r:9:orders x:0:orders x:19:orders";

#[tokio::test]
async fn any_key_of_our_names_that_is_not_ours_is_named_and_no_job_is_kept() {
    let server = TestServer::start();
    for ours in OURS.split_whitespace() {
        let key = format!("punctual:{{default/0}}:{ours}");
        server.cli(&["SET", &key, "mine"]);
        let engine = connect(&server.address()).await;
        let error = enqueue(&engine).await.expect_err(ours);
        assert_eq!(error.kind(), ErrorKind::DataDamaged, "{ours}: {error}");
        assert!(error.to_string().contains("rename or delete it"), "{error}");
        assert!(error.to_string().contains(&key), "{error}");
        assert_eq!(server.cli(&["GETDEL", &key]), "mine");
        // At most the first contact's: the shard itself, without a queue.
        let left = server.cli(&["KEYS", "*"]);
        let empty = |key: &str| key.ends_with(":s") || key.ends_with(":namespaces");
        assert!(left.lines().all(empty), "{ours}: {left}");
        let fields = server.cli(&["HKEYS", "punctual:{default/0}:s"]);
        assert!(!fields.contains('q'), "{ours}: {fields}");
        server.cli(&["FLUSHDB"]);
    }
}

#[tokio::test]
async fn functions_refuse_what_they_cannot_read() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    enqueue(&engine).await.expect("enqueue");
    let base = "punctual:{default/0}";
    let before = of_all_records(&server, &["DEBUG", "DIGEST-VALUE"], base);
    let verbs = [
        "enqueue", "claim", "extend", "settle", "get", "list", "edit", "stats", "control",
        "maintain", "info", "listen", "watch", "changes", "outbox", "deliver", "push", "cancel",
        "explain",
    ];
    for verb in verbs {
        let function = format!("punctual_1_{verb}");
        for arguments in [
            vec!["FCALL", &function, "0"],
            vec!["FCALL", &function, "1", base],
            vec!["FCALL", &function, "1", base, "sh{rt"],
            vec![
                "FCALL",
                &function,
                "1",
                base,
                "........nonsense that is long enough to be read",
            ],
            vec![
                "FCALL",
                &function,
                "2",
                base,
                "punctual:{default/0}:b:0",
                "x",
            ],
        ] {
            let digest = server.cli(&["DEBUG", "DIGEST"]);
            let said = server.cli(&arguments);
            if said.contains("ERR") || said.contains("PUNCTUAL") {
                let after = server.cli(&["DEBUG", "DIGEST"]);
                assert_eq!(after, digest, "{arguments:?} changed something: {said}");
            }
            let refused = said.contains("PUNCTUAL") || said.contains("ERR");
            assert!(
                refused || ["maintain", "info", "stats"].contains(&verb),
                "{arguments:?}: {said}"
            );
        }
    }
    assert_eq!(
        of_all_records(&server, &["DEBUG", "DIGEST-VALUE"], base),
        before
    );
    assert_eq!(drain(&engine).await.len(), 1);
}

/// Every function of the library, as the server lists them.
fn functions(server: &TestServer) -> Vec<String> {
    let listed = server.cli(&["FUNCTION", "LIST", "LIBRARYNAME", "punctual_1"]);
    let names = listed.lines().map(str::trim);
    let names = names.filter(|line| line.starts_with("punctual_1_"));
    names.map(ToString::to_string).collect()
}

/// What takes no key, or need not have an argument.
const TAKES_NO_KEY: [&str; 2] = ["version", "help"];
const TAKES_NO_WORDS: [&str; 1] = ["stats"];

/// What is wrong is named: by the functions, or by the server before they are called.
const CLEAR: [&str; 5] = [
    "PUNCTUAL invalid_input ",
    "PUNCTUAL batch_too_large ",
    "ERR wrong number of arguments for 'fcall' command",
    "ERR Bad number of keys provided",
    "ERR Number of keys can't be ",
];

#[tokio::test]
async fn every_function_refuses_wrong_counts_and_changes_nothing() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let id = enqueue(&engine).await.expect("enqueue");
    let functions = functions(&server);
    let code = server.cli(&["FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "punctual_1"]);
    let code = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"));
    let registered = code.filter(|line| {
        let registers = [
            "verb('",
            "several('",
            "redis.register_function{function_name = PREFIX .. '",
        ];
        registers.iter().any(|it| line.starts_with(it))
    });
    assert_eq!(functions.len(), registered.count(), "{functions:?}");
    for own in ["enqueues", "calls", "version", "push", "help"] {
        let name = format!("punctual_1_{own}");
        assert!(functions.contains(&name), "{own} of {functions:?}");
    }
    let (base, other) = ("punctual:{default/0}", "punctual:{default/0}:b:0");
    let digest = server.cli(&["DEBUG", "DIGEST"]);
    for function in &functions {
        let verb = function.trim_start_matches("punctual_1_");
        let many = vec!["x"; 1_001];
        let mut calls = vec![
            ("no number of keys", vec![]),
            ("no number", vec!["x"]),
            ("fewer keys than it says", vec!["1"]),
            ("fewer keys than it says", vec!["2", base]),
            ("a number below none", vec!["-1", base]),
        ];
        if !TAKES_NO_KEY.contains(&verb) {
            calls.push(("no key", vec!["0"]));
            calls.push(("no key, but an argument", vec!["0", base]));
            calls.push(("two keys", vec!["2", base, other, "x"]));
            calls.push(("many arguments", [vec!["1", base], many].concat()));
            if !TAKES_NO_WORDS.contains(&verb) {
                calls.push(("no argument", vec!["1", base]));
            }
        }
        for (what, arguments) in calls {
            let call = [&["FCALL", function.as_str()][..], &arguments].concat();
            let said = server.cli(&call);
            let is_clear = CLEAR.iter().any(|clear| said.starts_with(clear));
            assert!(is_clear, "{verb}, {what}: {said:.200}");
            let after = server.cli(&["DEBUG", "DIGEST"]);
            assert_eq!(after, digest, "{verb}, {what}: {said:.200}");
        }
    }
    // What there may be more of than is asked for, or less, is answered, and changes nothing
    // either.
    for (verb, arguments) in [
        ("version", &["0", "x"][..]),
        ("version", &["1", base]),
        ("help", &["0"]),
        ("help", &["2", base, other]),
        ("stats", &["1", base]),
    ] {
        let function = format!("punctual_1_{verb}");
        let said = server.cli(&[&["FCALL_RO", function.as_str()][..], arguments].concat());
        assert!(
            !said.contains("ERR") && !said.contains("PUNCTUAL "),
            "{said}"
        );
        assert_eq!(server.cli(&["DEBUG", "DIGEST"]), digest, "{verb}");
    }
    assert_eq!(drain(&engine).await, [id]);
}

#[tokio::test]
async fn any_bytes_are_a_payload() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let payloads: [&[u8]; 4] = [b"", b"\0", b"a\0b\r\n\xff\xfe\x80", &[0xff; 300]];
    for payload in payloads {
        let sent = job().payload(payload.to_vec().into());
        engine.enqueue(&here(), vec![sent]).await.expect("enqueue");
        let lease = crate::client::claim(&engine, 1)
            .await
            .expect("claim")
            .remove(0);
        assert_eq!(lease.jobs[0].payload, payload);
        assert!(lease.complete(&engine).await.expect("settle"));
    }
}

#[tokio::test]
async fn a_cursor_of_elsewhere_is_refused() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let elsewhere = Namespace::new("elsewhere").expect("a good name");
    for _ in 0..3 {
        enqueue(&engine).await.expect("enqueue");
        engine
            .enqueue(&elsewhere, vec![job()])
            .await
            .expect("enqueue");
    }
    let list = |cursor| {
        List::new(ListBy::State {
            queue: crate::client::QUEUE.into(),
            state: punctual::JobState::Ready,
        })
        .cursor(cursor)
        .limit(1)
    };
    let cursor = engine.list(&here(), list(None)).await.expect("list").cursor;
    let cursor = cursor.expect("there is more");
    let error = engine
        .list(&elsewhere, list(Some(cursor.clone())))
        .await
        .expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let filter = Filter::default();
    let select = Select::Filter {
        filter,
        cursor: Some(cursor),
        limit: 10,
    };
    let edit = Edit::new(select, Action::Cancel);
    let error = engine.edit(&here(), edit).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(drain(&engine).await.len(), 3, "nothing was cancelled");
}

/// A queue comes to be with its first job: one that is only named in what is refused is none.
#[tokio::test]
async fn a_refused_enqueue_leaves_no_trace_of_a_queue() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let known = enqueue(&engine).await.expect("enqueue");
    let queues = || async {
        let stats = engine.stats(&here(), StatsRequest::default()).await;
        let queues = stats.expect("stats").queues.into_iter();
        queues.map(|queue| queue.queue).collect::<Vec<_>>()
    };
    server.cli(&["SET", "punctual:{default/0}:r:5:taken", "theirs"]);
    let job = |queue: &str| NewJob::new(queue, "{}");
    // Of one call, and of several that leave together: the first leaves alone.
    let both = || vec![job("fresh"), job("taken")];
    let calls = [both(), both(), vec![job("good")], both()];
    let calls = calls.map(|jobs| async { engine.enqueue(&here(), jobs).await });
    let sent: Vec<_> = join_all(calls).await;
    for nth in [0, 1, 3] {
        let error = sent[nth].as_ref().expect_err("a key is theirs");
        assert_eq!(error.kind(), ErrorKind::DataDamaged, "{error}");
    }
    assert!(sent[2].is_ok(), "{:?}", sent[2]);
    let mut elsewhere = job("elsewhere");
    elsewhere.id = known;
    let sent = engine.enqueue(&here(), vec![elsewhere]).await;
    let verdict = sent.expect("enqueue").receipts[0].verdict;
    assert_eq!(verdict, EnqueueVerdict::IdConflict);
    assert_eq!(queues().await, ["good", "orders"]);
}
