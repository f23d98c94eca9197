//! The memory engine under the suite.

use std::sync::Arc;

use punctual::conformance::{Harness, START, Subject};
use punctual::time::{ManualClock, Timestamp};
use punctual::{Engine, Limits, MemoryEngine};

/// Makes memory engines under manual clocks.
pub(crate) struct Memory;

#[async_trait::async_trait]
impl Harness for Memory {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let clock = ManualClock::new(START);
        let engine = Arc::new(MemoryEngine::with_limits(clock.clone(), limits));
        Box::new(InMemory { engine, clock })
    }
}

struct InMemory {
    engine: Arc<MemoryEngine>,
    clock: ManualClock,
}

#[async_trait::async_trait]
impl Subject for InMemory {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}
