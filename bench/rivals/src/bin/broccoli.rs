//! broccoli_queue; a delay is the same for all jobs of one bulk call.

use std::time::Duration;

use broccoli_queue::brokers::broker::BrokerMessage;
use broccoli_queue::error::BroccoliError;
use broccoli_queue::queue::{BroccoliQueue, PublishOptions};
use punctual_rivals::{Order, Report, address, enqueue, fill, order, payload, schedule, until};

const QUEUE: &str = "bench";

#[tokio::main]
async fn main() {
    let queue = BroccoliQueue::builder(address())
        .pool_connections(60)
        .enable_scheduling(true)
        .build()
        .await
        .expect("a server");
    let later = async |span: Duration, payload: String| {
        let span = time::Duration::try_from(span).expect("a month at most");
        let options = PublishOptions::builder().delay(span).build();
        let sent = queue.publish(QUEUE, None, &payload, Some(options)).await;
        sent.expect("an answer");
    };
    match order() {
        Order::Enqueue {
            jobs,
            batch,
            callers,
        } => {
            let call = move |size| {
                let queue = queue.clone();
                async move {
                    if size == 1 {
                        let sent = queue.publish(QUEUE, None, &payload(), None).await;
                        sent.expect("an answer");
                    } else {
                        let jobs = (0..size).map(|_| payload());
                        let sent = queue.publish_batch(QUEUE, None, jobs, None).await;
                        sent.expect("an answer");
                    }
                }
            };
            enqueue(jobs, batch, callers, call).await;
        }
        Order::Schedule { rate, seconds } => {
            schedule(rate, seconds, async |dues| {
                for due in dues {
                    later(until(due), due.to_string()).await;
                }
            })
            .await;
        }
        Order::Fill { jobs } => {
            fill(jobs, async |delays| {
                for delay in delays {
                    later(Duration::from_micros(delay.unwrap_or(0)), payload()).await;
                }
            })
            .await;
        }
        Order::Work => {
            let report = Report::start();
            let handler = move |message: BrokerMessage<String>| {
                report.started(&message.payload);
                async { Ok::<(), BroccoliError>(()) }
            };
            let run = queue.process_messages(QUEUE, Some(50), None, handler).await;
            run.expect("consumers run on");
        }
        Order::Lives { .. } => unreachable!("lives are ours"),
    }
}
