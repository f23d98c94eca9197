//! One job by itself: how many commands its life takes, and that it is the life of any other.

use punctual::engine::{Claim, EnqueueVerdict, WorkerId};
use punctual::time::{Clock, SystemClock, hours};
use punctual::{Due, Engine, NewJob, Unique};
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, claim_as, connect, here, job};
use crate::meter::Meter;

/// Most commands of an enqueue, a claim and a settle of jobs sent one by one, the call itself among
/// them.
async fn assert_life(job: impl Fn() -> NewJob, most: [u64; 3]) {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let mut meter = Meter::of(&server, false);
    for nth in 0..20 {
        let before = meter.commands();
        // A short record would make its hash a table first, once in a while.
        let mut job = job();
        job.payload = vec![b'x'; 100].into();
        let sent = engine.enqueue(&here(), vec![job]).await.expect("enqueue");
        assert_eq!(sent.receipts[0].verdict, EnqueueVerdict::Created);
        let enqueued = meter.commands();
        let claim = Claim::new(WorkerId(7), QUEUE, 1);
        let claimed = claim_as(&engine, claim).await.expect("claim");
        let after_claim = meter.commands();
        assert!(claimed[0].complete(&engine).await.expect("settle"));
        let counts = [
            enqueued - before,
            after_claim - enqueued,
            meter.commands() - after_claim,
        ];
        // The first one reads what later ones know, and the meter counts its own questions.
        let fits = counts
            .iter()
            .zip(most)
            .all(|(count, most)| *count <= most + 1);
        assert!(nth == 0 || fits, "{counts:?} of {most:?}");
    }
}

#[tokio::test]
async fn the_life_of_a_lone_job_takes_thirty_commands() {
    assert_life(job, [8, 11, 12]).await;
}

/// It asks for the holder of the key and sets it; a settle reads the record, and frees the key.
#[tokio::test]
async fn a_key_of_a_lone_job_takes_five_commands_more() {
    let keyed = || {
        let mut job = job();
        job.unique = Some(Unique::new("order"));
        job
    };
    assert_life(keyed, [10, 11, 15]).await;
}

#[tokio::test]
async fn an_expiry_of_a_lone_job_takes_a_few_commands_more() {
    let expiring = || {
        let mut job = job();
        job.expires_at = Some(SystemClock.now() + hours(1));
        job
    };
    assert_life(expiring, [9, 14, 14]).await;
}

/// Orders: each has a key and is due in half an hour.
#[tokio::test]
async fn a_lone_order_takes_a_dozen_commands() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let mut meter = Meter::of(&server, false);
    for nth in 0..20 {
        let before = meter.commands();
        let mut job = job();
        job.payload = vec![b'x'; 100].into();
        job.due = Due::After(hours(1) / 2);
        job.unique = Some(Unique::new(format!("order-{nth}")));
        let sent = engine.enqueue(&here(), vec![job]).await.expect("enqueue");
        assert_eq!(sent.receipts[0].verdict, EnqueueVerdict::Created);
        let count = meter.commands() - before;
        assert!(nth == 0 || count <= 12 + 1, "{count}");
    }
}
