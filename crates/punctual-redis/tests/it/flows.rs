//! Flows on servers: pages of a large hash, and no flows in a namespace that is cut into shards.

use std::sync::Arc;

use punctual::engine::{Control, Controlled, FlowAct};
use punctual::flow::{FlowState, FlowStatus, On, OnFailure, Role};
use punctual::{Context, Engine, Error, ErrorKind, JobId, JobRecord, NewJob, Worker};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{claim, connect, enqueue, here, job};

const FLOW: &str = "nightly";
/// More than the functions handle in one call, and than stand in a small hash.
const MANY: usize = 700;

async fn act(engine: &RedisEngine, act: FlowAct) -> punctual::Result<Controlled> {
    let name = FLOW.to_owned();
    engine.control(&here(), Control::Flow { name, act }).await
}

async fn flow(engine: &RedisEngine) -> FlowStatus {
    match act(engine, FlowAct::Read).await {
        Ok(Controlled::Flow(Some(status))) => *status,
        other => panic!("a flow is read, got {other:?}"),
    }
}

async fn send(engine: &RedisEngine, jobs: Vec<NewJob>) {
    send_in(engine, jobs, 100).await;
}

/// Sends a flow whose last job is its callback, so many jobs a call.
async fn send_in(engine: &RedisEngine, jobs: Vec<NewJob>, per_call: usize) {
    let steps = jobs.len() as u64 - 1;
    for part in jobs.chunks(per_call) {
        let sent = engine.enqueue(&here(), part.to_vec()).await;
        sent.expect("the server takes them");
    }
    let on_failure = OnFailure::default();
    let sealed = act(
        engine,
        FlowAct::Seal {
            steps,
            on_failure,
            callbacks: None,
        },
    )
    .await;
    sealed.expect("the plan is whole");
}

/// Completes all that is ready, until the flow has settled and its callback has run; how many.
async fn run(engine: &RedisEngine) -> usize {
    let mut ran = 0;
    while ran < MANY + 2 {
        engine.maintain().await.expect("the server is there");
        for one in claim(engine, 250).await.expect("the server is there") {
            ran += one.jobs.len();
            assert!(one.complete(engine).await.expect("settle"));
        }
    }
    ran
}

fn step(name: &str) -> NewJob {
    job().step(FLOW, name)
}

/// One step that many wait for, in a hash that the server no longer reads at once.
#[tokio::test]
async fn a_step_that_many_wait_for_frees_each_once() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let root = JobId::step(FLOW, "root");
    let mut jobs = vec![step("root")];
    jobs.extend((0..MANY).map(|n| step(&n.to_string()).after(root, On::Completed)));
    jobs.push(job().callback(FLOW, Role::OnSettled));
    send(&engine, jobs).await;
    assert_eq!(run(&engine).await, MANY + 2);
    let status = flow(&engine).await;
    assert_eq!(status.state, FlowState::Done);
    assert_eq!(status.counts.completed, MANY as u64 + 1);
    let mut seen = 0;
    let mut after = None;
    loop {
        let limit = 250;
        match act(&engine, FlowAct::Edges { after, limit }).await {
            Ok(Controlled::Edges { edges, next }) => {
                assert!(edges.len() <= limit && edges.iter().all(|edge| edge.met));
                seen += edges.len();
                after = next;
            }
            other => panic!("edges are read, got {other:?}"),
        }
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, MANY);
}

/// Steps that wait for each other may not lie in several shards.
#[tokio::test]
async fn a_namespace_in_shards_refuses_flows() {
    let server = TestServer::start();
    let engine = connect(&format!("{}?shards=3", server.address())).await;
    let first = enqueue(&engine).await.expect("a plain job");
    for refused in [step("a"), job().after(first, On::Completed)] {
        let error = engine.enqueue(&here(), vec![refused]).await;
        let error = error.expect_err("the namespace is in shards");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    let error = act(&engine, FlowAct::Read).await;
    assert_eq!(
        error.map_err(|error| error.kind()),
        Err(ErrorKind::Unsupported)
    );
}

/// What a refusal is about stands beside its message, as on other engines.
#[tokio::test]
async fn refusals_name_their_flow_and_their_step() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let retry = |from: Option<&str>| FlowAct::Retry {
        from: from.map(str::to_owned),
        next: None,
        filter: None,
    };
    let values = |error: &Error| {
        let values = error
            .context()
            .map(|(name, value)| format!("{name}: {value}"));
        values.collect::<Vec<_>>()
    };
    let none = act(&engine, retry(None)).await.expect_err("no flow");
    assert_eq!(none.kind(), ErrorKind::NotFound);
    assert_eq!(values(&none), ["flow: nightly"], "{none}");
    assert!(none.message().ends_with("their names"), "{none}");
    let sent = engine.enqueue(&here(), vec![step("a")]).await;
    sent.expect("the server takes it");
    let open = act(&engine, retry(None)).await.expect_err("an open flow");
    assert_eq!(
        (open.kind(), values(&open)),
        (ErrorKind::Conflict, vec!["flow: nightly".into()])
    );
    send(
        &engine,
        vec![step("a"), job().callback(FLOW, Role::OnSettled)],
    )
    .await;
    let unknown = act(&engine, retry(Some("zz"))).await.expect_err("no step");
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    assert_eq!(values(&unknown), ["flow: nightly", "step: zz"], "{unknown}");
    let memory = punctual::MemoryEngine::new();
    let name = FLOW.to_owned();
    let same = memory
        .control(
            &here(),
            Control::Flow {
                name,
                act: retry(None),
            },
        )
        .await
        .expect_err("no flow");
    assert_eq!(
        (same.message(), values(&same)),
        (none.message(), values(&none))
    );
}

/// What one claim leaves of a large flow, the next ones do: it is no reason to end.
#[tokio::test]
async fn a_worker_until_idle_works_off_a_large_flow() {
    const WIDE: usize = 150;
    let server = TestServer::start();
    let engine = Arc::new(connect(&server.address()).await);
    let first = |n: usize| format!("first-{n}");
    let mut jobs: Vec<NewJob> = (0..WIDE).map(|n| step(&first(n))).collect();
    jobs.extend((0..WIDE).map(|n| {
        let next = step(&format!("next-{n}"));
        (0..WIDE).fold(next, |next, of| {
            next.after(JobId::step(FLOW, &first(of)), On::Completed)
        })
    }));
    jobs.push(job().callback(FLOW, Role::OnSettled));
    send_in(&engine, jobs, 5).await;
    let worker = Worker::new(engine.clone())
        .namespace(here())
        .queues([job().queue])
        .handle_any(|_: JobRecord, _: Context| async { Ok::<(), Error>(()) });
    worker.run_until_idle().await.expect("it works");
    let status = flow(&engine).await;
    assert_eq!(status.counts.completed, 2 * WIDE as u64);
    assert_eq!(status.state, FlowState::Done);
}
