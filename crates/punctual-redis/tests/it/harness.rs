//! Makes engines for the suites.

use std::fmt;
use std::sync::{Arc, Mutex};

use punctual::conformance::{Harness, START, Subject};
use punctual::engine::Capability;
use punctual::sync::Lock;
use punctual::time::{ManualClock, Timestamp};
use punctual::{Engine, Limits};
use punctual_redis::testing::{TestCluster, TestServer};
use punctual_redis::{ACL_RULES, Options, RedisEngine};

/// Makes engines on servers of this process.
pub(crate) type OnServer = On<TestServer>;
/// Makes engines on clusters of this process.
pub(crate) type OnCluster = On<TestCluster>;

/// Makes engines on servers of this process, with every namespace in three shards.
pub(crate) type OnShards = On<InShards>;

/// A server whose users cut their namespaces into three.
#[derive(Debug)]
pub(crate) struct InShards(TestServer);

impl Place for InShards {
    fn start() -> Self {
        Self(TestServer::start())
    }

    fn address(&self) -> String {
        format!("{}?shards=3", self.0.address())
    }

    fn clear(&self) {
        self.0.clear();
    }

    fn server(&self) -> &TestServer {
        &self.0
    }
}

/// Makes engines whose bundles are as large as those in production.
pub(crate) type OnFullBundles = On<WithFullBundles>;

/// A server for engines with such bundles.
#[derive(Debug)]
pub(crate) struct WithFullBundles(TestServer);

impl Place for WithFullBundles {
    const FULL_BUNDLES: bool = true;

    fn start() -> Self {
        Self(TestServer::start())
    }

    fn address(&self) -> String {
        self.0.address()
    }

    fn clear(&self) {
        self.0.clear();
    }

    fn server(&self) -> &TestServer {
        &self.0
    }
}

/// Makes engines for a user who may do what the rules say.
pub(crate) type OnRules = On<UnderRules>;

/// A server whose user may do no more.
#[derive(Debug)]
pub(crate) struct UnderRules(pub(crate) TestServer);

impl UnderRules {
    /// With these rules besides.
    pub(crate) fn and(more: &[&str]) -> Self {
        let server = TestServer::start();
        let mut rules = vec!["ACL", "SETUSER", "punctual", "on", ">hunter2"];
        rules.extend(ACL_RULES.split_whitespace().chain(more.iter().copied()));
        assert_eq!(server.cli(&rules), "OK");
        Self(server)
    }
}

impl Place for UnderRules {
    fn start() -> Self {
        // The clock that tests move is a key that only they write.
        Self::and(&["(+set ~punctual:*:clock)"])
    }

    fn address(&self) -> String {
        format!("redis://punctual:hunter2@127.0.0.1:{}", self.0.port())
    }

    fn clear(&self) {
        self.0.clear();
    }

    fn server(&self) -> &TestServer {
        &self.0
    }
}

/// An engine there claims every capability; cut into shards, all but those of limits, shares and
/// flows.
pub(crate) fn claims_all<P: Place>(places: &On<P>) {
    let runtime = tokio::runtime::Runtime::new().expect("the system allows it");
    runtime.block_on(async {
        let subject = places.fresh(Limits::default()).await;
        let info = subject.engine().info().await.expect("info");
        let is_whole = info.shards == 1;
        let mut claimed = Capability::ALL.to_vec();
        let of_one = [
            Capability::QueueLimits,
            Capability::Shares,
            Capability::Flows,
            Capability::NamedLimits,
        ];
        claimed.retain(|one| is_whole || !of_one.contains(one));
        assert_eq!(info.capabilities, claimed);
    });
}

/// What an engine can be tested on.
pub(crate) trait Place: fmt::Debug + Send + Sync + 'static {
    /// Whether as many jobs are needed for a bundle as in production.
    const FULL_BUNDLES: bool = false;

    fn start() -> Self;
    fn address(&self) -> String;
    /// Removes every key.
    fn clear(&self);
    /// Its first server.
    fn server(&self) -> &TestServer;
}

impl Place for TestServer {
    fn start() -> Self {
        Self::start()
    }

    fn address(&self) -> String {
        self.address()
    }

    fn clear(&self) {
        self.clear();
    }

    fn server(&self) -> &TestServer {
        self
    }
}

impl Place for TestCluster {
    fn start() -> Self {
        Self::start()
    }

    fn address(&self) -> String {
        self.address()
    }

    fn clear(&self) {
        self.clear();
    }

    fn server(&self) -> &TestServer {
        self.first()
    }
}

/// The places of this process that no engine is on now: the next one begins on one of them.
#[derive(Debug)]
pub(crate) struct On<P>(Arc<Mutex<Vec<P>>>);

impl<P> Clone for On<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: Place> On<P> {
    /// Bundles that its servers have stored, as runs of leases, and noted as completed.
    pub(crate) fn bundles_met(&self) -> [u64; 3] {
        let mut met = [0; 3];
        for place in &*self.0.locked() {
            let reported = place.server().cli(&["FCALL_RO", "punctual_test_met", "0"]);
            for (sum, number) in met.iter_mut().zip(reported.lines()) {
                *sum += number.parse::<u64>().expect("a number");
            }
        }
        met
    }
}

impl<P: Place> On<P> {
    /// What their users were denied.
    pub(crate) fn denied(&self) -> Vec<String> {
        let places = self.0.locked();
        let denied = places.iter().map(|it| it.server().cli(&["ACL", "LOG"]));
        denied.filter(|said| !said.is_empty()).collect()
    }
}

impl<P> Default for On<P> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

#[async_trait::async_trait]
impl<P: Place> Harness for On<P> {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let spare = self.0.locked().pop();
        let place = spare.unwrap_or_else(P::start);
        let clock = ManualClock::new(START);
        let options: Options = place.address().parse().expect("a good address");
        let (options, own) = (options.limits(limits), clock.clone());
        let engine = match P::FULL_BUNDLES {
            true => RedisEngine::connect_with_clock_and_full_bundles(options, own).await,
            false => RedisEngine::connect_with_clock(options, own).await,
        };
        Box::new(Connected {
            engine: Arc::new(engine.expect("the servers are there")),
            clock,
            place: Some(place),
            spare: self.0.clone(),
        })
    }
}

struct Connected<P: Place> {
    engine: Arc<RedisEngine>,
    clock: ManualClock,
    place: Option<P>,
    spare: Arc<Mutex<Vec<P>>>,
}

#[async_trait::async_trait]
impl<P: Place> Subject for Connected<P> {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&self, now: Timestamp) {
        let reported = self.engine.set_time(now).await;
        reported.expect("the servers are there");
        self.clock.set(now);
    }
}

impl<P: Place> Drop for Connected<P> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            place.clear();
            let mut spare = self.spare.locked();
            spare.push(place);
        }
    }
}
