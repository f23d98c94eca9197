//! Serial groups of several members on Redis: their order, and what they leave.

use std::collections::BTreeMap;

use punctual::engine::{Claim, LeaseReport, Settle, Settlement, WorkerId};
use punctual::{Engine, NewJob, Outcome};
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, connect, here};

/// Keys that only jobs of groups have.
fn left(server: &TestServer) -> Vec<String> {
    let kinds = [":g:", ":l:", ":gm:", ":x:"];
    let keys = server.cli(&["KEYS", "*"]);
    let keys = keys
        .lines()
        .filter(|key| kinds.iter().any(|kind| key.contains(kind)));
    keys.map(str::to_owned).collect()
}

#[tokio::test]
async fn groups_run_in_order_though_some_are_released_and_leave_no_bytes() {
    const GROUPS: usize = 20;
    const MEMBERS: usize = 30;
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let job = |nth: usize| {
        let job = NewJob::new(QUEUE, nth.to_string()).group(format!("group {}", nth % GROUPS));
        job.priority([5, 3][nth % 2])
    };
    let jobs = (0..GROUPS * MEMBERS).map(job).collect();
    engine.enqueue(&here(), jobs).await.expect("enqueue");
    assert!(!left(&server).is_empty(), "groups have keys of their own");
    let (mut ended, mut round, mut done) = (0, 0, BTreeMap::<usize, Vec<usize>>::new());
    while ended < GROUPS * MEMBERS {
        round += 1;
        assert!(round < 1000, "{ended} have ended");
        let claim = Claim::new(WorkerId::random(), QUEUE, 100);
        for lease in engine.claim(&here(), claim).await.expect("claim").leases {
            let mut end = |(nth, job): (usize, &punctual::JobRecord)| {
                if (nth + round) % 3 == 0 {
                    return Settlement::new(job.id, job.attempt, Outcome::Released);
                }
                let text = std::str::from_utf8(&job.payload).expect("digits");
                let number: usize = text.parse().expect("a number");
                done.entry(number % GROUPS).or_default().push(number);
                ended += 1;
                Settlement::new(job.id, job.attempt, Outcome::Completed)
            };
            let ends = lease.jobs.iter().enumerate().map(&mut end).collect();
            let settle = Settle::new(vec![LeaseReport::new(lease.token, ends)]);
            engine.settle(&here(), settle).await.expect("settle");
        }
    }
    for numbers in done.values() {
        assert_eq!(numbers.len(), MEMBERS);
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
    assert_eq!(left(&server), Vec::<String>::new());
}
