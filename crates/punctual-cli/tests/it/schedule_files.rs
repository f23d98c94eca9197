//! Tests of the command: files of schedules.

use crate::support::Punctual;

#[test]
fn a_file_of_schedules_is_applied_and_others_are_pruned() {
    let punctual = Punctual::new();
    let file = "\
[weekly-report]
cron = '0 9 * * MON'
zone = 'Europe/Berlin'
queue = 'reports'
payload = { kind = 'weekly' }

[beat]
every = ['1h', '1h+15m']
overlap = 'allow'
pause_on_failure = true
queue = 'beats'
";
    punctual.write("schedules.toml", file);
    punctual.one(&["schedules", "set", "old", "--every", "1h", "beats"]);
    let changes = |more: &[&str]| {
        let apply = ["schedules", "apply", "schedules.toml"];
        let changes = punctual.json(&[&apply[..], more].concat());
        let change = |one: &serde_json::Value| {
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("name"), text("change"))
        };
        changes.iter().map(change).collect::<Vec<_>>()
    };
    let planned = ["beat created", "old removed", "weekly-report created"];
    assert_eq!(changes(&["--prune", "--dry-run"]), planned);
    punctual.run(&["schedules", "show", "beat"]).exits(3);
    assert_eq!(changes(&["--prune"]), planned);
    punctual.run(&["schedules", "show", "old"]).exits(3);
    let beat = punctual.one(&["schedules", "show", "beat"]);
    assert_eq!(
        (&beat["overlap"], &beat["queue"]),
        (&"allow".into(), &"beats".into())
    );
    punctual.one(&["schedules", "pause", "beat"]);
    assert_eq!(
        changes(&["--prune"]),
        ["beat unchanged", "weekly-report unchanged"]
    );
    assert_eq!(punctual.one(&["schedules", "show", "beat"])["paused"], true);
    for (text, part) in [
        ("[x]\nevery = '1h'\n", "x: queue is missing"),
        (
            "[x]\nqueue = 'q'\nexpectwithin = '1h'\n",
            "schedules.toml: x: the key expectwithin is not known",
        ),
        ("[x]\nqueue = 'q'\nevery = 'x y'\n", "x: every: "),
        ("[x]\nqueue = 3\nevery = '1h'\n", "x: queue: write a text"),
        (
            "[x]\nqueue = 'q'\nevery = '1h'\npause_on_failure = 'yes'\n",
            "x: pause_on_failure: write true or false",
        ),
        (
            "[x]\nqueue = 'q'\nevery = '1h'\nmissed_max = 'z'\n",
            "x: missed_max: invalid value 'z'",
        ),
        ("[x]\nqueue = 'q'\n", "names no time"),
        ("x = 1\n", "x: is no table"),
        ("[x]\nqueue = 'q'\ncron = '60 * * * *'\n", "out of range"),
    ] {
        punctual.write("schedules.toml", text);
        let ran = punctual
            .run(&["schedules", "apply", "schedules.toml"])
            .exits(2);
        assert!(ran.stderr.contains(part), "{text}: {ran:?}");
    }
    punctual.write("schedules.toml", "");
    let args = ["schedules", "apply", "schedules.toml", "--prune"];
    punctual.run(&args).exits(2);
}

/// A file says all that it means: no text in it reads standard input.
#[test]
fn a_payload_of_a_dash_in_a_file_is_a_text() {
    let punctual = Punctual::new();
    punctual.write("s.toml", "[x]\nevery = '1h'\nqueue = 'q'\npayload = '-'\n");
    let apply = ["schedules", "apply", "s.toml"];
    punctual
        .run_with_input(&apply, b"from standard input")
        .exits(0);
    punctual.one(&["schedules", "run", "x"]);
    let jobs = punctual.json(&["jobs", "list", "--queue", "q"]);
    assert_eq!(jobs[0]["payload_base64"], "LQ==", "{jobs:?}");
}

/// Lines of a file that are wrong, and what is said of each.
const WRONG: &[(&str, &str)] = &[
    (
        "max_runs = -1",
        "max_runs: invalid value '-1'; use a whole number of 1 or more",
    ),
    (
        "max_runs = 0",
        "max_runs: invalid value '0'; use a whole number of 1 or more",
    ),
    ("max_runs = 1.5", "max_runs: write a text or a whole number"),
    (
        "max_runs = 'three'",
        "max_runs: invalid value 'three'; use a whole number",
    ),
    (
        "max_runs = '18446744073709551616'",
        "max_runs: invalid value",
    ),
    ("max_runs = [1, 2]", "max_runs: write one value, not a list"),
    (
        "max_runs = true",
        "max_runs: write a value, not true or false",
    ),
    (
        "missed = 'all'\nmissed_max = -5",
        "missed_max: invalid value '-5'; use a whole number from 1 to 100",
    ),
    (
        "missed = 'some'",
        "missed: invalid value 'some'; use latest or all or skip",
    ),
    ("overlap = 3", "overlap: invalid value '3'; use skip or"),
    (
        "limit = 'api'\ncost = -1",
        "cost: invalid value '-1'; use a whole number from 1 to 1000",
    ),
    (
        "priority = 10",
        "priority: invalid value '10'; write a number from 0",
    ),
    (
        "priority = -1",
        "priority: invalid value '-1'; write a number from 0",
    ),
    (
        "max_attempts = 0",
        "max_attempts: invalid value '0'; write a number from 1",
    ),
    ("jitter = -5", "jitter: invalid value '-5'; "),
    ("jitter = '-5s'", "jitter: invalid value '-5s'; "),
    ("grace = 'soon'", "grace: invalid value 'soon'; "),
    ("timeout = 1e9", "timeout: write a text or a whole number"),
    (
        "zone = 'Europe/Atlantis'",
        "\"Europe/Atlantis\" is not in the tz database",
    ),
    (
        "zone = '../etc/passwd'",
        "\"../etc/passwd\" is not in the tz database",
    ),
    ("cron = '60 * * * *'", "60 * * * *"),
    ("cron = '0 0 30 2 *'", "never"),
    ("cron = 5", "cron"),
    ("start = 'yesterday'", "start: invalid value 'yesterday'; "),
    (
        "pause_on_failure = 'yes'",
        "pause_on_failure: write true or false",
    ),
    (
        "header = 'x'",
        "header: invalid value 'x'; write it as NAME=VALUE",
    ),
    (
        "header = { a = 'b' }",
        "header: write a text or a whole number",
    ),
    (
        "retry = 'often'",
        "retry: invalid value 'often'; write fixed:10s",
    ),
    ("if_version = 3", "the key if_version is not known"),
    (
        "max_run = 3",
        "the key max_run is not known; the keys are at, ",
    ),
];

#[test]
fn a_wrong_value_in_a_file_names_schedule_key_and_what_to_use() {
    let punctual = Punctual::with_data();
    for (line, said) in WRONG.iter().copied() {
        let every = if line.starts_with("cron") {
            ""
        } else {
            "every = '1h'\n"
        };
        punctual.write("p.toml", format!("[beat]\nqueue = 'q'\n{every}{line}\n"));
        let ran = punctual.run(&["schedules", "apply", "p.toml"]).exits(2);
        let stderr = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(stderr.contains("p.toml: beat: "), "{line}: {ran:?}");
        assert!(stderr.contains(said), "{line}: {said}: {ran:?}");
        for internal in [
            "digit",
            "target type",
            "invalid type",
            "expected",
            "u64",
            "u32",
            "toml",
        ] {
            let said = stderr.replace("p.toml", "");
            assert!(!said.contains(internal), "{line}: {internal}: {ran:?}");
        }
    }
    // On a command line, too.
    let set = ["schedules", "set", "beat", "--every", "1h", "q"];
    for (option, said) in [
        ("--max-runs=-1", "use a whole number of 1 or more"),
        ("--max-runs=x", "use a whole number of 1 or more"),
        ("--missed-max=101", "use a whole number from 1 to 100"),
    ] {
        let ran = punctual.run(&[&set[..], &[option]].concat()).exits(2);
        assert!(ran.stderr.contains(said), "{option}: {ran:?}");
    }
    let top = punctual
        .run(&["queues", "top", "q", "--limit", "0"])
        .exits(2);
    assert!(top.stderr.contains("use 1 to 100"), "{top:?}");
}

#[test]
fn nothing_of_a_file_with_a_bad_schedule_is_written() {
    let punctual = Punctual::with_data();
    let table = |name: &str, line: &str| format!("[{name}]\nevery = '1h'\n{line}\n");
    for (bad, part) in [
        ("queue = 'q'\nexpect_within = '401d'", "expect_within"),
        ("queue = 'q'\nkind = 'a b'", "kind"),
        ("queue = ''", "queue"),
        ("queue = 'q'\nmissed = 'all'\nmissed_max = 101", "missed"),
    ] {
        let good = "queue = 'q'";
        let text = [table("aaa", good), table("mmm", bad), table("zzz", good)];
        punctual.write("p.toml", text.concat());
        for more in [&["--dry-run"][..], &[]] {
            let apply = ["schedules", "apply", "p.toml"];
            let ran = punctual.run(&[&apply[..], more].concat()).exits(2);
            assert!(ran.stderr.contains("p.toml: mmm: "), "{bad}: {ran:?}");
            assert!(ran.stderr.contains(part), "{bad}: {ran:?}");
        }
        punctual.run(&["schedules", "show", "aaa"]).exits(3);
    }
}
