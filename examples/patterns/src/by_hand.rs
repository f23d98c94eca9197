//! The patterns, each as people write it.

mod expiry;
mod in_process;
mod lists;
mod pubsub;
mod rabbitmq;
mod streams;
mod table;
mod zset;

use std::future::Future;
use std::sync::Arc;

use punctual::time::{millis, pause, seconds};
use punctual_redis::testing::TestServer;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use tokio::task::JoinSet;

use crate::Pattern;
use crate::ledger::Ledger;
use crate::mishap::{Mishap, Work};

/// What people build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByHand {
    ListPop,
    CutConnection,
    ReliableList,
    DoingHash,
    ZsetPoll,
    ZsetTimer,
    KeyExpiry,
    StreamGroup,
    PublishedHint,
    MemoryDelayQueue,
    TimingWheel,
    MemoryScheduler,
    TableScan,
    BrokerTtl,
}

pub(crate) fn all(messages: u32) -> Vec<Pattern> {
    let base = Work {
        messages,
        within: seconds(2),
        is_delayed: false,
        takes: millis(2),
        workers: 4,
        mishap: Mishap::Dies(messages / 5),
    };
    let delayed = Work {
        is_delayed: true,
        ..base
    };
    let mut all = on_redis(base, delayed);
    all.extend(elsewhere(delayed));
    all
}

fn one(name: &'static str, breaks: &'static str, by_hand: ByHand, work: Work) -> Pattern {
    Pattern {
        name,
        breaks,
        work,
        by_hand,
    }
}

fn on_redis(base: Work, delayed: Work) -> Vec<Pattern> {
    let messages = base.messages;
    vec![
        one(
            "list, blocking pop",
            "a worker dies after the pop",
            ByHand::ListPop,
            base,
        ),
        one(
            "list, idle connection cut",
            "the reply of a pop is lost on the way",
            ByHand::CutConnection,
            Work {
                mishap: Mishap::Cut(messages / 5),
                workers: 1,
                takes: millis(1),
                ..base
            },
        ),
        one(
            "reliable list",
            "a worker that starts takes back what others work on",
            ByHand::ReliableList,
            Work {
                takes: millis(8),
                ..base
            },
        ),
        one(
            "pending list, doing hash, scan",
            "a message takes longer than the scan allows",
            ByHand::DoingHash,
            Work {
                mishap: Mishap::Long(messages / 5, millis(700)),
                ..base
            },
        ),
        one(
            "zset polled by workers",
            "two workers find the same message",
            ByHand::ZsetPoll,
            Work {
                mishap: Mishap::None,
                ..delayed
            },
        ),
        one(
            "zset, timer, list (as Redisson)",
            "a worker dies after the pop",
            ByHand::ZsetTimer,
            delayed,
        ),
        one(
            "key expiry",
            "Redis publishes late, and an absent subscriber misses it",
            ByHand::KeyExpiry,
            Work {
                workers: 1,
                ..delayed
            },
        ),
        one(
            "stream group",
            "the messages of a dead consumer stay pending",
            ByHand::StreamGroup,
            base,
        ),
        one(
            "published hint, list pop",
            "a hint without a subscriber leaves a message behind",
            ByHand::PublishedHint,
            Work { workers: 1, ..base },
        ),
    ]
}

/// In the process, a table or a broker.
fn elsewhere(delayed: Work) -> Vec<Pattern> {
    let messages = delayed.messages;
    vec![
        one(
            "delay queue in the process",
            "the process ends",
            ByHand::MemoryDelayQueue,
            Work {
                workers: 1,
                mishap: Mishap::Dies(messages),
                ..delayed
            },
        ),
        one(
            "timing wheel in the process",
            "its ticks are coarse, and the process ends",
            ByHand::TimingWheel,
            Work {
                workers: 1,
                mishap: Mishap::Dies(messages),
                ..delayed
            },
        ),
        one(
            "scheduler in memory (as Quartz)",
            "the process is away",
            ByHand::MemoryScheduler,
            Work {
                messages: 20,
                workers: 1,
                mishap: Mishap::Dies(20),
                ..delayed
            },
        ),
        one(
            "cron scan of a table",
            "scans are far apart, and overlap",
            ByHand::TableScan,
            Work {
                workers: 2,
                mishap: Mishap::None,
                takes: millis(6),
                ..delayed
            },
        ),
        one(
            "RabbitMQ, TTL and dead letters",
            "a short delay stands behind a long one",
            ByHand::BrokerTtl,
            Work {
                mishap: Mishap::None,
                ..delayed
            },
        ),
    ]
}

impl ByHand {
    pub(crate) async fn run(self, server: &TestServer, ledger: &Arc<Ledger>) {
        let mut tasks = JoinSet::new();
        match self {
            Self::ListPop => lists::pop(server, ledger, &mut tasks).await,
            Self::CutConnection => lists::cut(server, ledger, &mut tasks).await,
            Self::ReliableList => lists::reliable(server, ledger, &mut tasks).await,
            Self::DoingHash => lists::doing_hash(server, ledger, &mut tasks).await,
            Self::ZsetPoll => zset::poll(server, ledger, &mut tasks).await,
            Self::ZsetTimer => zset::timer(server, ledger, &mut tasks).await,
            Self::KeyExpiry => expiry::keys(server, ledger, &mut tasks).await,
            Self::StreamGroup => streams::group(server, ledger, &mut tasks).await,
            Self::PublishedHint => pubsub::hint(server, ledger, &mut tasks).await,
            Self::MemoryDelayQueue => in_process::delay_queue(ledger, &mut tasks).await,
            Self::TimingWheel => in_process::wheel(ledger, &mut tasks).await,
            Self::MemoryScheduler => in_process::scheduler(ledger, &mut tasks),
            Self::TableScan => table::scan(ledger, &mut tasks).await,
            Self::BrokerTtl => {
                let address = crate::broker().expect("it is asked for before");
                rabbitmq::ttl(address, ledger, &mut tasks).await;
            }
        }
        ledger.is_over().await;
    }
}

/// A connection that waits for as long as a blocking command does.
async fn connect(address: &str) -> MultiplexedConnection {
    // All patterns of the test start at once: the usual second is short on a busy machine.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(Some(seconds(30)));
    let client = Client::open(address).expect("an address");
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    connection.await.expect("the server answers")
}

/// Starts processes, each of which is started again when it dies.
fn processes<F, Fut>(tasks: &mut JoinSet<()>, count: usize, process: F)
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    for _ in 0..count {
        let process = process.clone();
        tasks.spawn(async move {
            loop {
                process().await;
                pause(millis(100)).await; // a process takes time to start
            }
        });
    }
}

/// Sends each message when it is due.
async fn send_each<Fut: Future<Output = ()>>(ledger: &Ledger, send: impl Fn(u32) -> Fut) {
    let work = &ledger.work;
    for id in 0..work.messages {
        pause(work.within / work.messages).await;
        ledger.sends(id, millis(0));
        send(id).await;
    }
}
