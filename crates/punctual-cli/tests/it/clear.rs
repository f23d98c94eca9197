//! Tests of the command: clears of names, before and after their jobs came.

use crate::support::Punctual;

#[test]
fn a_clear_counts_before_and_after_its_job_comes() {
    let punctual = Punctual::new();
    punctual.one(&["enqueue", "mail", "{}"]);
    let id = "0198c0de-0000-7000-8000-000000000007";
    let cleared = punctual.one(&["clear", "paid", id]);
    assert_eq!(
        (&cleared["id"], &cleared["name"]),
        (&id.into(), &"paid".into())
    );
    let waits = ["--wait-for", "paid", "--wait-for", "packed"];
    let job = ["enqueue", "orders", "{}", "--id", id];
    punctual.one(&[&job[..], &waits[..]].concat());
    let state = || punctual.one(&["jobs", "show", id])["state"].clone();
    assert_eq!(state(), "held");
    punctual.one(&["clear", "packed", id]);
    assert_eq!(state(), "ready");
    for bad in [
        &["clear", "paid"][..],
        &["clear", "paid", "x"],
        &["clear", "", id],
        &["clear", "paid", id, "--flow", "f", "--step", "s"],
        &["clear", "paid", "--flow", "f"],
    ] {
        punctual.run(bad).exits(2);
    }
}

#[test]
fn an_enqueue_after_its_clear_says_that_nothing_holds_the_job() {
    let punctual = Punctual::with_data();
    let ids = ["7", "8"].map(|n| format!("0198c0de-0000-7000-8000-00000000000{n}"));
    for id in &ids {
        punctual.run(&["clear", "paid", id]).exits(0);
    }
    let said = |id: &str, more: &[&str]| {
        let job = ["enqueue", "orders", "{}", "--id", id, "--wait-for", "paid"];
        punctual.run(&[&job[..], more].concat()).exits(0).stdout
    };
    let all = said(&ids[0], &[]);
    assert!(all.contains("due now") && !all.contains("held"), "{all}");
    let some = said(&ids[1], &["--wait-for", "packed"]);
    assert!(some.contains("held until packed is cleared"), "{some}");
}

#[test]
fn a_clear_makes_no_directory_and_says_what_does() {
    let punctual = Punctual::new();
    let id = "0198c0de-0000-7000-8000-000000000007";
    let refused = punctual.run(&["clear", "paid", id]).exits(3);
    assert!(
        refused
            .stderr
            .contains("`punctual enqueue` makes a new one"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("punctual-data"), "{refused:?}");
    let help = punctual.run(&["clear", "--help"]).exits(0).stdout;
    assert!(help.contains("A directory that is missing"), "{help}");
}
