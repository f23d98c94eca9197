//! One attempt: the job is posted, and the answer becomes a verdict.

use std::time::Duration;

use punctual::push::AmqpTarget;
use punctual::time::Stopwatch;
use punctual::worker::Verdict;
use punctual::{Context, JobRecord, Outcome, push};
use punctual_push::{Guard, Pusher};

use super::report;
use crate::failure::{Failure, Result};
use crate::output::Output;

#[derive(Clone)]
pub(super) struct Http {
    pusher: Pusher,
    /// How long a job waits that is not for a URL.
    snooze: Duration,
    out: Option<Output>,
}

impl Http {
    /// Posts what names no target of its own to this URL, wherever that leads: it was chosen by
    /// who started us.
    pub(super) fn new(
        pusher: Pusher,
        url: &str,
        (timeout, snooze): (Option<Duration>, Duration),
        out: Option<Output>,
    ) -> Result<Self> {
        Guard::new().trust(url).check(url).map_err(|error| {
            Failure::usage(format!("--http {url:?} cannot be posted to")).hint(error.message())
        })?;
        let mut pusher = pusher.target(url);
        if let Some(timeout) = timeout {
            pusher = pusher.timeout(timeout);
        }
        Ok(Self {
            pusher,
            snooze,
            out,
        })
    }

    pub(super) async fn run(&self, job: JobRecord, ctx: Context) -> Verdict {
        let watch = Stopwatch::start();
        let target = push::target(&job.headers).filter(|target| AmqpTarget::is(target));
        let verdict = match target {
            Some(_) => left_to_a_relay(self.snooze),
            None => self.pusher.push(&job, &ctx).await,
        };
        report::attempt(self.out, &job, &verdict, watch.elapsed());
        verdict
    }
}

/// A job for an exchange is no page's: `relay amqp-emit` comes for it.
fn left_to_a_relay(after: Duration) -> Verdict {
    let mut verdict = Verdict::new(Outcome::Snooze { after });
    verdict.error = Some("the job has a target; `punctual relay amqp-emit` publishes it".into());
    verdict
}
