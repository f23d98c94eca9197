//! Drills that take a whole server down, so they have one of their own: `scripts/relay-drill`.

use std::collections::{BTreeSet, HashMap};
use std::process::Command;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use punctual::sync::Lock;
use punctual::time::{Clock, SystemClock, millis, pause, seconds};
use punctual::{
    Context, Due, JobRecord, MemoryEngine, NewJob, Outcome, Queue, RetryPolicy, Worker,
};
use punctual_outbox::{Dialect, ddl};
use sqlx::{AssertSqlSafe, PgPool};

use super::address;
use crate::outbox::message;
use crate::support::*;

/// Consumes until it is dropped, over connections that break. What the broker itself delivers again
/// is no second message.
pub(super) async fn consume(address: String, queue: &'static str, arrivals: Arrivals, ids: Ids) {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    loop {
        let consuming = async {
            let connection = Connection::connect(&address, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let options = BasicConsumeOptions::default();
            let consumer =
                channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
            let mut consumer = consumer.await?;
            while let Some(delivery) = consumer.next().await {
                let delivery = delivery?;
                let message = String::from_utf8_lossy(&delivery.data).into_owned();
                let id = delivery.properties.message_id().as_ref();
                let id = id.map(ToString::to_string).unwrap_or_default();
                ids.locked().entry(message.clone()).or_default().insert(id);
                let is_new = seen.locked().insert(message.clone());
                if is_new || !delivery.redelivered {
                    arrivals.add(message);
                }
                delivery.ack(BasicAckOptions::default()).await?;
            }
            lapin::Result::Ok(())
        };
        let _ = consuming.await;
        pause(millis(50)).await;
    }
}

/// The message ids under which each message came.
pub(super) type Ids = Arc<Mutex<HashMap<String, BTreeSet<String>>>>;
/// How often an emitter had a message and ended without an answer for it.
type Unanswered = Arc<Mutex<HashMap<String, usize>>>;

/// Each emitter is killed after 1 s, and the broker stops once. What was confirmed and not settled
/// comes twice, and nothing else does.
#[tokio::test(flavor = "multi_thread")]
async fn emitters_and_a_broker_that_die_lose_nothing() {
    const MESSAGES: usize = 2_000;
    let broker = address("PUNCTUAL_AMQP");
    let connection = Connection::connect(&broker, ConnectionProperties::default()).await;
    let connection = connection.expect("it runs");
    let channel = connection.create_channel().await.expect("a channel");
    let (exchange, durable) = (
        ExchangeDeclareOptions {
            durable: true,
            ..Default::default()
        },
        QueueDeclareOptions {
            durable: true,
            ..Default::default()
        },
    );
    let none = FieldTable::default;
    let declared = channel.exchange_declare("emit".into(), ExchangeKind::Direct, exchange, none());
    declared.await.expect("it declares");
    let queue = channel.queue_declare("emitted".into(), durable, none());
    queue.await.expect("it declares");
    let bound = channel.queue_bind(
        "emitted".into(),
        "emit".into(),
        "key".into(),
        Default::default(),
        none(),
    );
    bound.await.expect("it binds");

    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);
    let begin = SystemClock.now() + millis(500);
    let jobs = (0..MESSAGES).map(|n| {
        let due = begin + millis((n * 37 % 8_000) as u64);
        let mut job = NewJob::new("into", format!("{n}-{}", due.as_micros())).due(Due::At(due));
        job.content_type = "text/plain".into();
        job.max_attempts = 1_000;
        job.retry = RetryPolicy::fixed(millis(100));
        job
    });
    queue
        .enqueue_many(jobs.collect::<Vec<_>>())
        .await
        .expect("it stores");
    let unanswered = Unanswered::default();
    let noted = unanswered.clone();
    // The process of the sink is killed; the next one starts with the next job.
    let command = format!("exec timeout -s KILL 1 '{BINARY}' amqp-emit --to emit --key key");
    let write = |job: &JobRecord| {
        serde_json::to_string(&punctual_gateway::JobJson::from(job)).expect("JSON")
    };
    let sink = punctual_relay::lines::LineSink::new(command, Arc::new(write))
        .env("PUNCTUAL_RELAY_ADDRESS", &broker);
    let worker = Worker::new(&engine)
        .queues(["into"])
        .concurrency(200)
        .handle_any(move |job: JobRecord, _: Context| {
            let (sink, unanswered) = (sink.clone(), noted.clone());
            async move {
                let put = sink.put(&job).await;
                if put.outcome != Outcome::Completed {
                    let text = String::from_utf8_lossy(&job.payload).into_owned();
                    *unanswered.locked().entry(text).or_default() += 1;
                }
                put
            }
        });
    let working = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    let (arrivals, ids) = (Arrivals::default(), Ids::default());
    let consuming = tokio::spawn(consume(broker, "emitted", arrivals.clone(), ids.clone()));
    pause(seconds(3)).await;
    for act in ["stop_app", "start_app"] {
        let ran =
            tokio::task::spawn_blocking(move || Command::new("rabbitmqctl").arg(act).status());
        assert!(ran.await.expect("it runs").expect("it is there").success());
    }
    until(|| arrivals.total() >= MESSAGES).await;
    pause(seconds(1)).await;
    working.abort();
    consuming.abort();
    let (lost, _, early) = arrivals.report("amqp-emit", MESSAGES);
    assert_eq!((lost, early), (0, 0));
    // A message comes again only if an emitter ended without an answer for it, and no more often.
    for (message, times) in arrivals.doubled() {
        let ended = unanswered.locked().get(&message).copied().unwrap_or(0);
        assert!(
            times <= 1 + ended,
            "{message} came {times} times, {ended} emitters ended with it"
        );
    }
    for (message, ids) in &*ids.locked() {
        assert_eq!(ids.len(), 1, "{message} has one message_id: {ids:?}");
    }
}

/// A killed backend makes PostgreSQL end every session and recover from its log.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_crashes_loses_nothing() {
    const ROWS: usize = 3_000;
    const CRASHES: usize = 3;
    let server = address("PUNCTUAL_POSTGRES");
    let pool = PgPool::connect(&server).await.expect("it runs");
    sqlx::raw_sql(AssertSqlSafe(ddl(Dialect::Postgres).to_owned()))
        .execute(&pool)
        .await
        .expect("it makes tables");
    let engine = Arc::new(MemoryEngine::new());
    let arrivals = Arrivals::default();
    let working = tokio::spawn(arrivals.work(&engine, "into"));
    let written = Arc::new(Mutex::new((BTreeSet::new(), BTreeSet::new())));
    let writing = async {
        for n in 0..ROWS {
            let text = message(n);
            let inserted = async {
                let mut tx = pool.begin().await?;
                punctual_outbox::enqueue(&mut *tx, NewJob::new("into", text.clone()))
                    .await
                    .map_err(|_| sqlx::Error::PoolClosed)?;
                match n % 10 < 3 {
                    true => tx.rollback().await.map(|()| false),
                    false => tx.commit().await.map(|()| true),
                }
            };
            match inserted.await {
                Ok(true) => drop(written.locked().0.insert(text)),
                Ok(false) => {}
                // It may have committed.
                Err(_) => drop(written.locked().1.insert(text)),
            }
            if n % (ROWS / CRASHES) == ROWS / CRASHES / 2 {
                crash(&server).await;
            }
        }
    };
    let has_all = |arrivals: &Arrivals| {
        let arrived: BTreeSet<String> = arrivals.messages().into_iter().collect();
        written.locked().0.is_subset(&arrived)
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let relaying = async {
        for kill in 0.. {
            let running = relay(&engine, source("outbox --poll 20ms", &server));
            let enough = 20 + kill * 37 % 101;
            let over = || is_over.load(std::sync::atomic::Ordering::Relaxed);
            until(|| over() || kill < 20 && running.health.numbers().received >= enough).await;
            if over() {
                break;
            }
        }
    };
    let ending = async {
        writing.await;
        while !has_all(&arrivals) {
            pause(millis(20)).await;
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    tokio::join!(ending, relaying);
    drained(&engine, source("outbox --until-idle", &server)).await;
    working.abort();
    let (committed, unknown) = written.locked().clone();
    let arrived: BTreeSet<String> = arrivals.messages().into_iter().collect();
    let phantoms = arrived
        .difference(&committed)
        .filter(|text| !unknown.contains(*text));
    assert_eq!(phantoms.count(), 0, "what was rolled back is no job");
    let sent = committed.len() + arrived.intersection(&unknown).count();
    assert_eq!(arrivals.report("outbox-postgres-crashes", sent), (0, 0, 0));
}

pub(super) async fn crash(server: &str) {
    let Ok(pool) = PgPool::connect(server).await else {
        return;
    };
    let pid = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()");
    let pid = pid.fetch_one(&pool).await.expect("a number").to_string();
    let killed = Command::new("kill").args(["-9", &pid]).status();
    assert!(killed.expect("it is there").success());
}
