//! One attempt: the job is posted, and the answer becomes a verdict.

use std::time::Duration;

use punctual::time::Stopwatch;
use punctual::worker::Verdict;
use punctual::{Context, JobRecord};
use punctual_push::{Guard, Pusher};

use super::report;
use crate::failure::{Failure, Result};
use crate::output::Output;

#[derive(Clone)]
pub(super) struct Http {
    pusher: Pusher,
    out: Option<Output>,
}

impl Http {
    /// Posts what names no target of its own to this URL, wherever that leads: it was chosen by
    /// who started us.
    pub(super) fn new(
        pusher: Pusher,
        url: &str,
        timeout: Option<Duration>,
        out: Option<Output>,
    ) -> Result<Self> {
        Guard::new().trust(url).check(url).map_err(|error| {
            Failure::usage(format!("--http {url:?} cannot be posted to")).hint(error.message())
        })?;
        let mut pusher = pusher.target(url);
        if let Some(timeout) = timeout {
            pusher = pusher.timeout(timeout);
        }
        Ok(Self { pusher, out })
    }

    pub(super) async fn run(&self, job: JobRecord, ctx: Context) -> Verdict {
        let watch = Stopwatch::start();
        let verdict = self.pusher.push(&job, &ctx).await;
        report::attempt(self.out, &job, &verdict, watch.elapsed());
        verdict
    }
}
