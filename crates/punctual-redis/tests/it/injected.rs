//! Laws find the bugs that are injected into the functions.

use std::process::Command;

/// A bug, and a law that it breaks.
const FOUND: [(&str, &str); 25] = [
    (
        "EarlyClearForgotten",
        "early_clears::a_clear_before_its_job_counts_when_it_comes",
    ),
    ("SlotLeftBehind", "limits::a_lost_lease_frees_its_slot"),
    (
        "SlotLeftBehind",
        "share_limits::a_lost_lease_frees_the_slot_of_its_share",
    ),
    (
        "SlotLeftBehind",
        "named::a_lost_lease_frees_the_slot_of_its_limits",
    ),
    ("SlotFreedTwice", "limits::a_lost_lease_frees_its_slot"),
    ("NamedSlotKept", "named::every_end_frees_the_slot"),
    (
        "WaitingLeftBehind",
        "share_pending::random_jobs_fill_shares_as_a_count_says",
    ),
    (
        "NewestAsked",
        "named_histories::random_limits_agree_with_a_model",
    ),
    (
        "OneGateIsEnough",
        "named::a_job_at_a_closed_limit_leaves_room_at_others",
    ),
    (
        "GatesOneByOne",
        "named::a_job_starts_when_all_its_limits_are_open",
    ),
    ("PassNotRaised", "shares::weights_hold_over_any_span"),
    (
        "ParkedForgotten",
        "share_limits::a_blocked_share_starts_nothing",
    ),
    ("TokenAtEnqueue", "limits::a_retry_takes_a_token_anew"),
    ("WindowAligned", "limits::no_window_has_more_than_the_rate"),
    (
        "ClaimedAheadOfLimit",
        "limits::a_limited_queue_is_not_claimed_ahead",
    ),
    ("MemoWithoutToken", "memos::an_old_token_keeps_nothing"),
    (
        "GuardNotCompared",
        "guards::a_guarded_settle_compares_in_its_step",
    ),
    ("GuardNotCompared", "topics::a_publish_meets_one_version"),
    (
        "WatchOnlyOnCompleted",
        "flow_ends::a_cancelled_parent_is_known_to_its_watchers",
    ),
    ("CountByClient", "flows::counts_are_those_of_a_recount"),
    (
        "GoneStepPassedOver",
        "flow_gone::a_retry_reports_steps_that_are_gone",
    ),
    (
        "GoneStepPassedOver",
        "flow_gone::a_retry_reports_steps_whose_key_is_held",
    ),
    ("HalfPlanRuns", "flow_plans::a_plan_sent_in_part_never_runs"),
    (
        "ClearedBehindAll",
        "order::cleared_jobs_stand_by_their_dues",
    ),
    (
        "KeptAsTheFirst",
        "settled::jobs_that_end_together_are_kept_for_their_own_time",
    ),
];

/// Each in a process of its own, as the environment names the bug and the law. That the law holds
/// without the bug is a test of the suite.
#[test]
fn laws_find_each_injected_bug() {
    let program = std::env::current_exe().expect("the tests");
    for (bug, law) in FOUND {
        let topic = law.split("::").next().expect("a law has a topic");
        let name = format!("conformance::{topic}::every_law_holds");
        let mut run = Command::new(&program);
        run.args([&*name, "--exact"]);
        run.env("PUNCTUAL_LAW", law).env("PUNCTUAL_PLANTED", bug);
        let output = run.output().expect("it runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let is_broken = text.contains("running 1 test") && text.contains(&format!("{law}: "));
        assert!(is_broken, "{bug} does not break {law}: {text}");
    }
}
