//! Laws of many: thousands of jobs, changes or shares leave nothing behind and stay in turn.

use std::collections::HashMap;

use super::case::*;
use super::shares::{by_weight, of};
use crate::engine::{Action, Settlement, Target, Token};
use crate::job::{Due, JobId, Outcome, TOMBSTONE_BYTES};
use crate::time::{Stopwatch, hours, millis, minutes, pause, seconds};

/// A job that is rescheduled 100,000 times takes no more room than before.
pub(super) async fn a_job_rescheduled_100_000_times_takes_no_room(case: Case) {
    let sent = case
        .enqueue_all((0..100).map(|_| job_in(hours(1))).collect())
        .await;
    let targets: Vec<Target> = vec![sent[0].into(); 1_000];
    let mut before = None;
    for round in 0..101_u64 {
        let due = Due::After(minutes(1 + round * 37 % 600));
        case.edit_all(targets.clone(), Action::Reschedule(due))
            .await;
        if round == 0 {
            before = case.settled_store_bytes().await;
        }
    }
    if let (Some(before), Some(after)) = (before, case.settled_store_bytes().await) {
        assert!(
            after <= before + before / 4 + 65_536,
            "{before} bytes before, {after} after"
        );
    }
    case.edit(sent[0], Action::RunNow).await;
    assert_eq!(case.claim_ids(10).await, [sent[0]]);
}

/// A queue that 20,000 jobs have passed takes no more room than one that 2,000 have.
pub(super) async fn a_queue_that_jobs_have_passed_takes_no_room(case: Case) {
    let case = case
        .limited(|limits| limits.tombstone_bytes = 500 * TOMBSTONE_BYTES)
        .await;
    let mut before = None;
    for round in 0..20 {
        case.enqueue_all((0..1_000).map(|_| job()).collect()).await;
        // One settle each costs a busy machine most of a minute: a fifth of the rounds has them.
        match round % 5 {
            0 => drop(case.drain().await),
            _ => case.drain_together().await,
        }
        if round == 1 {
            before = case.settled_store_bytes().await;
        }
    }
    if let (Some(before), Some(mut after)) = (before, case.settled_store_bytes().await) {
        let bound = before + before / 4 + 262_144;
        // A checkpoint in the background takes out of the store what has gone meanwhile.
        let watch = Stopwatch::start();
        while after > bound && watch.elapsed() < seconds(30) {
            pause(millis(20)).await;
            after = case.settled_store_bytes().await.unwrap_or_default();
        }
        assert!(after <= bound, "{before} bytes before, {after} after");
    }
    assert_eq!(case.claim_ids(10).await, [] as [JobId; 0]);
}

/// Ten thousand shares of one job each have one turn each, and leave nothing.
pub(super) async fn ten_thousand_shares_take_turns(case: Case) {
    for thousand in 0..10 {
        let jobs = (0..1_000).map(|nth| of(&format!("share {}", thousand * 1_000 + nth)));
        case.enqueue_all(jobs.collect()).await;
    }
    case.many_of("share 7", 100).await;
    let (mut seen, mut turns) = (HashMap::new(), 0);
    while turns < 10_000 {
        // An engine may answer fewer at a time.
        let claimed = case.claim((10_000 - turns).min(1_000)).await;
        assert!(claimed.len() >= 100 || turns + claimed.len() == 10_000);
        turns += claimed.len();
        for attempt in &claimed {
            let share = attempt.job.share.clone().expect("it has one");
            *seen.entry(share).or_insert(0) += 1;
        }
        let settlements: Vec<_> = claimed
            .iter()
            .map(|one| one.ended(Outcome::Completed))
            .collect();
        let settled = case.try_settle(claimed[0].token, settlements).await;
        settled.expect("settle");
    }
    assert_eq!(seen.len(), 10_000, "each had its turn");
    assert_eq!(case.drain().await.len(), 100);
    case.maintain().await;
    assert_eq!(case.top(10).await, [], "nothing is left of any share");
}

/// Over ten thousand starts each share has its part by its weight, within a hundredth of it,
/// however many jobs a claim takes.
pub(super) async fn weights_hold_over_ten_thousand_starts(case: Case) {
    const STARTS: usize = 10_000;
    case.configure(by_weight(&[("b", 2), ("c", 5)]), 0).await;
    let (mut starts, mut waiting) = (HashMap::new(), HashMap::new());
    let mut draw = 1_usize;
    let mut left = STARTS;
    while left > 0 {
        // Every share always has more jobs than a claim takes.
        for share in ["a", "b", "c"] {
            let waits: &mut usize = waiting.entry(share.to_owned()).or_default();
            if *waits < 250 {
                *waits += case.many_of(share, 1_000).await.len();
            }
        }
        draw = (draw * 48_271) % 2_147_483_647;
        let claimed = case.claim((1 + draw % 200).min(left)).await;
        let mut leases: Vec<(Token, Vec<Settlement>)> = Vec::new();
        for attempt in claimed {
            left -= 1;
            let share = attempt.job.share.clone().unwrap_or_default();
            *waiting.get_mut(&share).expect("it is one of three") -= 1;
            *starts.entry(share).or_insert(0_usize) += 1;
            let ended = attempt.ended(Outcome::Completed);
            match leases.iter_mut().find(|(token, _)| *token == attempt.token) {
                Some((_, settlements)) => settlements.push(ended),
                None => leases.push((attempt.token, vec![ended])),
            }
        }
        for (token, settlements) in leases {
            case.try_settle(token, settlements).await.expect("settled");
        }
    }
    for (share, weight) in [("a", 1), ("b", 2), ("c", 5)] {
        let part = STARTS * weight / 8;
        let found = starts[share];
        assert!(found.abs_diff(part) * 100 <= part, "{share}: {starts:?}");
    }
}
