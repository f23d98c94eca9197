//! An engine behind a gateway, asked through HTTP, keeps the law: every verb crosses a
//! connection, by address or by the socket in a directory.

use std::sync::Arc;

use punctual::conformance::{Harness, START, Subject};
use punctual::time::{ManualClock, Timestamp, seconds};
use punctual::{Engine, Limits, MemoryEngine};
use punctual_client::HttpEngine;
use punctual_gateway::{Gateway, Tokens};

/// Memory engines under manual clocks, each behind a gateway of its own.
fn gateway(limits: Limits) -> Gateway {
    let clock = ManualClock::new(START);
    let engine = Arc::new(MemoryEngine::with_limits(clock.clone(), limits));
    Gateway::new(engine, Tokens::open()).with_test_clock(clock)
}

struct Behind<Door> {
    engine: HttpEngine,
    _door: Door,
}

#[async_trait::async_trait]
impl<Door: Send + Sync> Subject for Behind<Door> {
    fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(self.engine.clone())
    }

    async fn set_time(&self, now: Timestamp) {
        self.engine
            .set_test_clock(now)
            .await
            .expect("the clock is set");
    }
}

/// Asked at an address.
struct OverHttp;

#[async_trait::async_trait]
impl Harness for OverHttp {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let serving = gateway(limits).serve(([127, 0, 0, 1], 0).into()).await;
        let serving = serving.expect("a free port");
        let address = serving.address().to_string();
        Box::new(Behind {
            engine: HttpEngine::connect(&address, None).expect("an address of loopback"),
            _door: serving,
        })
    }
}

punctual::conformance::suite!(OverHttp, by topic, thirds);

/// The same, asked at the socket in a directory.
mod over_a_socket {
    use super::*;

    struct OverSocket;

    #[async_trait::async_trait]
    impl Harness for OverSocket {
        async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
            let dir = tempfile::tempdir().expect("a directory");
            let sharing = gateway(limits).share_in(dir.path()).expect("a socket");
            Box::new(Behind {
                engine: HttpEngine::in_directory(dir.path()),
                _door: (sharing, dir),
            })
        }
    }

    punctual::conformance::suite!(OverSocket, by topic, thirds);
}

#[tokio::test]
async fn a_gateway_that_is_gone_is_unavailable_and_one_that_is_back_is_used() {
    let engine = || Arc::new(MemoryEngine::new());
    let gateway = Gateway::new(engine(), Tokens::open());
    let serving = gateway
        .serve(([127, 0, 0, 1], 0).into())
        .await
        .expect("a free port");
    let address = serving.address();
    let client = HttpEngine::connect(&address.to_string(), None).expect("loopback");
    assert_eq!(client.info().await.expect("info").engine, "memory");
    assert!(serving.drain(seconds(10)).await);
    let error = client.info().await.expect_err("it is gone");
    assert_eq!(error.kind(), punctual::ErrorKind::EngineUnavailable);
    let again = Gateway::new(engine(), Tokens::open());
    let _serving = again.serve(address).await.expect("the same port");
    client
        .info()
        .await
        .expect("a kept connection does not stand in the way");
}

#[test]
fn other_machines_are_refused_in_the_clear() {
    for authority in [
        "10.0.0.7:4180",
        "jobs.example:4180",
        "localhost",
        "127.0.0.1:x",
    ] {
        assert!(HttpEngine::connect(authority, None).is_err(), "{authority}");
    }
}
