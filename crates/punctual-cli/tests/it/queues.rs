//! Tests of the command: queues.

use serde_json::json;

use crate::serve::Server;
use crate::support::Punctual;

#[test]
fn queues_are_counted_paused_resumed_and_purged() {
    let punctual = Punctual::with_data();
    assert!(
        punctual
            .run(&["queues", "list"])
            .exits(0)
            .stderr
            .contains("no queues")
    );
    punctual.enqueue(&["mail", "{}"]);
    punctual.enqueue(&["mail", "{}", "--delay", "1h"]);
    punctual.enqueue(&["orders", "{}"]);
    let mail = punctual.one(&["queues", "list", "mail"]);
    assert_eq!(
        (&mail["ready"], &mail["scheduled"], &mail["paused"]),
        (&json!(1), &json!(1), &json!(false))
    );

    let mistyped = punctual
        .run(&["queues", "pause", "mial", "orders"])
        .exits(0);
    assert_eq!(mistyped.stdout, "mial is paused\norders is paused\n");
    let note = "mial never had a job";
    assert_eq!(mistyped.stderr.matches("never had a job").count(), 1);
    assert!(mistyped.stderr.contains(note), "{mistyped:?}");
    let again = ["queues", "resume", "mial", "orders"];
    punctual.run(&again).exits(0);

    assert_eq!(punctual.one(&["queues", "pause", "mail"])["changed"], true);
    assert_eq!(punctual.one(&["queues", "pause", "mail"])["changed"], false);
    let table = punctual.run(&["queues", "list"]).exits(0).stdout;
    assert!(table.contains("mail (paused)"), "{table}");
    let rests = punctual
        .run(&["work", "mail", "--exec", "true", "--until-idle"])
        .exits(0);
    assert!(
        rests.stderr.contains("mail is paused with 1 ready job"),
        "{rests:?}"
    );
    assert_eq!(
        punctual.one(&["queues", "list", "mail"])["ready"],
        1,
        "a paused queue rests"
    );
    assert_eq!(punctual.one(&["queues", "resume", "mail"])["changed"], true);

    assert_eq!(punctual.one(&["queues", "purge", "mail"])["pending"], 2);
    assert_eq!(
        punctual.one(&["queues", "purge", "mail", "--yes"])["cancelled"],
        2
    );
    let mail = punctual.one(&["queues", "list", "mail"]);
    assert_eq!(
        (&mail["ready"], &mail["scheduled"], &mail["cancelled"]),
        (&json!(0), &json!(0), &json!(2))
    );
    assert_eq!(punctual.one(&["queues", "list", "orders"])["ready"], 1);
}

#[test]
fn what_is_old_or_has_ended_is_cleaned() {
    let punctual = Punctual::new();
    punctual.enqueue(&["mail", "{}", "--retention", "1h"]);
    punctual
        .run(&["work", "mail", "--exec", "true", "--until-idle"])
        .exits(0);
    punctual.enqueue(&["mail", "{}", "--delay", "1h"]);
    let purge = |args: &[&str]| punctual.one(&[&["queues", "purge", "mail"], args].concat());
    assert_eq!(purge(&["--older-than", "1d"])["changed"], 0);
    assert_eq!(purge(&["--older-than", "0s"])["changed"], 1);
    assert_eq!(
        purge(&["--settled", "--older-than", "1d", "--yes"])["changed"],
        0
    );
    assert_eq!(punctual.one(&["queues", "list", "mail"])["completed"], 1);
    assert_eq!(purge(&["--settled", "--yes"])["changed"], 1);
    assert_eq!(purge(&["--older-than", "0s", "--yes"])["changed"], 1);
    let mail = punctual.one(&["queues", "list", "mail"]);
    assert_eq!(
        (&mail["completed"], &mail["scheduled"], &mail["cancelled"]),
        (&json!(0), &json!(0), &json!(1))
    );
}

#[test]
fn a_queue_is_deleted_with_its_jobs_if_that_is_asked() {
    let punctual = Punctual::new();
    punctual.enqueue(&["mail", "{}", "--delay", "1h"]);
    punctual.run(&["queues", "pause", "mail"]).exits(0);
    let refused = punctual
        .run(&["queues", "delete", "mail", "--yes"])
        .exits(4);
    assert!(refused.stderr.contains("1 waits"), "{refused:?}");
    let refused = punctual.run(&["queues", "delete", "mail"]).exits(4);
    assert!(refused.stderr.contains("--purge"), "{refused:?}");
    let dry = punctual.one(&["queues", "delete", "mail", "--purge"]);
    assert_eq!((&dry["dry_run"], &dry["jobs"]), (&json!(true), &json!(1)));
    assert_eq!(punctual.one(&["queues", "list", "mail"])["scheduled"], 1);
    let done = punctual.one(&["queues", "delete", "mail", "--purge", "--yes"]);
    assert_eq!(done["deleted"], true);
    assert_eq!(punctual.json(&["queues", "list"]).len(), 0);
    punctual
        .run(&["queues", "delete", "mail", "--yes"])
        .exits(3);
}

#[test]
fn a_waiting_job_gets_another_payload() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&[
        "mail",
        r#"{"to":"ann"}"#,
        "--delay",
        "1h",
        "--max-crashes",
        "1",
    ]);
    let update = ["jobs", "update", &id, "--payload", r#"{"to":"bob"}"#];
    punctual
        .run(&[&update[..], &["--dry-run"]].concat())
        .exits(0);
    let payload = || punctual.one(&["jobs", "show", &id])["payload"].clone();
    assert_eq!(payload(), json!({"to": "ann"}));
    assert_eq!(punctual.one(&update)["verdict"], "done");
    assert_eq!(payload(), json!({"to": "bob"}));
    assert_eq!(punctual.one(&["jobs", "show", &id])["max_crashes"], 1);
    punctual.run(&["jobs", "cancel", &id]).exits(0);
    punctual.run(&update).exits(4);
    assert_eq!(punctual.one(&["jobs", "redrive", &id])["state"], "ready");
}

/// A job keeps its content type, so its new payload has to be of that type.
#[test]
fn a_json_job_gets_no_payload_that_is_no_json() {
    let punctual = Punctual::new();
    let id = punctual.enqueue(&["mail", r#"{"to":"ann"}"#, "--delay", "1h"]);
    let update = |id: &str, more: &[&str]| {
        punctual.run(&[&["jobs", "update", id, "--payload"], more].concat())
    };
    for more in [&["hello"][..], &["hello", "--dry-run"], &["{}", "--text"]] {
        let refused = update(&id, more).exits(2);
        let said = ["text/plain", "application/json", "enqueue a new one"];
        assert!(
            said.iter().all(|part| refused.stderr.contains(part)),
            "{refused:?}"
        );
    }
    let shown = punctual.one(&["jobs", "show", &id]);
    assert_eq!(shown["payload"], json!({"to": "ann"}));
    update(&id, &["\"hello\""]).exits(0);
    let words = punctual.enqueue(&["mail", "hello", "--delay", "1h"]);
    update(&words, &["bye"]).exits(0);
    update(&words, &["{}"]).exits(0);
    update("0198c0de-0000-7000-8000-000000000007", &["bye"]).exits(3);
}

#[test]
fn the_doctor_finds_what_waits_for_a_person() {
    let punctual = Punctual::with_data();
    let well = punctual.one(&["doctor"]);
    assert_eq!(well["ok"], true, "{well}");
    punctual.enqueue(&["mail", "{}", "--max-attempts", "1"]);
    punctual
        .run(&["work", "mail", "--exec", "false", "--until-idle"])
        .exits(0);
    punctual.enqueue(&["mail", "{}"]);
    punctual.run(&["queues", "pause", "mail"]).exits(0);
    let reported = punctual.run(&["doctor"]).exits(0).stdout;
    assert!(reported.contains("1 dead job"), "{reported}");
    assert!(
        reported.contains("punctual queues resume mail"),
        "{reported}"
    );
    // The doctor's own job leaves no trace where the user reads.
    assert_eq!(punctual.json(&["queues", "list"]).len(), 1);
}

#[test]
fn the_doctor_is_content_over_http_with_a_token_of_one_namespace() {
    let punctual = Punctual::new();
    let token = "a-token-of-the-shop-0123456789";
    let tokens = format!("{token} shop read,enqueue,work,admin\n");
    let tokens = punctual.write("tokens", tokens);
    let tokens = tokens.to_str().expect("a path");
    let server = Server::start(&punctual, &["--token-file", tokens]);
    let url = server.url();
    let run = |args: &[&str]| {
        let mut command = punctual.command(&[args, &["--engine", &url]].concat());
        let output = command.env("PUNCTUAL_TOKEN", token).output();
        crate::support::Ran::from(output.expect("it runs"))
    };
    let well = run(&["doctor"]).exits(0);
    assert!(well.stdout.contains("completed in"), "{well:?}");
    let left = run(&["queues", "list", "--names"]).exits(0).stdout;
    assert_eq!(left, "", "its own queue is deleted");
    // The namespace is that of the token, unless one is named.
    run(&["enqueue", "mail", "{}"]).exits(0);
    let queues = run(&["queues", "list", "--names", "--namespace", "shop"]);
    assert!(queues.exits(0).stdout.contains("mail\n"));
    run(&["queues", "list", "--namespace", "other"]).exits(2);
    run(&["audit"]).exits(0);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_job_that_just_ran_can_be_seen() {
    let punctual = Punctual::new();
    let kept = punctual.enqueue(&["mail", "{}"]);
    let dropped = punctual.enqueue(&["mail", "{}", "--kind", "mail.send", "--retention", "0s"]);
    punctual
        .run(&["work", "mail", "--exec", "true", "--until-idle"])
        .exits(0);
    assert_eq!(punctual.one(&["jobs", "show", &kept])["retention"], "1h");
    let ended = punctual.json(&["jobs", "list", "--queue", "mail", "--ended"]);
    let ended: Vec<_> = ended
        .iter()
        .map(|end| (&end["id"], &end["state"]))
        .collect();
    let completed = json!("completed");
    for id in [&kept, &dropped] {
        assert!(ended.contains(&(&json!(id), &completed)), "{ended:?}");
    }
    let listed = punctual.run(&["jobs", "list"]).exits(0).stdout;
    let (jobs, ends) = listed.split_once("no longer kept").expect("both parts");
    assert!(jobs.contains(&kept) && !jobs.contains(&dropped), "{listed}");
    assert!(ends.contains(&dropped) && !ends.contains(&kept), "{listed}");
    assert!(ends.contains("mail.send"), "{listed}");
    let queue = punctual.one(&["queues", "list", "mail"]);
    assert_eq!(queue["last_end"]["state"], "completed");
    let queues = punctual.run(&["queues", "list"]).exits(0).stdout;
    assert!(
        queues.contains("LAST END") && queues.contains("completed "),
        "{queues}"
    );
}

#[test]
fn a_queue_is_limited_and_says_how_its_limits_stand() {
    let punctual = Punctual::with_data();
    let limit = |args: &[&str]| punctual.run(&[&["queues", "limit", "mail"], args].concat());
    assert_eq!(limit(&[]).exits(0).stdout, "mail has no limit\n");
    let set = limit(&["--concurrency", "50", "--rate", "1000/1m"]).exits(0);
    assert!(set.stdout.contains("0 of 50"), "{set:?}");
    assert!(set.stdout.contains("1000/1m window"), "{set:?}");
    // What is not named stays.
    limit(&["--rate", "1/h", "--kind", "smooth", "--burst", "0"]).exits(0);
    let reported = punctual.one(&["queues", "limit", "mail"]);
    let rate = json!({"kind": "smooth", "starts": 1, "per": "1h", "burst": 0});
    assert_eq!(
        (&reported["concurrency"], &reported["rate"]),
        (&json!(50), &rate)
    );
    punctual.enqueue(&["mail", "{}"]);
    punctual.enqueue(&["mail", "{}"]);
    let work = ["work", "mail", "--exec", "true", "--until-idle"];
    let rests = punctual.run(&work).exits(0);
    let note = "mail is at its limit with 1 ready job";
    assert!(rests.stderr.contains(note), "{rests:?}");
    let reported = punctual.one(&["queues", "limit", "mail"]);
    assert_eq!(reported["closed"], "rate");
    let table = punctual.run(&["queues", "list"]).exits(0).stdout;
    assert!(table.contains("opens in"), "{table}");
    let off = limit(&["--none"]).exits(0);
    assert_eq!(off.stdout, "mail has no limit any more\n");
    punctual.run(&work).exits(0);
    assert_eq!(punctual.one(&["queues", "list", "mail"])["ready"], 0);
    for (args, remedy) in [
        (&["--concurrency", "0"][..], "pause the queue"),
        (&["--concurrency", "many"], "1 to 1000000, or none"),
        (&["--rate", "20"], "such as 20/1s"),
        (&["--rate", "20/0s"], "1 ms to 365 days"),
        (&["--rate", "20/1s", "--burst", "2"], "--kind smooth"),
        (
            &["--rate", "20/1s", "--kind", "smooth", "--burst", "21"],
            "at most the starts",
        ),
        (&["--burst", "2"], "--rate"),
        (&["--none", "--concurrency", "2"], "--concurrency"),
    ] {
        let refused = limit(args).exits(2);
        assert!(refused.stderr.contains(remedy), "{args:?}: {refused:?}");
    }
}

#[test]
fn a_share_of_any_name_stands_in_a_command_as_a_shell_reads_it() {
    let punctual = Punctual::with_data();
    for (share, option) in [
        ("acme", "--share acme`"),
        ("a'b; true", r"--share='a'\''b; true'`"),
        ("-x", "--share='-x'`"),
    ] {
        let id = punctual.enqueue(&["mail", "{}", &format!("--share={share}")]);
        let pause = ["queues", "pause", "mail", &format!("--share={share}")];
        punctual.run(&pause).exits(0);
        let explained = punctual.run(&["jobs", "explain", &id]).exits(0).stdout;
        assert!(explained.contains(option), "{explained}");
    }
}

#[test]
fn a_share_with_as_many_pending_jobs_as_it_may_is_refused_one_more() {
    let punctual = Punctual::with_data();
    let limit = |args: &[&str]| punctual.run(&[&["queues", "limit", "mail"], args].concat());
    let set = limit(&["--share-max-pending", "1"]).exits(0);
    assert!(set.stdout.contains("pending of a share"), "{set:?}");
    assert_eq!(
        punctual.one(&["queues", "limit", "mail"])["shares"]["max_pending"],
        1
    );
    punctual.enqueue(&["mail", "{}", "--share", "acme"]);
    let more = ["enqueue", "mail", "{}", "--share", "acme"];
    let refused = punctual.run(&more).exits(4);
    let said = "refused (share_full): share acme has the 1 pending jobs";
    assert!(refused.stdout.contains(said), "{refused:?}");
    limit(&["--share-max-pending", "none"]).exits(0);
    punctual.run(&more).exits(0);
}

#[test]
fn shares_of_a_queue_are_limited_blocked_and_shown() {
    let punctual = Punctual::with_data();
    let limit = |args: &[&str]| punctual.run(&[&["queues", "limit", "mail"], args].concat());
    limit(&["--share-concurrency", "4", "--share-rate", "10/1s"]).exits(0);
    let set = limit(&["--weight", "acme=5"]).exits(0);
    for reported in ["at most 4", "10/1s window", "5 for acme"] {
        assert!(set.stdout.contains(reported), "{set:?}");
    }
    for share in ["acme", "acme", "small"] {
        punctual.enqueue(&["mail", "{}", "--share", share]);
    }
    let block = ["queues", "block", "mail", "--share", "acme", "60s"];
    let blocked = punctual.run(&block).exits(0);
    assert_eq!(blocked.stdout, "no job of acme in mail starts for 1m\n");
    let top = punctual.run(&["queues", "top", "mail"]).exits(0).stdout;
    assert!(
        top.contains("acme") && top.contains("blocked, opens in"),
        "{top}"
    );
    let work = ["work", "mail", "--exec", "true", "--until-idle"];
    punctual.run(&work).exits(0);
    assert_eq!(punctual.one(&["queues", "list", "mail"])["ready"], 2);
    let open = ["queues", "block", "mail", "--share", "acme", "0s"];
    assert_eq!(
        punctual.run(&open).exits(0).stdout,
        "acme in mail is open\n"
    );
    punctual.run(&work).exits(0);
    assert_eq!(punctual.one(&["queues", "list", "mail"])["ready"], 0);
    // A weight of 1 takes it off; the limits stay.
    limit(&["--weight", "acme=1"]).exits(0);
    let reported = punctual.one(&["queues", "limit", "mail"]);
    assert_eq!(reported["shares"]["weights"], json!({}));
    assert_eq!(reported["shares"]["concurrency"], 4);
    let refused = limit(&["--weight", "acme"]).exits(2);
    assert!(refused.stderr.contains("acme=5"), "{refused:?}");
    let off = limit(&["--none"]).exits(0);
    assert_eq!(off.stdout, "mail has no limit any more\n");
}

#[test]
fn named_limits_are_set_listed_blocked_and_removed() {
    let punctual = Punctual::with_data();
    let limits = |args: &[&str]| punctual.run(&[&["limits"], args].concat());
    let set = limits(&["set", "smtp", "--concurrency", "4", "--rate", "100/1m"]).exits(0);
    for reported in ["0 of 4", "100/1m window", "open"] {
        assert!(set.stdout.contains(reported), "{set:?}");
    }
    for queue in ["mail", "alerts"] {
        punctual.enqueue(&[queue, "{}", "--limit", "smtp:a", "--cost", "2"]);
    }
    let blocked = limits(&["block", "smtp:a", "60s"]).exits(0);
    assert_eq!(
        blocked.stdout,
        "no job with the limit smtp:a starts for 1m\n"
    );
    let work = ["work", "mail", "--exec", "true", "--until-idle"];
    punctual.run(&work).exits(0);
    assert_eq!(punctual.one(&["queues", "list", "mail"])["ready"], 1);
    let listed = limits(&["list"]).exits(0).stdout;
    assert!(listed.contains("blocked, opens in"), "{listed}");
    let shown = punctual.one(&["limits", "show", "smtp:a"]);
    assert_eq!(
        (&shown["set_by"], &shown["concurrency"]),
        (&json!("smtp"), &json!(4))
    );
    assert_eq!(
        limits(&["block", "smtp:a", "0s"]).exits(0).stdout,
        "smtp:a is not blocked any more\n"
    );
    punctual.run(&work).exits(0);
    assert_eq!(punctual.one(&["queues", "list", "mail"])["ready"], 0);
    let exported = punctual.run(&["export", "-"]).exits(0).stdout;
    assert!(exported.contains(r#"{"record":"limit/smtp""#), "{exported}");
    let full = ["set", "one", "--concurrency", "1", "--when-full", "refuse"];
    let set = limits(&full).exits(0);
    assert!(set.stdout.contains("refuse"), "{set:?}");
    let shown = punctual.one(&["limits", "show", "one"]);
    assert_eq!(shown["when_full"], "refuse");
    let exported = punctual.run(&["export", "-"]).exits(0).stdout;
    assert!(exported.contains(r#""when_full":"refuse""#), "{exported}");
    let paused = ["queues", "pause", "mail", "--share", "acme"];
    let reported = punctual.run(&paused).exits(0).stdout;
    assert_eq!(reported, "share acme of mail is paused\n");
    let resumed = ["queues", "resume", "mail", "--share", "acme"];
    let reported = punctual.run(&resumed).exits(0).stdout;
    assert_eq!(reported, "share acme of mail is resumed\n");
    let removed = limits(&["remove", "smtp"]).exits(0);
    assert_eq!(removed.stdout, "smtp has no settings any more\n");
    for (args, remedy) in [
        (&["set", "smtp"][..], "a concurrency or a rate"),
        (&["set", "smtp", "--concurrency", "0"], "1 to 1,000,000"),
        (&["set", "a b", "--concurrency", "1"], "name"),
    ] {
        let refused = limits(args).exits(2);
        assert!(refused.stderr.contains(remedy), "{args:?}: {refused:?}");
    }
}
