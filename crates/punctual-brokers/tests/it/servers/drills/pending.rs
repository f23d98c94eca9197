//! Many messages that are due in months, and a few that are due soon beside them.

use std::process::Command;

use lapin::ExchangeKind;
use lapin::options::BasicPublishOptions;
use lapin::types::{AMQPValue, FieldTable};
use punctual::time::{Clock, Stopwatch, SystemClock, millis, pause};

use super::delayed::waiting;
use super::*;
use crate::servers::crashes::{Ids, consume};
use crate::servers::rabbitmq::{Broker, delayed_by, wait_for_exchange};

/// Messages under way from the publisher, at most.
const AT_ONCE: usize = 500;
const DAY_MS: i64 = 86_400_000;

#[tokio::test(flavor = "multi_thread")]
async fn messages_due_in_months_wait_in_a_directory_and_not_in_the_broker() {
    pending("months-file", EngineProcess::serve()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_due_in_months_wait_in_redis_and_not_in_the_broker() {
    pending("months-redis", EngineProcess::redis()).await;
}

async fn pending(name: &'static str, engine: EngineProcess) {
    let months = number("PUNCTUAL_DRILL_PENDING", 5_000);
    let soon = number("PUNCTUAL_DRILL_SOON", 200);
    let broker = Broker::connect().await;
    let (exchange, queue) = (
        format!("{name}.delayed"),
        format!("punctual.{name}.delayed"),
    );
    broker.exchange(name, ExchangeKind::Direct).await;
    broker
        .queue(&format!("{name}.out"), FieldTable::default())
        .await;
    broker.bind(&format!("{name}.out"), name, "key").await;
    let (client, into) = (engine.client().await, engine.address());
    let places = ["--amqp", &broker.address, "--engine", &into];
    let takes = ["relay", "amqp-delay", "--exchange", &exchange, "--to", name];
    let relay = SupervisedRelay::start(&[&takes[..], &places].concat());
    wait_for_exchange(&broker.address, &exchange).await;
    let broker_before = memory_of_broker();

    let watch = Stopwatch::start();
    publish_months(&broker, &exchange, months).await;
    let jobs = format!("amqp.{exchange}");
    let pending = || async {
        let counts = counts(&client, &jobs).await;
        counts.map_or(0, |counts| counts.pending() as usize)
    };
    while pending().await < months {
        pause(millis(100)).await;
    }
    let took = watch.elapsed();
    // Stored is acknowledged: what was published is in no queue of the broker.
    while waiting(&broker.channel, &queue).await > 0 {
        pause(millis(20)).await;
    }
    let idle = numbers(&relay, &engine, broker_before);

    let arrivals = Arrivals::default();
    let out: &'static str = Box::leak(format!("{name}.out").into_boxed_str());
    let consuming = consume(
        broker.address.clone(),
        out,
        arrivals.clone(),
        Ids::default(),
    );
    let consuming = tokio::spawn(consuming);
    for n in 0..soon {
        let delay = 1_000 + n * 6_137 % 9_000;
        let due = SystemClock.now() + millis(delay as u64);
        let body = format!("{n}-{}", due.as_micros());
        let message = delayed_by(delay as i32);
        broker
            .publish(&exchange, "key", body.as_bytes(), message)
            .await;
        pause(millis(20)).await;
    }
    crate::support::until(|| arrivals.total() >= soon).await;
    while pending().await > months {
        pause(millis(20)).await;
    }
    consuming.abort();
    let report = arrivals.report(&format!("soon-beside-{name}"), soon);
    let [broker_mb, relay_mb, engine_mb] = idle;
    let line = serde_json::json!({
        "drill": name, "engine": engine.name(), "pending": pending().await, "in_broker": 0,
        "broker_mb_more": broker_mb, "relay_mb": relay_mb, "engine_mb": engine_mb,
        "stored_per_s": (months as f64 / took.as_secs_f64()).round(),
    });
    println!("{line}");
    assert_eq!(report, (0, 0, 0));
    assert_eq!(pending().await, months, "those of later wait still");
}

/// Publishes messages that are due in one to six months, confirmed.
async fn publish_months(broker: &Broker, exchange: &str, messages: usize) {
    let mut sent = 0;
    while sent < messages {
        let mut confirms = Vec::new();
        for n in sent..(sent + AT_ONCE).min(messages) {
            let delay = 30 * DAY_MS + n as i64 * 7_919 % (150 * DAY_MS);
            let mut headers = FieldTable::default();
            headers.insert("x-delay".into(), AMQPValue::LongLongInt(delay));
            let message = lapin::BasicProperties::default().with_headers(headers);
            let body = format!("{{\"order\":{n},\"customer\":\"customer@example.org\"}}");
            let options = BasicPublishOptions::default();
            let published = broker.channel.basic_publish(
                exchange.into(),
                "key".into(),
                options,
                body.as_bytes(),
                message.with_delivery_mode(2),
            );
            confirms.push(published.await.expect("it is sent"));
        }
        sent += confirms.len();
        for confirm in confirms {
            confirm.await.expect("it is confirmed");
        }
    }
}

/// Megabytes: of the broker, more than before; of the relay with its children; of the engine.
fn numbers(relay: &SupervisedRelay, engine: &EngineProcess, broker_before: u64) -> [u64; 3] {
    block_in_place(|| {
        let broker = memory_of_broker().saturating_sub(broker_before);
        [
            broker,
            resident_with_children(relay.id()),
            engine.megabytes(),
        ]
    })
}

/// The megabytes that the broker has in use, after its collection.
fn memory_of_broker() -> u64 {
    let command = "[garbage_collect(P) || P <- processes()], erlang:memory(total).";
    let said = Command::new("rabbitmqctl").args(["eval", command]).output();
    let said = said.expect("it is there");
    let text = String::from_utf8_lossy(&said.stdout);
    let last = text
        .split_whitespace()
        .last()
        .and_then(|text| text.parse::<u64>().ok());
    last.expect("a number") >> 20
}
