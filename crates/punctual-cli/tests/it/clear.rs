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
