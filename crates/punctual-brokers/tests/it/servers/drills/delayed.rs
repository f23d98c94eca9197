//! A delayed exchange: messages are published while relays, the engine and the broker are broken.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{
    Channel, Confirmation, Connection, ConnectionProperties, ConnectionState, ExchangeKind,
};
use punctual::engine::{List, ListBy};
use punctual::time::{Clock, SystemClock, millis, pause, seconds};

use super::*;
use crate::servers::address;
use crate::servers::crashes::{Ids, consume};
use crate::servers::rabbitmq::{Broker, delayed_by, wait_for_exchange};

/// The arguments of the relay.
fn relay_of<'a>(exchange: &'a str, to: &'a str, broker: &'a str, into: &'a str) -> Vec<&'a str> {
    let common = ["relay", "amqp-delay", "--exchange", exchange, "--to", to];
    let places = ["--amqp", broker, "--engine", into];
    [&common[..], &places, &["--trust-message-id"]].concat()
}

/// A consumer binds before the first message: that comes later, and would be lost without a queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_exchange_is_declared_before_the_first_message() {
    let broker = Broker::connect().await;
    let engine = EngineProcess::redis();
    let into = engine.address();
    let arguments = relay_of("early.delayed", "early", &broker.address, &into);
    let arguments = [&arguments[..], &["--to-type", "topic"]].concat();
    let _relay = punctual(&arguments);
    wait_for_exchange(&broker.address, "early.delayed").await;
    let other = Connection::connect(&broker.address, ConnectionProperties::default()).await;
    let channel = other
        .expect("it runs")
        .create_channel()
        .await
        .expect("a channel");
    let passive = ExchangeDeclareOptions {
        passive: true,
        ..Default::default()
    };
    let kind = ExchangeKind::Topic;
    let found = channel.exchange_declare("early".into(), kind, passive, FieldTable::default());
    found.await.expect("it is there");
    // And takes what is due.
    broker.queue("early.bound", FieldTable::default()).await;
    broker.bind("early.bound", "early", "order.*").await;
    let body = format!("1-{}", SystemClock.now().as_micros());
    let message = delayed_by(100).with_message_id("m1".into());
    broker
        .publish("early.delayed", "order.7", body.as_bytes(), message)
        .await;
    let arrivals = Arrivals::default();
    let consuming = consume(
        broker.address.clone(),
        "early.bound",
        arrivals.clone(),
        Ids::default(),
    );
    let consuming = tokio::spawn(consuming);
    crate::support::until(|| arrivals.total() == 1).await;
    consuming.abort();
}

/// A relay that is killed three times with a message in hand made it dead as poison.
#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_outlives_any_kills_of_its_relay() {
    let broker = Broker::connect().await;
    broker.exchange("crashes", ExchangeKind::Fanout).await;
    let engine = EngineProcess::redis();
    let (client, into) = (engine.client().await, engine.address());
    let _relay = punctual(&relay_of(
        "crashes.delayed",
        "crashes",
        &broker.address,
        &into,
    ));
    wait_for_exchange(&broker.address, "crashes.delayed").await;
    let message = delayed_by(3_600_000).with_message_id("m1".into());
    broker
        .publish("crashes.delayed", "key", b"1", message)
        .await;
    let list = List::new(ListBy::All).limit(10);
    let job = loop {
        let listed = client.list(&Namespace::default(), list.clone()).await;
        if let Some(job) = listed.expect("it lists").jobs.pop() {
            break job;
        }
        pause(millis(10)).await;
    };
    assert!(job.max_crashes.is_some_and(|most| most > 1_000), "{job:?}");
}

/// What is under way from the publisher, at most.
const AT_ONCE: usize = 100;

/// Publishes messages over connections that break; each has the id under which it comes again.
async fn publish(broker: String, exchange: &str, messages: usize, published: &AtomicUsize) {
    let mut channel: Option<(Connection, Channel)> = None;
    let mut bodies = Vec::new();
    while published.load(Relaxed) < messages {
        let first = published.load(Relaxed);
        if bodies.is_empty() {
            bodies = (first..(first + AT_ONCE).min(messages))
                .map(|n| {
                    let delay = 200 + n * 37 % 9_800;
                    let due = SystemClock.now() + millis(delay as u64);
                    (n, delay as i32, format!("{n}-{}", due.as_micros()))
                })
                .collect();
        }
        match send(&broker, exchange, &mut channel, &bodies).await {
            Ok(()) => {
                published.fetch_add(bodies.len(), Relaxed);
                bodies.clear();
            }
            // It may have them: they come again under their ids.
            Err(_) => {
                channel = None;
                pause(millis(50)).await;
            }
        }
    }
}

async fn send(
    broker: &str,
    exchange: &str,
    open: &mut Option<(Connection, Channel)>,
    bodies: &[(usize, i32, String)],
) -> lapin::Result<()> {
    let (_, channel) = match open {
        Some(open) => open,
        none => {
            let connection = Connection::connect(broker, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            channel
                .confirm_select(ConfirmSelectOptions::default())
                .await?;
            none.insert((connection, channel))
        }
    };
    let mut confirms = Vec::new();
    for (n, delay, body) in bodies {
        let properties = delayed_by(*delay).with_message_id(format!("m{n}").into());
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish(
            exchange.into(),
            "key".into(),
            options,
            body.as_bytes(),
            properties.with_delivery_mode(2),
        );
        confirms.push(sent.await?);
    }
    for confirm in confirms {
        // A broker that stops takes nothing, and says so.
        if !matches!(confirm.await?, Confirmation::Ack(_)) {
            return Err(lapin::ErrorKind::InvalidConnectionState(ConnectionState::Closed).into());
        }
    }
    Ok(())
}

/// Breaks the broker: closes all connections, fills its memory, or stops it and starts it again.
async fn break_broker(nth: usize) {
    let acts: &[&[&str]] = match nth % 3 {
        1 => &[&["close_all_connections", "drill"]],
        2 => &[
            &["set_vm_memory_high_watermark", "0.0001"],
            &["set_vm_memory_high_watermark", "0.4"],
        ],
        _ => &[&["stop_app"], &["start_app"]],
    };
    for act in acts {
        let act = act.to_vec();
        let ran =
            tokio::task::spawn_blocking(move || Command::new("rabbitmqctl").args(act).status());
        assert!(ran.await.expect("it runs").expect("it is there").success());
        // A full memory lasts a while.
        pause(seconds(1)).await;
    }
}

/// The engine completes as many jobs as there are messages: none became two. What was confirmed and
/// not settled when a relay was killed comes twice, under one `message_id`.
#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_exchange_and_an_engine_that_are_killed_lose_nothing() {
    let messages = number("PUNCTUAL_DRILL_MESSAGES", 2_000);
    let (relays, engines) = if messages > 10_000 { (20, 3) } else { (5, 1) };
    let servers = if takes_servers_down() { 6 } else { 0 };
    let broker = address("PUNCTUAL_AMQP");
    let setup = Broker::connect().await;
    setup.exchange("kills", ExchangeKind::Direct).await;
    setup.queue("killed", FieldTable::default()).await;
    setup.bind("killed", "kills", "key").await;
    let mut engine = EngineProcess::redis();
    let (client, into) = (engine.client().await, engine.address());
    let arguments = relay_of("kills.delayed", "kills", &broker, &into);
    let relay = SupervisedRelay::start(&arguments);
    wait_for_exchange(&broker, "kills.delayed").await;
    let (arrivals, ids) = (Arrivals::default(), Ids::default());
    let consuming = consume(broker.clone(), "killed", arrivals.clone(), ids.clone());
    let consuming = tokio::spawn(consuming);
    let published = AtomicUsize::new(0);
    let publishing = publish(broker.clone(), "kills.delayed", messages, &published);
    let breaking = async {
        for (at, act) in acts(messages, relays, engines, servers) {
            while published.load(Relaxed) < at {
                pause(millis(2)).await;
            }
            match act {
                Act::KillRelay => relay.kill(),
                Act::KillEngine => engine.kill(),
                Act::BreakServer(nth) => break_broker(nth).await,
            }
        }
    };
    tokio::join!(publishing, breaking);
    crate::support::until(|| arrivals.total() >= messages).await;
    idle(&client, "amqp.kills.delayed").await;
    // What the broker has taken from the relay is with the consumer.
    is_empty(&broker, "killed").await;
    consuming.abort();
    let (lost, again, early) = arrivals.report("amqp-delay-killed", messages);
    let jobs = completed(&client, "amqp.kills.delayed").await as usize;
    let doubled = jobs.saturating_sub(messages);
    println!(
        "{}",
        serde_json::json!({"drill": "jobs of amqp-delay-killed", "jobs": jobs, "doubled": doubled, "published_again": again})
    );
    assert_eq!((lost, early), (0, 0));
    assert_eq!(jobs, messages, "each message is one job");
    for (message, ids) in &*ids.locked() {
        assert_eq!(ids.len(), 1, "{message} has one message_id: {ids:?}");
    }
}

/// Waits until a queue has no message, neither ready nor with a consumer.
async fn is_empty(broker: &str, queue: &str) {
    let connection = Connection::connect(broker, ConnectionProperties::default()).await;
    let connection = connection.expect("it runs");
    let channel = connection.create_channel().await.expect("a channel");
    while waiting(&channel, queue).await > 0 {
        pause(millis(20)).await;
    }
}

/// How many messages are ready in a queue.
pub(super) async fn waiting(channel: &Channel, queue: &str) -> u32 {
    let passive = QueueDeclareOptions {
        passive: true,
        ..Default::default()
    };
    let declared = channel.queue_declare(queue.into(), passive, FieldTable::default());
    declared.await.expect("it is there").message_count()
}
