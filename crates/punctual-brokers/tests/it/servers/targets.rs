//! Jobs of any queue with a target on RabbitMQ.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use futures_util::StreamExt;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Consumer, ExchangeKind};
use punctual::time::seconds;
use punctual::{JobState, MemoryEngine, NewJob, Queue, push};

use super::rabbitmq::{Broker, emitting};
use crate::support::*;

async fn next(consumer: &mut Consumer) -> lapin::message::Delivery {
    let message = consumer.next().await.expect("a message");
    message.expect("it is whole")
}

/// A job with that target, which is kept.
fn aimed(queue: &str, target: &str, payload: &str) -> NewJob {
    let mut job = NewJob::new(queue, payload.to_owned());
    job.retention = seconds(60);
    push::aim(&mut job, target);
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_published_to_its_target_with_its_headers() {
    let broker = Broker::connect().await;
    broker.exchange("aim", ExchangeKind::Topic).await;
    broker.queue("aimed", FieldTable::default()).await;
    broker.bind("aimed", "aim", "order.*.paid").await;
    let engine = Arc::new(MemoryEngine::new());
    let queue = Queue::new(&engine);
    let mut job = aimed("mail", "amqp:aim/order.7.paid", r#"{ "order": 7 }"#);
    push::set(&mut job, "tenant", "acme");
    let id = job.id.to_string();
    queue.enqueue_job(job).await.expect("it is stored");
    // The default exchange has the names of queues as routing keys.
    let direct = aimed("mail", "amqp:/aimed", "1");
    queue.enqueue_job(direct).await.expect("it is stored");
    let worker = emitting(&engine, "amqp:mail", "amqp-emit", &broker.address);
    worker.run_until_idle().await.expect("it works");
    let mut consumer = broker.consume("aimed").await;
    let mut found = [next(&mut consumer).await, next(&mut consumer).await];
    found.sort_by_key(|one| one.exchange.to_string());
    let [direct, first] = found;
    assert_eq!(
        (direct.exchange.as_str(), &direct.data[..]),
        ("", &b"1"[..])
    );
    assert_eq!(first.routing_key.as_str(), "order.7.paid");
    assert_eq!(first.data, br#"{ "order": 7 }"#);
    let properties = &first.properties;
    let message_id = properties.message_id().as_ref().map(ToString::to_string);
    assert_eq!(
        (message_id, *properties.delivery_mode()),
        (Some(id), Some(2))
    );
    let headers = properties.headers().clone().expect("headers");
    let tenant = AMQPValue::LongString("acme".into());
    assert_eq!(headers.inner().get("tenant"), Some(&tenant));
    assert_eq!(headers.inner().len(), 1, "ours stay here: {headers:?}");
}

/// The list of the namespace holds for targets too, and a target that is none ends its job.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_not_allowed_or_malformed_ends_its_job() {
    let broker = Broker::connect().await;
    broker.exchange("only.a", ExchangeKind::Fanout).await;
    broker.queue("only", FieldTable::default()).await;
    broker.bind("only", "only.a", "").await;
    for (target, part) in [
        ("amqp:only.a/", None),
        ("amqp:secret/k", Some("is not allowed")),
        ("amqp:/only", Some("is not allowed")),
        ("amqp:only.a", Some("write amqp:EXCHANGE/KEY")),
        (
            "https://a.example/",
            Some("has no target amqp:EXCHANGE/KEY"),
        ),
    ] {
        let engine = Arc::new(MemoryEngine::new());
        let job = aimed("amqp:mail", target, "1");
        let name = job.queue.clone();
        let queue = Queue::new(&engine);
        queue.enqueue_job(job).await.expect("it is stored");
        let worker = emitting(&engine, &name, "amqp-emit --only 'only.*'", &broker.address);
        worker.run_until_idle().await.expect("it works");
        let found = jobs(&engine).await.remove(0);
        let state = match part {
            Some(_) => JobState::Dead,
            None => JobState::Completed,
        };
        assert_eq!(found.state, state, "{target}: {found:?}");
        let why = found.last_error.unwrap_or_default();
        assert!(why.contains(part.unwrap_or_default()), "{target}: {why}");
    }
}

/// A process that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command as people run it: one relay, jobs of queues that are made while it runs.
#[tokio::test(flavor = "multi_thread")]
async fn one_relay_publishes_the_targets_of_all_queues() {
    let broker = Broker::connect().await;
    broker.exchange("every", ExchangeKind::Direct).await;
    broker.queue("every", FieldTable::default()).await;
    broker.bind("every", "every", "k").await;
    let dir = tempfile::tempdir().expect("a directory");
    let command = |args: &[&str]| {
        let mut command = Command::new(PathBuf::from(BINARY).with_file_name("punctual"));
        command
            .args(args)
            .current_dir(dir.path())
            .env("PUNCTUAL_RELAY_BINARY", BINARY)
            .env("PUNCTUAL_AMQP", &broker.address)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    };
    let enqueue = |queue: &str, n: u32| {
        let (target, n) = ("amqp:every/k", n.to_string());
        let args = ["enqueue", queue, &n, "--target", target];
        assert!(command(&args).status().expect("it runs").success());
    };
    enqueue("first", 0);
    let relay = command(&["relay", "amqp-emit"]).spawn().expect("it starts");
    let relay = Killed(relay);
    let mut consumer = broker.consume("every").await;
    assert_eq!(next(&mut consumer).await.data, b"0");
    for n in 1..4 {
        enqueue(&format!("queue.{n}"), n);
        assert_eq!(next(&mut consumer).await.data, n.to_string().as_bytes());
    }
    drop(relay);
    enqueue("last", 9);
    let idle = command(&["relay", "amqp-emit", "--until-idle"]).status();
    assert!(idle.expect("it runs").success());
    assert_eq!(next(&mut consumer).await.data, b"9");
}
