//! Tests of the command: schedules.

use punctual_redis::testing::TestServer;

use crate::support::Punctual;

const BERLIN: &[&str] = &[
    "schedules",
    "preview",
    "--cron",
    "30 2 * * *",
    "--zone",
    "Europe/Berlin",
    "--from",
    "2026-03-28T00:00:00Z",
    "--count",
    "3",
];

#[test]
fn a_preview_prints_utc_instants_for_programs() {
    let punctual = Punctual::new();
    let document = punctual.one(BERLIN);
    let instants = serde_json::json!([
        "2026-03-28T01:30:00Z",
        "2026-03-29T01:00:00Z",
        "2026-03-30T00:30:00Z"
    ]);
    assert_eq!(document["instants"], instants);
    assert_eq!(document["zone"], "Europe/Berlin");
    assert_eq!(document["runs"][1]["clock"], "moved_by_gap");
    assert_eq!(
        document["runs"][1]["local"],
        "Sun 2026-03-29 03:00:00 +02:00"
    );
    // It opens no engine, so it makes no directory.
    assert!(!punctual.path("punctual-data").exists());
}

#[test]
fn a_preview_shows_zone_and_utc_on_eighty_columns() {
    let punctual = Punctual::new();
    let ran = punctual.run(BERLIN).exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{ran:?}");
    assert!(lines[0].starts_with("IN EUROPE/BERLIN"), "{ran:?}");
    assert!(lines[2].contains("Sun 2026-03-29 03:00:00 +02:00  2026-03-29T01:00:00Z"));
    assert!(lines[2].ends_with("moved: no such time"), "{ran:?}");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{ran:?}"
    );
}

#[test]
fn every_part_of_a_calendar_has_an_option() {
    let punctual = Punctual::new();
    let first = |options: &[&str]| {
        let from = ["--from", "2026-11-25T00:00:30Z", "--count", "1"];
        let args = [&["schedules", "preview"], options, &from[..]].concat();
        let document = punctual.one(&args);
        let first = document["instants"][0].as_str().unwrap_or("none");
        first.to_owned()
    };
    for (options, wanted) in [
        (
            &["--cron-seconds", "40 * * * * *"][..],
            "2026-11-25T00:00:40Z",
        ),
        (
            &["--quartz", "0 0/5 14 ? * MON-FRI"],
            "2026-11-25T14:00:00Z",
        ),
        (&["--every", "1h+15m"], "2026-11-25T00:15:00Z"),
        (&["--at", "2026-12-01T08:00:00Z"], "2026-12-01T08:00:00Z"),
        (
            &["--cron", "0 18 * * FRI", "--before", "30m"],
            "2026-11-27T17:30:00Z",
        ),
        (
            &["--cron", "0 9 * * *", "--except", "* * 25 11 *"],
            "2026-11-26T09:00:00Z",
        ),
        (
            &["--every", "10s", "--except-seconds", "0-49 * * * * *"],
            "2026-11-25T00:00:50Z",
        ),
        (
            &[
                "--cron",
                "0 9 * * *",
                "--except-quartz",
                "* * * 25 11 ? 2026",
            ],
            "2026-11-26T09:00:00Z",
        ),
        (
            &["--cron", "0 9 * * *", "--start", "2026-12-24T00:00:00Z"],
            "2026-12-24T09:00:00Z",
        ),
        (
            &["--cron", "0 9 * * *", "--end", "2026-11-24T10:00:00Z"],
            "none",
        ),
    ] {
        assert_eq!(first(options), wanted, "{options:?}");
    }
    let zone = [
        "--cron",
        "30 2 * * *",
        "--zone",
        "Europe/Berlin",
        "--max-runs",
        "1",
    ];
    for (policy, from, wanted) in [
        (
            ["--gap", "shift"],
            "2026-03-29T00:00:00Z",
            "2026-03-29T01:30:00Z",
        ),
        (
            ["--gap", "skip"],
            "2026-03-29T00:00:00Z",
            "2026-03-30T00:30:00Z",
        ),
        (
            ["--fold", "last"],
            "2026-10-25T00:00:00Z",
            "2026-10-25T01:30:00Z",
        ),
        (
            ["--fold", "both"],
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z",
        ),
    ] {
        let start = ["schedules", "preview", "--from", from];
        let args = [&start[..], &zone, &policy].concat();
        let document = punctual.one(&args);
        assert_eq!(
            document["instants"],
            serde_json::json!([wanted]),
            "{policy:?}"
        );
    }
    let jitter = ["--jitter", "1m", "--name", "report"];
    let from = ["--every", "5m", "--from", "2026-11-25T00:00:00Z"];
    let args = [&["schedules", "preview"], &jitter[..], &from[..]].concat();
    let document = punctual.one(&args);
    assert_eq!(document["instants"][0], "2026-11-25T00:00:00Z");
    assert_eq!(document["runs"][0]["due"], "2026-11-25T00:00:08.305Z");
}

#[test]
fn what_is_wrong_with_a_calendar_is_wrong_usage_with_a_hint() {
    let punctual = Punctual::new();
    for (options, message, hint) in [
        (
            &["--cron", "60 * * * *"][..],
            "minute \"60\" is out of range",
            "write 0 to 59",
        ),
        (
            &["--cron", "0 0 30 2 *"],
            "the pattern never runs",
            "change day or month",
        ),
        (&["--cron", "0 0 9 * * MON"], "has 6 fields", "write five"),
        (
            &["--cron", "0 9 * * *", "--zone", "EST5EDT"],
            "is an older name",
            "America/New_York",
        ),
        (
            &["--every", "0s"],
            "every is out of range (every: 0s)",
            "use 1ms",
        ),
        (&[], "it names no time", "give a cron pattern"),
    ] {
        let args = [&["schedules", "preview", "-o", "json"], options].concat();
        let error = punctual.run(&args).exits(2).error();
        let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
        assert!(text("message").contains(message), "{error}");
        assert!(text("hint").contains(hint), "{error}");
    }
    punctual
        .run(&["schedules", "preview", "--gap", "later"])
        .exits(2);
    punctual.run(&["schedules"]).exits(2);
}

#[test]
fn a_calendar_that_has_ended_says_so() {
    let punctual = Punctual::new();
    let args = ["schedules", "preview", "--quartz", "0 0 9 ? * 2 2020"];
    let ran = punctual.run(&args).exits(0);
    assert!(ran.stdout.starts_with("no run after "), "{ran:?}");
    assert_eq!(punctual.one(&args)["instants"], serde_json::json!([]));
}

#[test]
fn doctor_says_which_tz_database_schedules_use() {
    let punctual = Punctual::new();
    let ran = punctual.run(&["doctor", "--engine", "memory:"]).exits(0);
    let version = punctual::schedule::tz_database_version();
    let line = format!("tz database {version}");
    assert!(ran.stdout.contains(&line), "{ran:?}");
}

#[test]
fn a_schedule_runs_without_a_process_and_is_shown() {
    let punctual = Punctual::new();
    let set = [
        "schedules",
        "set",
        "beat",
        "--every",
        "100ms",
        "--overlap",
        "allow",
        "beats",
        r#"{"n":1}"#,
    ];
    let written = punctual.one(&set);
    assert_eq!(written["name"], "beat");
    // No process holds the directory between two commands: the runs come all the same.
    let shown = loop {
        let shown = punctual.one(&["schedules", "show", "beat"]);
        if shown["fired"].as_u64() >= Some(2) {
            break shown;
        }
    };
    assert_eq!(
        (&shown["queue"], &shown["dry"]),
        (&"beats".into(), &false.into())
    );
    let jobs = punctual.json(&["jobs", "list", "--queue", "beats", "--state", "ready"]);
    assert!(jobs.len() >= 2, "{jobs:?}");
    assert_eq!(jobs[0]["schedule"]["name"], "beat", "{jobs:?}");
    let list = punctual.run(&["schedules", "list"]).exits(0);
    assert!(list.stdout.contains("every 100ms"), "{list:?}");
    let removed = punctual.one(&["schedules", "remove", "beat"]);
    assert_eq!(removed["removed"], true);
    punctual.run(&["schedules", "show", "beat"]).exits(3);
}

#[test]
fn schedules_are_shown_on_80_columns() {
    let punctual = Punctual::new();
    let zone = [
        "--zone",
        "America/Argentina/Buenos_Aires",
        "--expect-within",
    ];
    for more in [
        ["--every", "1500ms+100ms", "1s"],
        ["--cron", "0 9 29 2 *", "1s"],
    ] {
        let set = [
            &["schedules", "set", "a"],
            &more[..2],
            &zone[..],
            &more[2..],
        ]
        .concat();
        punctual.one(&[&set[..], &["reports", "{}"]].concat());
        while punctual.one(&["schedules", "show", "a"])["overdue_since"].is_null() {}
        let shown = punctual.run(&["schedules", "show", "a"]).exits(0).stdout;
        assert!(shown.contains("overdue since"), "{shown}");
        for line in shown.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let list = punctual.run(&["schedules", "list"]).exits(0).stdout;
        let head = list.lines().next().unwrap_or_default();
        assert!(head.ends_with("STATE"), "{list}");
        assert!(list.contains("overdue for"), "{list}");
        punctual.one(&["schedules", "remove", "a"]);
    }
}

#[test]
fn every_command_works_on_a_redis_server() {
    let server = TestServer::start();
    let (punctual, engine) = (Punctual::new(), server.address());
    let one = |args: &[&str]| punctual.one(&[args, &["--engine", &engine]].concat());
    let run = |args: &[&str]| punctual.run(&[args, &["--engine", &engine]].concat());
    let every = ["--every", "100ms", "--overlap", "allow", "beats", "{}"];
    let set = [&["schedules", "set", "beat"], &every[..]].concat();
    assert_eq!(one(&set)["name"], "beat");
    // Only the server is there between two commands.
    let shown = loop {
        let shown = one(&["schedules", "show", "beat"]);
        if shown["fired"].as_u64() >= Some(2) {
            break shown;
        }
    };
    assert_eq!(shown["dry"], false);
    let work = [
        "work",
        "beats",
        "--exec",
        "echo \"$PUNCTUAL_SCHEDULE\" >> seen",
    ];
    run(&[&work[..], &["--until-idle"]].concat()).exits(0);
    assert!(punctual.read("seen").starts_with("beat\nbeat\n"));
    let cron = [
        "--cron",
        "0 9 * * MON",
        "--zone",
        "Europe/Berlin",
        "reports",
    ];
    one(&[&["schedules", "set", "weekly"], &cron[..]].concat());
    let list = run(&["schedules", "list"]).exits(0).stdout;
    assert!(
        list.contains("every 100ms") && list.contains("weekly"),
        "{list}"
    );
    let paused = one(&["schedules", "pause", "weekly", "--note", "holiday"]);
    assert_eq!(
        (&paused["paused"], &paused["note"]),
        (&true.into(), &"holiday".into())
    );
    assert_eq!(one(&["schedules", "resume", "weekly"])["paused"], false);
    let skipped = one(&["schedules", "skip", "weekly"]);
    assert_eq!(
        (&skipped["next"][0], &skipped["skipped"]),
        (&paused["next"][1], &1.into())
    );
    let first = one(&["schedules", "run", "weekly"]);
    let again = one(&["schedules", "run", "weekly"]);
    assert_eq!(
        (&again["verdict"], &again["holder"]),
        (&"merged".into(), &first["id"])
    );
    let span = [
        "--from",
        "2025-11-01T00:00:00Z",
        "--to",
        "2025-11-15T00:00:00Z",
    ];
    let backfill = [&["schedules", "backfill", "weekly"], &span[..]].concat();
    assert_eq!(one(&backfill)["runs"][1]["verdict"], "created");
    assert_eq!(one(&backfill)["runs"][1]["verdict"], "duplicate");
    let refused = run(&["queues", "delete", "reports", "--purge", "--yes"]).exits(4);
    assert!(
        refused.stderr.contains("schedule \"weekly\""),
        "{refused:?}"
    );
    assert_eq!(one(&["schedules", "remove", "weekly"])["removed"], true);
    run(&["schedules", "show", "weekly"]).exits(3);
}

#[test]
fn a_schedule_is_paused_skipped_run_and_backfilled() {
    let punctual = Punctual::new();
    let set = [
        "schedules",
        "set",
        "weekly",
        "--cron",
        "0 9 * * MON",
        "reports",
    ];
    punctual.one(&set);
    let paused = punctual.one(&["schedules", "pause", "weekly", "--note", "holiday"]);
    assert_eq!(
        (&paused["paused"], &paused["note"]),
        (&true.into(), &"holiday".into())
    );
    // A pause stays when the same is set again.
    assert_eq!(punctual.one(&set)["paused"], true);
    assert_eq!(
        punctual.one(&["schedules", "resume", "weekly"])["paused"],
        false
    );
    let next = paused["next"][1].clone();
    let skipped = punctual.one(&["schedules", "skip", "weekly"]);
    assert_eq!(
        (&skipped["next"][0], &skipped["skipped"]),
        (&next, &1.into())
    );
    let run = punctual.one(&["schedules", "run", "weekly"]);
    assert_eq!(run["verdict"], "created");
    let again = punctual.one(&["schedules", "run", "weekly"]);
    assert_eq!(
        (&again["verdict"], &again["holder"]),
        (&"merged".into(), &run["id"])
    );
    let backfill = |more: &[&str]| {
        let start = [
            "schedules",
            "backfill",
            "weekly",
            "--from",
            "2025-11-01T00:00:00Z",
        ];
        let to = ["--to", "2025-11-15T00:00:00Z"];
        punctual.one(&[&start[..], &to, more].concat())
    };
    let args = [
        "schedules",
        "backfill",
        "weekly",
        "--from",
        "2026-01-02T00:00:00Z",
    ];
    let reversed = [&args[..], &["--to", "2026-01-01T00:00:00Z"]].concat();
    let ran = punctual.run(&reversed).exits(2);
    assert!(ran.stderr.contains("use a later end"), "{ran:?}");
    let answer = backfill(&["--dry-run"]);
    assert_eq!(answer["runs"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(backfill(&[])["runs"][0]["verdict"], "created");
    assert_eq!(backfill(&[])["runs"][0]["verdict"], "duplicate");
}

#[test]
fn a_wrong_schedule_is_refused_with_its_remedy() {
    let punctual = Punctual::new();
    for (options, part) in [
        (&["--cron", "0 0 30 2 *"][..], "never runs"),
        (&["--every", "0s"], "out of range"),
        (
            &["--every", "1s", "--missed", "all", "--missed-max", "101"],
            "use a whole number from 1 to 100",
        ),
        (&["--every", "1s", "--missed-max", "5"], "missed to be all"),
        (&["--every", "1s", "--zone", "UTC+3"], "offset"),
        (&[], "names no time"),
    ] {
        let args = [&["schedules", "set", "x"], options, &["queue"][..]].concat();
        let ran = punctual.run(&args).exits(2);
        assert!(ran.stderr.contains(part), "{options:?}: {ran:?}");
    }
    let id = "02f9eeb6-3bf7-873f-92c6-5bfee01bc100";
    let ran = punctual.run(&["enqueue", "q", "--id", id]).exits(2);
    assert!(ran.stderr.contains("only the engine enqueues"), "{ran:?}");
}

#[test]
fn a_command_gets_the_schedule_and_the_instant() {
    let punctual = Punctual::new();
    punctual.one(&["schedules", "set", "beat", "--cron", "0 9 * * MON", "beats"]);
    let run = punctual.one(&["schedules", "run", "beat"]);
    let command = r#"echo "$PUNCTUAL_SCHEDULE $PUNCTUAL_INSTANT""#;
    let work = ["work", "beats", "--exec", command, "--until-idle"];
    punctual.run(&work).exits(0);
    let id = run["id"].as_str().expect("an id");
    let job = punctual.one(&["jobs", "show", id]);
    let at = job["schedule"]["at"].as_str().expect("an instant");
    let shown = punctual.run(&["jobs", "show", id]).exits(0).stdout;
    assert!(shown.contains(&format!("beat {at}")), "{shown}");
}
