//! `punctual work`: runs a command per job, or posts it, so that any language can handle jobs.

mod environment;
mod exec;
mod guard;
mod guarded;
mod http;
mod missing;
mod report;
mod tail;
mod tree;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use punctual::engine::StatsRequest;
use punctual::time::seconds;
use punctual::worker::{QueueShare, shutdown_signal};
use punctual::{Context, JobRecord, JobState, Worker};

use self::exec::Exec;
use self::http::Http;
use self::missing::Missing;
use crate::args::{Global, Session, span_of};
use crate::connect::Make;
use crate::failure::{Failure, Result};
use crate::output::{ago, counted};
use crate::pushing::Pushing;

pub(crate) use guard::{GUARD, guard};

const EXAMPLES: &str = "\
Examples:
  punctual work mail --exec ./send-mail.sh
  punctual work critical default --exec './run \"$PUNCTUAL_KIND\"'   critical first
  punctual work critical=6 low=1 --exec ./run --concurrency 8      in turns, by weight
  punctual work mail --exec ./send-mail.sh --until-idle            run due jobs, then exit
  punctual work mail --http http://localhost:3000/mail             post each job there

--exec: the command runs by sh -c with the payload on its standard input and the job in its
environment: PUNCTUAL_ID, PUNCTUAL_QUEUE, PUNCTUAL_KIND, PUNCTUAL_NAMESPACE, PUNCTUAL_ATTEMPT (from 1),
PUNCTUAL_FAILURES, PUNCTUAL_CRASHES, PUNCTUAL_MAX_ATTEMPTS, PUNCTUAL_PRIORITY, PUNCTUAL_DUE,
PUNCTUAL_ENQUEUED_AT, PUNCTUAL_CONTENT_TYPE and PUNCTUAL_FENCE (grows with every lease). Where the job has
them also PUNCTUAL_DEADLINE, PUNCTUAL_UNIQUE, PUNCTUAL_GROUP and PUNCTUAL_HEADER_<NAME>; a run of a
schedule has PUNCTUAL_SCHEDULE and PUNCTUAL_INSTANT, the instant that it stands for, and a step of a
flow PUNCTUAL_FLOW and PUNCTUAL_STEP.
PUNCTUAL_HEADERS has all headers as one JSON object. Header names that map to the same variable
are numbered in order: a-b is PUNCTUAL_HEADER_A_B, a_b is PUNCTUAL_HEADER_A_B_2.
Commands do not inherit PUNCTUAL_TOKEN, PUNCTUAL_PUSH_SECRET, or a PUNCTUAL_ENGINE with a password.

How it ends:
  exit 0    completed; the end of its standard output is kept as the job's result
  exit 75   snoozed: retried after --snooze; this is not a failure
  126, 127  the shell did not find or could not execute a command: reported and snoozed
  else      failed: retried by the job's policy; the end of its output is kept as its error
On a timeout, a cancel or the end of --drain the command and its child processes get SIGTERM,
and after --grace SIGKILL.
When the command or the worker ends, its remaining children are killed. On Linux this includes
processes that call setsid; elsewhere it is the process group. If SIGKILL ends the guard of a command
(punctual guard-command), processes that called setsid continue. It does not reach processes of
another user (sudo), or those that a service starts (docker, systemd-run, at). Every job has its own
process.

--http: the payload is posted with the job in headers (Punctual-Id, Punctual-Kind and so on).
  2xx       completed; a body of at most 1 KiB is kept as the job's result
  410       dead
  else      failed: retried by the job's policy, or after Retry-After
A job with its own target goes there, if that is public or opened by --push-allow. With secrets
(--secret-file, or PUNCTUAL_PUSH_SECRET) requests are signed; docs/push.md shows how to verify them.

SIGTERM or Ctrl-C: no new jobs; running ones may finish (--drain). A second signal releases them
at once.
Exit status 7: the engine in this process stopped itself; restart the worker.";

/// Run a command for each job, or post each job
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group = clap::ArgGroup::new("how").required(true))]
pub(crate) struct Args {
    /// The queues: in strict order, or in turns by weight
    #[arg(value_name = "QUEUE[=WEIGHT]", required = true)]
    queues: Vec<String>,

    /// The command, run by sh -c
    #[arg(long, value_name = "CMD", group = "how")]
    exec: Option<String>,

    /// Where to post jobs
    #[arg(long, value_name = "URL", group = "how")]
    http: Option<String>,

    #[command(flatten)]
    pushing: Pushing,

    /// Jobs that run at the same time [default: one per processor]
    #[arg(long, short, value_name = "N")]
    concurrency: Option<usize>,

    /// How long exit 75 snoozes a job
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "1m")]
    snooze: Duration,

    /// Timeout of a job without its own [default with --http: 30s]
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    timeout: Option<Duration>,

    /// How long a command may take to end after SIGTERM before SIGKILL
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "5s")]
    grace: Duration,

    /// How long a lease lasts; a cancel reaches a running job within a third of that
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "10s")]
    lease_duration: Duration,

    /// How long running jobs may take to end after SIGTERM
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "25s")]
    drain: Duration,

    /// Run what is due now, then exit
    #[arg(long)]
    until_idle: bool,

    /// Print no line per job
    #[arg(long, short)]
    quiet: bool,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let shares = shares(&self.queues)?;
        self.check()?;
        let session = global.shared_session(Make::Never).await?;
        let slots = self.concurrency.unwrap_or_else(|| match self.http {
            Some(_) => POSTS,
            None => processors(),
        });
        let worker = Worker::new(&session.engine)
            .namespace(session.namespace.clone())
            .queues(shares)
            .concurrency(slots)
            .lease_duration(self.lease_duration)
            .drain_limit(self.drain)
            // The command gets its grace from us; the worker's own is the last resort.
            .abort_grace(self.grace + seconds(2))
            .isolated()
            .version(concat!("punctual ", env!("CARGO_PKG_VERSION")));
        let worker = self.handle(worker, slots, &session).await?;
        if self.until_idle {
            let wake_at = worker.run_until_idle().await?;
            let now = session.engine.info().await?.now;
            session.out.note(match wake_at {
                Some(at) => format!("nothing more is due; the next job is due {}", ago(at, now)),
                None => "nothing more is due".into(),
            });
            self.announce_paused(&session).await?;
            return session.close().await;
        }
        let mut run = worker.run_until(shutdown_signal());
        // Its first step is to check what was asked for.
        if let Some(refused) = (&mut run).now_or_never() {
            return Ok(refused?);
        }
        session.out.note(format!(
            "working on {} with {slots} slots; Ctrl-C lets running jobs finish",
            self.queues.join(", ")
        ));
        run.await?;
        session.close().await
    }
}

/// Deliveries at the same time: they wait more than they work.
const POSTS: usize = 32;

impl Args {
    /// Refuses what would do nothing, before anything is opened.
    fn check(&self) -> Result<()> {
        if let Some(exec) = &self.exec
            && exec.trim().is_empty()
        {
            // A shell is content with it, and every job would be completed with nothing done.
            return Err(Failure::usage("--exec has no command")
                .hint("name one, such as --exec ./send-mail.sh; `true` does nothing on purpose"));
        }
        self.exec.as_deref().map_or(Ok(()), missing::check)?;
        Ok(())
    }

    /// Has the worker do what was asked for with every job.
    async fn handle(&self, worker: Worker, slots: usize, session: &Session) -> Result<Worker> {
        let out = (!self.quiet).then_some(session.out);
        if let Some(url) = &self.http {
            let pusher = self.pushing.pusher(&session.namespace)?.per_host(slots);
            let http = Http::new(pusher, url, (self.timeout, self.snooze), out)?;
            return Ok(worker.handle_any(move |job: JobRecord, ctx: Context| {
                let http = http.clone();
                async move { http.run(job, ctx).await }
            }));
        }
        let limits = session.engine.info().await?.limits;
        let exec = Arc::new(Exec {
            command: self.exec.clone().unwrap_or_default(),
            namespace: session.namespace.to_string(),
            snooze: self.snooze,
            timeout: self.timeout,
            grace: self.grace,
            kept_bytes: limits.result_bytes,
            missing: Missing::default(),
            out,
        });
        Ok(worker.handle_any(move |job: JobRecord, ctx: Context| {
            let exec = exec.clone();
            async move { exec.run(job, ctx).await }
        }))
    }

    /// Says which of the queues are paused or at a limit with work in them, as their pause
    /// resembles idleness.
    async fn announce_paused(&self, session: &Session) -> Result<()> {
        let name = |queue: &String| queue.split('=').next().unwrap_or_default().to_owned();
        let request = StatsRequest::default().queues(self.queues.iter().map(name).collect());
        let stats = session.engine.stats(&session.namespace, request).await?;
        for queue in &stats.queues {
            let (name, ready) = (&queue.queue, queue.counts.of(JobState::Ready));
            let is_closed = queue.limits.is_some_and(|limits| limits.closed.is_some());
            if ready == 0 || !queue.paused && !is_closed {
                continue;
            }
            let jobs = counted(ready, "ready job");
            session.out.note(match queue.paused {
                true => format!(
                    "{name} is paused with {jobs}; `punctual queues resume {name}` lets them start"
                ),
                false => format!(
                    "{name} is at its limit with {jobs}; `punctual queues limit {name}` shows it"
                ),
            });
        }
        Ok(())
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reads `NAME` or `NAME=WEIGHT`; where one has a weight, the others weigh 1.
fn shares(texts: &[String]) -> Result<Vec<QueueShare>> {
    let weighted = texts.iter().any(|text| text.contains('='));
    texts
        .iter()
        .map(|text| match text.split_once('=') {
            Some((name, weight)) => {
                let weight: u32 = weight.parse().map_err(|_| {
                    Failure::usage(format!("{text:?} has no weight after its ="))
                        .hint("write it as QUEUE=WEIGHT with a weight of 1 to 1000, such as mail=3")
                })?;
                Ok((name.to_owned(), weight).into())
            }
            None if weighted => Ok((text.clone(), 1).into()),
            None => Ok(text.clone().into()),
        })
        .collect()
}
