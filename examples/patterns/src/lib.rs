//! Queues as people build them by hand, and the same work on Punctual: what is lost, run twice or
//! late. Both do the same work under the same mishap, on a redis-server of their own.

mod by_hand;
mod ledger;
mod mishap;
mod ours;

use std::sync::Arc;
use std::time::Duration;

pub use ledger::Figures;
pub use mishap::{Mishap, Work};

use by_hand::ByHand;
use ledger::Ledger;
use punctual_redis::testing::TestServer;

/// One pattern: what people build, and the work that shows how it fails.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Its name.
    pub name: &'static str,
    /// What breaks it.
    pub breaks: &'static str,
    /// The work.
    pub work: Work,
    by_hand: ByHand,
}

/// What became of the same work on both.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// As people build it.
    pub by_hand: Figures,
    /// On Punctual.
    pub ours: Figures,
}

impl Pattern {
    /// All of them, with that many messages each.
    pub fn all(messages: u32) -> Vec<Self> {
        by_hand::all(messages)
    }

    /// Whether it needs a RabbitMQ, as `scripts/with-rabbitmq` starts one.
    pub fn needs_broker(&self) -> bool {
        self.by_hand == ByHand::BrokerTtl
    }

    /// Runs the work on both, one after the other, each on a server of its own.
    pub async fn run(&self) -> Outcome {
        let work = Arc::new(self.work);
        let by_hand = {
            let server = TestServer::with(&["--save", "", "--notify-keyspace-events", "Ex"]);
            let ledger = Ledger::new(work.clone());
            self.by_hand.run(&server, &ledger).await;
            ledger.figures()
        };
        let ours = {
            let server = TestServer::start();
            let ledger = Ledger::new(work);
            ours::run(&server, &ledger, self.by_hand == ByHand::MemoryScheduler).await;
            ledger.figures()
        };
        Outcome { by_hand, ours }
    }
}

/// The address of a RabbitMQ, if there is one.
pub fn broker() -> Option<String> {
    std::env::var("PUNCTUAL_AMQP").ok()
}

/// How long nothing may happen before a run is over: longer than a lease of ours and its grace.
const QUIET: Duration = Duration::from_secs(6);
