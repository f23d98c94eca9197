//! One attempt: the command is started, fed, watched, and its end becomes a verdict.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::Bytes;
use punctual::job::Stop;
use punctual::push::AmqpTarget;
use punctual::time::{Stopwatch, format_span, within};
use punctual::worker::{Interrupt, Verdict};
use punctual::{Context, JobRecord, Outcome, push};

use super::environment::Environment;
use super::guarded::Guarded;
use super::missing::Missing;
use super::report;
use super::tail::Tail;
use crate::output::Output;

/// The exit status that puts a job off: `EX_TEMPFAIL` of sysexits.h.
const SNOOZE: i32 = 75;
/// The shell could not execute the command, or did not find it.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

pub(super) struct Exec {
    pub(super) command: String,
    pub(super) namespace: String,
    pub(super) snooze: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    /// Bytes of output that are kept with the job.
    pub(super) kept_bytes: usize,
    pub(super) missing: Missing,
    /// Where to print a line per job, if at all.
    pub(super) out: Option<Output>,
}

/// How the command came to its end.
enum End {
    Itself(ExitStatus),
    /// It was asked to stop; whether it did before it was killed.
    Stopped(Why, bool),
}

enum Why {
    Asked(Interrupt),
    TimedOut(Duration),
}

impl Exec {
    pub(super) async fn run(&self, job: JobRecord, ctx: Context) -> Verdict {
        let watch = Stopwatch::start();
        if let Some(target) = push::target(&job.headers) {
            let verdict = self.leave_to_others(target);
            report::attempt(self.out, &job, &verdict, watch.elapsed());
            return verdict;
        }
        let verdict = match self.attempt(&job, &ctx).await {
            Ok(verdict) => verdict,
            Err(error) => Verdict::retry(format!("the command did not run: {error}")),
        };
        report::attempt(self.out, &job, &verdict, watch.elapsed());
        verdict
    }

    /// A job with a target is no command's: what delivers it comes for it.
    fn leave_to_others(&self, target: &str) -> Verdict {
        let mut verdict = Verdict::new(Outcome::Snooze { after: self.snooze });
        let why = match AmqpTarget::is(target) {
            true => "the job has a target; `punctual relay amqp-emit` publishes it",
            false => "the job has a target; `punctual serve`, or work with --http, posts it",
        };
        verdict.error = Some(why.into());
        verdict
    }

    async fn attempt(&self, job: &JobRecord, ctx: &Context) -> io::Result<Verdict> {
        let environment = Environment::of(job, &self.namespace, ctx);
        let mut command = Guarded::start(&self.command, environment, &job.payload).await?;
        let output = Tail::collect(command.stdout(), self.kept_bytes);
        let errors = Tail::collect(command.stderr(), self.kept_bytes);

        let end = self.watch(&mut command, job, ctx).await?;
        let (output, errors) = (output.finish().await, errors.finish().await);
        Ok(self.verdict(end, output, errors))
    }

    async fn watch(
        &self,
        command: &mut Guarded,
        job: &JobRecord,
        ctx: &Context,
    ) -> io::Result<End> {
        // The worker watches over a timeout of the job's own.
        let own = self.timeout.filter(|_| job.timeout.is_none());
        let why = tokio::select! {
            status = command.wait() => return Ok(End::Itself(status?)),
            why = ctx.cancelled() => Why::Asked(why),
            timeout = sleep(own) => Why::TimedOut(timeout),
        };
        let in_time = command.stop(self.grace).await?;
        Ok(End::Stopped(why, in_time))
    }

    fn verdict(&self, end: End, output: Bytes, errors: Bytes) -> Verdict {
        let status = match end {
            End::Itself(status) => status,
            End::Stopped(why, in_time) => {
                let how = if in_time { Stop::Token } else { Stop::Killed };
                let text = if in_time {
                    "the command ended on SIGTERM".to_owned()
                } else {
                    format!(
                        "the command was killed {} after SIGTERM",
                        format_span(self.grace)
                    )
                };
                return match why {
                    Why::Asked(Interrupt::CancelRequested) => {
                        Verdict::new(Outcome::Cancelled).stopped(how)
                    }
                    Why::Asked(Interrupt::ShuttingDown) => Verdict::new(Outcome::Released),
                    Why::Asked(_) => Verdict::retry(with_output(text, &output, &errors)),
                    Why::TimedOut(after) => {
                        let text = format!("timed out after {}: {text}", format_span(after));
                        Verdict::retry(with_output(text, &output, &errors))
                    }
                };
            }
        };
        match (status.code(), status.signal()) {
            (Some(0), _) => Verdict::completed().result(output),
            (Some(SNOOZE), _) => Verdict::new(Outcome::Snooze { after: self.snooze }),
            (Some(code @ (NOT_EXECUTABLE | NOT_FOUND)), _) => {
                let what = match code {
                    NOT_FOUND => "a command was not found",
                    _ => "a command could not be executed",
                };
                let what = format!("exit status {code}, {what}");
                let mut verdict = Verdict::new(Outcome::Snooze { after: self.snooze });
                self.missing.report(&what, self.snooze);
                verdict.error = Some(with_output(what, &output, &errors).into());
                verdict
            }
            (Some(code), _) => {
                Verdict::retry(with_output(format!("exit status {code}"), &output, &errors))
            }
            (None, signal) => {
                let signal = signal.map(|signal| signal.to_string()).unwrap_or_default();
                Verdict::retry(with_output(
                    format!("ended by signal {signal}"),
                    &output,
                    &errors,
                ))
            }
        }
    }
}

/// The error text of a failed command: what happened, then the end of what it said.
fn with_output(what: String, output: &Bytes, errors: &Bytes) -> String {
    let said = if errors.is_empty() { output } else { errors };
    let said = String::from_utf8_lossy(said);
    match said.trim() {
        "" => what,
        said => format!("{what}: {said}"),
    }
}

/// Sleeps for a span and answers it; for ever if there is none.
async fn sleep(span: Option<Duration>) -> Duration {
    match span {
        Some(span) => {
            within(span, std::future::pending::<()>()).await;
            span
        }
        None => std::future::pending().await,
    }
}
