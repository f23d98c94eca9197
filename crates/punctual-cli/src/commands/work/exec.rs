//! One attempt: the command is started, fed, watched, and its end becomes a verdict.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use punctual::job::Stop;
use punctual::time::{Stopwatch, format_span, within};
use punctual::worker::{Interrupt, Verdict};
use punctual::{Context, JobRecord, Outcome, push};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};

use super::group::{Group, Reaper};
use super::report;
use super::tail::Tail;
use crate::output::Output;

/// The exit status that puts a job off: `EX_TEMPFAIL` of sysexits.h.
const SNOOZE: i32 = 75;

pub(super) struct Exec {
    pub(super) command: String,
    pub(super) namespace: String,
    pub(super) snooze: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    /// Bytes of output that are kept with the job.
    pub(super) kept_bytes: usize,
    pub(super) reaper: Reaper,
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

/// Runs a command once a line has come: by then the reaper knows of it. A worker that is killed
/// before that leaves nothing behind but the end of this standard input.
const WHEN_TOLD: &str = r#"read -r go && exec sh -c "$1""#;

impl Exec {
    pub(super) async fn run(&self, job: JobRecord, ctx: Context) -> Verdict {
        let watch = Stopwatch::start();
        if push::target(&job.headers).is_some() {
            let verdict = self.leave_to_others();
            report::attempt(self.out, &job, &verdict, watch.elapsed());
            return verdict;
        }
        let verdict = match self.attempt(&job, &ctx).await {
            Ok(verdict) => verdict,
            Err(error) => Verdict::retry(format!("the command did not start: {error}")),
        };
        report::attempt(self.out, &job, &verdict, watch.elapsed());
        verdict
    }

    /// A job that is to be posted is no command's: somebody who posts will come for it.
    fn leave_to_others(&self) -> Verdict {
        let mut verdict = Verdict::new(Outcome::Snooze { after: self.snooze });
        let why = "the job has a target; `punctual serve`, or work with --http, posts it";
        verdict.error = Some(why.into());
        verdict
    }

    async fn attempt(&self, job: &JobRecord, ctx: &Context) -> io::Result<Verdict> {
        let mut command = Command::new("sh");
        command
            .args(["-c", WHEN_TOLD, "sh"])
            .arg(&self.command)
            .envs(self.environment(job, ctx))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = Group::spawn(command, &self.reaper)?;
        let feeding = tokio::spawn(feed(group.stdin(), job.payload.clone()));
        let output = Tail::collect(group.stdout(), self.kept_bytes);
        let errors = Tail::collect(group.stderr(), self.kept_bytes);

        let end = self.watch(&mut group, job, ctx).await?;
        feeding.abort();
        let (output, errors) = (output.finish().await, errors.finish().await);
        Ok(self.verdict(end, output, errors))
    }

    async fn watch(&self, group: &mut Group, job: &JobRecord, ctx: &Context) -> io::Result<End> {
        // The worker watches over a timeout of the job's own.
        let own = self.timeout.filter(|_| job.timeout.is_none());
        let why = tokio::select! {
            status = group.wait() => return Ok(End::Itself(status?)),
            why = ctx.cancelled() => Why::Asked(why),
            timeout = sleep(own) => Why::TimedOut(timeout),
        };
        let in_time = group.stop(self.grace).await?;
        Ok(End::Stopped(why, in_time))
    }

    fn verdict(&self, end: End, output: Bytes, errors: Bytes) -> Verdict {
        let status = match end {
            End::Itself(status) => status,
            End::Stopped(why, in_time) => {
                let how = if in_time { Stop::Token } else { Stop::Killed };
                let text = if in_time {
                    "the command ended on SIGTERM"
                } else {
                    "the command was killed"
                };
                return match why {
                    Why::Asked(Interrupt::CancelRequested) => {
                        Verdict::new(Outcome::Cancelled).stopped(how)
                    }
                    Why::Asked(Interrupt::ShuttingDown) => Verdict::new(Outcome::Released),
                    Why::Asked(_) => Verdict::retry(with_output(text.into(), &output, &errors)),
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

    fn environment(&self, job: &JobRecord, ctx: &Context) -> Vec<(String, OsString)> {
        let mut environment: Vec<(String, OsString)> = Vec::new();
        let mut set = |name: &str, value: String| {
            environment.push((format!("PUNCTUAL_{name}"), value.into()));
        };
        set("ID", job.id.to_string());
        set("QUEUE", job.queue.clone());
        set("KIND", job.kind.clone());
        set("NAMESPACE", self.namespace.clone());
        set("ATTEMPT", job.attempt.to_string());
        set("FAILURES", job.failures.to_string());
        set("CRASHES", job.crashes.to_string());
        set("MAX_ATTEMPTS", job.max_attempts.to_string());
        set("PRIORITY", job.priority.to_string());
        set("DUE", job.due.to_string());
        set("ENQUEUED_AT", job.enqueued_at.to_string());
        set("CONTENT_TYPE", job.content_type.clone());
        set("FENCE", ctx.token().fence.to_string());
        if let Some(deadline) = ctx.deadline() {
            set("DEADLINE", deadline.to_string());
        }
        if let Some(unique) = &job.unique {
            set("UNIQUE", unique.key.clone());
        }
        if let Some(group) = &job.group {
            set("GROUP", group.key.clone());
        }
        for (name, value) in &job.headers {
            let name = name.to_uppercase().replace(['-', '.'], "_");
            set(&format!("HEADER_{name}"), value.clone());
        }
        environment
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

/// Tells the command to begin, writes the payload and closes the pipe. A command that does not read it is none the worse.
async fn feed(stdin: Option<ChildStdin>, payload: Bytes) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(b"\n").await;
        let _ = stdin.write_all(&payload).await;
        let _ = stdin.shutdown().await;
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

#[cfg(test)]
mod tests;
