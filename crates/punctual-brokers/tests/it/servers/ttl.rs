//! Delays by time to live and dead letters, at their best and as most build them, beside ours.

use std::process::Command;
use std::sync::Arc;

use futures_util::StreamExt;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, ExchangeKind};
use punctual::MemoryEngine;
use punctual::time::{Clock, SystemClock, millis};

use super::rabbitmq::{Broker, delayed_by, emitting, wait_for_exchange};
use crate::support::*;

/// The queues of the example, by name and time to live.
const BUCKETS: [(&str, u64); 3] = [("1s", 1_000), ("2s", 2_000), ("5s", 5_000)];
/// Milliseconds: long ones stand in front of short ones.
const DELAYS: [u64; 8] = [4_500, 700, 3_000, 250, 1_900, 1_000, 2_600, 400];
const MESSAGES: u64 = 200;

fn delay(n: u64) -> u64 {
    DELAYS[n as usize % DELAYS.len()] + n
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// A message whose body says when it is due.
async fn publish(broker: &Broker, n: u64, (exchange, key): (&str, &str), with: BasicProperties) {
    let due = SystemClock.now() + millis(delay(n));
    let body = format!("{n}-{}", due.as_micros());
    broker.publish(exchange, key, body.as_bytes(), with).await;
}

/// Consumes all and prints their report; answers how many came early, and how many after one that
/// was due over two seconds later.
async fn arrived(broker: &Broker, queue: &str, name: &str) -> (usize, usize) {
    let arrivals = Arrivals::default();
    let mut consumer = broker.consume(queue).await;
    let (mut latest, mut overtaken) = (0, 0);
    while arrivals.total() < MESSAGES as usize {
        let message = consumer.next().await.expect("a message");
        let message = String::from_utf8_lossy(&message.expect("it is whole").data).into_owned();
        let (_, due) = message.rsplit_once('-').expect("it has a due");
        let due: u64 = due.parse().expect("a number");
        overtaken += usize::from(due + 2_000_000 < latest);
        latest = latest.max(due);
        arrivals.add(message);
    }
    let (lost, doubled, early) = arrivals.report(name, MESSAGES as usize);
    assert_eq!((lost, doubled), (0, 0), "{name}");
    (early, overtaken)
}

/// A queue checks its first message only: a short delay behind a long one waits for that, in a
/// quorum queue too. Queues with one time to live each have no such blocking, but only their
/// delays. A delayed exchange keeps every delay.
#[tokio::test(flavor = "multi_thread")]
async fn a_time_to_live_blocks_buckets_round_and_ours_is_on_time() {
    let broker = Broker::connect().await;

    // As most build it: a time to live per message.
    broker.exchange("ttl.due", ExchangeKind::Fanout).await;
    broker.queue("ttl.arrived", FieldTable::default()).await;
    broker.bind("ttl.arrived", "ttl.due", "").await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    arguments.insert("x-dead-letter-exchange".into(), text("ttl.due"));
    broker.queue("ttl.waits", arguments).await;
    for n in 0..MESSAGES {
        let ttl = BasicProperties::default().with_expiration(delay(n).to_string().into());
        publish(&broker, n, ("", "ttl.waits"), ttl).await;
    }
    let (early, overtaken) = arrived(&broker, "ttl.arrived", "ttl per message").await;
    assert_eq!(early, 0);
    assert!(overtaken > 0, "short delays wait for long ones");

    // The example, as its page says.
    let definitions = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/rabbitmq-ttl/buckets.json"
    );
    let mut import = Command::new("rabbitmqctl");
    import.args(["import_definitions", definitions]);
    let imported = import.output().expect("scripts/with-rabbitmq has it");
    assert!(imported.status.success(), "{imported:?}");
    broker.queue("bucket.arrived", FieldTable::default()).await;
    broker.bind("bucket.arrived", "delay.due", "order.#").await;
    for n in 0..MESSAGES {
        let fits = BUCKETS.into_iter().find(|(_, ttl)| *ttl >= delay(n));
        let exchange = format!("delay.{}", fits.expect("a bucket").0);
        let persistent = BasicProperties::default().with_delivery_mode(2);
        publish(&broker, n, (&exchange, "order.7.paid"), persistent).await;
    }
    let (early, _) = arrived(&broker, "bucket.arrived", "buckets of ttl").await;
    assert_eq!(early, 0);

    broker.exchange("on-time", ExchangeKind::Topic).await;
    broker.queue("on-time.arrived", FieldTable::default()).await;
    broker.bind("on-time.arrived", "on-time", "order.#").await;
    let engine = Arc::new(MemoryEngine::new());
    let takes = source("amqp-delay --exchange on-time.delayed", &broker.address);
    let _relay = relay(&engine, takes);
    let worker = emitting(&engine, "into", "amqp-emit --to on-time", &broker.address);
    let working = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    wait_for_exchange(&broker.address, "on-time.delayed").await;
    for n in 0..MESSAGES {
        let with = delayed_by(delay(n) as i32);
        publish(&broker, n, ("on-time.delayed", "order.7.paid"), with).await;
    }
    let (early, overtaken) = arrived(&broker, "on-time.arrived", "delayed exchange of ours").await;
    working.abort();
    assert_eq!((early, overtaken), (0, 0));
}
