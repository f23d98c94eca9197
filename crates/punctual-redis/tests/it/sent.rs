//! Leases of jobs as they were sent: a settle in form 6 reads no record of theirs.

use punctual::engine::{EnqueueVerdict, Receipt, SettleVerdict, Token};
use punctual::flow::On;
use punctual::time::{Clock, SystemClock, hours};
use punctual::{Engine, JobId, JobState, NewJob, Outcome, Unique};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{Claimed, claim, connect, here, job, state};
use crate::hand::SHARD;
use crate::packer::call;

fn keyed(key: &str) -> NewJob {
    let mut job = job();
    job.unique = Some(Unique::new(key));
    job
}

async fn send(engine: &RedisEngine, jobs: Vec<NewJob>) -> Vec<Receipt> {
    let sent = engine.enqueue(&here(), jobs).await;
    sent.expect("enqueue").receipts
}

/// A settle of all of a lease by its token, with these keys.
fn form_6(token: Token, ids: &[JobId], keys: &[&str]) -> Vec<u8> {
    let (fence, nonce) = (token.fence.to_be_bytes(), token.nonce.to_be_bytes());
    let head = [0, 0, 0, 0, 6, 0, 0, 0, 1];
    let mut out = [&[0; 8][..], &[0, 1], &fence, &nonce, &head].concat();
    out.extend((ids.len() as u16).to_be_bytes());
    ids.iter().for_each(|id| out.extend(id.as_bytes()));
    out.extend(vec![9; 16 * ids.len()]);
    out.extend([0, 0, 1]);
    for key in keys {
        out.extend((key.len() as u16).to_be_bytes());
        out.extend(key.as_bytes());
    }
    out
}

#[tokio::test]
async fn a_settle_frees_no_key_that_its_jobs_do_not_hold() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    send(&engine, vec![keyed("a"), keyed("b"), keyed("c")]).await;
    let lease = claim(&engine, 2).await.expect("claim").remove(0);
    let ids: Vec<JobId> = lease.jobs.iter().map(|job| job.id).collect();
    let settle = form_6(lease.token, &ids, &["c", "b"]);
    let said = call(&server, SHARD, "settle", &[settle]);
    assert!(!said.starts_with('-'), "{said}");
    for id in ids {
        assert_eq!(state(&engine, id).await, Some(JobState::Completed));
    }
    let sent = send(&engine, vec![keyed("a"), keyed("b"), keyed("c")]).await;
    let verdicts: Vec<EnqueueVerdict> = sent.iter().map(|one| one.verdict).collect();
    assert_eq!(
        verdicts[..2],
        [EnqueueVerdict::Created; 2],
        "a and b have ended"
    );
    assert_ne!(verdicts[2], EnqueueVerdict::Created, "c waits");
}

fn of_share(nth: usize) -> NewJob {
    job().share(format!("share {nth}"))
}

fn of_one_share(_: usize) -> NewJob {
    job().share("share")
}

fn of_group(nth: usize) -> NewJob {
    job().group(format!("group {nth}"))
}

/// As many jobs as are claimed unseen.
const SEVERAL: usize = 10;

/// A lease of several jobs of a kind.
async fn leased(engine: &RedisEngine, kind: fn(usize) -> NewJob) -> Claimed {
    send(engine, (0..SEVERAL).map(kind).collect()).await;
    let mut leases = claim(engine, SEVERAL).await.expect("claim");
    assert_eq!(leases[0].jobs.len(), SEVERAL);
    leases.remove(0)
}

/// Lets a job wait for one of a lease, and ends the lease: the job is released.
async fn end_with_a_dependant(engine: &RedisEngine, lease: &Claimed, nth: usize) {
    let waits = job().after(lease.jobs[nth].id, On::Completed);
    let waiting = waits.id;
    send(engine, vec![waits]).await;
    assert_eq!(state(engine, waiting).await, Some(JobState::Held));
    let settled = engine.settle(&here(), lease.ends(Outcome::Completed)).await;
    let is_settled = |one: &SettleVerdict| matches!(one, SettleVerdict::Settled { .. });
    let verdicts = settled.expect("settle").verdicts.concat();
    assert!(verdicts.iter().all(is_settled), "{verdicts:?}");
    assert_eq!(state(engine, waiting).await, Some(JobState::Ready));
}

#[tokio::test]
async fn what_was_written_to_active_jobs_of_shares_and_groups_counts() {
    for kind in [of_share, of_one_share, of_group] {
        let server = TestServer::start();
        let engine = connect(&server.address()).await;
        let lease = leased(&engine, kind).await;
        end_with_a_dependant(&engine, &lease, 3).await;
    }
}

#[tokio::test]
async fn a_part_of_a_lease_ends_the_shares_and_groups_of_its_jobs() {
    for kind in [of_share, of_one_share, of_group] {
        let server = TestServer::start();
        let engine = connect(&server.address()).await;
        let lease = leased(&engine, kind).await;
        for part in [2..3, 5..9, 0..2, 9..10, 3..5] {
            let mut ends = lease.ends(Outcome::Completed);
            for report in &mut ends.leases {
                report.settlements = report.settlements[part.clone()].to_vec();
            }
            engine.settle(&here(), ends).await.expect("settle");
        }
        for job in &lease.jobs {
            assert_eq!(state(&engine, job.id).await, Some(JobState::Completed));
        }
        let keys = server.cli(&["KEYS", "*"]);
        let are_left = |key: &&str| key.contains(":ss:") || key.contains(":g:");
        assert_eq!(keys.lines().find(are_left), None, "no row is left");
    }
}

#[tokio::test]
async fn what_was_written_to_an_active_job_counts_at_its_end() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let mut expiring = keyed("b");
    expiring.expires_at = Some(SystemClock.now() + hours(1));
    send(&engine, vec![keyed("a"), expiring]).await;
    let lease = claim(&engine, 2).await.expect("claim").remove(0);
    end_with_a_dependant(&engine, &lease, 0).await;
    assert_eq!(
        server.cli(&["ZCARD", "punctual:{default/0}:xp"]).trim(),
        "0"
    );
    assert_eq!(server.cli(&["HLEN", "punctual:{default/0}:u"]).trim(), "0");
}
