//! What is measured: for the engine's history, and through the metrics facade.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use punctual::time::{Clock, ManualClock, millis, seconds};
use punctual::worker::HandlerResult;
use punctual::{Context, NewJob, Outcome, Queue, Worker};

use crate::support::*;

#[tokio::test]
async fn lateness_and_run_time_go_to_the_engine() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    queue.enqueue(ping(1)).delay(seconds(60)).await.unwrap();
    clock.advance(seconds(60) + millis(7));
    async fn plain(_: Ping) {}
    Worker::new(&probe)
        .handle(plain)
        .run_until_idle()
        .await
        .unwrap();
    let lease = probe.settles()[0].leases[0].clone();
    assert_eq!(lease.run_time_us.len(), 1);
    let lateness = lease.lateness_us[0];
    // The engine's clock stands still; what passed here since the claim's answer is added.
    assert!((7_000..5_000_000).contains(&lateness), "{lateness} us");
}

/// Sums by name and labels.
#[derive(Debug, Default)]
struct Ledger(Mutex<BTreeMap<String, Arc<Sum>>>);

#[derive(Debug, Default)]
struct Sum(AtomicU64);

impl CounterFn for Sum {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }
    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }
}

impl GaugeFn for Sum {
    fn increment(&self, value: f64) {
        self.0.fetch_add(value as u64, Ordering::SeqCst);
    }
    fn decrement(&self, value: f64) {
        self.0.fetch_sub(value as u64, Ordering::SeqCst);
    }
    fn set(&self, value: f64) {
        self.0.store(value as u64, Ordering::SeqCst);
    }
}

impl HistogramFn for Sum {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Ledger {
    fn sum(&self, key: &Key) -> Arc<Sum> {
        let labels: Vec<_> = key.labels().map(|label| label.value()).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        self.0.lock().unwrap().entry(name).or_default().clone()
    }

    fn of(&self, name: &str) -> u64 {
        let sums = self.0.lock().unwrap();
        sums.get(name).map_or(0, |sum| sum.0.load(Ordering::SeqCst))
    }
}

struct Shared(&'static Ledger);

impl Recorder for Shared {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.0.sum(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.0.sum(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.0.sum(key))
    }
}

fn ledger() -> &'static Ledger {
    static LEDGER: OnceLock<&'static Ledger> = OnceLock::new();
    LEDGER.get_or_init(|| {
        let ledger: &'static Ledger = Box::leak(Box::default());
        metrics::set_global_recorder(Shared(ledger)).expect("no other test sets one");
        ledger
    })
}

#[tokio::test]
async fn the_metrics_facade_counts_every_step() {
    let ledger = ledger();
    let clock = ManualClock::default();
    let probe = Arc::new(Probe::on(clock.clone()));
    let queue = Queue::new(&probe);
    // A queue of its own: other tests of this process count too.
    let job = |kind: &str| NewJob::new("measured", "{}").kind(kind);
    let jobs = [job("good"), job("good"), job("bad"), job("strange")];
    let mut jobs: Vec<NewJob> = jobs.into();
    jobs.push(jobs[0].clone());
    queue.enqueue_many(jobs).await.unwrap();
    Worker::new(&probe)
        .queues(["measured"])
        .handle_raw("good", |_, _| async {})
        .handle_raw("bad", |_, _| async {
            HandlerResult::<Outcome>::Err("no".into())
        })
        .run_until_idle()
        .await
        .unwrap();
    for (name, expected) in [
        ("punctual_enqueued_total measured good created", 2),
        ("punctual_enqueued_total measured good duplicate", 1),
        ("punctual_enqueued_total measured strange created", 1),
        ("punctual_claimed_total measured good", 2),
        ("punctual_claimed_total measured other", 1),
        ("punctual_settled_total measured good completed", 2),
        ("punctual_settled_total measured bad retry", 1),
        ("punctual_settled_total measured other snooze", 1),
        ("punctual_retries_total measured bad", 1),
        ("punctual_lateness_seconds measured good", 2),
        ("punctual_run_time_seconds measured bad", 1),
    ] {
        assert_eq!(ledger.of(name), expected, "{name}: {ledger:#?}");
    }
    assert!(clock.now() < punctual::time::Timestamp::from_millis(1));
}

#[tokio::test]
async fn running_handlers_and_lost_leases_are_counted() {
    let ledger = ledger();
    let clock = ManualClock::default();
    let probe = Arc::new(Probe::on(clock.clone()));
    send(&probe, 1).await;
    let lost = || ledger.of("punctual_lease_lost_total ");
    let before = lost();
    let engine = probe.clone();
    let worker = Worker::new(&probe).handle(move |_: Ping, ctx: Context| {
        let (engine, clock) = (engine.clone(), clock.clone());
        async move {
            assert!(ledger.of("punctual_active ") >= 1);
            if ctx.attempt() == 1 {
                leases_run_out(&engine, &clock).await;
            }
        }
    });
    worker.run_until_idle().await.unwrap();
    assert_eq!(lost() - before, 1);
    assert_eq!(worker.health().busy(), 0);
}
