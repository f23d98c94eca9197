//! One delivery: checks, connection, request and verdict.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use punctual::job::Stop;
use punctual::time::{Clock, Stopwatch, SystemClock, format_span, millis, seconds, within};
use punctual::worker::{Interrupt, Verdict};
use punctual::{Context, JobRecord, Namespace, Outcome, push};
use rustls::pki_types::CertificateDer;

use crate::connect::{Tls, Unreached, connect};
use crate::exchange::{exchange, request};
use crate::guard::{Guard, Target};
use crate::hosts::{Busy, Hosts, Leave};
use crate::resolve::{LOOKUPS_OWN_MAX, LookupPermits, Lookups, Resolve, SystemResolver};
use crate::secret::Secret;
use crate::verdict::verdict;

/// Posts jobs to their targets, for one namespace. Cheap to clone; clones share what is known of
/// each host.
///
/// ```no_run
/// # use punctual::{Context, JobRecord, MemoryEngine, Worker};
/// # use punctual_push::{Guard, Pusher};
/// # fn example(engine: MemoryEngine) -> Worker {
/// let pusher = Pusher::new(Guard::new()).target("https://example.com/hook");
/// Worker::new(engine)
///     .queues(["mail"])
///     .handle_any(move |job: JobRecord, ctx: Context| {
///         let pusher = pusher.clone();
///         async move { pusher.push(&job, &ctx).await }
///     })
/// # }
/// ```
#[derive(Clone)]
pub struct Pusher {
    namespace: Namespace,
    guard: Arc<Guard>,
    target: Option<String>,
    secrets: Vec<Secret>,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    lookups: Lookups,
    tls: Arc<Tls>,
    hosts: Arc<Hosts>,
}

/// Deliveries to one host at the same time.
const PER_HOST: usize = 16;
/// How long a target may take to answer, if the job does not say.
const TIMEOUT: Duration = seconds(30);
/// How long a job is delayed whose host has no free place, times the claims of it ..
const FULL_WAIT: Duration = millis(250);
/// .. up to so many.
const FULL_TIMES_MAX: u32 = 8;
/// How long a job may wait for a place among the deliveries to its host: it holds a slot.
const PLACE_WAIT_MAX: Duration = seconds(5);
/// How much later than the worker a delivery may notice that its time is over.
const TIMED_OUT_GRACE: Duration = seconds(1);
/// How long a job without a target is delayed: another worker may know what to do with it.
const AIMLESS_WAIT: Duration = seconds(60);

impl Pusher {
    /// Posts to what the guard lets pass; unsigned, until it has a secret.
    pub fn new(guard: Guard) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Self {
            namespace: Namespace::default(),
            guard: Arc::new(guard),
            target: None,
            secrets: Vec::new(),
            timeout: TIMEOUT,
            hosts: Arc::new(Hosts::new(clock.clone(), PER_HOST)),
            clock,
            lookups: Lookups::new(Arc::new(SystemResolver)),
            tls: Arc::default(),
        }
    }

    /// Says in which namespace the jobs are; every request carries its name.
    #[must_use]
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        if self.namespace != namespace {
            self.lookups = self.lookups.of_another();
        }
        self.namespace = namespace;
        self
    }

    /// Posts jobs that name no target of their own to this URL, wherever it leads: it is the
    /// operator's.
    #[must_use]
    pub fn target(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        self.guard = Arc::new(self.guard.as_ref().clone().trust(&url));
        self.target = Some(url);
        self
    }

    /// Signs with every one of these, so that receivers can move from one to the next.
    #[must_use]
    pub fn secrets(mut self, secrets: Vec<Secret>) -> Self {
        self.secrets = secrets;
        self
    }

    /// Waits that long for an answer, unless the job has a timeout of its own; 30 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Posts at most that many jobs to one host at the same time, 16 by default. Four times as many
    /// may wait; more are delayed, for 250 ms at first and 2 s at most.
    #[must_use]
    pub fn per_host(mut self, most: usize) -> Self {
        self.hosts = Arc::new(Hosts::new(self.clock.clone(), most.max(1)));
        self
    }

    /// Takes time from this clock: for signatures, dates and circuit breakers. For tests; set it
    /// before [`per_host`](Self::per_host).
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.hosts = Arc::new(Hosts::new(clock.clone(), PER_HOST));
        self.clock = clock;
        self
    }

    /// Resolves names by this, 16 at the same time for a namespace and 256 for the process: a
    /// lookup counts until it has ended, also where its job does not wait for it any more.
    #[must_use]
    pub fn resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.lookups = Lookups::new(resolver);
        self
    }

    /// Trusts these certificates, in DER, besides the system's roots.
    #[must_use]
    pub fn roots(mut self, roots: Vec<Vec<u8>>) -> Self {
        let roots = roots.into_iter().map(CertificateDer::from).collect();
        self.tls = Arc::new(Tls::with_roots(roots));
        self
    }

    /// Posts a job that was claimed; what became of it is the verdict of the attempt.
    pub async fn push(&self, job: &JobRecord, ctx: &Context) -> Verdict {
        let mut delivery = std::pin::pin!(self.deliver(job));
        let why = tokio::select! {
            biased;
            verdict = delivery.as_mut() => return verdict,
            why = ctx.cancelled() => why,
        };
        match why {
            Interrupt::CancelRequested => Verdict::new(Outcome::Cancelled).stopped(Stop::Token),
            // The delivery has the same bound and says it in a moment, of its host too.
            Interrupt::TimedOut => {
                let verdict = within(TIMED_OUT_GRACE, delivery).await;
                verdict.unwrap_or_else(|| Verdict::retry("target did not answer in time"))
            }
            _ => Verdict::new(Outcome::Released),
        }
    }

    /// Posts a job once.
    pub async fn deliver(&self, job: &JobRecord) -> Verdict {
        let url = push::target(&job.headers).or(self.target.as_deref());
        let Some(url) = url else {
            return snooze(AIMLESS_WAIT, "the job has no target URL".into());
        };
        let target = match self.guard.check(url) {
            Ok(target) => target,
            Err(error) => return Verdict::dead(error.message().to_owned()),
        };
        let host = format!("{}:{}", target.name(), target.port());
        let time_limit = PLACE_WAIT_MAX.min(self.timeout_of(job) / 4);
        let mut permits = match self.enter(&host, time_limit).await {
            Ok(permits) => permits,
            Err(busy) => return delay(job, &host, busy),
        };
        let since = Stopwatch::start();
        let timeout = self.timeout_of(job);
        let (mut lookup, mut waited) = (None, false);
        if target.address().is_none() {
            lookup = self.lookups.try_enter();
            if lookup.is_none() {
                // It may take long: another delivery has the place meanwhile.
                drop(permits);
                waited = true;
                lookup = within(timeout, self.lookups.enter()).await.flatten();
                if lookup.is_none() {
                    return lookups_are_busy(job, timeout);
                }
                permits = match self.enter(&host, Duration::ZERO).await {
                    Ok(permits) => permits,
                    Err(busy) => return delay(job, &host, busy),
                };
            }
        }
        let left = timeout.saturating_sub(since.elapsed());
        let posted = self.post(job, &target, &host, permits, lookup, left).await;
        match posted {
            Ok(verdict) => verdict,
            // What was left of its time after the wait says nothing of the host.
            Err(_) if waited => lookups_are_busy(job, timeout),
            Err(permits) => {
                if permits.ill() {
                    warn(&host);
                }
                let timeout = format_span(timeout);
                Verdict::retry(format!(
                    "target_timeout: target did not answer within {timeout}"
                ))
            }
        }
    }

    async fn enter(&self, host: &str, time_limit: Duration) -> Result<Leave, Busy> {
        let entered = within(time_limit, self.hosts.enter(host)).await;
        entered.unwrap_or(Err(Busy::Full))
    }

    /// Posts it, or gives the permit back where that takes longer.
    async fn post(
        &self,
        job: &JobRecord,
        target: &Target,
        host: &str,
        permits: Leave,
        lookup: Option<LookupPermits>,
        timeout: Duration,
    ) -> Result<Verdict, Leave> {
        let request = request(
            job,
            &self.namespace,
            target,
            &self.secrets,
            self.clock.now(),
        );
        let request = match request {
            Ok(request) => request,
            Err(text) => return Ok(Verdict::dead(text)),
        };
        let asked = within(timeout, async {
            let connection = connect(target, &self.guard, &self.lookups, lookup, &self.tls).await?;
            let answered = exchange(connection, request).await;
            answered.map_err(Unreached::Failed)
        });
        let text = match asked.await {
            Some(Ok(answer)) => {
                let (verdict, is_well) = verdict(answer, self.clock.now());
                if is_well {
                    permits.well();
                } else if permits.ill() {
                    warn(host);
                }
                return Ok(verdict);
            }
            // No request was sent: that says nothing of the host.
            Some(Err(Unreached::Refused(text))) => return Ok(Verdict::retry(text)),
            Some(Err(Unreached::Failed(text))) => text,
            None => return Err(permits),
        };
        if permits.ill() {
            warn(host);
        }
        Ok(Verdict::retry(text))
    }

    fn timeout_of(&self, job: &JobRecord) -> Duration {
        job.timeout.unwrap_or(self.timeout)
    }
}

/// No request was sent, so it is no failure of the job either.
fn lookups_are_busy(job: &JobRecord, timeout: Duration) -> Verdict {
    let text = format!(
        "target_lookup_busy: this namespace ({LOOKUPS_OWN_MAX}) or all of them have too many DNS lookups in flight, and none finished within {}; their name servers do not answer",
        format_span(timeout)
    );
    snooze(spread(job, full_wait(job)), text)
}

fn warn(host: &str) {
    tracing::warn!(
        host,
        "a target failed too often in a row; the circuit breaker holds its jobs until it answers"
    );
}

/// A job whose turn has not come: no failure, and not all at the same instant again.
fn delay(job: &JobRecord, host: &str, busy: Busy) -> Verdict {
    let (span, text) = match busy {
        Busy::Full => (
            full_wait(job),
            format!("{host} has reached its limit of concurrent deliveries"),
        ),
        Busy::Open(span) => (
            span,
            format!("{host} failed too often in a row; the circuit breaker pauses its deliveries"),
        ),
    };
    snooze(spread(job, span), text)
}

/// Longer each time: a long line costs little, and the end of it is not left waiting.
fn full_wait(job: &JobRecord) -> Duration {
    FULL_WAIT * job.attempt.clamp(1, FULL_TIMES_MAX)
}

/// Somewhat longer, by its id.
fn spread(job: &JobRecord, span: Duration) -> Duration {
    let [.., low] = *job.id.as_bytes();
    span + span.mul_f64((f64::from(low) + 1.0) / 1_024.0)
}

/// Snoozed with a word why; counts as no failure.
fn snooze(after: Duration, why: String) -> Verdict {
    let mut verdict = Verdict::new(Outcome::Snooze { after });
    verdict.error = Some(why.into());
    verdict
}

impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pusher")
            .field("namespace", &self.namespace)
            .field("secrets", &self.secrets.len())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
