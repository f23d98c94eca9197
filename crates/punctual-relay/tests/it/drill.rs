//! Drills: relays are killed again and again while messages flow; what arrived is counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use punctual::sync::Lock;
use punctual::time::{Clock, SystemClock, Timestamp, millis, seconds};
use punctual::{JobRecord, MemoryEngine, Worker};
use punctual_relay::redis::{ExpirySource, ListSource, PubSubSource, StreamSource, ZsetSource};
use punctual_relay::{Open, Relay};

use crate::support::*;

const MESSAGES: u64 = 1_000;
const KILLS: u64 = 20;

/// When each message arrived. A message is its number, and the microsecond at which it is due.
#[derive(Clone, Default)]
struct Arrivals(Arc<Mutex<HashMap<String, Vec<Timestamp>>>>);

impl Arrivals {
    fn total(&self) -> usize {
        self.0.locked().len()
    }

    /// A worker that notes them.
    fn worker(&self, engine: &Arc<MemoryEngine>) -> Worker {
        let seen = self.clone();
        let handler = move |job: JobRecord, _: punctual::Context| {
            let text = String::from_utf8_lossy(&job.payload).into_owned();
            let now = SystemClock.now();
            seen.0.locked().entry(text).or_default().push(now);
            async { Ok::<(), punctual::Error>(()) }
        };
        Worker::new(engine).queues(["drill"]).handle_any(handler)
    }

    /// The report of a drill, printed as one line; answers lost, doubled and early.
    fn report(&self, name: &str) -> (u64, usize, usize) {
        let arrivals = self.0.locked();
        let mut late = Vec::new();
        let (mut doubled, mut early) = (0, 0);
        for (message, instants) in arrivals.iter() {
            doubled += instants.len() - 1;
            let digits = message.rsplit(['-', '"']).find(|part| part.len() == 16);
            let due = digits
                .and_then(|digits| digits.parse().ok())
                .expect("it is due");
            let due = Timestamp::from_micros(due);
            early += usize::from(instants[0] < due);
            late.push(instants[0] - due);
        }
        late.sort_unstable();
        let lost = MESSAGES - arrivals.len() as u64;
        let p99 = late
            .get(late.len() * 99 / 100)
            .map_or(0.0, |late| late.as_secs_f64() * 1e3);
        println!(
            "{}",
            serde_json::json!({
                "drill": name, "sent": MESSAGES, "arrived": arrivals.len(), "lost": lost,
                "doubled": doubled, "early": early, "p99_ms": (p99 * 10.0).round() / 10.0,
            })
        );
        (lost, doubled, early)
    }
}

/// Kills relays of a source while `send` sends, until all has arrived.
async fn drill<O: Open + Clone + 'static>(name: &str, open: O, send: impl Future<Output = ()>) {
    let engine = Arc::new(MemoryEngine::new());
    let arrivals = Arrivals::default();
    let working = tokio::spawn(arrivals.worker(&engine).run_until(std::future::pending()));
    let relaying = async {
        let mut kills = 0;
        while arrivals.total() < MESSAGES as usize {
            let relay = Relay::new(&engine, "drill").expect("a name").at_most(20);
            let health = relay.health();
            let running = tokio::spawn(relay.run_until(open.clone(), std::future::pending()));
            let enough = 1 + kills * 7 % 41;
            while health.numbers().received < enough && arrivals.total() < MESSAGES as usize
                || kills >= KILLS && arrivals.total() < MESSAGES as usize
            {
                punctual::time::pause(punctual::time::millis(1)).await;
            }
            // Wherever it is.
            running.abort();
            kills += 1;
        }
    };
    tokio::join!(send, relaying);
    working.abort();
    assert_eq!(arrivals.report(name), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn list_drill() {
    let redis = Redis::start().await;
    let open = ListSource::new(redis.place("drill"), "drill").stale_after(millis(20));
    let mut client = redis.client.clone();
    let send = async move {
        for n in 0..MESSAGES {
            let message = format!("{n}-{}", SystemClock.now().as_micros());
            let mut push = redis::cmd("LPUSH");
            push.arg("drill").arg(message);
            let () = push.query_async(&mut client).await.expect("it answers");
        }
    };
    drill("redis-list", open, send).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn zset_drill() {
    let redis = Redis::start().await;
    let open = ZsetSource::new(redis.place("drill"), "drill").stale_after(millis(20));
    let mut client = redis.client.clone();
    let send = async move {
        for n in 0..MESSAGES {
            // Some have to wait, for up to a second.
            let due = SystemClock.now() + millis(n * 37 % 1_000);
            let due = due.as_micros() / 1_000 * 1_000;
            let mut add = redis::cmd("ZADD");
            add.arg("drill").arg(due / 1_000).arg(format!("{n}-{due}"));
            let () = add.query_async(&mut client).await.expect("it answers");
        }
    };
    drill("redis-zset", open, send).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_drill() {
    let redis = Redis::start().await;
    let open = StreamSource::new(redis.place("drill"), "drill")
        .stale_after(millis(20))
        .field("m");
    let mut client = redis.client.clone();
    let send = async move {
        for n in 0..MESSAGES {
            let message = format!("{n}-{}", SystemClock.now().as_micros());
            let mut add = redis::cmd("XADD");
            add.arg("drill").arg("*").arg("m").arg(message);
            let () = add.query_async(&mut client).await.expect("it answers");
        }
    };
    drill("redis-stream", open, send).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_drill() {
    let redis = Redis::start().await;
    let open = ExpirySource::new(redis.place("drill:"), "drill").sweep_every(seconds(1));
    let mut client = redis.client.clone();
    let send = async move {
        for n in 0..MESSAGES {
            // A key that is gone before a sweep is missed: these live longer.
            let due = SystemClock.now() + seconds(5) + millis(n * 37 % 1_000);
            let due = due.as_micros() / 1_000 * 1_000;
            let mut set = redis::cmd("SET");
            set.arg(format!("drill:{n}-{due}")).arg("");
            set.arg("PXAT").arg(due / 1_000);
            let () = set.query_async(&mut client).await.expect("it answers");
        }
    };
    drill("redis-expiry", open, send).await;
}

/// What no relay can mend: messages that are published while none listens are lost.
#[tokio::test(flavor = "multi_thread")]
async fn pubsub_drill() {
    let redis = Redis::start().await;
    let open = PubSubSource::new(redis.place("drill"), "drill");
    let engine = Arc::new(MemoryEngine::new());
    let arrivals = Arrivals::default();
    let working = tokio::spawn(arrivals.worker(&engine).run_until(std::future::pending()));
    let mut client = redis.client.clone();
    let mut sent = 0;
    for _ in 0..KILLS {
        let relay = Relay::new(&engine, "drill").expect("a name");
        let running = tokio::spawn(relay.run_until(open.clone(), std::future::pending()));
        for _ in 0..MESSAGES / KILLS {
            let message = format!("{sent}-{}", SystemClock.now().as_micros());
            let mut publish = redis::cmd("PUBLISH");
            publish.arg("drill").arg(message);
            let _: u64 = publish.query_async(&mut client).await.expect("it answers");
            sent += 1;
            punctual::time::pause(millis(1)).await;
        }
        running.abort();
    }
    punctual::time::pause(millis(300)).await;
    working.abort();
    let (lost, doubled, early) = arrivals.report("redis-pubsub");
    assert!(
        lost > 0,
        "each relay starts to listen after the first message"
    );
    assert_eq!((doubled, early), (0, 0));
}
