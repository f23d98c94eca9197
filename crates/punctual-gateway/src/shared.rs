//! What every route shares.

use std::future::Future;
use std::sync::Arc;

use punctual::time::{ManualClock, Stopwatch};
use punctual::{Engine, Limits, Namespace, NewJob, push};
use punctual_push::{Guard, PushWakeup};
use tokio::sync::{OnceCell, watch};

use crate::access::Tokens;
use crate::audit::Audit;
use crate::bodies::Bodies;
use crate::http::{Problem, Result};
use crate::known_leases::KnownLeases;
use crate::limits::GatewayLimits;
use crate::log_throttle::LogThrottle;
use crate::metrics::GatewayMetrics;
use crate::proxies::Proxies;
use crate::relays::Relays;
use crate::wakeup_coalescing::WakeupCoalescing;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    /// MeasuredEngine.
    pub(crate) engine: Arc<dyn Engine>,
    /// The engine's, after the first use.
    pub(crate) header_bytes: OnceCell<usize>,
    pub(crate) tokens: Tokens,
    /// What claims that wait know of dues.
    pub(crate) wakeups: WakeupCoalescing,
    /// What settles need not read again.
    pub(crate) leases: KnownLeases,
    pub(crate) audit: Audit,
    pub(crate) limits: GatewayLimits,
    /// Believed whom they ask for.
    pub(crate) proxies: Proxies,
    /// Names beside `localhost` and addresses that a `Host` may be.
    pub(crate) hosts: Vec<String>,
    /// The clock that a route may move, in tests.
    pub(crate) clock: Option<ManualClock>,
    pub(crate) metrics: Arc<GatewayMetrics>,
    /// What targets of jobs are held against.
    pub(crate) guard: Guard,
    /// Relays that run in this process.
    pub(crate) relays: Relays,
    /// Notified for jobs that are to be posted.
    pub(crate) push_wakeup: PushWakeup,
    /// Of failures that come by the thousand.
    pub(crate) log_throttle: LogThrottle,
    /// Since the gateway was made.
    pub(crate) started: Stopwatch,
    /// What bodies on their way take.
    pub(crate) bodies: Arc<Bodies>,
    pub(crate) ending: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    /// Wakes the posting of jobs for a new one, as its queue may be new.
    pub(crate) fn notify(&self, namespace: &Namespace, job: &NewJob) {
        if push::is_queue(&job.queue) {
            self.push_wakeup.notify(namespace, &job.queue);
        }
    }

    /// How many bytes of headers a job may have; engines do not change their mind.
    pub(crate) async fn header_bytes_max(&self) -> usize {
        let ask = async || Ok(self.engine.info().await?.limits.header_bytes);
        let known: Result<_, punctual::Error> = self.header_bytes.get_or_try_init(ask).await;
        known.map_or(Limits::default().header_bytes, |bytes| *bytes)
    }

    /// Ends once the gateway drains.
    pub(crate) async fn ending(&self) {
        let mut ending = self.ending.subscribe();
        // The sender lives as long as this does.
        let _ = ending.wait_for(|ending| *ending).await;
    }

    /// Whether it drains: each answer is the last one on its connection.
    pub(crate) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// What the future answers, unless the gateway ends before: for waits that may end early.
    pub(crate) async fn unless_ending<T, E: Into<Problem>>(
        &self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T> {
        tokio::select! {
            biased;
            answer = future => answer.map_err(Into::into),
            () = self.ending() => Err(Problem::shutting_down()),
        }
    }
}

impl std::ops::Deref for Shared {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}
