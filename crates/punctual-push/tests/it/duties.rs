//! Loops that end although nobody told them to: seen, and started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use punctual::engine::*;
use punctual::time::{Timestamp, millis, seconds, within};
use punctual::{Engine, Namespace, NewJob, Result};
use punctual_push::{Doorbell, Duties, DutyHealth, Posting};
use tokio::sync::Semaphore;
use tokio::task::yield_now;

use crate::support::{Server, Under, job};

fn told(duties: &DutyHealth) -> Health {
    let mut health = Health {
        ok: true,
        ..Health::default()
    };
    duties.add_to(&mut health);
    health
}

fn restarts(duties: &DutyHealth, name: &str) -> u64 {
    let loops = told(duties).loops;
    let one = loops.iter().find(|one| one.name == name);
    one.map_or(0, |one| one.restarts)
}

async fn until(what: &str, fact: impl Fn() -> bool) {
    let waiting = async {
        while !fact() {
            yield_now().await;
        }
    };
    let is_so = within(seconds(60), waiting).await;
    is_so.unwrap_or_else(|| panic!("not in time: {what}"));
}

#[tokio::test]
async fn a_loop_that_ends_unasked_is_red_until_it_goes_round_again() {
    let shop = Namespace::new("shop").expect("a name");
    let mut duties = Duties::new();
    let health = duties.health();
    let steps = Arc::new(Semaphore::new(0));
    let runs = Arc::new(AtomicUsize::new(0));
    let theirs = (steps.clone(), runs.clone());
    duties.start("planted", &shop, move |pulse| {
        let steps = theirs.0.clone();
        let nth = theirs.1.fetch_add(1, Ordering::SeqCst);
        async move {
            let step = async || steps.acquire().await.expect("it is open").forget();
            step().await;
            pulse.works();
            match nth {
                0 => {
                    step().await;
                    panic!("planted");
                }
                1 => step().await,
                _ => {
                    pulse.rests();
                    pulse.ended().await;
                }
            }
        }
    });
    for nth in 1..=2 {
        steps.add_permits(1);
        until("it works", || told(&health).ok).await;
        steps.add_permits(1);
        until("it has ended", || !told(&health).ok).await;
        until("it runs again", || runs.load(Ordering::SeqCst) > nth).await;
        let red = told(&health);
        assert!(!red.ok, "it has not gone round yet");
        assert_eq!(red.of_namespaces.len(), 1, "{red:?}");
        assert_eq!(red.of_namespaces[0].namespace, shop);
        assert!(red.of_namespaces[0].text.contains("planted has ended"));
        assert_eq!(restarts(&health, "planted"), nth as u64);
    }
    steps.add_permits(1);
    until("it works", || told(&health).ok).await;
    let ended = within(seconds(20), duties.end()).await;
    ended.expect("who is told to end ends");
    assert_eq!(restarts(&health, "planted"), 2, "and is not started again");
}

#[tokio::test]
async fn a_loop_that_is_down_ends_when_it_is_told_to() {
    let mut duties = Duties::new();
    duties.start("planted", &Namespace::default(), |_| async {
        panic!("planted")
    });
    let health = duties.health();
    until("it has ended", || !told(&health).ok).await;
    let ended = within(seconds(20), duties.end()).await;
    ended.expect("it waits for nobody");
}

#[tokio::test]
async fn posting_goes_on_after_a_panic_of_its_own_and_after_one_of_its_workers() {
    let server = Server::start(204).await;
    let under = Under::new(server.guard());
    let planted = Arc::new(Planted {
        inner: under.engine.clone(),
        stats: AtomicBool::new(false),
        info: AtomicBool::new(false),
    });
    let (home, doorbell) = (Namespace::default(), Doorbell::default());
    let mut duties = Duties::new();
    let health = duties.health();
    Posting::new(planted.clone(), home.clone(), under.pusher.clone())
        .doorbell(doorbell.clone())
        .look_every(millis(20))
        .start(&mut duties);
    let post = async |queue: &str| {
        let mut job = job(&server.url());
        job.queue = queue.to_owned();
        under.send(job).await;
        doorbell.ring(&home, queue);
    };
    post("http:first").await;
    server.until_seen(1).await;

    planted.stats.store(true, Ordering::SeqCst);
    until("it panicked", || restarts(&health, "posting") > 0).await;
    assert!(!told(&health).ok);
    planted.stats.store(false, Ordering::SeqCst);
    post("http:second").await;
    server.until_seen(2).await;
    until("all is well", || told(&health).ok).await;

    let before = restarts(&health, "posting");
    planted.info.store(true, Ordering::SeqCst);
    post("http:third").await;
    until("its worker ended", || restarts(&health, "posting") > before).await;
    planted.info.store(false, Ordering::SeqCst);
    server.until_seen(3).await;
    until("all is well", || told(&health).ok).await;
    within(seconds(60), duties.end()).await.expect("it ends");
    assert_eq!(server.seen().len(), 3, "each was posted once");
}

/// An engine some of whose verbs panic while a test says so.
#[derive(Debug)]
struct Planted {
    inner: Arc<dyn Engine>,
    stats: AtomicBool,
    info: AtomicBool,
}

#[async_trait]
impl Engine for Planted {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        self.inner.enqueue(namespace, jobs).await
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        self.inner.claim(namespace, claim).await
    }

    async fn extend(&self, namespace: &Namespace, pages: Vec<Extend>) -> Result<Extended> {
        self.inner.extend(namespace, pages).await
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        self.inner.settle(namespace, settle).await
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        self.inner.wait(namespace, what, until).await
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.inner.get(namespace, targets, explain).await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.inner.list(namespace, list).await
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.inner.edit(namespace, edit).await
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        assert!(!self.stats.load(Ordering::SeqCst), "planted");
        self.inner.stats(namespace, request).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.inner.control(namespace, control).await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.inner.maintain().await
    }

    async fn info(&self) -> Result<Info> {
        assert!(!self.info.load(Ordering::SeqCst), "planted");
        self.inner.info().await
    }
}
