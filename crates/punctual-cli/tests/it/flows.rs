//! Tests of the command: flows.

use serde_json::json;

use crate::support::Punctual;

const ORDER: &str = r#"{"name": "order-7", "steps": [
  {"name": "ship", "job": {"queue": "orders"}, "after": ["pack"]},
  {"name": "pack", "job": {"queue": "orders", "payload": {"order": 7}}},
  {"name": "refund", "job": {"queue": "orders"}, "after": [{"step": "pack", "on": "failed"}]}],
  "on_settled": {"queue": "reports"}}"#;

#[test]
fn a_flow_is_sent_shown_and_cancelled() {
    let punctual = Punctual::new();
    let file = punctual.write("order-7.json", ORDER);
    let file = file.to_str().expect("a path");
    let sent = punctual.one(&["flows", "send", file]);
    assert_eq!(
        (&sent["name"], &sent["created"]),
        (&json!("order-7"), &json!(true))
    );
    let again = punctual.run(&["flows", "send", file]).exits(0);
    assert!(again.stdout.contains("was sent before"), "{again:?}");

    let shown = punctual.one(&["flows", "show", "order-7"]);
    let step = &shown["steps"][0];
    assert_eq!(step["name"], "pack");
    assert_eq!(
        (&step["state"], &step["id"]),
        (&json!("ready"), &sent["steps"][0]["id"])
    );
    assert_eq!(shown["steps"][1]["state"], "held");
    let listed = punctual.one(&["flows", "list"]);
    assert_eq!(listed["flows"][0]["counts"]["open"], 3);
    let table = punctual.run(&["flows", "show", "order-7"]).exits(0);
    assert!(table.stdout.contains("refund"), "{table:?}");
    let graph = punctual
        .run(&["flows", "graph", "order-7", "--dot"])
        .exits(0);
    assert!(
        graph.stdout.starts_with("digraph \"order-7\" {"),
        "{graph:?}"
    );
    assert!(graph.stdout.contains("label=failed"), "{graph:?}");

    // Whatever ends a job is known to those that wait for it.
    let id = step["id"].as_str().expect("an id");
    punctual.run(&["jobs", "cancel", id]).exits(0);
    let shown = punctual.one(&["flows", "show", "order-7"]);
    assert_eq!(shown["steps"][1]["skipped"], true);
    assert_eq!(shown["steps"][2]["state"], "ready");
    punctual.run(&["flows", "recount", "order-7"]).exits(0);
    let cancelled = punctual.one(&["flows", "cancel", "order-7"]);
    assert_eq!(cancelled["state"], "cancelled");
    let retried = punctual.one(&["flows", "retry", "order-7"]);
    assert_eq!(retried["retried"], 2, "{retried}");
    assert_eq!(
        punctual.one(&["flows", "show", "order-7"])["state"],
        "running"
    );
}

#[test]
fn a_part_of_a_plan_is_sent_and_does_not_run() {
    let punctual = Punctual::new();
    let part = r#"{"name": "x", "steps": [{"name": "a", "job": {"queue": "q"}}], "seal": false}"#;
    let file = punctual.write("part.json", part);
    let file = file.to_str().expect("a path");
    let sent = punctual.run(&["flows", "send", file]).exits(0);
    assert!(sent.stdout.contains("is open"), "{sent:?}");
    assert_eq!(punctual.one(&["flows", "show", "x"])["state"], "open");
}

#[test]
fn what_is_wrong_with_a_flow_is_said() {
    let punctual = Punctual::with_data();
    let file = punctual.write("wrong.json", r#"{"name": "x", "steps": [{"name": "a"}]}"#);
    let ran = punctual
        .run(&[
            "flows",
            "send",
            file.to_str().expect("a path"),
            "-o",
            "json",
        ])
        .exits(2);
    let message = ran.error()["message"]
        .as_str()
        .expect("a message")
        .to_owned();
    assert!(message.contains("job"), "{message}");
    let error = punctual
        .run(&["flows", "show", "none", "-o", "json"])
        .exits(3)
        .error();
    assert_eq!(error["code"], "not_found", "{error}");
}

#[test]
fn a_bench_of_each_shape_runs_its_callback_once() {
    let punctual = Punctual::new();
    for shape in ["batch", "chain", "diamond"] {
        let args = [
            "bench", "flows", "--steps", "250", "--shape", shape, "--engine", "memory:",
        ];
        let document = punctual.one(&args);
        assert_eq!(document["callbacks"], 1, "{document}");
        assert_eq!(
            (&document["stalled"], &document["steps"]),
            (&json!(0), &json!(250))
        );
        assert!(
            document["steps_per_s"]
                .as_f64()
                .is_some_and(|rate| rate > 0.0),
            "{document}"
        );
    }
}

#[test]
fn a_plan_sent_again_without_its_callback_is_refused() {
    let punctual = Punctual::new();
    let send = |text: &str| {
        let file = punctual.write("plan.json", text);
        punctual.run(&["flows", "send", file.to_str().expect("a path")])
    };
    send(ORDER).exits(0);
    let bare = ORDER.replace(",\n  \"on_settled\": {\"queue\": \"reports\"}", "");
    assert!(bare.len() < ORDER.len());
    let ran = send(&bare);
    assert!(ran.code != 0 && ran.stderr.contains("callback"), "{ran:?}");
    let other = ORDER.replace("on_settled", "on_done");
    let ran = send(&other);
    assert!(
        ran.code != 0 && ran.stderr.contains("another name"),
        "{ran:?}"
    );
    let again = send(ORDER).exits(0);
    assert!(again.stdout.contains("was sent before"), "{again:?}");
}

/// An import brings what a step waited for whose job is gone: one that was not needed is not.
#[test]
fn a_retry_of_an_imported_flow_that_is_done_leaves_it_done() {
    let punctual = Punctual::new();
    let plan = r#"{"name": "order-7", "steps": [
      {"name": "pack", "job": {"queue": "orders", "retention": "1h"}},
      {"name": "refund", "job": {"queue": "orders"}, "after": [{"step": "pack", "on": "failed"}]}]}"#;
    let file = punctual.write("order-7.json", plan);
    let send = ["flows", "send", file.to_str().expect("a path")];
    punctual.run(&send).exits(0);
    let work = ["work", "orders", "--until-idle", "--exec", "true"];
    punctual.run(&work).exits(0);
    let shown = punctual.one(&["flows", "show", "order-7"]);
    let refund = shown["steps"][1]["id"].as_str().expect("an id").to_owned();
    punctual.run(&["jobs", "delete", &refund]).exits(0);
    let exported = punctual.run(&["export"]).exits(0).stdout;
    let file = punctual.write("exported.ndjson", &exported);

    let other = Punctual::new();
    let import = ["import", file.to_str().expect("a path")];
    other.run(&import).exits(0);
    let retried = other.run(&["flows", "retry", "order-7"]).exits(0);
    assert!(!retried.stdout.contains("gone"), "{retried:?}");
    assert_eq!(other.one(&["flows", "show", "order-7"])["state"], "done");
    let again = other.run(&import).exits(0).stdout;
    assert!(!again.contains("created"), "it changes nothing: {again}");
}

#[test]
fn a_retry_says_what_cannot_run_again() {
    let punctual = Punctual::new();
    let plan = r#"{"name": "order-7", "steps": [
      {"name": "pack", "job": {"queue": "orders"}},
      {"name": "ship", "job": {"queue": "orders"}, "after": ["pack"]},
      {"name": "mail", "job": {"queue": "orders", "unique": "order:7"}, "after": ["pack"]}]}"#;
    let file = punctual.write("order-7.json", plan);
    punctual
        .run(&["flows", "send", file.to_str().expect("a path")])
        .exits(0);
    let step = |name: &str| {
        let shown = punctual.one(&["flows", "show", "order-7"]);
        let steps = shown["steps"].as_array().expect("steps");
        let step = steps.iter().find(|step| step["name"] == name);
        step.and_then(|step| step["id"].as_str())
            .expect("an id")
            .to_owned()
    };
    let args = ["enqueue", "orders", "{}", "--after", "pack@order-7=settled"];
    let after = punctual.run(&args).exits(0);
    assert!(
        after.stdout.contains("once 1 other job has ended"),
        "{after:?}"
    );
    let unknown = ["enqueue", "orders", "{}", "--after", "pak@order-7"];
    let unknown = punctual.run(&unknown).exits(4);
    assert!(unknown.stdout.contains("not known"), "{unknown:?}");
    punctual.run(&["jobs", "cancel", &step("pack")]).exits(0);
    punctual.run(&["jobs", "delete", &step("ship")]).exits(0);
    let holder = punctual.one(&["enqueue", "orders", "{}", "--unique", "order:7"]);
    let holder = holder["id"].as_str().expect("an id");

    let none = punctual
        .run(&["flows", "retry", "order-7", "--kind", "other"])
        .exits(0);
    assert!(
        none.stdout.contains("no failed step of order-7 matches"),
        "{none:?}"
    );
    let retried = punctual.run(&["flows", "retry", "order-7"]).exits(4);
    for said in [
        "1 step again",
        "their jobs are gone: ship",
        &format!("mail (by {holder})"),
    ] {
        assert!(retried.stdout.contains(said), "{said}: {retried:?}");
    }
    assert!(retried.stderr.contains("hint: "), "{retried:?}");
    let again = punctual
        .run(&["flows", "retry", "order-7", "-o", "json"])
        .exits(4);
    let again: serde_json::Value = serde_json::from_str(&again.stdout).expect("JSON");
    assert_eq!(
        (&again["gone"], &again["gone_steps"]),
        (&json!(1), &json!(["ship"]))
    );
    let held = json!([{"step": "mail", "holder": holder}]);
    assert_eq!(
        (&again["unique_held"], &again["unique_held_steps"]),
        (&json!(1), &held)
    );
    punctual.run(&["flows", "recount", "order-7"]).exits(0);
}

#[test]
fn a_graph_shows_jobs_outside_of_the_flow() {
    let punctual = Punctual::new();
    let other = punctual.one(&["enqueue", "others", "{}", "--delay", "1h"]);
    let other = other["id"].as_str().expect("an id");
    let plan = json!({"name": "x", "steps": [{"name": "a", "job": {"queue": "orders"}, "after": [{"job": other}]}]});
    let file = punctual.write("x.json", plan.to_string());
    punctual
        .run(&["flows", "send", file.to_str().expect("a path")])
        .exits(0);
    let graph = punctual.run(&["flows", "graph", "x"]).exits(0);
    let said = format!("after job {other} (scheduled)");
    assert!(graph.stdout.contains(&said), "{graph:?}");
    let dot = punctual.run(&["flows", "graph", "x", "--dot"]).exits(0);
    assert!(dot.stdout.contains(&format!("\"{other}\" -> ")), "{dot:?}");
    let shown = punctual.one(&["flows", "show", "x"]);
    let outside = json!([{"job": other, "on": "completed", "met": false, "state": "scheduled"}]);
    assert_eq!(shown["steps"][0]["outside"], outside, "{shown}");
    let edges = punctual.one(&["flows", "graph", "x"]);
    assert_eq!(edges["edges"][0]["from_state"], "scheduled", "{edges}");
}

#[test]
fn a_wrong_plan_is_refused_with_a_remedy() {
    let punctual = Punctual::with_data();
    for (a, b, remedy) in [
        ("b", "a", "take one of them out"),
        ("c", "a", "add that step"),
        ("a", "a", "take one of them out"),
    ] {
        let step = |name: &str, after: &str| json!({"name": name, "job": {"queue": "q"}, "after": [after]});
        let plan = json!({"name": "x", "steps": [step("a", a), step("b", b)]});
        let file = punctual.write("plan.json", plan.to_string());
        let file = file.to_str().expect("a path");
        let ran = punctual.run(&["flows", "send", file]).exits(2);
        assert!(ran.stderr.contains(remedy), "{plan}: {ran:?}");
        assert!(ran.stderr.contains("step: a"), "{plan}: {ran:?}");
    }
}

#[test]
fn results_of_steps_are_shown_in_short() {
    let punctual = Punctual::new();
    let file = punctual.write("order-7.json", ORDER);
    let file = file.to_str().expect("a path");
    punctual.run(&["flows", "send", file]).exits(0);
    let done = [
        "work",
        "orders",
        "--exec",
        "printf '\"a result of %040d\"' 7",
        "--until-idle",
    ];
    punctual.run(&done).exits(0);
    let table = punctual.run(&["flows", "show", "order-7"]).exits(0);
    assert!(table.stdout.contains("RESULT"), "{table:?}");
    assert!(table.stdout.contains("\"a result of 000"), "{table:?}");
    assert!(table.stdout.contains(".."), "{table:?}");
}

#[test]
fn refusals_of_flows_name_the_thing_and_the_remedy() {
    let punctual = Punctual::new();
    let send = |plan: &str| {
        let file = punctual.write("plan.json", plan);
        punctual.run(&[
            "flows",
            "send",
            file.to_str().expect("a path"),
            "-o",
            "json",
        ])
    };
    send(ORDER).exits(0);
    let part =
        r#"{"name": "part", "steps": [{"name": "a", "job": {"queue": "q"}}], "seal": false}"#;
    send(part).exits(0);
    for (plan, message, hint) in [
        ("", "is not JSON: EOF", "flows send --help"),
        (
            r#"{"name": "x"}"#,
            "steps is missing (line 1, ",
            "an array of",
        ),
        (
            "{\n\"name\": \"x\",\n\"steps\": 7}",
            "steps is 7 (line 3, ",
            "an array of",
        ),
        (
            r#"{"name": "x", "steps": [["a", {"queue": "q"}]]}"#,
            "steps[0] is an array",
            "use an object",
        ),
        (
            r#"{"name": "x", "steps": [{"name": "a", "job": {"queue": "q"}, "after": [{"job": "zz"}]}]}"#,
            "step 1: after.job \"zz\" is not a UUID",
            "write it like",
        ),
        (
            r#"{"name": "x", "steps": [{"name": "a", "job": {"queue": "q"}, "after": [{"step": "b", "on": "nope"}]}]}"#,
            "steps[0].after[0].on is \"nope\"",
            "completed, failed",
        ),
    ] {
        let error = send(plan).exits(2).error();
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        assert!(text("message").contains(message), "{plan}: {error}");
        assert!(text("hint").contains(hint), "{plan}: {error}");
    }
    for (args, exit, message, hint) in [
        (
            &["flows", "retry", "part"][..],
            4,
            "never sealed",
            "seal it",
        ),
        (
            &["flows", "retry", "order-7", "--from", "zz"],
            3,
            "step: zz",
            "flows show order-7",
        ),
        (
            &["flows", "retry", "step-by-step"],
            3,
            "no flow step-by-step",
            "flows list",
        ),
        (
            &["clear", "go", "--flow", "a b", "--step", "c"],
            2,
            "flow name",
            "use 1 to 128",
        ),
        (
            &["signal", "go", "--flow", "order-7", "--step", "a b"],
            2,
            "step name",
            "use 1 to 128",
        ),
    ] {
        let error = punctual
            .run(&[args, &["-o", "json"]].concat())
            .exits(exit)
            .error();
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        assert!(text("message").contains(message), "{args:?}: {error}");
        assert!(text("hint").contains(hint), "{args:?}: {error}");
    }
    let none = punctual.run(&["flows", "retry", "order-7", "--from", "pack"]);
    let none = none.exits(4);
    assert!(none.stderr.contains("let it end, or cancel it"), "{none:?}");
    assert!(!none.stdout.contains("stored by"), "{none:?}");
}

#[test]
fn clears_and_signals_call_a_step_by_its_name() {
    let punctual = Punctual::new();
    let file = punctual.write("order-7.json", ORDER);
    punctual
        .run(&["flows", "send", file.to_str().expect("a path")])
        .exits(0);
    let cleared = ["clear", "paid", "--flow", "order-7", "--step", "ship"];
    let cleared = punctual.run(&cleared).exits(0);
    assert_eq!(
        cleared.stdout,
        "paid of step ship of flow order-7 is cleared\n"
    );
    let signal = |step, exit| {
        let args = ["signal", "go", "--flow", "order-7", "--step", step];
        punctual.run(&args).exits(exit)
    };
    assert!(signal("pack", 0).stdout.contains("pack@order-7  done"));
    let none = signal("none", 3);
    assert!(none.stdout.contains("none@order-7  not found"), "{none:?}");
    assert!(none.stderr.contains("flows show"), "{none:?}");
    let wrong = punctual.run(&["clear", "paid", "zz"]).exits(2);
    assert!(wrong.stderr.contains("write it like 01994f2e"), "{wrong:?}");
    assert!(!wrong.stderr.contains("invalid_input"), "{wrong:?}");
}
