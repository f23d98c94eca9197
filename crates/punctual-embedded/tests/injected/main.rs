//! The durable laws and the cuts of histories are proved: each bug of what the log keeps is found.
//!
//! A binary of its own with one test, because an injected bug is in every engine of the process.

/// Histories that are cut, as the tests of crashes cut them.
#[path = "../it/crash/cuts.rs"]
#[allow(dead_code)]
mod cuts;
// The other harness of that file is for the tests in directories.
#[allow(dead_code)]
#[path = "../it/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../it/crash/history.rs"]
mod history;

use cuts::{cut_everywhere, mix, torn};
use harness::Forgetful;
use punctual::conformance::{DURABLE_LAWS, find, first_broken};
use punctual::engine::Durability;
use punctual::injected::{Bug, inject};
use punctual_embedded::testing::Crash;

#[test]
fn injected_bugs_of_what_the_log_keeps_are_found() {
    let found = find(Bug::AckBeforeWrite, DURABLE_LAWS, Forgetful);
    let broken = found.expect("a durable law finds it");
    println!("{:?} breaks {broken}", Bug::AckBeforeWrite);
    let broken = first_broken(DURABLE_LAWS, Forgetful);
    assert_eq!(broken, None, "an engine without a bug breaks no law");
    for bug in Bug::BELOW_THE_LAW {
        inject(Some(bug));
        let is_found = [3, 4].into_iter().any(power_cuts_break);
        inject(None);
        assert!(is_found, "{bug:?} breaks no history that is cut");
    }
}

/// Whether a history fails that power cuts end, after which the disk has some of what was not
/// synced.
fn power_cuts_break(seed: u64) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(8)
        .enable_all()
        .build();
    let cut = move |at| Crash::PowerCut {
        keeps: mix(seed, at),
    };
    let cuts = cut_everywhere(seed, move |at| torn(seed, at), cut, Durability::Fsync);
    let runtime = runtime.expect("the system starts threads");
    let ran = runtime.block_on(async { tokio::spawn(cuts).await });
    ran.is_err()
}
