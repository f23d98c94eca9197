//! The gateway: its settings, where it serves, and its shutdown.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use punctual::time::{ManualClock, Stopwatch};
use punctual::{Engine, Error, ErrorKind, Result};
use punctual_push::{Guard, MaintenanceHealth, PushWakeup};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::access::Tokens;
use crate::api;
use crate::audit::Audit;
use crate::bodies::Bodies;
use crate::limits::GatewayLimits;
use crate::listener::Listeners;
use crate::local::LocalListener;
use crate::metrics::{GatewayMetrics, MeasuredEngine, Registry};
use crate::proxies::{Proxies, Proxy};
use crate::relays::Relays;
use crate::shared::{Inner, Shared};
use crate::tls::Tls;

/// An engine that is to be served.
#[derive(Debug)]
pub struct Gateway {
    engine: Arc<dyn Engine>,
    tokens: Tokens,
    hosts: Vec<String>,
    clock: Option<ManualClock>,
    registry: Registry,
    audit: Audit,
    limits: GatewayLimits,
    proxies: Vec<Proxy>,
    guard: Guard,
    push_wakeup: PushWakeup,
    maintenance: MaintenanceHealth,
    relays: Relays,
    tls: Option<Tls>,
}

impl Gateway {
    /// Serves that engine to callers with one of these tokens.
    pub fn new(engine: Arc<dyn Engine>, tokens: Tokens) -> Self {
        Self {
            engine,
            tokens,
            hosts: Vec::new(),
            clock: None,
            registry: Registry::default(),
            audit: Audit::default(),
            limits: GatewayLimits::default(),
            proxies: Vec::new(),
            guard: Guard::new(),
            push_wakeup: PushWakeup::default(),
            maintenance: MaintenanceHealth::default(),
            relays: Relays::default(),
            tls: None,
        }
    }

    /// Refuses jobs whose target or callback this guard does not let pass; by default one that
    /// opens nothing but the public network.
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guard = guard;
        self
    }

    /// Notifies this when a job is enqueued that is to be posted.
    #[must_use]
    pub fn push_wakeup(mut self, push_wakeup: PushWakeup) -> Self {
        self.push_wakeup = push_wakeup;
        self
    }

    /// Is as well as these loops of the process are, besides the engine.
    #[must_use]
    pub fn maintenance(mut self, maintenance: MaintenanceHealth) -> Self {
        self.maintenance = maintenance;
        self
    }

    /// Shows these relays, each to its own namespace. One that fails leaves the gateway healthy.
    #[must_use]
    pub fn relays(mut self, relays: Relays) -> Self {
        self.relays = relays;
        self
    }

    /// Answers to these names too, besides addresses and `localhost`.
    #[must_use]
    pub fn hosts(mut self, hosts: Vec<String>) -> Self {
        self.hosts = hosts;
        self
    }

    /// Shows on `/metrics` what is counted there, beside what the gateway counts itself.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Writes down there who changed what, instead of in memory only.
    #[must_use]
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = audit;
        self
    }

    /// Speaks TLS at its address; the socket in a directory needs none.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Bounds it otherwise.
    #[must_use]
    pub fn limits(mut self, limits: GatewayLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Believes these proxies whom they ask for, by `X-Forwarded-For`: wrong tokens are counted for
    /// that address then, and connections of the proxies are not. Of any other peer that header
    /// says nothing.
    #[must_use]
    pub fn trusted_proxies(mut self, proxies: Vec<Proxy>) -> Self {
        self.proxies = proxies;
        self
    }

    /// Adds the route that moves this clock, for tests; only loopback may then be served.
    #[must_use]
    pub fn with_test_clock(mut self, clock: ManualClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Serves on an address until its drain; port 0 takes a free one.
    ///
    /// An address that is not loopback is refused without tokens, and with a test clock.
    pub async fn serve(self, address: SocketAddr) -> Result<Serving> {
        if !address.ip().is_loopback() && self.clock.is_some() {
            let message = "the test clock is for tests on this machine; serve on 127.0.0.1";
            return Err(Error::new(ErrorKind::InvalidInput, message).with("address", address));
        }
        if !address.ip().is_loopback() && self.tokens.is_open() {
            let message = "an address that other machines can reach needs a token; \
                           set PUNCTUAL_TOKEN, or serve on 127.0.0.1";
            return Err(Error::new(ErrorKind::InvalidInput, message).with("address", address));
        }
        let unbound = |error: io::Error| {
            let message = "cannot listen on the address; name another with --listen";
            Error::new(ErrorKind::Io, message)
                .with("address", address)
                .source(error)
        };
        let listener = TcpListener::bind(address).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let tls = self.tls.clone();
        let mut listeners = listeners(self.shared());
        listeners.open(listener, tls);
        Ok(Serving { listeners, address })
    }

    /// Serves processes of this user through a socket in a directory, until its drain. They need no
    /// token and may do everything: they could as well read the directory.
    ///
    /// For a process that holds a data directory, such as an application with an embedded engine:
    /// the command `punctual` then works in that directory while the application runs. A socket
    /// that a killed process left there is replaced.
    pub fn share_in(self, dir: &Path) -> Result<Sharing> {
        Sharer(self.shared()).share_in(dir)
    }

    pub(crate) fn shared(self) -> Shared {
        let metrics = Arc::new(GatewayMetrics::new(self.registry));
        let round = self.limits.round;
        let measured = MeasuredEngine::new(self.engine, metrics.clone(), self.maintenance, round);
        Shared::new(Inner {
            engine: Arc::new(measured),
            header_bytes: Default::default(),
            tokens: self.tokens.failures_max(self.limits.failures),
            wakeups: Default::default(),
            leases: Default::default(),
            audit: self.audit,
            limits: self.limits,
            proxies: Proxies(self.proxies),
            hosts: self.hosts,
            clock: self.clock,
            metrics: metrics.clone(),
            guard: self.guard,
            relays: self.relays,
            push_wakeup: self.push_wakeup,
            log_throttle: Default::default(),
            started: Stopwatch::start(),
            bodies: Bodies::new(&self.limits, metrics.body_bytes.clone()),
            ending: watch::Sender::new(false),
        })
    }
}

/// A gateway at work. Dropping it cuts everything off; [`drain`](Serving::drain) ends it well.
pub struct Serving {
    listeners: Listeners,
    address: SocketAddr,
}

impl Serving {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends so that no request fails, at most that long; whether all of them ended.
    ///
    /// First it accepts no new connection. Then it answers waiting calls at once, and marks the
    /// next answer of each connection as the last one.
    pub async fn drain(self, limit: Duration) -> bool {
        self.listeners.drain(limit).await
    }

    /// Lets it be served in a directory too.
    pub fn sharer(&self) -> Sharer {
        Sharer(self.listeners.shared.clone())
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Serving({})", self.address)
    }
}

/// What is served at an address, to be served in a directory too.
#[derive(Debug, Clone)]
pub struct Sharer(Shared);

impl Sharer {
    /// As [`Gateway::share_in`].
    pub fn share_in(&self, dir: &Path) -> Result<Sharing> {
        let listener = LocalListener::open(dir).map_err(|error| {
            let message = "the socket for other processes cannot be created in the directory";
            Error::new(ErrorKind::Io, message)
                .with("directory", dir.display())
                .source(error)
        })?;
        let mut listeners = listeners(self.0.clone());
        listeners.open(listener, None);
        Ok(Sharing(listeners))
    }
}

/// An engine that answers on a socket in a directory. Dropping it cuts everything off.
pub struct Sharing(Listeners);

impl Sharing {
    /// Ends as [`Serving::drain`] does.
    pub async fn drain(self, limit: Duration) -> bool {
        self.0.drain(limit).await
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sharing")
    }
}

fn listeners(shared: Shared) -> Listeners {
    let router = api::router(&shared);
    Listeners::new(shared, router)
}
