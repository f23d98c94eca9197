//! RabbitMQ: a delayed exchange, dead letters, and what cannot be routed.

use std::sync::Arc;

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ExchangeKind};
use punctual::time::{Clock, SystemClock, millis, seconds};
use punctual::{Context, JobRecord, JobState, MemoryEngine, RetryPolicy, Worker};

use super::address;
use crate::support::*;

/// A connection of the test's own, with a channel that confirms.
pub(super) struct Broker {
    _connection: Connection,
    pub(super) channel: Channel,
    pub(super) address: String,
}

impl Broker {
    pub(super) async fn connect() -> Self {
        let address = address("PUNCTUAL_AMQP");
        let connection = Connection::connect(&address, ConnectionProperties::default()).await;
        let connection = connection.expect("it runs");
        let channel = connection.create_channel().await.expect("a channel");
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await
            .expect("it confirms");
        Self {
            _connection: connection,
            channel,
            address,
        }
    }

    pub(super) async fn exchange(&self, name: &str, kind: ExchangeKind) {
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..Default::default()
        };
        let declared =
            self.channel
                .exchange_declare(name.into(), kind, durable, FieldTable::default());
        declared.await.expect("it declares");
    }

    pub(super) async fn queue(&self, name: &str, arguments: FieldTable) {
        let durable = QueueDeclareOptions {
            durable: true,
            ..Default::default()
        };
        self.channel
            .queue_declare(name.into(), durable, arguments)
            .await
            .expect("it declares");
    }

    pub(super) async fn bind(&self, queue: &str, exchange: &str, key: &str) {
        let options = QueueBindOptions::default();
        let bound = self.channel.queue_bind(
            queue.into(),
            exchange.into(),
            key.into(),
            options,
            FieldTable::default(),
        );
        bound.await.expect("it binds");
    }

    pub(super) async fn publish(
        &self,
        exchange: &str,
        key: &str,
        body: &[u8],
        properties: BasicProperties,
    ) {
        let options = BasicPublishOptions::default();
        let sent =
            self.channel
                .basic_publish(exchange.into(), key.into(), options, body, properties);
        sent.await
            .expect("it is sent")
            .await
            .expect("it is confirmed");
    }

    pub(super) async fn consume(&self, queue: &str) -> Consumer {
        let options = BasicConsumeOptions {
            no_ack: true,
            ..Default::default()
        };
        let consumer =
            self.channel
                .basic_consume(queue.into(), "".into(), options, FieldTable::default());
        consumer.await.expect("it consumes")
    }
}

pub(super) fn delayed_by(ms: i32) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), AMQPValue::LongInt(ms));
    BasicProperties::default().with_headers(headers)
}

/// Emits the jobs of a queue.
pub(super) fn emitting(
    engine: &Arc<MemoryEngine>,
    queue: &str,
    arguments: &str,
    address: &str,
) -> Worker {
    let sink = sink(arguments, address);
    Worker::new(engine)
        .queues([queue])
        .concurrency(500)
        .handle_any(move |job: JobRecord, _: Context| {
            let sink = sink.clone();
            async move { sink.put(&job).await }
        })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_exchange_delivers_on_time_with_all_that_was_sent() {
    let broker = Broker::connect().await;
    let engine = Arc::new(MemoryEngine::new());
    broker.exchange("orders", ExchangeKind::Topic).await;
    broker.queue("paid", FieldTable::default()).await;
    broker.bind("paid", "orders", "order.*.paid").await;
    let _relay = relay(
        &engine,
        source("amqp-delay --exchange orders.delayed", &broker.address),
    );
    let worker = emitting(&engine, "into", "amqp-emit --to orders", &broker.address);
    let working = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    // The relay declares the exchange; until then a message would be lost.
    wait_for_exchange(&broker.address, "orders.delayed").await;

    let began = SystemClock.now();
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), AMQPValue::LongInt(700));
    headers.insert("tenant".into(), AMQPValue::LongString("acme".into()));
    headers.insert("ratio".into(), AMQPValue::Double(0.25));
    let properties = BasicProperties::default()
        .with_headers(headers)
        .with_content_type("application/x-orders".into())
        .with_correlation_id("c1".into())
        .with_message_id("m1".into())
        .with_priority(3);
    broker
        .publish(
            "orders.delayed",
            "order.7.paid",
            b"\x00body\xff",
            properties,
        )
        .await;
    broker
        .publish(
            "orders.delayed",
            "order.8.paid",
            b"at once",
            BasicProperties::default(),
        )
        .await;

    let mut consumer = broker.consume("paid").await;
    let first = consumer
        .next()
        .await
        .expect("a message")
        .expect("it is whole");
    assert_eq!(first.data, b"at once");
    let second = consumer
        .next()
        .await
        .expect("a message")
        .expect("it is whole");
    assert!(SystemClock.now() - began >= millis(700), "never early");
    assert_eq!(second.data, b"\x00body\xff");
    assert_eq!(second.routing_key.as_str(), "order.7.paid");
    let properties = &second.properties;
    assert_eq!(
        properties.correlation_id().as_ref().map(|id| id.as_str()),
        Some("c1")
    );
    assert_eq!(
        properties.message_id().as_ref().map(|id| id.as_str()),
        Some("m1")
    );
    assert_eq!(
        properties.content_type().as_ref().map(|kind| kind.as_str()),
        Some("application/x-orders")
    );
    assert_eq!(
        (*properties.priority(), *properties.delivery_mode()),
        (Some(3), Some(2))
    );
    let headers = properties.headers().clone().expect("headers");
    assert_eq!(headers.inner().get("ratio"), Some(&AMQPValue::Double(0.25)));
    assert_eq!(headers.inner().len(), 2, "x-delay is spent: {headers:?}");
    working.abort();
}

pub(super) async fn wait_for_exchange(address: &str, name: &str) {
    let passive = ExchangeDeclareOptions {
        passive: true,
        ..Default::default()
    };
    loop {
        // What is not there ends the channel.
        let other = Connection::connect(address, ConnectionProperties::default()).await;
        let other = other.expect("it runs");
        let channel = other.create_channel().await.expect("a channel");
        let kind = ExchangeKind::Fanout;
        let found = channel.exchange_declare(name.into(), kind, passive, FieldTable::default());
        let found = found.await.is_ok();
        let queue = QueueDeclareOptions {
            passive: true,
            ..Default::default()
        };
        let name = format!("punctual.{name}");
        let has_consumer = match found {
            true => {
                channel
                    .queue_declare(name.as_str().into(), queue, FieldTable::default())
                    .await
            }
            false => continue,
        };
        if has_consumer.is_ok_and(|queue| queue.consumer_count() > 0) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_become_dead_jobs_with_their_past_and_go_back() {
    let broker = Broker::connect().await;
    broker.exchange("shop", ExchangeKind::Direct).await;
    broker.exchange("shop.dead", ExchangeKind::Fanout).await;
    broker.queue("shop.dlq", FieldTable::default()).await;
    broker.bind("shop.dlq", "shop.dead", "").await;
    let mut arguments = FieldTable::default();
    let dead = AMQPValue::LongString("shop.dead".into());
    arguments.insert("x-dead-letter-exchange".into(), dead);
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(50));
    broker.queue("shop.work", arguments).await;
    broker.bind("shop.work", "shop", "charge").await;
    broker
        .publish(
            "shop",
            "charge",
            b"{\"order\":7}",
            BasicProperties::default(),
        )
        .await;

    let engine = Arc::new(MemoryEngine::new());
    let running = relay(&engine, source("amqp --queue shop.dlq", &broker.address));
    until(|| running.health.numbers().enqueued > 0).await;
    let found = jobs(&engine).await;
    assert_eq!(found[0].state, JobState::Dead);
    assert_eq!(found[0].payload.as_ref(), b"{\"order\":7}");
    let why = found[0].last_error.clone().unwrap_or_default();
    assert_eq!(why, "expired in queue shop.work (1 times)");
    assert_eq!(found[0].attempts.len(), 1);

    // Redriven, it is published where it came from.
    broker.queue("shop.again", FieldTable::default()).await;
    broker.bind("shop.again", "shop", "charge").await;
    drop(running);
    let queue = punctual::Queue::new(&engine);
    queue.redrive(found[0].id).await.expect("it goes again");
    let worker = emitting(&engine, "into", "amqp-emit", &broker.address);
    let working = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    let mut consumer = broker.consume("shop.again").await;
    let again = consumer
        .next()
        .await
        .expect("a message")
        .expect("it is whole");
    assert_eq!(
        (again.exchange.as_str(), again.routing_key.as_str()),
        ("shop", "charge")
    );
    assert_eq!(again.data, b"{\"order\":7}");
    working.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_queue_takes_is_dead_with_the_reason() {
    let broker = Broker::connect().await;
    broker.exchange("nowhere", ExchangeKind::Direct).await;
    let engine = Arc::new(MemoryEngine::new());
    let mut job = punctual::NewJob::new("into", "{}");
    job.max_attempts = 2;
    job.retry = RetryPolicy::fixed(millis(1));
    let id = job.id;
    let queue = punctual::Queue::new(&engine);
    queue.enqueue_job(job).await.expect("it is stored");
    let arguments = "amqp-emit --to nowhere --key x";
    let worker = emitting(&engine, "into", arguments, &broker.address);
    let working = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    queue
        .wait_settled(id, seconds(60))
        .await
        .expect("it settles");
    let found = jobs(&engine).await.remove(0);
    assert_eq!(found.state, JobState::Dead);
    let why = found.last_error.unwrap_or_default();
    assert!(why.contains("unroutable"), "{why}");
    working.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_delays_become_dead_jobs_and_missing_ones_are_due_now() {
    let broker = Broker::connect().await;
    broker.queue("delays", FieldTable::default()).await;
    let with = |value: AMQPValue| {
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), value);
        BasicProperties::default().with_headers(headers)
    };
    for value in [
        AMQPValue::LongInt(-5),
        AMQPValue::LongString("soon".into()),
        AMQPValue::Double(1.5),
        AMQPValue::Boolean(true),
    ] {
        broker.publish("", "delays", b"{}", with(value)).await;
    }
    broker
        .publish("", "delays", b"{}", with(AMQPValue::LongLongInt(60_000)))
        .await;
    broker
        .publish("", "delays", b"{}", BasicProperties::default())
        .await;
    // Larger than a line of the relay may be.
    broker
        .publish(
            "",
            "delays",
            &vec![b'x'; 5 << 20],
            BasicProperties::default(),
        )
        .await;
    let engine = Arc::new(MemoryEngine::new());
    let running = relay(&engine, source("amqp --queue delays", &broker.address));
    until(|| running.health.numbers().received >= 7 && running.health.numbers().refused >= 5).await;
    let found = jobs(&engine).await;
    let of = |state: JobState| found.iter().filter(|job| job.state == state).count();
    assert_eq!(
        (
            of(JobState::Dead),
            of(JobState::Scheduled),
            of(JobState::Ready)
        ),
        (5, 1, 1)
    );
    let dead = found.iter().filter(|job| job.state == JobState::Dead);
    for job in dead {
        assert_eq!(job.queue, "relay.test.refused");
        assert!(
            job.last_error
                .as_ref()
                .is_some_and(|why| why.contains("span") || why.contains("1 MiB")),
            "{job:?}"
        );
    }
}

/// Relays of a delayed exchange are killed; only what was published within a kill may come twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_exchange_loses_nothing_under_kills() {
    const MESSAGES: usize = 2_000;
    let broker = Broker::connect().await;
    broker.exchange("drill", ExchangeKind::Direct).await;
    broker.queue("drilled", FieldTable::default()).await;
    broker.bind("drilled", "drill", "key").await;
    let engine = Arc::new(MemoryEngine::new());
    let takes = || {
        source(
            "amqp-delay --exchange drill.delayed --trust-message-id",
            &broker.address,
        )
    };
    drop({
        let first = relay(&engine, takes());
        wait_for_exchange(&broker.address, "drill.delayed").await;
        first
    });
    let worker = emitting(&engine, "into", "amqp-emit --to drill", &broker.address);
    let working = tokio::spawn(async move { worker.run_until(std::future::pending()).await });
    let arrivals = Arrivals::default();
    let mut consumer = broker.consume("drilled").await;
    let arrived = arrivals.clone();
    let consuming = tokio::spawn(async move {
        while let Some(Ok(delivery)) = consumer.next().await {
            arrived.add(String::from_utf8_lossy(&delivery.data).into_owned());
        }
    });
    let publishing = async {
        for n in 0..MESSAGES {
            let delay = 100 + n * 37 % 1_900;
            let due = SystemClock.now() + millis(delay as u64);
            let body = format!("{n}-{}", due.as_micros());
            let properties = delayed_by(delay as i32).with_message_id(format!("m{n}").into());
            broker
                .publish("drill.delayed", "key", body.as_bytes(), properties)
                .await;
        }
    };
    let all = || arrivals.total() >= MESSAGES;
    let relaying = killed_until(all, &engine, takes, 20);
    tokio::join!(publishing, relaying);
    working.abort();
    consuming.abort();
    assert_eq!(arrivals.report("amqp-delay", MESSAGES), (0, 0, 0));
}

/// A job that is not the broker's goes out by a routing key of the command.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_any_queue_go_to_an_exchange() {
    let broker = Broker::connect().await;
    broker.exchange("out", ExchangeKind::Direct).await;
    broker.queue("outs", FieldTable::default()).await;
    broker.bind("outs", "out", "mail").await;
    let engine = Arc::new(MemoryEngine::new());
    let queue = punctual::Queue::new(&engine);
    let job = punctual::NewJob::new("mail", r#"{ "to": "ann", "n": 1.0 }"#);
    let id = job.id.to_string();
    queue.enqueue_job(job).await.expect("it is stored");
    let worker = emitting(
        &engine,
        "mail",
        "amqp-emit --to out --key mail",
        &broker.address,
    );
    worker.run_until_idle().await.expect("it works");
    let mut consumer = broker.consume("outs").await;
    let out = consumer
        .next()
        .await
        .expect("a message")
        .expect("it is whole");
    // The very bytes, under the id of the job.
    assert_eq!(out.data, br#"{ "to": "ann", "n": 1.0 }"#);
    assert_eq!(
        out.properties.message_id().as_ref().map(|id| id.as_str()),
        Some(id.as_str())
    );
}

/// A queue that is still bound to the old name would get each message at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_exchange_with_an_old_binding_is_refused() {
    let broker = Broker::connect().await;
    broker.exchange("old.delayed", ExchangeKind::Fanout).await;
    broker.queue("old.consumer", FieldTable::default()).await;
    broker.bind("old.consumer", "old.delayed", "paid").await;
    let run = |management: &str| {
        std::process::Command::new(BINARY)
            .args(["amqp-delay", "--exchange", "old.delayed"])
            .env("PUNCTUAL_RELAY_ADDRESS", &broker.address)
            .env("PUNCTUAL_RELAY_MANAGEMENT", management)
            .stdin(std::process::Stdio::null())
            .output()
            .expect("it runs")
    };
    let management = address("PUNCTUAL_AMQP_MANAGEMENT");
    let text = String::from_utf8_lossy(&run(&management).stderr).into_owned();
    assert!(text.contains("\"old.consumer\" is still bound"), "{text}");
    for wrong in [
        "https://127.0.0.1",
        "http://127.0.0.1:1",
        "http://a:b@127.0.0.1:1",
    ] {
        let text = String::from_utf8_lossy(&run(wrong).stderr).into_owned();
        assert!(text.contains("the management API"), "{text}");
    }
    let unbind = broker.channel.queue_unbind(
        "old.consumer".into(),
        "old.delayed".into(),
        "paid".into(),
        FieldTable::default(),
    );
    unbind.await.expect("it unbinds");
    // Its standard input is at its end, and so is it.
    let ended = run(&management);
    assert!(ended.status.success(), "{ended:?}");
    // The relay's own binding is none of the old ones.
    assert!(run(&management).status.success());
}

/// A job names its exchange, so a sink of a server holds it against the list of its namespace.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_an_exchange_that_is_not_allowed_is_dead() {
    let broker = Broker::connect().await;
    broker.exchange("allowed.a", ExchangeKind::Fanout).await;
    broker.queue("allowed", FieldTable::default()).await;
    broker.bind("allowed", "allowed.a", "").await;
    for (to, state) in [
        ("allowed.a", JobState::Completed),
        ("secret", JobState::Dead),
    ] {
        let engine = Arc::new(MemoryEngine::new());
        let queue = punctual::Queue::new(&engine);
        let mut job = punctual::NewJob::new("mail", "1");
        job.retention = seconds(60);
        queue.enqueue_job(job).await.expect("it is stored");
        let arguments = format!("amqp-emit --to {to} --only 'allowed.*'");
        let worker = emitting(&engine, "mail", &arguments, &broker.address);
        worker.run_until_idle().await.expect("it works");
        let found = jobs(&engine).await.remove(0);
        assert_eq!(found.state, state, "{found:?}");
        let why = found.last_error.unwrap_or_default();
        assert_eq!(
            why.contains("is not allowed"),
            state == JobState::Dead,
            "{why}"
        );
    }
}

/// A person has to mend it, so a supervisor does not start it again.
#[tokio::test]
async fn wrong_settings_of_a_broker_have_an_exit_status_of_their_own() {
    let broker = Broker::connect().await;
    broker.queue("plain", FieldTable::default()).await;
    let (_, place) = broker
        .address
        .rsplit_once('@')
        .unwrap_or(("", &broker.address));
    let place = place.trim_start_matches("amqp://").split('/').next();
    let place = place.unwrap_or_default().to_owned();
    let run = |address: &str, arguments: &[&str]| {
        let ran = std::process::Command::new(BINARY)
            .args(arguments)
            .env("PUNCTUAL_RELAY_ADDRESS", address)
            .stdin(std::process::Stdio::null())
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        (ran.status.code(), text)
    };
    let take = ["amqp", "--queue", "none"];
    for (address, arguments, says) in [
        (
            format!("amqp://guest:hunter2@{place}"),
            &take[..],
            "\"guest\" or the password",
        ),
        (
            format!("amqp://guest:guest@{place}/none"),
            &take,
            "no vhost \"none\"",
        ),
        (broker.address.clone(), &take, "no such queue"),
        (
            format!("amqp://guest:hunter2@{place}"),
            &["amqp-emit", "--to", "x"],
            "\"guest\" or the password",
        ),
        (
            broker.address.clone(),
            &["amqp-emit", "--to", "x", "--to-type", "x-nothing"],
            "does not allow",
        ),
    ] {
        let (status, text) = run(&address, arguments);
        assert_eq!(status, Some(78), "{arguments:?}: {text}");
        assert!(text.contains(says) && !text.contains("running"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}
