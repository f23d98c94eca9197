//! rsmq_async: a loop of ours around its calls, as its own worker runs a job at a time.

use std::time::Duration;

use punctual_rivals::{Order, Report, enqueue, fill, order, payload, port, schedule, until};
use rsmq_async::{Rsmq, RsmqConnection, RsmqOptions};

const QUEUE: &str = "bench";
const TASKS: usize = 16;
const BATCH: u32 = 100;

#[tokio::main]
async fn main() {
    let options = RsmqOptions {
        port: port(),
        ..RsmqOptions::default()
    };
    let mut rsmq = Rsmq::new(options).await.expect("a server");
    let hidden = Some(Duration::from_secs(30));
    // It is there already in all processes but the first.
    let _ = rsmq.create_queue(QUEUE, hidden, None, None).await;
    match order() {
        Order::Enqueue {
            jobs,
            batch,
            callers,
        } => {
            let call = move |size| {
                let mut rsmq = rsmq.clone();
                async move {
                    let jobs: Vec<String> = (0..size).map(|_| payload()).collect();
                    let sent = rsmq.send_message_batch(QUEUE, jobs, None).await;
                    sent.expect("an answer");
                }
            };
            enqueue(jobs, batch, callers, call).await;
        }
        Order::Schedule { rate, seconds } => {
            schedule(rate, seconds, async |dues| {
                for due in dues {
                    let mut rsmq = rsmq.clone();
                    let sent = rsmq.send_message(QUEUE, due.to_string(), Some(until(due)));
                    sent.await.expect("an answer");
                }
            })
            .await;
        }
        Order::Fill { jobs } => {
            fill(jobs, async |delays| {
                for delay in delays {
                    let mut rsmq = rsmq.clone();
                    let sent =
                        rsmq.send_message(QUEUE, payload(), delay.map(Duration::from_micros));
                    sent.await.expect("an answer");
                }
            })
            .await;
        }
        Order::Work => {
            let report = Report::start();
            let tasks: Vec<_> = (0..TASKS)
                .map(|_| tokio::spawn(work(rsmq.clone(), report.clone())))
                .collect();
            for task in tasks {
                task.await.expect("a loop runs on");
            }
        }
        Order::Lives { .. } => unreachable!("lives are ours"),
    }
}

async fn work(mut rsmq: Rsmq, report: Report) {
    loop {
        let batch = rsmq
            .receive_message_batch::<String>(QUEUE, None, BATCH)
            .await;
        let batch = batch.expect("an answer");
        if batch.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for message in batch {
            report.started(&message.message);
            let deleted = rsmq.delete_message(QUEUE, &message.id).await;
            deleted.expect("an answer");
        }
    }
}
