//! Users who may do little, and passwords.

use std::collections::BTreeSet;

use punctual::conformance::{LAWS, Law, first_broken};
use punctual::engine::{List, ListBy};
use punctual::{Engine, ErrorKind, JobState};
use punctual_redis::testing::{TestSentinels, TestServer};
use punctual_redis::{ACL_RULES, RedisEngine};
use serde_json::Value;

use crate::client::{QUEUE, connect, drain, enqueue, here, options};
use crate::hand::{SHARD, raw};
use crate::harness::{OnRules, Place, UnderRules};
use crate::logs::Logs;

#[test]
fn a_user_with_the_minimal_rules_has_every_twelfth_law() {
    has(LAWS.iter().skip(1).step_by(12));
}

/// All of them; the deep tier has this one.
#[test]
fn a_user_with_the_minimal_rules_has_every_law() {
    has(LAWS);
}

fn has(laws: impl IntoIterator<Item = &'static Law>) {
    let places = OnRules::default();
    let broken = first_broken(laws, places.clone());
    assert!(broken.is_none(), "{}", broken.expect("it is some"));
    assert_eq!(places.denied(), [""; 0]);
}

/// What a person does by hand, in turn; `$ID` and `$TOKEN` are those of the last answer that had
/// some.
const BY_HAND: &[(&str, &str)] = &[
    ("FCALL_RO", "help"),
    ("FCALL", "push orders {} UNIQUE k GROUP g"),
    ("FCALL_RO", "get $ID"),
    ("FCALL", "explain $ID"),
    ("FCALL_RO", "stats orders"),
    ("FCALL", "claim orders"),
    ("FCALL", "extend $TOKEN"),
    ("FCALL", "settle $TOKEN $ID retry"),
    ("FCALL", "cancel $ID"),
    ("FCALL_RO", "get orders k"),
];

#[tokio::test]
async fn a_user_with_the_minimal_rules_does_it_all() {
    let place = UnderRules::and(&[]);
    let engine = connect(&place.address()).await;
    let waits = crate::client::waits_for_work(&engine);
    let id = enqueue(&engine).await.expect("enqueue");
    waits.await;
    assert_eq!(drain(&engine).await, [id]);
    engine.maintain().await.expect("maintain");
    assert!(engine.info().await.expect("info").health.ok);
    let (mut id, mut token) = (String::new(), String::new());
    for (command, words) in BY_HAND {
        let words = words.replace("$ID", &id).replace("$TOKEN", &token);
        let (name, words) = words.split_once(' ').unwrap_or((&words, ""));
        let function = format!("punctual_1_{name}");
        let mut call = vec!["--user", "punctual", "--pass", "hunter2"];
        call.extend(["--no-auth-warning", command, &function, "1", SHARD]);
        call.extend(words.split_whitespace());
        let said = place.0.cli(&call);
        assert!(
            !said.contains("NOPERM") && !said.contains("PUNCTUAL "),
            "{name}: {said}"
        );
        let said: Value = serde_json::from_str(&said).unwrap_or_default();
        id = said["id"].as_str().map_or(id, Into::into);
        token = said["token"].as_str().map_or(token, Into::into);
    }
    assert_eq!(id.len(), 36, "a push returned its id");
    assert_eq!(token.len(), 32, "a claim returned its token");
    let said = place.0.cli(&["ACL", "LOG"]);
    assert_eq!(said, "", "nothing was denied");
}

#[tokio::test]
async fn a_command_that_a_function_may_not_run_is_reported() {
    let place = UnderRules::and(&[]);
    let engine = connect(&place.address()).await;
    enqueue(&engine).await.expect("enqueue");
    place.0.cli(&["ACL", "SETUSER", "punctual", "-zrange"]);
    let dead = List::new(ListBy::State {
        queue: QUEUE.into(),
        state: JobState::Dead,
    })
    .limit(100);
    let error = engine.list(&here(), dead.clone()).await;
    let error = error.expect_err("it may not");
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    let said = error.to_string();
    assert!(said.contains("refuses a command to this user"), "{said}");
    assert!(said.contains("docs/engines/redis.md"), "{said}");
    place.0.cli(&["ACL", "SETUSER", "punctual", "+zrange"]);
    let listed = engine.list(&here(), dead).await.expect("it may again");
    assert!(listed.jobs.is_empty());
}

/// Calls that left together are answered the same as one that left alone.
#[tokio::test]
async fn rights_that_are_taken_away_are_reported_to_each_caller() {
    let place = UnderRules::and(&[]);
    let engine = connect(&place.address()).await;
    enqueue(&engine).await.expect("enqueue");
    place.0.cli(&["ACL", "SETUSER", "punctual", "-@write"]);
    let calls = (0..20).map(|_| enqueue(&engine));
    for reported in futures_util::future::join_all(calls).await {
        let error = reported.expect_err("it may not");
        assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    }
}

#[tokio::test]
async fn a_user_with_the_minimal_rules_may_do_nothing_else() {
    let place = UnderRules::and(&[]);
    let server = &place.0;
    for forbidden in [
        "KEYS *",
        "FLUSHALL",
        "FLUSHDB",
        "EVAL return{} 0",
        "SCRIPT FLUSH",
        "FUNCTION FLUSH",
        "FUNCTION DELETE punctual_1",
        "CONFIG SET maxmemory 1",
        "CONFIG REWRITE",
        "DEBUG SLEEP 0",
        "SHUTDOWN NOSAVE",
        "MONITOR",
        "CLIENT KILL ID 1",
        "ACL LIST",
        "REPLICAOF NO ONE",
        "SAVE",
        "SET punctual:{default/0}:clock 1",
        "RENAME punctual:{default/0}:s punctual:a",
        "RESTORE punctual:a 0 a",
        "DEL other",
        "GET other",
        "SET other 1",
        "ZADD other 0 1",
        "HMGET other a",
        "SADD other a",
    ] {
        let words = [
            "--user",
            "punctual",
            "--pass",
            "hunter2",
            "--no-auth-warning",
        ];
        let arguments: Vec<&str> = words.into_iter().chain(forbidden.split(' ')).collect();
        let said = server.cli(&arguments);
        assert!(said.starts_with("NOPERM"), "{forbidden}: {said}");
    }
}

/// Every command of the server, as `name` or `container|name`.
pub(crate) fn commands(server: &TestServer) -> BTreeSet<String> {
    let categories = server.cli(&["ACL", "CAT"]);
    let of = |category: &str| server.cli(&["ACL", "CAT", category]);
    let names: Vec<String> = categories.lines().map(of).collect();
    let names = names.iter().flat_map(|names| names.lines());
    names.map(ToString::to_string).collect()
}

#[tokio::test]
async fn whatever_the_rules_do_not_name_is_denied() {
    let place = UnderRules::and(&[]);
    let server = &place.0;
    let commands = commands(server);
    let allowed = |name: &str| {
        let container = name.split('|').next();
        let mut rules = ACL_RULES.split_whitespace();
        rules.any(|rule| {
            let rule = rule.strip_prefix('+');
            rule == Some(name) || rule == container
        })
    };
    // A client that has not authenticated yet may say these.
    let nobodys = ["auth", "hello", "quit", "reset"];
    let mut denied = 0;
    for name in commands
        .iter()
        .filter(|it| !allowed(it) && !nobodys.contains(&it.as_str()))
    {
        // As many arguments as it wants.
        let dry = |more: usize| {
            let mut dry: Vec<&[u8]> = vec![b"ACL", b"DRYRUN", b"punctual"];
            dry.extend(name.split('|').map(str::as_bytes));
            dry.extend(vec![b"punctual:a" as &[u8]; more]);
            String::from_utf8(raw(server.port(), &dry)).expect("UTF-8")
        };
        let mut said = (0..9).map(dry);
        let said = said.find(|said| !said.contains("wrong number of arguments"));
        // The reason comes as a text, whose length this line says; a permission would be +OK.
        let is_denied = said.as_ref().is_some_and(|said| said.starts_with('$'));
        let is_container = commands.contains(&format!("{name}|help"));
        assert!(is_denied || is_container, "{name}: {said:?}");
        denied += u32::from(is_denied);
    }
    assert!(denied > 200, "{denied} of {}", commands.len());
}

#[tokio::test]
async fn a_user_with_too_few_rights_is_reported() {
    let server = TestServer::start();
    server.cli(&[
        "ACL", "SETUSER", "poor", "on", ">hunter2", "~*", "+ping", "+info",
    ]);
    let address = format!("redis://poor:hunter2@127.0.0.1:{}", server.port());
    let error = RedisEngine::connect(options(&address))
        .await
        .expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("refuses a command"), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"));
}

#[tokio::test]
async fn sentinels_are_asked_under_their_own_password() {
    let servers = TestSentinels::guarded("sesame");
    let engine = connect(&format!("{}?sentinel_password=sesame", servers.address())).await;
    let id = enqueue(&engine).await.expect("enqueue");
    assert_eq!(drain(&engine).await, [id]);
    for wrong in [
        "",
        "?sentinel_password=hunter2",
        "?sentinel_user=who&sentinel_password=sesame",
    ] {
        let options = options(&format!("{}{wrong}", servers.address()));
        let error = RedisEngine::connect(options).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("sentinel_password"), "{error}");
        let shown = format!("{error:?}");
        assert!(
            !shown.contains("sesame") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn no_log_and_no_error_shows_a_password() {
    let logs = Logs::of_this_thread();
    let server = TestServer::with(&["--requirepass", "hunter2"]);
    let port = server.port();
    let engine = connect(&format!("redis://:hunter2@127.0.0.1:{port}")).await;
    enqueue(&engine).await.expect("enqueue");
    for address in [
        format!("redis://:hunter22@127.0.0.1:{port}"),
        format!("redis://hunter2:hunter2@127.0.0.1:{port}"),
        "redis://:hunter2@127.0.0.1:1".into(),
        format!("redis+sentinel://:hunter2@127.0.0.1:{port}/main?sentinel_password=hunter2"),
        format!("rediss://:hunter2@127.0.0.1:{port}"),
    ] {
        let options = options(&address).deadline(punctual::time::millis(200));
        let error = RedisEngine::connect(options).await.expect_err("refused");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{address}: {shown}");
    }
    let changes = ["-a", "hunter2", "CONFIG", "SET", "requirepass", "another"];
    server.cli(&changes);
    server.cli(&["-a", "another", "CLIENT", "KILL", "TYPE", "normal"]);
    let error = enqueue(&engine)
        .await
        .expect_err("the password has changed");
    assert!(
        !format!("{error} {error:?}").contains("hunter2"),
        "{error:?}"
    );
    drop(engine);
    logs.show("a line of our own");
    let said = logs.said();
    assert!(said.contains("a line of our own"), "received: {said}");
    assert!(!said.contains("hunter2"), "{said}");
}
