//! A command with everything that it starts: one process group, which ends as one.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::time::within;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// The hidden command that `Reaper` starts.
pub(crate) const REAP: &str = "reap-groups";

/// A running command. Dropped before it ended, it is killed with everything it started.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
    id: Pid,
    ended: bool,
    reaper: Reaper,
}

impl Group {
    pub(super) fn spawn(mut command: Command, reaper: &Reaper) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let id = child
            .id()
            .and_then(|id| Pid::from_raw(id as i32))
            .ok_or_else(|| io::Error::other("the command has no process id"))?;
        reaper.tell('+', id);
        Ok(Self {
            child,
            id,
            ended: false,
            reaper: reaper.clone(),
        })
    }

    pub(super) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(super) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(super) fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits until the command ends; what it left running is killed then.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.end();
        Ok(status)
    }

    /// Asks the group to end and kills it after the grace; whether it ended in time.
    pub(super) async fn stop(&mut self, grace: Duration) -> io::Result<bool> {
        let _ = kill_process_group(self.id, Signal::TERM);
        let in_time = within(grace, self.child.wait())
            .await
            .transpose()?
            .is_some();
        self.end();
        if !in_time {
            self.child.wait().await?;
        }
        Ok(in_time)
    }

    /// Kills whatever is left of the group. An empty group is an error of no interest.
    fn end(&mut self) {
        let _ = kill_process_group(self.id, Signal::KILL);
        self.reaper.tell('-', self.id);
        self.ended = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.end();
        }
    }
}

/// A small process that outlives the worker by a moment: when the worker is gone, however it went,
/// it kills the commands that the worker has left behind.
#[derive(Debug, Clone)]
pub(super) struct Reaper(Arc<Mutex<process::ChildStdin>>);

impl Reaper {
    pub(super) fn start() -> io::Result<Self> {
        let mut child = process::Command::new(std::env::current_exe()?)
            .arg(REAP)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the worker.
            .process_group(0)
            .spawn()?;
        let stdin = child
            .stdin
            .take()
            .ok_or_else(|| io::Error::other("it has no standard input"))?;
        Ok(Self(Arc::new(Mutex::new(stdin))))
    }

    fn tell(&self, sign: char, id: Pid) {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a reaper the worker still ends its commands itself.
        let _ = writeln!(pipe, "{sign}{}", id.as_raw_nonzero());
    }
}

/// The reaper's side: notes the groups until the worker is gone, then kills those that are left.
pub(crate) fn reap() {
    let mut groups = BTreeSet::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Some(id) = line.get(1..).and_then(|id| id.parse().ok()) else {
            continue;
        };
        match line.as_bytes()[0] {
            b'+' => groups.insert(id),
            _ => groups.remove(&id),
        };
    }
    for id in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(id, Signal::KILL);
    }
}
