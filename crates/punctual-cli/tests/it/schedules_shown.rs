//! Tests of the command: what it shows of a schedule, and of its runs.

use crate::support::Punctual;

#[test]
fn a_schedule_shows_all_that_was_set() {
    let punctual = Punctual::new();
    let times = [
        "--cron",
        "0 9 * * *",
        "--except",
        "0 9 * * SUN",
        "--before",
        "30m",
    ];
    let bounds = [
        "--jitter",
        "5s",
        "--max-runs",
        "9",
        "--end",
        "2099-01-01T00:00:00Z",
    ];
    let set = [
        &["schedules", "set", "a"][..],
        &times,
        &bounds,
        &["--pause-on-failure"],
    ]
    .concat();
    punctual.one(&[&set[..], &["reports", "{\"n\":1}"]].concat());
    let shown = punctual.run(&["schedules", "show", "a"]).exits(0).stdout;
    for text in [
        "except [\"0 9 * * SUN\"]",
        "before 30m",
        "jitter 5s",
        "max_runs 9",
        "end 2099",
        "pause_on_failure true",
        "payload {\"n\":1}",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let document = &punctual.one(&["schedules", "show", "a"])["schedule"];
    assert_eq!(document["max_runs"], 9, "{document}");
    let dry = [
        "schedules",
        "backfill",
        "a",
        "--dry-run",
        "--from",
        "2098-01-01T00:00:00Z",
    ];
    let none = [&dry[..], &["--to", "2098-01-03T00:00:00Z"]].concat();
    let none = punctual.run(&none).exits(0);
    assert!(none.stderr.contains("only past ones run"), "{none:?}");
    let wrong = ["schedules", "set", "a", "--every", "-5m", "q", "{}"];
    let wrong = punctual.run(&wrong).exits(2);
    assert!(wrong.stderr.contains("-5 is negative"), "{wrong:?}");
}

#[test]
fn a_run_names_its_schedule() {
    let punctual = Punctual::new();
    let first = "2097-01-05T09:00:00Z";
    punctual.one(&["schedules", "set", "once", "--at", first, "reports", "{}"]);
    let run = &punctual.json(&["jobs", "list"])[0]["id"];
    let shown = punctual.run(&["jobs", "show", run.as_str().expect("an id")]);
    let shown = shown.exits(0).stdout;
    let line = shown.lines().find(|line| line.contains("run of"));
    assert!(line.is_some_and(|line| line.contains("once")), "{shown}");
    assert!(shown.contains(&format!("for {first}")), "{shown}");
}
