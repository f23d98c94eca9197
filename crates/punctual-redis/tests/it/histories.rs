//! The engine and the reference model do the same, step by step.

use std::ops::Range;

use punctual::conformance::{Histories, check_histories};

use crate::harness::{On, OnCluster, OnFullBundles, OnServer, Place};

/// Histories whose jobs are few are to meet bundles too: else they would say nothing of them.
fn agrees_with_the_model<P: Place>(servers: On<P>, histories: Histories) {
    let histories = Histories {
        namespaces: 1,
        ..histories
    };
    check_histories(servers.clone(), histories.or_from_env());
    let met = servers.bundles_met();
    let [stored, reported, noted] = met;
    println!(
        "{stored} bundles were stored, {reported} reported as runs, {noted} noted as completed"
    );
    let is_one_seed = std::env::var("PUNCTUAL_SEED").is_ok();
    assert!(is_one_seed || !met.contains(&0), "{met:?}");
}

#[test]
fn redis_engine_agrees_with_the_model() {
    let histories = Histories {
        seeds: 0..3,
        ..Histories::default()
    };
    agrees_with_the_model(OnServer::default(), histories);
}

#[test]
fn redis_engine_agrees_with_the_model_on_more_seeds() {
    let histories = Histories {
        seeds: 3..30,
        ..Histories::default()
    };
    agrees_with_the_model(OnServer::default(), histories);
}

/// With as many jobs to a bundle, a note or an unseen lease as in production, and calls of more
/// jobs.
#[test]
fn redis_engine_with_full_bundles_agrees_with_the_model() {
    let histories = Histories {
        seeds: 30..42,
        alike: 30,
        ..Histories::default()
    };
    agrees_with_the_model(OnFullBundles::default(), histories);
}

/// Every key of a function's call must lie in the slot that its first one names.
#[test]
fn redis_engine_on_a_cluster_agrees_with_the_model() {
    check_histories(OnCluster::default(), on_a_cluster(42..43).or_from_env());
}

#[test]
fn redis_engine_on_a_cluster_agrees_with_the_model_on_more_seeds() {
    check_histories(OnCluster::default(), on_a_cluster(43..52).or_from_env());
}

fn on_a_cluster(seeds: Range<u64>) -> Histories {
    Histories {
        seeds,
        namespaces: 1,
        ..Histories::default()
    }
}

/// A lease ended in a microsecond in which the clock was behind, and its attempt was answered to
/// have ended a microsecond after that.
#[test]
fn any_call_that_finds_a_crash_ends_it_with_its_lease() {
    let histories = Histories {
        seeds: 1_046..1_047,
        ..Histories::default()
    };
    agrees_with_the_model(OnServer::default(), histories);
}
