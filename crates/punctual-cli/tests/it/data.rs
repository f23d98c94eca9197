//! Tests of the command: data.

use std::fs::{Permissions, metadata, read_dir, set_permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use punctual::{Engine, JobId, Namespace, NewJob};
use punctual_embedded::{EmbeddedEngine, Options};

use crate::support::{Punctual, lines};

/// A directory with jobs in many states, and a past.
fn filled() -> Punctual {
    let punctual = Punctual::new();
    punctual.enqueue(&[
        "mail",
        r#"{"n": 1}"#,
        "--delay",
        "1h",
        "--unique",
        "k",
        "--header",
        "a=b",
    ]);
    punctual.enqueue(&[
        "mail",
        "plain text",
        "--at",
        "2100-01-01T00:00:00Z",
        "--group",
        "g",
    ]);
    punctual.enqueue(&[
        "mail",
        "{}",
        "--wait-for",
        "stock",
        "--retry",
        "exponential:2s..3m",
    ]);
    let cancelled = punctual.enqueue(&["mail", "{}", "--delay", "1h"]);
    punctual.run(&["jobs", "cancel", &cancelled]).exits(0);
    punctual.enqueue(&["work", "dead", "--max-attempts", "1"]);
    punctual.enqueue(&["work", "later", "--retry", "fixed:1h"]);
    punctual.enqueue(&["work", "done", "--retention", "1d"]);
    let command = "read what; echo $what; [ $what = done ]";
    punctual
        .run(&["work", "work", "--exec", command, "--until-idle"])
        .exits(0);
    punctual.enqueue(&["ready", "{}"]);
    punctual
}

#[test]
fn an_export_read_back_is_the_same_export() {
    let punctual = filled();
    punctual.run(&["export", "jobs.jsonl"]).exits(0);
    let jobs = lines(&punctual.path("jobs.jsonl"));
    assert_eq!(jobs.len(), 8);
    let other = ["--engine", "file:./other"];
    punctual
        .run(&[&["import", "jobs.jsonl"], &other[..]].concat())
        .exits(0);
    punctual
        .run(&[&["export", "again.jsonl"], &other[..]].concat())
        .exits(0);
    assert_eq!(lines(&punctual.path("again.jsonl")), jobs);
    // A second time nothing is new, and nothing is changed.
    let twice = punctual.one(&[&["import", "jobs.jsonl"], &other[..]].concat());
    assert_eq!(twice["verdicts"]["duplicate"], 8, "{twice}");
}

#[test]
fn an_export_has_settings_pauses_and_schedules() {
    let punctual = Punctual::new();
    punctual
        .run(&[
            "queues",
            "limit",
            "mail",
            "--concurrency",
            "5",
            "--rate",
            "9/1m",
        ])
        .exits(0);
    punctual.enqueue(&["mail", "{}"]);
    punctual.run(&["queues", "pause", "mail"]).exits(0);
    let schedule = [
        "--cron",
        "0 9 * * MON",
        "--zone",
        "Europe/Berlin",
        "reports",
    ];
    punctual
        .run(
            &[
                &["schedules", "set", "weekly"],
                &schedule[..],
                &["{\"n\":1}"],
            ]
            .concat(),
        )
        .exits(0);
    punctual.run(&["export", "all.jsonl"]).exits(0);
    let other = ["--engine", "file:./other"];
    let with = |words: &[&'static str]| [words, &other[..]].concat();
    let first = punctual.one(&with(&["import", "all.jsonl"]));
    assert_eq!(first["records"]["created"], 2, "{first}");
    punctual.run(&with(&["export", "again.jsonl"])).exits(0);
    // The next run came with the schedule, and is that of before.
    assert_eq!(
        lines(&punctual.path("again.jsonl")),
        lines(&punctual.path("all.jsonl"))
    );
    assert_eq!(lines(&punctual.path("all.jsonl")).len(), 3);
    let again = punctual.one(&with(&["import", "all.jsonl"]));
    assert_eq!(again["records"]["unchanged"], 2, "{again}");
    // What is written otherwise here stays, and what was resumed goes on.
    punctual.run(&with(&["queues", "resume", "mail"])).exits(0);
    punctual.run(&with(&["import", "all.jsonl"])).exits(0);
    let queues = punctual.run(&with(&["queues", "list"])).exits(0).stdout;
    assert!(!queues.contains("paused"), "{queues}");
    punctual
        .run(&with(&["queues", "limit", "mail", "--concurrency", "7"]))
        .exits(0);
    let kept = punctual.one(&with(&["import", "all.jsonl"]));
    assert_eq!(kept["records"]["kept"], 1, "{kept}");
    // A bad record is named before anything is imported.
    let bad = "{\"record\":\"queue/mail\",\"settings\":{\"rate\":{\"kind\":\"window\",\"starts\":1,\"per\":\"x\"}}}";
    let ran = punctual.run_with_input(&["import", "-"], bad.as_bytes());
    let ran = ran.exits(2);
    assert!(ran.stderr.contains("not a span"), "{ran:?}");
}

#[test]
fn an_export_has_the_last_success_of_a_schedule() {
    let punctual = Punctual::new();
    let set = ["schedules", "set", "weekly", "--cron", "0 9 * * MON"];
    let job = ["reports", "{}"];
    punctual.run(&[&set[..], &job].concat()).exits(0);
    punctual.run(&["schedules", "run", "weekly"]).exits(0);
    let echo = ["--exec", "printf '{\"rows\":9}'", "--until-idle"];
    punctual
        .run(&[&["work", "reports"], &echo[..]].concat())
        .exits(0);
    let known = punctual.one(&["schedules", "show", "weekly"]);
    assert_eq!(known["last_success"]["result"], "{\"rows\":9}", "{known}");
    punctual.run(&["export", "all.jsonl"]).exits(0);
    let other = ["--engine", "file:./other"];
    let with = |words: &[&'static str]| [words, &other[..]].concat();
    let show = || punctual.one(&with(&["schedules", "show", "weekly"]));
    punctual.run(&with(&["import", "all.jsonl"])).exits(0);
    assert_eq!(show()["last_success"], known["last_success"]);
    // A result that an engine does not keep, or a success of nothing, is named before anything is
    // written.
    let all = punctual.read("all.jsonl");
    let line = all
        .lines()
        .find(|line| line.starts_with("{\"record\":\"schedule/"));
    let line = line.expect("the schedule");
    let long = format!("\"{}\"", "x".repeat(9_000));
    let result = "{\"rows\":9}";
    let both = format!("{result},\"result_base64\":\"e30=\"");
    let success = "\"last_success\":{\"at\":\"2026-01-05T09:00:00Z\",\"finished_at\":\"2026-01-05T09:00:01Z\"}";
    for (bad, named) in [
        (line.replace(result, &long), "last_success: its result"),
        (line.replace(result, &both), "last_success has both"),
        (line.replace("finished_at", "ended"), "last_success.ended"),
        (
            format!("{{\"record\":\"queue/mail\",\"paused\":true,{success}}}"),
            "last_success is of a schedule",
        ),
    ] {
        let third = ["import", "-", "--engine", "file:./third"];
        let ran = punctual.run_with_input(&third, bad.as_bytes()).exits(2);
        assert!(ran.stderr.contains(named), "{named} in {ran:?}");
    }
    // One that has run here keeps its own.
    punctual
        .run(&with(&["schedules", "run", "weekly"]))
        .exits(0);
    let exec = ["work", "reports", "--exec", "true", "--until-idle"];
    punctual.run(&with(&exec)).exits(0);
    punctual.run(&with(&["import", "all.jsonl"])).exits(0);
    assert_eq!(show()["last_success"]["result"], "", "it printed nothing");
}

#[test]
fn an_export_has_blocks_and_the_runs_that_are_left() {
    let punctual = Punctual::new();
    punctual.enqueue(&["mail", "{}", "--share", "acme"]);
    punctual.enqueue(&["mail", "{}", "--share", "beta"]);
    let acme = ["queues", "block", "mail", "--share", "acme", "1h"];
    let limit = ["limits", "block", "smtp", "1h"];
    let beta = ["queues", "pause", "mail", "--share", "beta"];
    let past = "2026-01-05T09:00:00Z";
    let first = ["schedules", "set", "three", "--max-runs", "3", "--at", past];
    let runs = ["--at", "2097-01-05T09:00:00Z", "reports", "{}"];
    for words in [&acme[..], &limit, &beta, &[&first[..], &runs].concat()] {
        punctual.run(words).exits(0);
    }
    let known = punctual.one(&["schedules", "show", "three"]);
    let fired = known["fired"].as_u64().expect("a number");
    punctual.run(&["export", "all.jsonl"]).exits(0);
    let other = ["--engine", "file:./other"];
    let with = |words: &[&'static str]| [words, &other[..]].concat();
    punctual.run(&with(&["import", "all.jsonl"])).exits(0);
    let top = punctual
        .run(&with(&["queues", "top", "mail"]))
        .exits(0)
        .stdout;
    assert!(top.contains("blocked") && top.contains("paused"), "{top}");
    let limits = punctual.run(&with(&["limits", "list"])).exits(0).stdout;
    assert!(
        limits.contains("smtp") && limits.contains("blocked"),
        "{limits}"
    );
    let schedules = punctual.read("all.jsonl");
    let left = format!("\"max_runs\":{}", 3 - fired);
    assert!(schedules.contains(&left), "{left} in {schedules}");
    // Each line is checked before the first is sent.
    let bad = "{\"record\":\"queue/mail\",\"settings\":{\"concurrency\":0}}";
    let ran = punctual
        .run_with_input(&["import", "-"], bad.as_bytes())
        .exits(2);
    assert!(ran.stderr.contains("nothing was imported"), "{ran:?}");
}

#[test]
fn a_line_that_is_no_export_is_named() {
    let punctual = filled();
    punctual.run(&["export", "jobs.jsonl"]).exits(0);
    let whole = punctual.read("jobs.jsonl");
    punctual.write("torn.jsonl", &whole[..whole.len() - 30]);
    let other = ["--engine", "file:./other"];
    let ran = punctual
        .run(&[&["import", "torn.jsonl", "-o", "json"], &other[..]].concat())
        .exits(2);
    assert_eq!(ran.error()["lines"][0]["line"], 8);
    punctual.write("plain.jsonl", "{\"queue\":\"mail\"}\n");
    let ran = punctual
        .run(&[&["import", "plain.jsonl"], &other[..]].concat())
        .exits(2);
    assert!(ran.stderr.contains("enqueue --from"), "{ran:?}");
    let none = punctual.json(&[&["jobs", "list"], &other[..]].concat());
    assert_eq!(none.len(), 0);
    // The way round is named too.
    let ran = punctual.run(&["enqueue", "--from", "jobs.jsonl"]).exits(2);
    assert!(ran.stderr.contains("punctual import"), "{ran:?}");
}

#[test]
fn a_directory_that_is_not_there_is_made_only_for_jobs_to_put_in() {
    let punctual = Punctual::new();
    for args in [
        &["jobs", "list"][..],
        &["queues", "list"],
        &["work", "mail", "--exec", "true"],
        &["export"],
        &["doctor"],
    ] {
        let ran = punctual.run(args).exits(3);
        assert!(ran.stderr.contains("punctual-data"), "{args:?}: {ran:?}");
        assert!(!punctual.path("punctual-data").exists());
    }
    punctual.enqueue(&["mail", "{}"]);
    punctual.run(&["jobs", "list"]).exits(0);
}

#[test]
fn a_directory_that_is_none_or_another_s_is_refused() {
    let punctual = Punctual::new();
    punctual.write("a-file", "");
    let ran = punctual.run(&["enqueue", "mail", "{}", "-e", "file:a-file"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("a-file"), "{ran:?}");
    let ran = punctual.run(&["enqueue", "mail", "{}", "-e", "file:none/data"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("parent"), "{ran:?}");
}

#[test]
fn a_backup_of_a_directory_in_use_is_restored_whole() {
    let punctual = filled();
    let mut worker = punctual
        .command(&["work", "later", "--exec", "true"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the worker starts");
    let mut ready = String::new();
    BufReader::new(worker.stderr.take().expect("a pipe"))
        .read_line(&mut ready)
        .expect("a line");
    let copied = punctual.one(&["backup", "kept"]);
    assert!(copied["bytes"].as_u64() > Some(0), "{copied}");
    // Nothing is overwritten.
    punctual.run(&["backup", "kept"]).exits(2);
    punctual.run(&["restore", "kept"]).exits(2);
    worker.kill().expect("it is killed");
    worker.wait().expect("it is gone");

    punctual
        .run(&["restore", "kept", "-e", "file:./again"])
        .exits(0);
    punctual.run(&["export", "jobs.jsonl"]).exits(0);
    punctual
        .run(&["export", "again.jsonl", "-e", "file:./again"])
        .exits(0);
    assert_eq!(
        lines(&punctual.path("again.jsonl")),
        lines(&punctual.path("jobs.jsonl"))
    );
    punctual
        .run(&["restore", "none", "-e", "file:./more"])
        .exits(3);
    punctual.run(&["backup", "kept", "-e", "memory:"]).exits(2);
}

#[test]
fn damage_is_reported_and_repaired_only_with_yes() {
    let punctual = Punctual::new();
    // A killed process leaves many commits that only the log has.
    crate::demo::run_and_kill(&punctual, 150);
    let engine = [
        "--engine",
        "file:./punctual-demo/jobs",
        "--namespace",
        "demo",
    ];
    let with = |args: &[&'static str]| [args, &engine[..]].concat();
    flip_a_bit(&punctual.path("punctual-demo/jobs"));

    let error = punctual
        .run(&with(&["jobs", "list", "-o", "json"]))
        .exits(6)
        .error();
    assert_eq!(error["code"], "data_damaged");
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("repair")),
        "{error}"
    );
    let reported = punctual.run(&with(&["repair"])).exits(6);
    assert!(
        reported.stderr.contains("log-") && reported.stderr.contains("--yes"),
        "{reported:?}"
    );
    punctual.run(&with(&["jobs", "list"])).exits(6);

    let repaired = punctual.one(&with(&["repair", "--yes"]));
    assert!(repaired["log"]["offset"].as_u64() > Some(0), "{repaired}");
    assert!(
        repaired["log"]["whole_commits_lost"].as_u64() > Some(0),
        "{repaired}"
    );
    assert!(
        punctual
            .path(repaired["aside"].as_str().expect("a path"))
            .exists()
    );
    assert!(!punctual.json(&with(&["jobs", "list"])).is_empty());
    let reported = punctual.run(&with(&["repair"])).exits(0);
    assert!(reported.stdout.contains("is not damaged"), "{reported:?}");

    // What a repair cannot mend is not promised to be.
    punctual.write("punctual-demo/jobs/base/current", "gone");
    let reported = punctual.run(&with(&["repair"])).exits(6);
    assert!(
        reported.stderr.contains("backup") && !reported.stderr.contains("--yes"),
        "{reported:?}"
    );
}

#[test]
fn damage_of_the_store_is_found_by_the_doctor_and_never_copied() {
    let punctual = Punctual::new();
    fill_the_store(&punctual);
    let reported = punctual.run(&["doctor"]).exits(0).stdout;
    assert!(reported.contains("every row is readable"), "{reported}");
    let table = break_a_table(&punctual);

    let reported = punctual.run(&["doctor"]).exits(1).stdout;
    assert!(reported.contains("wrong    store"), "{reported}");
    assert!(reported.contains(&table), "{reported}");
    assert!(reported.contains("backup"), "{reported}");
    let error = punctual
        .run(&["backup", "kept", "-o", "json"])
        .exits(6)
        .error();
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains(&table), "{error}");
    punctual.run(&["export", "jobs.jsonl"]).exits(6);
    for left in ["kept", "jobs.jsonl", "jobs.jsonl.part"] {
        assert!(!punctual.path(left).exists(), "{left}");
    }
}

/// Enqueues jobs, with so small a checkpoint that most of them are in the store.
#[tokio::main(flavor = "current_thread")]
async fn fill_the_store(punctual: &Punctual) {
    let options = Options::default().checkpoint_bytes(20_000);
    let engine = EmbeddedEngine::open(punctual.path("punctual-data"), options).expect("it is new");
    for _ in 0..100 {
        let jobs = (0..10).map(|_| NewJob::new("mail", JobId::new().to_string()));
        let sent = engine.enqueue(&Namespace::default(), jobs.collect()).await;
        sent.expect("it is taken");
    }
    engine.close().await.expect("it ends well");
}

/// Flips a bit in the largest table of the store where an opening does not meet it.
fn break_a_table(punctual: &Punctual) -> String {
    let tables = std::fs::read_dir(punctual.path("punctual-data/base/tables")).expect("tables");
    let tables = tables.map(|table| table.expect("a table").path());
    let table = tables
        .max_by_key(|table| table.metadata().expect("a table").len())
        .expect("a table");
    let whole = std::fs::read(&table).expect("a table");
    for part in 1..30 {
        let mut bytes = whole.clone();
        bytes[whole.len() / 30 * part] ^= 1;
        std::fs::write(&table, bytes).expect("a table");
        let opens = punctual.run(&["queues", "list"]).code == 0;
        if opens && punctual.run(&["export"]).code == 6 {
            let name = table.file_name().expect("a name").to_string_lossy();
            return format!("punctual-data/base/tables/{name}");
        }
    }
    panic!("some block is read by no opening");
}

/// Flips a bit in the middle of what the log of a directory holds.
fn flip_a_bit(directory: &Path) {
    let files = std::fs::read_dir(directory).expect("a directory");
    let logs = files.map(|file| file.expect("a file").path());
    let log = logs
        .filter(|path| path.to_string_lossy().contains("/log-"))
        .max()
        .expect("a log");
    let mut bytes = std::fs::read(&log).expect("a log");
    let written = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .expect("something was written");
    bytes[written / 2] ^= 1;
    std::fs::write(log, bytes).expect("a log");
}

fn mode(path: &Path) -> u32 {
    metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn a_directory_is_private_and_doctor_names_one_that_is_not() {
    let punctual = filled();
    punctual.run(&["backup", "kept"]).exits(0);
    punctual
        .run(&["restore", "kept", "--engine", "file:./again"])
        .exits(0);
    for name in ["punctual-data", "kept", "again"] {
        let dir = punctual.path(name);
        assert_eq!(mode(&dir), 0o700, "{name}");
        for entry in read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            // The store makes its own files, in a directory that no other user can enter.
            assert!(path.is_dir() || mode(&path) == 0o600, "{}", path.display());
        }
    }
    let said = || punctual.run(&["doctor"]).exits(0).stdout;
    assert!(said().contains("only the owner can read"), "{}", said());
    let dir = punctual.path("punctual-data");
    set_permissions(&dir, Permissions::from_mode(0o755)).expect("ours");
    let reported = said();
    assert!(
        reported.contains("mode 755") && reported.contains("chmod 700 ./punctual-data"),
        "{reported}"
    );
    // What was there stays as it was.
    punctual.enqueue(&["mail", "{}"]);
    assert_eq!(mode(&dir), 0o755);
}
