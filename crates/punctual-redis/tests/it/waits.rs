//! The connection is cut at every byte that goes to and fro while a client waits: for work, for a
//! job to settle, for changes. What comes is received all the same, as the wakeup woken or soon
//! after.

use punctual::engine::{Claim, WaitFor, Waited, WorkerId};
use punctual::time::{Stopwatch, Timestamp, minutes, seconds};
use punctual::{Engine, JobId};
use punctual_redis::RedisEngine;
use punctual_redis::testing::{TestProxy as Proxy, TestServer};

use crate::client::{Claimed, QUEUE, claim_as, connect, enqueue, here};
use crate::cuts::at_every_byte;
use crate::faults::rounds;
use crate::hand::raw;

/// A lost wakeup costs no more than this: a waiter alone polls each second, and one that has
/// received nothing on a connection polls again as soon as there is another.
const RECEIVED_WITHIN: std::time::Duration = seconds(5);

/// The short form cuts at every third byte, as a wakeup that is lost costs time; the long form at
/// each.
fn step() -> usize {
    3_usize.div_ceil(rounds(1))
}

struct Waits {
    server: TestServer,
    proxy: Proxy,
    /// Behind the proxy.
    engine: RedisEngine,
    direct: RedisEngine,
    worker: WorkerId,
}

impl Waits {
    async fn new() -> Self {
        let server = TestServer::start();
        let proxy = Proxy::to(server.port()).await;
        let waits = Self {
            engine: connect(&proxy.address()).await,
            direct: connect(&server.address()).await,
            worker: WorkerId::random(),
            proxy,
            server,
        };
        let id = enqueue(&waits.engine).await.expect("enqueue");
        assert_eq!(waits.take().await, [id]);
        waits
    }

    /// Waits while something is done elsewhere.
    async fn while_done<T>(&self, what: WaitFor, done: impl Future<Output = T>) -> (Waited, T) {
        let until = self.direct.info().await.expect("info").now + minutes(1);
        let watch = Stopwatch::start();
        let here = here();
        let (waited, done) = tokio::join!(self.engine.wait(&here, what, until), done);
        assert!(watch.elapsed() < RECEIVED_WITHIN, "{:?}", watch.elapsed());
        (waited.expect("wait"), done)
    }

    /// Whether a waiter is to be woken for when the job settles.
    fn is_watched(&self, id: JobId) -> bool {
        let watchers = b"punctual:{default/0}:ws";
        let asked = [b"HEXISTS".as_slice(), watchers, id.as_bytes()];
        raw(self.server.port(), &asked) == b":1\r\n"
    }

    async fn one_active(&self) -> (JobId, Claimed) {
        let id = enqueue(&self.direct).await.expect("enqueue");
        let lease = self.claim().await.remove(0);
        assert_eq!(lease.jobs[0].id, id);
        (id, lease)
    }

    /// The same worker each time: where there are many, each polls less often.
    async fn claim(&self) -> Vec<Claimed> {
        let wants = Claim::new(self.worker, QUEUE, 10);
        claim_as(&self.direct, wants).await.expect("claim")
    }

    /// Completes what there is, until nothing is left.
    async fn take(&self) -> Vec<JobId> {
        let mut ids = Vec::new();
        loop {
            let leases = self.claim().await;
            if leases.is_empty() {
                return ids;
            }
            for lease in leases {
                assert!(lease.complete(&self.direct).await.expect("settle"));
                ids.extend(lease.jobs.iter().map(|job| job.id));
            }
        }
    }
}

#[tokio::test]
async fn work_wakes_over_a_cut() {
    let waits = Waits::new().await;
    at_every_byte(&waits.proxy, step(), || async {
        let work = WaitFor::Work(vec![QUEUE.into()]);
        let (waited, sent) = waits.while_done(work, enqueue(&waits.direct)).await;
        assert_eq!(waited, Waited::Work);
        // It also comes up short, and so the wakeup wakes the next one.
        assert_eq!(waits.take().await, [sent.expect("enqueue")]);
    })
    .await;
}

#[tokio::test]
async fn a_settle_wakes_over_a_cut() {
    let waits = Waits::new().await;
    at_every_byte(&waits.proxy, step(), || async {
        let (id, lease) = waits.one_active().await;
        let settles = async {
            while !waits.is_watched(id) {
                tokio::task::yield_now().await;
            }
            lease.complete(&waits.direct).await
        };
        let is_settled = WaitFor::Settled(vec![id]);
        let (waited, settled) = waits.while_done(is_settled, settles).await;
        assert_eq!(waited, Waited::Settled);
        assert!(settled.expect("settle"));
    })
    .await;
}

#[tokio::test]
async fn a_change_wakes_over_a_cut() {
    let waits = Waits::new().await;
    at_every_byte(&waits.proxy, 1, || async {
        let (id, lease) = waits.one_active().await;
        let changes = WaitFor::Changes(None);
        let begins = waits.engine.wait(&here(), changes, Timestamp::ZERO).await;
        let Ok(Waited::Changes { cursor, .. }) = begins else {
            panic!("there is a cursor");
        };
        let later = WaitFor::Changes(Some(cursor));
        let (waited, settled) = waits.while_done(later, lease.complete(&waits.direct)).await;
        assert!(settled.expect("settle"));
        let Waited::Changes { changes, gap, .. } = waited else {
            panic!("{waited:?}");
        };
        assert!(
            !gap && changes.iter().any(|change| change.id == id),
            "{changes:?}"
        );
    })
    .await;
}
