//! The part of `serve` that posts jobs with a target, outcomes and alerts.

use std::sync::Arc;
use std::time::Duration;

use punctual::time::{minutes, pause};
use punctual::{Engine, Namespace};
use punctual_push::{AlertRules, Alerts, Doorbell, Guard, LOOK_EVERY, Posting};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::span_of;
use crate::failure::{Failure, Result};
use crate::pushing::Pushing;

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Post no jobs; those with a target wait for somebody else to do it
    #[arg(long, help_heading = "Posting", conflicts_with = "alert")]
    no_push: bool,

    #[command(flatten)]
    pushing: Pushing,

    /// How long a target may take to answer, if the job does not say [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = span_of, help_heading = "Posting")]
    push_timeout: Option<Duration>,

    /// Post alerts to this URL, of late queues, dead letters and queues without workers
    #[arg(long, value_name = "URL", help_heading = "Posting")]
    alert: Option<String>,

    /// How long a due job may wait before its queue is late [default: 1m]
    #[arg(long, value_name = "SPAN", value_parser = span_of, requires = "alert", help_heading = "Posting")]
    alert_late: Option<Duration>,

    /// How many dead letters of a queue are worth an alert [default: 1]
    #[arg(long, value_name = "N", requires = "alert", help_heading = "Posting")]
    alert_dead: Option<u64>,
}

/// Everything that posts, until it is ended.
pub(super) struct Posts {
    running: JoinSet<()>,
    /// Dropping it ends them.
    stop: watch::Sender<()>,
}

impl Options {
    /// What targets and callbacks are held against when they are put in.
    pub(super) fn guard(&self) -> Guard {
        self.pushing.guard()
    }

    /// Starts posting for these namespaces; alerts are those of `home`.
    pub(super) fn start(
        &self,
        engine: &Arc<dyn Engine>,
        home: &Namespace,
        namespaces: &[Namespace],
        doorbell: &Doorbell,
        drain: Duration,
    ) -> Result<Posts> {
        let mut posts = Posts {
            running: JoinSet::new(),
            stop: watch::channel(()).0,
        };
        if self.no_push {
            return Ok(posts);
        }
        let secrets = self.pushing.secrets(home)?;
        for namespace in namespaces {
            let mut guard = self.guard();
            // The operator's own URL may lead anywhere, for the operator's namespace alone.
            if let Some(url) = self.alert.as_ref().filter(|_| namespace == home) {
                guard = guard.trust(url);
            }
            let mut pusher = punctual_push::Pusher::new(guard).secrets(secrets.of(namespace));
            if let Some(timeout) = self.push_timeout {
                pusher = pusher.timeout(timeout);
            }
            let posting = Posting::new(engine.clone(), namespace.clone(), pusher)
                .doorbell(doorbell.clone())
                .drain_limit(drain);
            let ended = posts.ended();
            posts.running.spawn(posting.run_until(ended));
        }
        if let Some(url) = &self.alert {
            let alerts = self.alerts(engine, home, namespaces, url)?;
            let ended = posts.ended();
            posts.running.spawn(watch_over(alerts, ended));
        }
        Ok(posts)
    }

    fn alerts(
        &self,
        engine: &Arc<dyn Engine>,
        home: &Namespace,
        watched: &[Namespace],
        url: &str,
    ) -> Result<Alerts> {
        Guard::new().trust(url).check(url).map_err(|error| {
            Failure::usage(format!("--alert {url:?} cannot be posted to")).hint(error.message())
        })?;
        let rules = AlertRules {
            late: self.alert_late.unwrap_or(minutes(1)),
            dead: self.alert_dead.unwrap_or(1),
        };
        let (home, watched) = (home.clone(), watched.to_vec());
        Ok(Alerts::new(engine.clone(), home, watched, url, rules))
    }
}

async fn watch_over(mut alerts: Alerts, ended: impl Future<Output = ()>) {
    let looking = async {
        loop {
            if let Err(error) = alerts.look().await {
                tracing::warn!(%error, "alerts could not look; they look again");
            }
            pause(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        () = ended => {}
        () = looking => {}
    }
}

impl Posts {
    fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopped = self.stop.subscribe();
        async move { while stopped.changed().await.is_ok() {} }
    }

    /// Lets deliveries end, as long as the drain allows.
    pub(super) async fn end(mut self) {
        drop(self.stop);
        while self.running.join_next().await.is_some() {}
    }
}
