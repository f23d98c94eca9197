//! The connection is cut at every byte of a call and of its answer; the short form cuts at every
//! second one.

use punctual::engine::{
    Action, Control, Controlled, Edit, ExtendVerdict, List, ListBy, RecordValue, Select,
    SettleVerdict, StatsRequest,
};
use punctual::time::{Stopwatch, seconds};
use punctual::{Engine, ErrorKind, JobId, JobState};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestProxy as Proxy, TestServer, Way};

use crate::client::{QUEUE, claim, connect, drain, enqueue, here, job, of_all_records, state};
use crate::faults::rounds;
use crate::hand::raw;
use crate::outbox::{ends_with, enqueues, follower, take_followers};

fn step() -> usize {
    5_usize.div_ceil(rounds(1))
}

/// Calls `verb` with a cut after each number of bytes, until one went through uncut; each must
/// answer as if nothing had happened.
pub(crate) async fn at_every_byte<F: Future<Output = ()>>(
    proxy: &Proxy,
    step: usize,
    verb: impl Fn() -> F,
) {
    for way in [Way::Request, Way::Reply] {
        at_bytes(proxy, way, (0..).step_by(step), &verb).await;
    }
}

/// The same after each of these numbers of bytes, in order.
pub(crate) async fn at_bytes<F: Future<Output = ()>>(
    proxy: &Proxy,
    way: Way,
    bytes: impl IntoIterator<Item = usize>,
    verb: impl Fn() -> F,
) {
    for bytes in bytes {
        proxy.cut_after(way, bytes);
        verb().await;
        if !proxy.has_cut(way) {
            proxy.cut_no_more(way);
            break;
        }
    }
}

async fn behind_a_proxy() -> (TestServer, Proxy, RedisEngine) {
    let server = TestServer::start();
    let proxy = Proxy::to(server.port()).await;
    let engine = connect(&proxy.address()).await;
    enqueue(&engine).await.expect("enqueue");
    drain(&engine).await;
    (server, proxy, engine)
}

#[tokio::test]
async fn a_cut_enqueue_is_done_once() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    at_every_byte(&proxy, step(), || async {
        let job = job();
        let sent = engine.enqueue(&here(), vec![job.clone()]).await;
        let verdict = sent.expect("enqueue").receipts[0].verdict;
        assert!(verdict.is_accepted(), "{verdict:?}");
        assert_eq!(drain(&engine).await, [job.id]);
    })
    .await;
}

#[tokio::test]
async fn a_cut_claim_strands_nothing_and_a_cut_settle_is_done_once() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    at_every_byte(&proxy, step(), || async {
        // The cut may fall into any of these.
        let id = enqueue(&engine).await.expect("enqueue");
        let lease = claim(&engine, 1).await.expect("claim").remove(0);
        assert_eq!(lease.jobs[0].id, id);
        assert_eq!(lease.jobs[0].attempt, 1);
        let extended = lease.extend(&engine).await.expect("extend");
        assert!(
            matches!(extended, ExtendVerdict::Extended { .. }),
            "{extended:?}"
        );
        assert!(lease.complete(&engine).await.expect("settle"));
        assert_eq!(state(&engine, id).await, Some(JobState::Completed));
    })
    .await;
}

/// A namespace with a job, beside the engine that is cut one that is not.
async fn with_a_job() -> (TestServer, Proxy, RedisEngine, RedisEngine, JobId) {
    let (server, proxy, engine) = behind_a_proxy().await;
    let direct = connect(&server.address()).await;
    let id = enqueue(&direct).await.expect("enqueue");
    (server, proxy, engine, direct, id)
}

#[tokio::test]
async fn a_cut_read_answers() {
    let (_server, proxy, engine, _direct, id) = with_a_job().await;
    at_every_byte(&proxy, step(), || async {
        let got = engine.get(&here(), vec![id.into()], true).await;
        let explained = got.expect("get").remove(0).expect("it is there");
        assert_eq!(explained.state(), JobState::Ready);
    })
    .await;
    let by = ListBy::State {
        queue: QUEUE.into(),
        state: JobState::Ready,
    };
    let list = List::new(by).limit(10).payloads(true);
    at_every_byte(&proxy, step(), || async {
        let listed = engine.list(&here(), list.clone()).await.expect("list").jobs;
        assert_eq!(listed.len(), 1);
    })
    .await;
    at_every_byte(&proxy, step(), || async {
        let stats = engine.stats(&here(), StatsRequest::default()).await;
        assert_eq!(
            stats.expect("stats").queues[0].counts.of(JobState::Ready),
            1
        );
    })
    .await;
}

/// What a server says of itself is long: the short form cuts at every 11th byte of it, the long one
/// at each.
#[tokio::test]
async fn a_cut_info_answers() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    at_every_byte(&proxy, 11_usize.div_ceil(rounds(1)), || async {
        assert!(engine.info().await.expect("info").health.ok);
    })
    .await;
}

#[tokio::test]
async fn a_cut_edit_or_control_is_done_once() {
    let (_server, proxy, engine, direct, _) = with_a_job().await;
    at_every_byte(&proxy, step(), || async {
        let waiting = enqueue(&direct).await.expect("enqueue");
        let cancel = Edit::new(Select::Targets(vec![waiting.into()]), Action::Cancel);
        let edited = engine.edit(&here(), cancel).await.expect("edit");
        assert_eq!(edited.verdicts.len(), 1);
        assert_eq!(state(&direct, waiting).await, Some(JobState::Cancelled));
    })
    .await;
    let queue: String = QUEUE.into();
    let pause = Control::Pause {
        queue: queue.clone(),
    };
    let resume = Control::Resume { queue };
    at_every_byte(&proxy, step(), || async {
        engine.control(&here(), pause.clone()).await.expect("pause");
        let stats = direct.stats(&here(), StatsRequest::default()).await;
        assert!(stats.expect("stats").queues[0].paused);
        direct
            .control(&here(), resume.clone())
            .await
            .expect("resume");
    })
    .await;
}

/// The version of a record; 0 if there is none.
async fn version(engine: &RedisEngine) -> u64 {
    let read = Control::Read { name: "a".into() };
    match engine.control(&here(), read).await.expect("read") {
        Controlled::Record(Some(record)) => record.version,
        _ => 0,
    }
}

/// A write under a version is not sent twice: a cut one says that it is open.
#[tokio::test]
async fn a_cut_write_of_a_record_is_done_or_said_to_be_open() {
    let (_server, proxy, engine, direct, _) = with_a_job().await;
    at_every_byte(&proxy, step(), || async {
        version(&engine).await;
    })
    .await;
    at_every_byte(&proxy, step(), || async {
        let before = version(&direct).await;
        let write = Control::Write {
            name: "a".into(),
            expected: before,
            value: Some(RecordValue::Opaque(vec![1].into())),
        };
        let wrote = engine.control(&here(), write).await;
        let after = version(&direct).await;
        match wrote {
            Ok(_) => assert!(after > before),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
                assert!(after <= before + 1, "once at most");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_cut_maintenance_is_done() {
    let (_server, proxy, engine, direct, id) = with_a_job().await;
    at_every_byte(&proxy, step(), || async {
        engine.maintain().await.expect("maintain");
    })
    .await;
    assert_eq!(drain(&direct).await, [id]);
}

/// A settle, what it posts for other shards, and its delivery there, long as these are: the short
/// form cuts at every 21st byte. Nothing is forgotten, and nothing is delivered again after that.
#[tokio::test]
async fn cut_effects_for_other_shards_arrive_once() {
    let server = TestServer::start();
    let proxy = Proxy::to(server.port()).await;
    let engine = connect(&format!("{}?shards=3", proxy.address())).await;
    let direct = connect(&server.address()).await;
    enqueue(&engine).await.expect("enqueue");
    drain(&engine).await;
    let step = if rounds(1) == 1 {
        21
    } else {
        7_usize.div_ceil(rounds(1))
    };
    at_every_byte(&proxy, step, || async {
        enqueue(&direct).await.expect("enqueue");
        let lease = claim(&direct, 1).await.expect("claim").remove(0);
        let followers: Vec<_> = (0..4).map(follower).collect();
        let settle = ends_with(&lease, enqueues(&followers));
        let settled = engine.settle(&here(), settle).await.expect("settle");
        assert_ne!(settled.verdicts[0][0], SettleVerdict::LeaseLost);
        let mut arrived = take_followers(&direct).await;
        let watch = Stopwatch::start();
        while arrived.len() < followers.len() || is_posted(&server) {
            assert!(watch.elapsed() < seconds(20), "only {arrived:?} came");
            direct.maintain().await.expect("maintain");
            arrived.extend(take_followers(&direct).await);
        }
        forget_tombstones(&server);
        direct.maintain().await.expect("maintain");
        arrived.extend(take_followers(&direct).await);
        let mut expected: Vec<JobId> = followers.iter().map(|job| job.id).collect();
        expected.sort_unstable();
        arrived.sort_unstable();
        assert_eq!(arrived, expected);
    })
    .await;
}

/// Whether something waits in an outbox.
fn is_posted(server: &TestServer) -> bool {
    let keys = [b"KEYS".as_slice(), b"punctual:{default/*}:o[zt]*"];
    raw(server.port(), &keys) != b"*0\r\n"
}

/// Leaves no sign that a job was there before.
fn forget_tombstones(server: &TestServer) {
    for shard in 0..3 {
        of_all_records(server, &["DEL"], &format!("punctual:{{default/{shard}}}"));
    }
}
