//! `serve --relay FILE.toml`: relays that run beside the server, each started again when it fails.

mod allow;
mod file;
mod secret;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use punctual::backoff::Backoff;
use punctual::time::{Stopwatch, minutes, pause, seconds, within};
use punctual::{Engine, Namespace};
use punctual_gateway::RelayReport;
use punctual_relay::{Open, RelayHealth, RelayState};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::commands::relay::Prepared;
use crate::failure::Result;

/// The relays of a file, and those that run.
#[derive(Default)]
pub(super) struct Relays {
    relays: Vec<(Namespace, Prepared)>,
    running: JoinSet<()>,
    /// Dropping it ends them.
    stop: watch::Sender<()>,
}

/// A worker that ran for so long starts again as soon as after its first failure.
const LONG: Duration = minutes(1);
/// How often the jobs that wait for a sink are counted.
const COUNTS: Duration = seconds(5);

impl Relays {
    /// Those of a file, if there is one. Every mistake in it is an error before the server starts.
    pub(super) fn of(file: Option<&Path>, home: &Namespace) -> Result<Self> {
        let relays = file.map(|path| file::read(path, home)).transpose()?;
        Ok(Self {
            relays: relays.unwrap_or_default(),
            ..Self::default()
        })
    }

    /// What the gateway shows of them.
    pub(super) fn shown(&self) -> punctual_gateway::Relays {
        let relays = self.relays.iter().map(|(namespace, relay)| Shown {
            namespace: namespace.clone(),
            name: relay.name.clone(),
            kind: relay.kind,
            queue: relay.queue.clone(),
            health: relay.health.clone(),
        });
        let relays: Vec<Shown> = relays.collect();
        punctual_gateway::Relays::new(move || relays.iter().map(Shown::report).collect())
    }

    /// Starts all of them.
    pub(super) fn start(&mut self, engine: &Arc<dyn Engine>) {
        for (namespace, mut relay) in std::mem::take(&mut self.relays) {
            let source = relay.source.take();
            let relay = Arc::new(relay);
            if let Some(open) = source {
                let (relay, namespace) = (relay.clone(), namespace.clone());
                let (engine, stop) = (engine.clone(), self.stop.subscribe());
                self.running.spawn(async move {
                    take(&relay, &engine, &namespace, open, stop).await;
                });
            }
            if relay.sink.is_some() {
                let (engine, stop) = (engine.clone(), self.stop.subscribe());
                self.running
                    .spawn(async move { emit(&relay, &engine, &namespace, stop).await });
            }
        }
    }

    /// Ends all of them: a batch that is not stored stays in its source.
    pub(super) async fn end(mut self) {
        drop(self.stop);
        while self.running.join_next().await.is_some() {}
    }
}

struct Shown {
    namespace: Namespace,
    name: String,
    kind: &'static str,
    queue: String,
    health: RelayHealth,
}

impl Shown {
    fn report(&self) -> RelayReport {
        let numbers = self.health.numbers();
        let (namespace, name) = (self.namespace.clone(), &self.name);
        let mut report = RelayReport::new(namespace, name, self.kind, &self.queue);
        report.state = numbers.state.name();
        report.rate = numbers.rate;
        report.received = numbers.received;
        report.enqueued = numbers.enqueued;
        report.duplicates = numbers.duplicates;
        report.refused = numbers.refused;
        report.emitted = numbers.emitted;
        report.restarts = numbers.restarts;
        report.lag = numbers.lag;
        report.last_error = numbers.last_error;
        report.age = numbers.age;
        report
    }
}

/// Until the server ends.
async fn ended(mut stop: watch::Receiver<()>) {
    // An error is a sender that is gone.
    while stop.changed().await.is_ok() {}
}

/// The loop of a source supervises itself.
async fn take(
    relay: &Prepared,
    engine: &Arc<dyn Engine>,
    namespace: &Namespace,
    open: Box<dyn Open>,
    stop: watch::Receiver<()>,
) {
    let taking = async {
        let relaying = relay.relay(engine, namespace)?.starts_always();
        relaying.run_until(open, ended(stop)).await
    };
    if let Err(error) = taking.await {
        relay.health.failed(&error.to_string());
        tracing::error!(relay = relay.name, %error, "a relay cannot start; mend its file");
    }
}

/// Hands jobs to a sink, and starts again after a failure.
async fn emit(
    relay: &Prepared,
    engine: &Arc<dyn Engine>,
    namespace: &Namespace,
    stop: watch::Receiver<()>,
) {
    let mut backoff = Backoff::engine();
    let is_alone = relay.kind != "amqp-delay";
    loop {
        let ran = Stopwatch::start();
        if is_alone {
            relay.health.is(RelayState::Running);
        }
        let working = relay.emit(engine, namespace, ended(stop.clone()));
        let working = AssertUnwindSafe(working).catch_unwind();
        let ended_so = tokio::select! {
            ended_so = working => ended_so,
            () = count_waiting(relay, engine, namespace), if is_alone => return,
        };
        let why = match ended_so {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a bug: it panicked; please report it".to_owned(),
        };
        relay.health.failed(&why);
        if ran.elapsed() > LONG {
            backoff.reset();
        }
        let span = backoff.pause();
        let again = span.as_millis() as u64;
        tracing::warn!(
            relay = relay.name,
            why,
            again_ms = again,
            "a relay failed and starts again"
        );
        if within(span, ended(stop.clone())).await.is_some() {
            return;
        }
    }
}

/// Counts what waits for a sink, for ever.
async fn count_waiting(relay: &Prepared, engine: &Arc<dyn Engine>, namespace: &Namespace) {
    loop {
        if let Ok(ready) = relay.ready(engine, namespace).await {
            relay.health.turn(|numbers| numbers.lag = Some(ready));
        }
        pause(COUNTS).await;
    }
}
