//! rusty-sidekiq, which has no bulk call.

use std::time::Duration;

use async_trait::async_trait;
use bb8::Pool;
use punctual_rivals::{Order, Report, address, enqueue, fill, order, payload, schedule, until};
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, Worker, WorkerOpts};

const QUEUE: &str = "bench";

#[derive(Clone)]
struct Noop(Report);

#[async_trait]
impl Worker<String> for Noop {
    fn opts() -> WorkerOpts<String, Self> {
        WorkerOpts::new().queue(QUEUE)
    }

    async fn perform(&self, payload: String) -> sidekiq::Result<()> {
        self.0.started(&payload);
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let manager = RedisConnectionManager::new(address()).expect("an address");
    let pool = Pool::builder().max_size(20).build(manager).await;
    let pool = pool.expect("a server");
    let later = async |span: Duration, payload: String| {
        let sent = Noop::opts().perform_in(&pool, span, payload).await;
        sent.expect("an answer");
    };
    match order() {
        Order::Enqueue {
            jobs,
            batch: _,
            callers,
        } => {
            let call = move |_| {
                let pool = pool.clone();
                async move {
                    let sent = Noop::perform_async(&pool, payload()).await;
                    sent.expect("an answer");
                }
            };
            enqueue(jobs, 1, callers, call).await;
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
                    match delay {
                        Some(us) => later(Duration::from_micros(us), payload()).await,
                        None => {
                            let sent = Noop::perform_async(&pool, payload()).await;
                            sent.expect("an answer");
                        }
                    }
                }
            })
            .await;
        }
        Order::Work => {
            let config = ProcessorConfig::default().num_workers(10);
            let mut processor = Processor::new(pool, vec![QUEUE.into()]).with_config(config);
            processor.register(Noop(Report::start()));
            processor.run().await;
        }
        Order::Lives { .. } => unreachable!("lives are ours"),
    }
}
