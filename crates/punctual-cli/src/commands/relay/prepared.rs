//! A relay that is ready to run: for its command, or for a server.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::StatsRequest;
use punctual::time::{format_span, hours, seconds, within};
use punctual::worker::{QueueShare, Shutdown};
use punctual::{Context, Engine, JobRecord, JobState, Limits, Namespace, NewJob, Worker, push};
use punctual_relay::lines::LineSink;
use punctual_relay::{Open, Relay, RelayHealth, RelayNumbers};
use tokio::sync::oneshot;

use super::targets;
use crate::args::{Global, Session};
use crate::connect::Make;
use crate::failure::Result;
use crate::output::{Output, count, object};
use crate::signals::Signals;

/// A relay with its settings. It has a source, a sink, or both.
pub(crate) struct Prepared {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    /// The queue of its jobs.
    pub(crate) queue: String,
    /// Its sink takes every job with a target on RabbitMQ; `queue` is what is shown then.
    pub(super) takes_targets: bool,
    pub(crate) health: RelayHealth,
    pub(crate) source: Option<Box<dyn Open>>,
    /// With the jobs that it has at the same time, at most.
    pub(crate) sink: Option<(LineSink, usize)>,
    /// What it connects to, reads and writes over there.
    pub(crate) reaches: Vec<Reach>,
    pub(super) batch: usize,
    pub(super) remember: Duration,
    pub(super) until_idle: bool,
    pub(super) every: Duration,
}

/// Something of another system, for the list of what a namespace may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A server, or a file of SQLite.
    Address(String),
    /// An exchange of RabbitMQ.
    Exchange(String),
    /// A key or a channel of Redis, or a queue of RabbitMQ.
    Topic(String),
    /// Every key or channel of Redis that begins so.
    Topics(String),
    /// A command line.
    Command(String),
}

impl Prepared {
    pub(super) fn new(kind: &'static str, queue: &str) -> Self {
        Self {
            kind,
            name: kind.to_owned(),
            queue: queue.to_owned(),
            takes_targets: false,
            health: RelayHealth::default(),
            source: None,
            sink: None,
            reaches: Vec::new(),
            batch: 1_000,
            remember: hours(1),
            until_idle: false,
            every: seconds(10),
        }
    }

    /// Refuses what could not run, before it says that it does.
    pub(super) fn check(&self) -> Result<()> {
        // The name is part of a queue's.
        Relay::new(punctual::MemoryEngine::new(), &self.name)?;
        let queue = match self.takes_targets {
            true => push::AMQP_DEFAULT_QUEUE,
            false => &self.queue,
        };
        let mut job = NewJob::new(queue, "");
        job.remember = Some(self.remember);
        Ok(job.check(&Limits::default())?)
    }

    /// Runs in the foreground until Ctrl-C, and prints its numbers.
    pub(super) async fn run(mut self, global: &Global) -> Result<()> {
        let session = global.shared_session(Make::IfMissing).await?;
        let out = session.out;
        out.note("relaying; Ctrl-C stops it, and nothing is lost by that");
        let (engine, namespace) = (&session.engine, &session.namespace);
        match (self.source.take(), self.sink.is_some()) {
            (None, true) if self.until_idle => self.emit_what_is_due(engine, namespace).await?,
            (None, true) => self.emit_until_signal(engine, namespace).await?,
            (Some(open), false) => self.take(&session, open).await?,
            (Some(open), true) => {
                // One that ends for a wrong setting ends the other.
                let emitting = self.emit_until_signal(engine, namespace);
                tokio::try_join!(emitting, self.take(&session, open))?;
            }
            (None, false) => {}
        }
        session.close().await
    }

    async fn take(&self, session: &Session, open: Box<dyn Open>) -> Result<()> {
        let mut relay = self.relay(&session.engine, &session.namespace)?;
        if self.until_idle {
            relay = relay.until_idle();
        }
        let mut signals = Signals::new()?;
        let mut running = std::pin::pin!(relay.run_until(open, signals.next()));
        let mut shown = None;
        loop {
            let ended = within(self.every, running.as_mut()).await;
            show(session.out, &self.health, &mut shown)?;
            if let Some(ended) = ended {
                return Ok(ended?);
            }
        }
    }

    /// The loop of its source.
    pub(crate) fn relay(
        &self,
        engine: &Arc<dyn Engine>,
        namespace: &Namespace,
    ) -> punctual::Result<Relay> {
        let relay = Relay::new(engine, &self.name)?;
        Ok(relay
            .namespace(namespace.clone())
            .at_most(self.batch)
            .remember(self.remember)
            .count_in(self.health.clone()))
    }

    /// Hands jobs to its sink until the shutdown; nothing without a sink.
    pub(crate) async fn emit(
        &self,
        engine: &Arc<dyn Engine>,
        namespace: &Namespace,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> punctual::Result<()> {
        if self.takes_targets {
            return targets::run(self, engine, namespace, shutdown).await;
        }
        match self.worker_of(engine, namespace, &[&self.queue]) {
            Some(worker) => worker.run_until(shutdown).await,
            None => Ok(()),
        }
    }

    async fn emit_until_signal(
        &self,
        engine: &Arc<dyn Engine>,
        namespace: &Namespace,
    ) -> Result<()> {
        let Some((sink, _)) = self.sink.clone() else {
            return Ok(());
        };
        let wrong = async move { drop(sink.setting_is_wrong().await) };
        if self.takes_targets {
            let mut signals = Signals::new()?;
            let ends = async move {
                tokio::select! {
                    () = signals.next() => {}
                    () = wrong => {}
                }
            };
            targets::run(self, engine, namespace, ends).await?;
        } else if let Some(worker) = self.worker_of(engine, namespace, &[&self.queue]) {
            let mut signals = Signals::new()?;
            let (sender, again) = oneshot::channel::<()>();
            let drain = async move {
                tokio::select! {
                    () = signals.next() => {}
                    () = wrong => {}
                }
                // A second signal hands back at once.
                tokio::spawn(async move {
                    signals.next().await;
                    sender.send(())
                });
            };
            let release = async move {
                if again.await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            worker.run_until(Shutdown::new(drain, release)).await?;
        }
        self.check_sink()
    }

    /// A sink whose settings are wrong has emitted nothing.
    fn check_sink(&self) -> Result<()> {
        let wrong = self
            .sink
            .as_ref()
            .and_then(|(sink, _)| sink.wrong_setting());
        wrong.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn emit_what_is_due(
        &self,
        engine: &Arc<dyn Engine>,
        namespace: &Namespace,
    ) -> Result<()> {
        let queues = match self.takes_targets {
            true => targets::find(engine, namespace).await?.0,
            false => [self.queue.clone()].into(),
        };
        for queue in &queues {
            if let Some(worker) = self.worker_of(engine, namespace, &[queue]) {
                worker.run_until_idle().await?;
            }
        }
        self.check_sink()
    }

    /// How many jobs wait for its sink.
    pub(crate) async fn ready(
        &self,
        engine: &Arc<dyn Engine>,
        namespace: &Namespace,
    ) -> punctual::Result<u64> {
        if self.takes_targets {
            return Ok(targets::find(engine, namespace).await?.1);
        }
        let request = StatsRequest::default().queues(vec![self.queue.clone()]);
        let stats = engine.stats(namespace, request).await?;
        let first = stats.queues.first();
        Ok(first.map_or(0, |one| one.counts.of(JobState::Ready)))
    }

    /// The worker that hands the jobs of these queues to its sink, if it has one.
    pub(super) fn worker_of(
        &self,
        engine: &Arc<dyn Engine>,
        namespace: &Namespace,
        queues: &[&str],
    ) -> Option<Worker> {
        let (sink, slots) = self.sink.as_ref()?;
        let sink = sink.clone();
        let share = |queue: &&str| QueueShare::from(((*queue).to_owned(), 1));
        let worker = Worker::new(engine)
            .namespace(namespace.clone())
            .queues(queues.iter().map(share))
            .concurrency(*slots)
            .isolated()
            .version(concat!("punctual-relay ", env!("CARGO_PKG_VERSION")))
            .handle_any(move |job: JobRecord, _: Context| {
                let sink = sink.clone();
                async move { sink.put(&job).await }
            });
        Some(worker)
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({} {})", self.kind, self.name)
    }
}

/// Prints the numbers if they are others than those shown last.
fn show(out: Output, health: &RelayHealth, shown: &mut Option<RelayNumbers>) -> Result<()> {
    let numbers = health.numbers();
    let mut same = numbers.clone();
    same.age = Duration::ZERO;
    if shown.as_ref() == Some(&same) {
        return Ok(());
    }
    *shown = Some(same);
    if out.is_json() {
        return out.json(&object!({
            "state": numbers.state.name(),
            "received": numbers.received,
            "enqueued": numbers.enqueued,
            "duplicates": numbers.duplicates,
            "refused": numbers.refused,
            "restarts": numbers.restarts,
            "lag": numbers.lag,
            "last_error": numbers.last_error,
            "age_ms": u64::try_from(numbers.age.as_millis()).unwrap_or(u64::MAX),
        }));
    }
    let waits = numbers
        .lag
        .map_or(String::new(), |lag| format!(", {} wait", count(lag)));
    let failed = match (&numbers.last_error, numbers.restarts) {
        (None, _) => String::new(),
        (Some(error), restarts) => format!("; {} restarts, last error: {error}", count(restarts)),
    };
    out.line(format!(
        "{}, {} ago: {} received, {} enqueued, {} duplicates, {} refused{waits}{failed}",
        numbers.state,
        format_span(seconds(numbers.age.as_secs())),
        count(numbers.received),
        count(numbers.enqueued),
        count(numbers.duplicates),
        count(numbers.refused),
    ))
}
