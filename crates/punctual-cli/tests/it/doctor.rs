//! What doctor says of servers, and who is asked.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use punctual_redis::testing::TestServer;
use punctual_redis::{ACL_RULES, RedisEngine};

use crate::support::{Punctual, Ran};

fn doctor(engine: &str) -> Ran {
    Punctual::new().run(&["doctor", "--engine", engine])
}

/// A run that says all of this.
#[track_caller]
fn says(ran: Ran, code: i32, words: &[&str]) -> Ran {
    for word in words {
        assert!(ran.stdout.contains(word), "no {word:?} in {}", ran.stdout);
    }
    ran.exits(code)
}

fn waits_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn doctor_reports_what_a_server_keeps() {
    let server = TestServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let good = doctor(&server.address());
    let version = server.cli(&["INFO", "server"]);
    let version = version
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"))
        .expect("it says its version");
    for reported in [
        &format!("redis {} at 127.0.0.1:{}", version.trim(), server.port()),
        "fsync: appendonly yes, appendfsync always",
        "acknowledges by fsync",
        "set maxmemory",
    ] {
        assert!(good.stdout.contains(reported), "{reported} in {good:?}");
    }
    good.exits(0);
}

#[test]
fn doctor_reports_what_is_missing_and_the_remedy() {
    let server = TestServer::with(&["--maxmemory-policy", "allkeys-lru"]);
    let (punctual, engine) = (Punctual::new(), server.address());
    let ran = doctor(&engine);
    assert!(
        ran.stdout.contains("maxmemory-policy noeviction"),
        "{ran:?}"
    );
    ran.exits(1);
    let asked = format!("{engine}?durability=fsync");
    let ran = punctual.run(&["enqueue", "mail", "{}", "--engine", &asked]);
    assert!(ran.stderr.contains("noeviction"), "{ran:?}");
    ran.exits(5);
}

/// Its own namespace may be new where data are required; the caller's may not.
#[test]
fn doctor_reports_data_that_must_be_there() {
    let server = TestServer::with(&SYNCS_ALWAYS);
    let engine = server.address();
    let required = format!("{engine}?data=required");
    says(
        doctor(&required),
        1,
        &["data=required", "bring the data back"],
    );
    assert_eq!(server.cli(&["--raw", "KEYS", "punctual:{*"]), "");
    Punctual::new()
        .run(&["enqueue", "mail", "{}", "--engine", &engine])
        .exits(0);
    says(doctor(&required), 0, &["one job", "completed in"]);
}

#[test]
fn doctor_warns_of_servers_that_may_start_again_with_an_old_snapshot() {
    let warned = |keeping: &[&str]| {
        let master = TestServer::with(keeping);
        let port = master.port().to_string();
        let follows = [keeping, &["--replicaof", "127.0.0.1", &port]].concat();
        let _replica = TestServer::with(&follows);
        while !master
            .cli(&["INFO", "replication"])
            .contains("state=online")
        {
            std::thread::yield_now();
        }
        let engine = format!("{}?durability=replica(1)", master.address());
        let ran = doctor(&engine);
        assert!(ran.stdout.contains("replica(1)"), "{ran:?}");
        ran.exits(0)
            .stdout
            .contains("appendonly yes on it and every replica")
    };
    assert!(warned(&["--save", ""]));
    assert!(!warned(&["--appendonly", "yes", "--appendfsync", "always"]));
}

const SYNCS_ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

/// A replica of that server, once it is one.
fn replica_of(master: &TestServer, settings: &[&str]) -> TestServer {
    let before = online(master);
    let port = master.port().to_string();
    let follows = [settings, &["--replicaof", "127.0.0.1", &port]].concat();
    let replica = TestServer::with(&follows);
    waits_until(|| online(master) > before);
    replica
}

fn online(master: &TestServer) -> usize {
    master
        .cli(&["INFO", "replication"])
        .matches("state=online")
        .count()
}

/// After a failover the replica is the server, with its own settings.
#[test]
fn doctor_asks_replicas_what_they_would_keep_as_masters() {
    let master = TestServer::with(&SYNCS_ALWAYS);
    let good = replica_of(&master, &SYNCS_ALWAYS);
    let other = replica_of(&master, &["--maxmemory-policy", "allkeys-lru"]);
    let run = || doctor(&master.address());
    let line = |server: &TestServer| {
        format!(
            "at 127.0.0.1:{}, a replica of 127.0.0.1:{}",
            server.port(),
            master.port()
        )
    };
    let at = format!("once it is master redis at 127.0.0.1:{}", other.port());
    let (one, two, policy) = (line(&good), line(&other), format!("{at} removes keys"));
    let reported = says(
        run(),
        0,
        &[&*one, &*two, &*policy, "maxmemory-policy noeviction"],
    );
    let as_its_master = "fsync as its master: appendonly yes, appendfsync always";
    assert_eq!(
        reported.stdout.matches(as_its_master).count(),
        1,
        "{reported:?}"
    );
    other.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let less = format!("{at} cannot keep durability=fsync");
    says(run(), 0, &[&*less, "appendonly no", "set appendonly yes"]);
    other.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    says(
        run(),
        0,
        &[&*less, "appendfsync everysec", "set appendfsync always"],
    );
    other.cli(&["CONFIG", "SET", "appendfsync", "always"]);
    let reported = run().exits(0);
    assert_eq!(
        reported.stdout.matches(as_its_master).count(),
        2,
        "{reported:?}"
    );
    assert!(
        !reported.stdout.contains("once it is master"),
        "{reported:?}"
    );
    other.cli(&["CONFIG", "SET", "requirepass", "another"]);
    let silent = format!("redis at 127.0.0.1:{}, a replica of", other.port());
    says(
        run(),
        0,
        &[
            &*silent,
            "cannot be checked: redis refuses the user or the password",
        ],
    );
}

#[test]
fn doctor_reports_a_replica_that_is_named_as_the_server() {
    let master = TestServer::start();
    let replica = replica_of(&master, &["--save", ""]);
    let is = format!(
        "is a replica of 127.0.0.1:{} and accepts no writes",
        master.port()
    );
    says(
        doctor(&replica.address()),
        1,
        &[&*is, "the address of its master or of its sentinels"],
    );
}

#[test]
fn doctor_reports_functions_that_are_missing_and_newer() {
    let server = TestServer::start();
    let ours = RedisEngine::functions_version();
    let none = format!("functions none of {ours}");
    says(doctor(&server.address()), 0, &[&*none]);
    let well = says(
        doctor(&server.address()),
        0,
        &[&*format!("functions {ours} of {ours}")],
    );
    assert!(!well.stdout.contains("newer"), "{well:?}");
    let listed = server.cli(&["FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "punctual_1"]);
    let code = listed.split_once("#!lua").expect("the code is listed").1;
    let newer = code.replacen(
        &format!("local VERSION = {ours}"),
        "local VERSION = 9999",
        1,
    );
    server.cli(&["FUNCTION", "LOAD", "REPLACE", &format!("#!lua{newer}")]);
    let newer = format!("functions 9999 of {ours}");
    says(
        doctor(&server.address()),
        0,
        &[&*newer, "a newer punctual uses this server"],
    );
}

#[test]
fn doctor_names_the_version_of_a_server_that_is_too_old() {
    let port = stands_in_for("6.2.14");
    let engine = format!("redis://127.0.0.1:{port}");
    let is = format!("redis 6.2.14 at 127.0.0.1:{port} has no functions");
    says(
        doctor(&engine),
        1,
        &[&*is, "use Redis 7.0 or later, or Valkey"],
    );
}

/// Takes connections as a server of that version does, until the process ends.
fn stands_in_for(version: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || answers(client, version));
        }
    });
    port
}

fn answers(mut client: TcpStream, version: &str) {
    let info = format!("redis_version:{version}\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n");
    let mut lines = BufReader::new(client.try_clone().expect("one more end"));
    while let Some(words) = read_call(&mut lines) {
        let name = words[0].to_uppercase();
        let reply = match name.as_str() {
            "INFO" => format!("${}\r\n{info}\r\n", info.len()),
            "CONFIG" => "*0\r\n".into(),
            "FCALL" | "FCALL_RO" | "FUNCTION" => format!("-ERR unknown command `{name}`\r\n"),
            _ => "+OK\r\n".into(),
        };
        if client.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// The words of one call; none at the end.
fn read_call(from: &mut impl BufRead) -> Option<Vec<String>> {
    let count = read_number(from)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; read_number(from)? + 2];
        from.read_exact(&mut word).ok()?;
        words.push(String::from_utf8_lossy(&word[..word.len() - 2]).into_owned());
    }
    Some(words)
}

/// The number behind a sign.
fn read_number(from: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    from.read_line(&mut line).ok()?;
    line.get(1..)?.trim().parse().ok()
}

#[test]
fn doctor_reports_missing_rights_of_a_user() {
    let server = TestServer::start();
    let user = |more: &str| {
        let rules = format!("reset on >hunter2 {ACL_RULES} {more}");
        let rules: Vec<&str> = rules.split_whitespace().collect();
        let set = [&["ACL", "SETUSER", "punctual"], &rules[..]].concat();
        assert_eq!(server.cli(&set), "OK");
    };
    let engine = format!("redis://punctual:hunter2@127.0.0.1:{}", server.port());
    user("");
    says(doctor(&engine), 0, &["healthy"]);
    user("-config|get");
    says(
        doctor(&engine),
        0,
        &[
            "not readable: maxmemory-policy",
            "allow the user +config|get",
        ],
    );
    let rules = "give it the rules of docs/engines/redis.md";
    for missing in ["-fcall", "-info"] {
        user(missing);
        let ran = doctor(&engine);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains("refuses a command to this user"),
            "{missing}: {said}"
        );
        assert!(said.contains(rules), "{missing}: {said}");
        assert_ne!(ran.code, 0, "{missing}: {said}");
    }
}

#[test]
fn doctor_reports_what_the_durability_asked_for_is_missing() {
    let server = TestServer::start();
    let run = |durability: &str| doctor(&format!("{}?durability={durability}", server.address()));
    says(
        run("fsync"),
        1,
        &[
            "cannot keep durability=fsync",
            "(appendonly no)",
            "set appendonly yes",
        ],
    );
    says(
        run("os"),
        1,
        &["cannot keep durability=os", "set appendonly yes"],
    );
    says(
        run("replica(1)"),
        1,
        &[
            "cannot keep durability=replica(1)",
            "has 0 connected: start more",
        ],
    );
    says(run("memory"), 0, &["memory: appendonly no"]);
}
