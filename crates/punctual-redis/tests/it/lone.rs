//! One job by itself: how many commands its life takes, and that it is the life of any other.

use punctual::Engine;
use punctual::engine::{Claim, EnqueueVerdict, WorkerId};
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, claim_as, connect, here, job};
use crate::meter::Meter;

/// Commands of an enqueue, a claim and a settle, the call itself among them.
const ENQUEUE: u64 = 8;
const CLAIM: u64 = 11;
const SETTLE: u64 = 12;

#[tokio::test]
async fn the_life_of_a_lone_job_takes_thirty_commands() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let mut meter = Meter::of(&server, false);
    for nth in 0..20 {
        let before = meter.commands();
        let sent = engine.enqueue(&here(), vec![job()]).await.expect("enqueue");
        assert_eq!(sent.receipts[0].verdict, EnqueueVerdict::Created);
        let enqueued = meter.commands();
        let claim = Claim::new(WorkerId(7), QUEUE, 1);
        let claimed = claim_as(&engine, claim).await.expect("claim");
        let after_claim = meter.commands();
        assert!(claimed[0].complete(&engine).await.expect("settle"));
        let settled = meter.commands();
        // The first one reads what later ones know, and the meter counts its own questions.
        if nth > 0 {
            let asked = 1;
            assert!(
                enqueued - before <= ENQUEUE + asked,
                "enqueue: {}",
                enqueued - before
            );
            assert!(
                after_claim - enqueued <= CLAIM + asked,
                "claim: {}",
                after_claim - enqueued
            );
            assert!(
                settled - after_claim <= SETTLE + asked,
                "settle: {}",
                settled - after_claim
            );
        }
    }
}
