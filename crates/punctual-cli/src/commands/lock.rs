//! `punctual lock`: runs a command while it holds a lock.

mod signals;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use punctual::lock::LockGuard;
use punctual::time::{days, format_span, seconds, within};
use punctual::{ErrorKind, Queue};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::args::{Global, Session, span_of};
use crate::connect::Make;
use crate::failure::{Exit, Failure, Result};

use signals::Endings;

/// Run a command while holding a lock, on one host at a time
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual lock deploy -- ./deploy.sh
  punctual lock backup --no-wait -- ./backup.sh      from cron, on every host
  punctual lock stock:7 --wait 30s -- ./count.sh

The command finds PUNCTUAL_LOCK and PUNCTUAL_FENCE in its environment: the fence is a number that
grows with every holder, by which a store can refuse one that was stopped for too long.
It gets the SIGTERM, SIGINT, SIGHUP and SIGQUIT that are sent to `punctual lock`.
If the lock is lost, the command gets SIGTERM, and SIGKILL 10 s later; what it started itself
goes on, and so does a command whose `punctual lock` is killed: rely on the fence.
It ends with the command's exit code (128 and the signal after a signal). Before and beside that:
1 if the lock was lost, 3 if the command cannot be run, 4 if the lock is held.")]
pub(crate) struct Args {
    /// The lock's name: 1 to 123 of a-z A-Z 0-9 . _ - : /
    #[arg(value_name = "NAME")]
    name: String,

    /// Wait for the lock that long [default: as long as it takes]
    #[arg(long, value_name = "SPAN", value_parser = span_of, conflicts_with = "no_wait")]
    wait: Option<Duration>,

    /// Do not wait for the lock
    #[arg(long)]
    no_wait: bool,

    /// How long the lock outlives this process if that dies
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "10s")]
    lease: Duration,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

/// As long as it takes.
const WAIT_MAX: Duration = days(365);
/// From SIGTERM to SIGKILL.
const GRACE: Duration = seconds(10);

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let session = global.shared_session(Make::IfMissing).await?;
        if session.engine.info().await?.engine == "memory" {
            let note =
                "a lock in memory: is of this process alone; use an engine that others reach";
            session.out.note(note);
        }
        let ended = self.hold(&session).await;
        session.close().await?;
        let status = ended?;
        match status.code() {
            Some(0) => Ok(()),
            Some(code) => std::process::exit(code),
            None => std::process::exit(128 + status.signal().unwrap_or_default()),
        }
    }

    async fn hold(&self, session: &Session) -> Result<ExitStatus> {
        let mut signals = Endings::new()?;
        let guard = tokio::select! {
            guard = self.take(session) => guard?,
            _ = signals.next() => return Err(Failure::new(Exit::Failed, "interrupted", "given up before the lock was free")),
        };
        let ended = match self.start(&guard) {
            Ok(mut child) => watch(&mut child, &guard, &mut signals).await,
            Err(error) => Err(error),
        };
        // The command has ended, or nothing can be done about it: the next one may have the lock.
        match guard.release().await {
            Err(error) if error.kind() != ErrorKind::LeaseLost => {
                let lease = format_span(self.lease);
                tracing::warn!(%error, "lock is not released; it is free after {lease}");
            }
            _ => {}
        }
        ended
    }

    async fn take(&self, session: &Session) -> Result<LockGuard> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let lock = queue.lock(&self.name).lease(self.lease);
        if self.no_wait || self.wait.is_some() {
            let taken = match self.wait {
                Some(span) => lock.wait(span).await,
                None => lock.try_now().await,
            };
            return taken.map_err(refused);
        }
        match lock.clone().try_now().await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                session
                    .out
                    .note(format!("lock {} is held: waiting for it", self.name));
                lock.wait(WAIT_MAX).await.map_err(refused)
            }
            // The process that held the directory has just ended: another one takes it over.
            Err(error) if error.kind() == ErrorKind::EngineUnavailable => {
                lock.wait(WAIT_MAX).await.map_err(refused)
            }
            taken => taken.map_err(refused),
        }
    }

    fn start(&self, guard: &LockGuard) -> Result<Child> {
        let (program, rest) = self
            .command
            .split_first()
            .ok_or_else(|| Failure::usage("name a command after --"))?;
        let child = Command::new(program)
            .args(rest)
            .env("PUNCTUAL_LOCK", guard.name())
            .env("PUNCTUAL_FENCE", guard.fence().to_string())
            .kill_on_drop(true)
            .spawn();
        child.map_err(|error| {
            let message = format!("cannot run {}: {error}", program.to_string_lossy());
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => "make it executable: chmod +x",
                _ => "check the path of the command",
            };
            Failure::new(Exit::NotFound, "not_found", message).hint(hint)
        })
    }
}

fn refused(error: punctual::Error) -> Failure {
    match error.kind() {
        ErrorKind::Conflict => Failure::new(Exit::Refused, "conflict", error.to_string())
            .hint("wait for it with --wait 30s, or leave --no-wait out"),
        _ => error.into(),
    }
}

/// Waits for the command; forwards signals to it, and stops it when the lock is lost.
async fn watch(child: &mut Child, guard: &LockGuard, signals: &mut Endings) -> Result<ExitStatus> {
    loop {
        tokio::select! {
            biased;
            () = guard.lost() => {
                send(child, Signal::TERM);
                if within(GRACE, child.wait()).await.is_none() {
                    child.kill().await.map_err(gone)?;
                }
                return Err(lost(guard));
            }
            status = child.wait() => {
                // The end of a command that went on under a lost lock is no success.
                return match guard.is_valid() {
                    true => status.map_err(gone),
                    false => Err(lost(guard)),
                };
            }
            signal = signals.next() => {
                // The terminal has sent it to the command as well.
                if !signals::is_of_terminal(signal) {
                    send(child, signal);
                }
            }
        }
    }
}

fn lost(guard: &LockGuard) -> Failure {
    let message = format!(
        "lock {} was lost: another one may have held it beside its command",
        guard.name()
    );
    Failure::new(Exit::Failed, "lease_lost", message)
        .hint("a longer --lease outlives longer stops of this host or the engine")
}

fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

fn gone(error: std::io::Error) -> Failure {
    Failure::new(
        Exit::Failed,
        "io",
        format!("cannot wait for the command: {error}"),
    )
}
