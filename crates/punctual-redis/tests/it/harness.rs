use std::sync::{Arc, Mutex, PoisonError};

use punctual::conformance::{Harness, START, Subject};
use punctual::time::{ManualClock, Timestamp};
use punctual::{Engine, Limits};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

/// Makes engines on servers of this process; a server that an engine has done with is cleared for
/// the next.
#[derive(Debug, Default, Clone)]
pub(crate) struct OnServer(Arc<Mutex<Vec<TestServer>>>);

#[async_trait::async_trait]
impl Harness for OnServer {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let server = spare.unwrap_or_else(TestServer::start);
        let clock = ManualClock::new(START);
        let options: Options = server.address().parse().expect("a good address");
        let engine = RedisEngine::connect_with_clock(options.limits(limits), clock.clone());
        Box::new(Connected {
            engine: Arc::new(engine.await.expect("the server is there")),
            clock,
            server: Some(server),
            spare: self.clone(),
        })
    }
}

struct Connected {
    engine: Arc<RedisEngine>,
    clock: ManualClock,
    server: Option<TestServer>,
    spare: OnServer,
}

#[async_trait::async_trait]
impl Subject for Connected {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&self, now: Timestamp) {
        self.engine
            .set_time(now)
            .await
            .expect("the server is there");
        self.clock.set(now);
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.cli(&["FLUSHALL"]);
            let mut spare = self.spare.0.lock().unwrap_or_else(PoisonError::into_inner);
            spare.push(server);
        }
    }
}
