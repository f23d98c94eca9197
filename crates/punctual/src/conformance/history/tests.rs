//! Tests of histories: the model agrees with itself, and injected bugs are found.

mod standin;

use standin::{Bug, Standin};

use super::*;

async fn first_failure(bug: Option<Bug>, seeds: Range<u64>) -> Option<Failure> {
    let histories = Histories {
        seeds,
        ..Histories::default()
    };
    run_histories(&Standin { bug }, histories.or_from_env())
        .await
        .err()
}

#[tokio::test]
async fn model_agrees_with_itself() {
    agrees_with_itself(0..20).await;
}

#[tokio::test]
async fn model_agrees_with_itself_on_more_seeds() {
    agrees_with_itself(20..60).await;
}

async fn agrees_with_itself(seeds: Range<u64>) {
    let failure = first_failure(None, seeds).await;
    assert_eq!(failure, None, "{}", failure.as_ref().unwrap());
}

#[tokio::test]
async fn every_injected_bug_is_found_and_shrunk() {
    for bug in Bug::ALL {
        let failure = first_failure(Some(bug), 0..200).await;
        let failure = failure.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?}: {failure}\n");
        assert!(
            failure.steps.len() <= bug.steps_needed(),
            "{bug:?} is not shrunk: {failure}"
        );
    }
}

#[test]
fn a_seed_makes_the_same_history_each_time() {
    let histories = Histories {
        durable: true,
        ..Histories::default()
    };
    let of = |seed| generate::history(seed, &histories);
    assert!(of(7) == of(7));
    assert!(of(7) != of(8));
}
