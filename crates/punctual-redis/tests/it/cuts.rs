//! The connection is cut at every byte of a call and of its answer.

use punctual::engine::{
    Action, Control, Edit, ExtendVerdict, Filter, List, ListBy, Select, StatsRequest,
};
use punctual::{Engine, Namespace, State};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestProxy as Proxy, TestServer, Way};

use crate::client::{QUEUE, claim, connect, drain, enqueue, here, job, state};

/// Calls `verb` with a cut after each number of bytes, until one went through uncut; each must
/// answer as if nothing had happened.
async fn at_every_byte<F: Future<Output = ()>>(proxy: &Proxy, step: usize, verb: impl Fn() -> F) {
    for way in [Way::Request, Way::Reply] {
        for bytes in (0..).step_by(step) {
            proxy.cut_after(way, bytes);
            verb().await;
            if !proxy.has_cut(way) {
                proxy.cut_no_more(way);
                break;
            }
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
    at_every_byte(&proxy, 1, || async {
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
    at_every_byte(&proxy, 1, || async {
        // The cut may fall into any of these.
        let id = enqueue(&engine).await.expect("enqueue");
        let page = claim(&engine, 1).await.expect("claim").remove(0);
        assert_eq!(page.jobs[0].id, id);
        assert_eq!(page.jobs[0].attempt, 1);
        let extended = page.extend(&engine).await.expect("extend");
        assert!(
            matches!(extended, ExtendVerdict::Extended { .. }),
            "{extended:?}"
        );
        assert!(page.complete(&engine).await.expect("settle"));
        assert_eq!(state(&engine, id).await, Some(State::Completed));
    })
    .await;
}

#[tokio::test]
async fn a_cut_look_or_edit_answers() {
    let (_server, proxy, engine) = behind_a_proxy().await;
    at_every_byte(&proxy, 23, || async {
        let waiting = enqueue(&engine).await.expect("enqueue");
        let by = ListBy::State {
            queue: QUEUE.into(),
            state: State::Ready,
        };
        let list = List {
            by,
            filter: Filter::default(),
            cursor: None,
            limit: 10,
            payloads: true,
        };
        let listed = engine.list(&here(), list).await.expect("list").jobs;
        assert_eq!(listed.len(), 1);
        let stats = engine.stats(&here(), StatsRequest::default()).await;
        assert_eq!(stats.expect("stats").queues[0].counts.of(State::Ready), 1);
        let queue: String = QUEUE.into();
        for control in [
            Control::Pause {
                queue: queue.clone(),
            },
            Control::Resume { queue },
            Control::Read { name: "a".into() },
        ] {
            engine.control(&here(), control).await.expect("control");
        }
        let cancel = Edit {
            select: Select::Targets(vec![waiting.into()]),
            action: Action::Cancel,
            dry_run: false,
        };
        let edited = engine.edit(&here(), cancel).await.expect("edit");
        assert_eq!(edited.verdicts.len(), 1);
        assert_eq!(state(&engine, waiting).await, Some(State::Cancelled));
        engine.maintain().await.expect("maintain");
        assert!(engine.info().await.expect("info").health.ok);
        let elsewhere = Namespace::new("elsewhere").expect("a good name");
        assert_eq!(
            engine
                .stats(&elsewhere, StatsRequest::default())
                .await
                .expect("stats")
                .queues,
            []
        );
    })
    .await;
}
