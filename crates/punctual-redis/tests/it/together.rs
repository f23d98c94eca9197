//! Calls of several callers that leave together.

use std::collections::BTreeSet;

use futures_util::future::{join_all, poll_immediate};
use punctual::engine::{
    Action, Claim, Control, Edit, EnqueueVerdict, Enqueued, List, ListBy, QueueSettings,
    RecordValue, Select, Target, WorkerId,
};
use punctual::time::{millis, within};
use punctual::{Engine, ErrorKind, JobId, JobState, NewJob, Result};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestProxy as Proxy, TestServer, Way};

use crate::client::{
    QUEUE, claim, claim_as, connect, drain, enqueue, here, job, options, records_of, state,
};

/// An engine that has met its shard.
async fn met() -> (TestServer, RedisEngine) {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    enqueue(&engine).await.expect("enqueue");
    drain(&engine).await;
    (server, engine)
}

fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|_| job()).collect()
}

/// Sends each job by a call of its own, all at once.
async fn all_at_once(engine: &RedisEngine, jobs: &[NewJob]) -> Vec<Result<Enqueued>> {
    let calls = jobs
        .iter()
        .map(|job| async { engine.enqueue(&here(), vec![job.clone()]).await });
    join_all(calls).await
}

fn verdicts(sent: Vec<Result<Enqueued>>) -> Vec<EnqueueVerdict> {
    let verdict = |sent: Result<Enqueued>| sent.expect("enqueue").receipts[0].verdict;
    sent.into_iter().map(verdict).collect()
}

fn ids(jobs: &[NewJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Calls of functions since the counters were set back.
fn function_calls(server: &TestServer) -> usize {
    let stats = server.cli(&["INFO", "commandstats"]);
    let calls = stats.split("cmdstat_fcall:calls=").nth(1);
    let calls = calls.and_then(|rest| rest.split(',').next());
    calls.and_then(|calls| calls.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn sixty_four_lives_at_once_take_a_few_calls() {
    let (server, engine) = met().await;
    let jobs = jobs(64);
    server.cli(&["CONFIG", "RESETSTAT"]);
    let enqueued = verdicts(all_at_once(&engine, &jobs).await);
    assert_eq!(enqueued, [EnqueueVerdict::Created; 64]);
    let claims = join_all((0..64).map(|_| claim(&engine, 1))).await;
    let leases: Vec<_> = claims
        .into_iter()
        .flat_map(|lease| lease.expect("claim"))
        .collect();
    assert_eq!(leases.len(), 64);
    let settled = join_all(leases.iter().map(|lease| lease.complete(&engine))).await;
    assert!(settled.into_iter().all(|settled| settled.expect("settle")));
    let calls = function_calls(&server);
    assert!(calls <= 12, "{calls} calls of functions for 192 calls");
    let claimed: BTreeSet<JobId> = leases.iter().map(|lease| lease.jobs[0].id).collect();
    assert_eq!(claimed, ids(&jobs).into_iter().collect());
}

/// Each call is a write of its own, later than the one before; in line they stand together.
#[tokio::test]
async fn jobs_of_calls_sent_together_are_listed_and_outlive_cancelled_ones() {
    let (_server, engine) = met().await;
    let jobs = jobs(1_250);
    verdicts(all_at_once(&engine, &jobs).await);
    let (kept, others): (Vec<_>, Vec<_>) = (0..)
        .zip(ids(&jobs))
        .partition(|(nth, _): &(usize, JobId)| nth % 11 == 0);
    // So many that those who are left in line are looked at.
    for some in others.chunks(500) {
        let targets = some.iter().map(|(_, id)| Target::Id(*id)).collect();
        let cancel = Edit::new(Select::Targets(targets), Action::Cancel);
        engine.edit(&here(), cancel).await.expect("edit");
    }
    let kept: BTreeSet<JobId> = kept.into_iter().map(|(_, id)| id).collect();
    let (mut listed, mut cursor) = (BTreeSet::new(), None);
    loop {
        let list = List::new(ListBy::State {
            queue: QUEUE.into(),
            state: JobState::Ready,
        })
        .cursor(cursor)
        .limit(1_000);
        let listing = engine.list(&here(), list).await.expect("list");
        listed.extend(listing.jobs.iter().map(|job| job.id));
        cursor = listing.cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed.len(), kept.len(), "all are listed");
    assert_eq!(listed, kept);
    let done: BTreeSet<JobId> = drain(&engine).await.into_iter().collect();
    assert_eq!(done, kept, "all are run");
}

#[tokio::test]
async fn jobs_stand_in_line_as_their_calls_came() {
    let (_server, engine) = met().await;
    let jobs = jobs(150);
    verdicts(all_at_once(&engine, &jobs).await);
    assert_eq!(drain(&engine).await, ids(&jobs));
}

#[tokio::test]
async fn what_is_wrong_with_one_caller_concerns_no_other() {
    let (server, engine) = met().await;
    let damaged = JobId::from_bytes(*b"ABCDEFGHIJKLMNOP");
    let records = records_of("punctual:{default/0}", damaged);
    server.cli(&["HSET", &records, "ABCDEFGHIJKLMNOP", "~ of a later version"]);
    server.cli(&["SET", "punctual:{default/0}:n:taken", "by another program"]);
    let mut jobs = jobs(7);
    jobs[6].queue = "taken".into();
    jobs[1].id = damaged;
    jobs[3].id = jobs[2].id;
    jobs[4].id = jobs[2].id;
    jobs[4].payload = "other".into();
    let mut sent = all_at_once(&engine, &jobs).await;
    for (place, why) in [
        (6, "its queue is not ours"),
        (1, "its record cannot be read"),
    ] {
        let refused = sent.remove(place).expect_err(why);
        assert_eq!(refused.kind(), ErrorKind::DataDamaged, "{refused}");
    }
    use EnqueueVerdict::{Created, Duplicate, IdConflict};
    assert_eq!(
        verdicts(sent),
        [Created, Created, Duplicate, IdConflict, Created]
    );
    let kept = [jobs[0].id, jobs[2].id, jobs[5].id];
    assert_eq!(drain(&engine).await, kept);
}

#[tokio::test]
async fn a_full_queue_takes_the_first_of_many_callers() {
    let (_server, engine) = met().await;
    let settings = QueueSettings::new().max_pending(3);
    let write = Control::Write {
        name: format!("queue/{QUEUE}"),
        expected: 0,
        value: Some(RecordValue::Queue(settings)),
    };
    engine.control(&here(), write).await.expect("control");
    use EnqueueVerdict::{Created, Full};
    let sent = verdicts(all_at_once(&engine, &jobs(5)).await);
    assert_eq!(sent, [Created, Created, Created, Full, Full]);
}

#[tokio::test]
async fn a_call_that_is_dropped_before_it_leaves_is_not_sent() {
    let (_server, engine) = met().await;
    let jobs = jobs(64);
    let (stay, go) = jobs.split_at(32);
    let here = here();
    let mut calls: Vec<_> = jobs
        .iter()
        .map(|job| Box::pin(engine.enqueue(&here, vec![job.clone()])))
        .collect();
    for call in &mut calls {
        assert!(poll_immediate(call).await.is_none(), "it has no answer yet");
    }
    calls.truncate(stay.len());
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(drain(&engine).await, ids(stay));
    for job in go {
        assert_eq!(state(&engine, job.id).await, None);
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_in_flight_leaves_the_answers_of_others_alone() {
    let (mut server, engine) = met().await;
    server.stop();
    let (here, gone, stays) = (here(), job(), job());
    let dropped = within(millis(100), engine.enqueue(&here, vec![gone.clone()]));
    assert!(dropped.await.is_none());
    let call = engine.enqueue(&here, vec![stays.clone()]);
    let (sent, ()) = tokio::join!(call, async { server.go_on() });
    assert_eq!(sent.expect("enqueue").receipts[0].id, stays.id);
    assert_eq!(drain(&engine).await, [gone.id, stays.id]);
}

/// Seed 701 of `redis-http` ran a job so whose producer had the answer that it was merged.
#[tokio::test]
async fn what_was_cut_is_not_sent_again_once_its_caller_has_gone() {
    for (gone, stays) in [(1, 0), (1, 1), (32, 32)] {
        let server = TestServer::start();
        let proxy = Proxy::to(server.port()).await;
        let engine = connect(&proxy.address()).await;
        enqueue(&engine).await.expect("enqueue");
        drain(&engine).await;
        let (here, jobs) = (here(), jobs(gone + stays));
        let mut calls: Vec<_> = jobs
            .iter()
            .map(|job| Box::pin(engine.enqueue(&here, vec![job.clone()])))
            .collect();
        proxy.die_after(Way::Request, 10);
        for call in &mut calls {
            assert!(poll_immediate(call).await.is_none(), "it has no answer yet");
        }
        proxy.death().await;
        let who_stay = calls.split_off(gone);
        drop(calls);
        proxy.revive();
        assert!(join_all(who_stay).await.iter().all(Result::is_ok));
        // What is called now goes the same way, after what was to be sent again.
        let last = job();
        let sent = engine.enqueue(&here, vec![last.clone()]).await;
        sent.expect("enqueue");
        let kept = jobs[gone..].iter().chain([&last]).map(|job| job.id);
        assert_eq!(drain(&engine).await, kept.collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn callers_whose_answer_is_lost_send_again_and_nothing_is_doubled() {
    let server = TestServer::start();
    let options = options(&server.address()).deadline(millis(300));
    let engine = RedisEngine::connect(options).await.expect("connect");
    enqueue(&engine).await.expect("enqueue");
    drain(&engine).await;
    let (mut server, jobs) = (server, jobs(16));
    server.stop();
    for sent in all_at_once(&engine, &jobs).await {
        let error = sent.expect_err("no server answers");
        assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
        assert!(error.is_retryable());
    }
    server.go_on();
    for verdict in verdicts(all_at_once(&engine, &jobs).await) {
        assert!(verdict.is_accepted(), "{verdict:?}");
    }
    let done: BTreeSet<JobId> = drain(&engine).await.into_iter().collect();
    assert_eq!(done, ids(&jobs).into_iter().collect());
}

#[tokio::test]
async fn calls_on_a_cut_connection_are_done_once() {
    let server = TestServer::start();
    let proxy = Proxy::to(server.port()).await;
    let engine = connect(&proxy.address()).await;
    enqueue(&engine).await.expect("enqueue");
    drain(&engine).await;
    for way in [Way::Request, Way::Reply] {
        for bytes in (0..2_000).step_by(97) {
            proxy.cut_after(way, bytes);
            let jobs = jobs(12);
            for verdict in verdicts(all_at_once(&engine, &jobs).await) {
                assert!(verdict.is_accepted(), "{verdict:?}");
            }
            let claims = join_all((0..12).map(|_| claim(&engine, 1))).await;
            let leases: Vec<_> = claims
                .into_iter()
                .flat_map(|lease| lease.expect("claim"))
                .collect();
            let settled = join_all(leases.iter().map(|lease| lease.complete(&engine))).await;
            assert!(settled.into_iter().all(|settled| settled.expect("settle")));
            let claimed: BTreeSet<JobId> = leases.iter().map(|lease| lease.jobs[0].id).collect();
            assert_eq!(leases.len(), 12, "{way:?} {bytes}");
            assert_eq!(claimed, ids(&jobs).into_iter().collect());
            proxy.cut_no_more(way);
        }
    }
}

#[tokio::test]
async fn claims_at_once_have_leases_of_their_own() {
    let (_server, engine) = met().await;
    verdicts(all_at_once(&engine, &jobs(10)).await);
    let claims = [3, 1, 4, 20].map(|limit| claim(&engine, limit));
    let leases: Vec<_> = join_all(claims)
        .await
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    let sizes: Vec<usize> = leases.iter().map(|lease| lease.jobs.len()).collect();
    assert_eq!(sizes, [3, 1, 4, 2]);
    let tokens: BTreeSet<_> = leases.iter().map(|lease| lease.token).collect();
    assert_eq!(tokens.len(), 4);
    assert!(leases[0].complete(&engine).await.expect("settle"));
    let [first, second, third] =
        [&leases[0], &leases[1], &leases[2]].map(|lease| lease.complete(&engine));
    let (repeated, one, other) = tokio::join!(first, second, third);
    assert!(
        [repeated, one, other]
            .into_iter()
            .all(|good| good.expect("settle"))
    );
    assert_eq!(
        state(&engine, leases[3].jobs[0].id).await,
        Some(JobState::Active)
    );
}

#[tokio::test]
async fn a_claim_again_among_others_answers_its_lease_again() {
    let (_server, engine) = met().await;
    verdicts(all_at_once(&engine, &jobs(4)).await);
    let asked = Claim::new(WorkerId::random(), QUEUE, 2);
    let first = claim_as(&engine, asked.clone()).await.expect("claim");
    let again = claim_as(&engine, asked);
    let (again, other) = tokio::join!(again, claim(&engine, 2));
    let (again, other) = (again.expect("claim"), other.expect("claim"));
    assert_eq!(again[0].token, first[0].token);
    assert_eq!(again[0].jobs.len(), 2);
    assert_eq!(other[0].jobs.len(), 2);
    assert_ne!(other[0].token, first[0].token);
}
