//! The part of `serve` that posts jobs with a target, outcomes and alerts.

use std::sync::Arc;
use std::time::Duration;

use punctual::time::minutes;
use punctual::{Engine, Namespace};
use punctual_push::{AlertRules, Alerts, Guard, Maintenance, Posting, PushWakeup};

use crate::args::span_of;
use crate::failure::{Failure, Result};
use crate::pushing::Pushing;

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Do not post jobs; those with a target wait for another server or worker
    #[arg(long, help_heading = "Posting", conflicts_with = "alert")]
    no_push: bool,

    #[command(flatten)]
    pushing: Pushing,

    /// How long a target may take to answer a job without a timeout [default: 30s]
    #[arg(long, value_name = "SPAN", value_parser = span_of, help_heading = "Posting")]
    push_timeout: Option<Duration>,

    /// Post alerts to this URL: late queues, dead letters, queues without workers
    #[arg(long, value_name = "URL", help_heading = "Posting")]
    alert: Option<String>,

    /// How long a due job may wait before its queue is late [default: 1m]
    #[arg(long, value_name = "SPAN", value_parser = span_of, requires = "alert", help_heading = "Posting")]
    alert_late: Option<Duration>,

    /// Dead letters of a queue that cause an alert [default: 1]
    #[arg(long, value_name = "N", requires = "alert", help_heading = "Posting")]
    alert_dead: Option<u64>,
}

impl Options {
    /// What targets and callbacks are held against when they are enqueued.
    pub(super) fn guard(&self) -> Guard {
        self.pushing.guard()
    }

    /// Starts posting for these namespaces; alerts are those of `home`.
    pub(super) fn start(
        &self,
        maintenance: &mut Maintenance,
        engine: &Arc<dyn Engine>,
        home: &Namespace,
        namespaces: &[Namespace],
        push_wakeup: &PushWakeup,
        drain: Duration,
    ) -> Result<()> {
        if self.no_push {
            return Ok(());
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
                .push_wakeup(push_wakeup.clone())
                .drain_limit(drain);
            posting.start(maintenance);
        }
        if let Some(url) = &self.alert {
            let alerts = self.alerts(engine, home, namespaces, url)?;
            maintenance.start("alerts", home, move |heartbeat| {
                alerts.clone().run(heartbeat)
            });
        }
        Ok(())
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
        let rules = AlertRules::default()
            .late(self.alert_late.unwrap_or(minutes(1)))
            .dead(self.alert_dead.unwrap_or(1));
        let (home, watched) = (home.clone(), watched.to_vec());
        Ok(Alerts::new(engine.clone(), home, watched, url, rules))
    }
}
