//! `punctual bench topics`: what a match among many subscriptions costs, and a publish to some
//! queues beside enqueues.

use std::hint::black_box;
use std::time::Duration;

use punctual::engine::{Control, Controlled, RecordValue};
use punctual::time::Stopwatch;
use punctual::topic::{Matcher, Message, Subscription, Subscriptions, TOPICS};
use punctual::{NewJob, Queue};

use super::{Place, leftovers};
use crate::args::Session;
use crate::failure::{Exit, Failure, Result};
use crate::output::{count, object};

/// What a match among many subscriptions costs, and a publish to some queues beside enqueues
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench topics --engine memory:
  punctual bench topics --subscriptions 1000 --queues 10 --engine $REDIS

One client, one call after the other. Most subscriptions match nothing of what is published; one per
queue does. `enqueues` is the time of a publish in enqueues of one job.")]
pub(crate) struct Args {
    /// Subscriptions
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    subscriptions: u64,

    /// Queues that receive a copy
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    queues: u64,

    /// Publishes, and enqueues beside them
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    publishes: u64,
}

const SUBJECT: &str = "orders.eu.paid";
/// Matches that are measured together.
const MATCHES: u32 = 10_000;

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        if self.queues > self.subscriptions {
            let message = "--queues is over --subscriptions; each queue needs one";
            return Err(Failure::new(Exit::Usage, "usage", message));
        }
        let session = &place.session;
        let all = self.all();
        let match_us = self.matches(&all)?;
        write(session, &all).await?;
        let measured = self.measure(session).await;
        write(session, &Subscriptions::default()).await?;
        let mut queues: Vec<String> = (0..self.queues).map(queue_of).collect();
        queues.push("bench".into());
        leftovers::remove(session, &queues).await?;
        let (publish, enqueue) = measured?;
        let us = |span: Duration| (span.as_secs_f64() * 1e7).round() / 10.0;
        let ratio = publish.as_secs_f64() / enqueue.as_secs_f64();
        let ratio = (ratio * 100.0).round() / 100.0;
        if session.out.is_json() {
            return session.out.json(&object!({
                "subscriptions": self.subscriptions, "queues": self.queues, "match_us": match_us,
                "publish_us": us(publish), "enqueue_us": us(enqueue), "enqueues": ratio,
            }));
        }
        session.out.card(&[
            ("engine", place.engine.clone()),
            ("subscriptions", count(self.subscriptions)),
            ("match", format!("{match_us} us")),
            (
                "publish",
                format!("{} us to {} queues", us(publish), self.queues),
            ),
            ("enqueue", format!("{} us", us(enqueue))),
            ("a publish is", format!("{ratio} enqueues")),
        ])
    }

    fn all(&self) -> Subscriptions {
        let mut all = Subscriptions::default();
        for nth in 0..self.subscriptions {
            let pattern = match nth < self.queues {
                true => "orders.*.paid".to_owned(),
                false => format!("orders.*.{nth}.>"),
            };
            let one = Subscription::to(queue_of(nth % self.queues));
            all.put(one.name(format!("s{nth:04}")).matching(pattern));
        }
        all
    }

    /// Microseconds of a match.
    fn matches(&self, all: &Subscriptions) -> Result<f64> {
        let matcher = Matcher::new(1, all.clone());
        let message = Message::new(SUBJECT, NewJob::new("bench", "{}"))?;
        let watch = Stopwatch::start();
        for _ in 0..MATCHES {
            black_box(matcher.matching(black_box(&message), Duration::ZERO));
        }
        let each = watch.elapsed() / MATCHES;
        Ok((each.as_secs_f64() * 1e8).round() / 100.0)
    }

    /// The time of a publish, and of an enqueue.
    async fn measure(&self, session: &Session) -> Result<(Duration, Duration)> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let job = || NewJob::new("bench", r#"{"order":7}"#);
        let first = queue.publish_job(SUBJECT, job()).await?;
        if first.matched as u64 != self.queues {
            let message = format!("{} of {} queues matched", first.matched, self.queues);
            return Err(Failure::new(Exit::Failed, "internal", message));
        }
        let watch = Stopwatch::start();
        for _ in 0..self.publishes {
            queue.publish_job(SUBJECT, job()).await?;
        }
        let publish = watch.elapsed();
        let watch = Stopwatch::start();
        for _ in 0..self.publishes {
            queue.enqueue_job(job()).await?;
        }
        let count = u32::try_from(self.publishes).unwrap_or(u32::MAX);
        Ok((publish / count, watch.elapsed() / count))
    }
}

fn queue_of(nth: u64) -> String {
    format!("bench-{nth}")
}

async fn write(session: &Session, all: &Subscriptions) -> Result<()> {
    let engine = &session.engine;
    let name = TOPICS.to_owned();
    let read = Control::Read { name: name.clone() };
    let expected = match engine.control(&session.namespace, read).await? {
        Controlled::Record(record) => record.map_or(0, |record| record.version),
        _ => 0,
    };
    let value = Some(RecordValue::Opaque(all.write()?));
    let write = Control::Write {
        name,
        expected,
        value,
    };
    engine.control(&session.namespace, write).await?;
    Ok(())
}
