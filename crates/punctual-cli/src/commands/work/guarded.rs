//! A running command, as the worker sees it: a guard of its own ends all of its processes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use punctual::time::{seconds, within};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::environment::Environment;
use super::guard::{END, GUARD, KILL};

/// How long the worker waits for the report of a guard that was asked to kill.
const KILLED_WITHIN: Duration = seconds(5);

/// A running command. Dropped before it ended, it is killed with everything it started.
#[derive(Debug)]
pub(super) struct Guarded {
    guard: Child,
    /// The guard kills everything when this closes.
    socket: UnixStream,
    /// The process group of the command.
    group: Pid,
}

fn killed() -> io::Error {
    io::Error::other("the guard of the command was killed")
}

impl Guarded {
    /// Starts the command by `sh -c` and sends it the payload.
    pub(super) async fn start(
        command: &str,
        environment: Environment,
        payload: &Bytes,
    ) -> io::Result<Self> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut socket = UnixStream::from_std(ours)?;
        let guard = guard_of(command, environment, theirs)?;
        socket.write_u64(payload.len() as u64).await?;
        socket.write_all(payload).await?;
        // Nothing is reported by a guard that was killed.
        let group = match socket.read_i32().await.map_err(|_| killed())? {
            number @ 1.. => number,
            refused => return Err(io::Error::from_raw_os_error(-refused)),
        };
        let group = Pid::from_raw(group).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self {
            guard,
            socket,
            group,
        })
    }

    pub(super) fn stdout(&mut self) -> Option<ChildStdout> {
        self.guard.stdout.take()
    }

    pub(super) fn stderr(&mut self) -> Option<ChildStderr> {
        self.guard.stderr.take()
    }

    /// Waits until the command ends; what it left running is killed then.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self.socket.read_i32().await {
            Ok(status) => Ok(ExitStatus::from_raw(status)),
            Err(_) => {
                // Something killed the guard. The group of the command can still be ended.
                let _ = kill_process_group(self.group, Signal::KILL);
                Err(killed())
            }
        }
    }

    /// Asks every process of the command to end, and kills those that are left after the grace;
    /// whether all had ended by then.
    pub(super) async fn stop(&mut self, grace: Duration) -> io::Result<bool> {
        // A guard that has already reported is gone: its report is read below.
        let _ = self.socket.write_u8(END).await;
        if let Some(ended) = within(grace, self.wait()).await {
            return ended.map(|_| true);
        }
        let _ = self.socket.write_u8(KILL).await;
        within(KILLED_WITHIN, self.wait()).await.transpose()?;
        Ok(false)
    }
}

fn guard_of(command: &str, environment: Environment, socket: StdStream) -> io::Result<Child> {
    let mut starting = Command::new(program()?);
    starting.arg0("punctual").arg(GUARD).arg(command);
    for name in &environment.hidden {
        starting.env_remove(name);
    }
    starting
        .envs(environment.set)
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for the worker.
        .process_group(0)
        .spawn()
}

/// This very program, also where an upgrade has put another file in its place.
fn program() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") {
        return Ok("/proc/self/exe".into());
    }
    std::env::current_exe()
}
