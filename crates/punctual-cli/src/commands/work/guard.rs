//! The hidden command that runs one command for `work --exec`, and ends all of its processes.
//!
//! A guard is a process of its own. Linux gives it every orphan among the processes that the
//! command starts (`PR_SET_CHILD_SUBREAPER`), also those that call `setsid` or fork twice. The
//! worker speaks to it over a socket, which is its standard input. The system closes that socket
//! when the worker ends, however it ends, and the guard then kills the processes.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt as _;
use std::process::{self, ChildStdin, ExitCode, Stdio};

use punctual::time::{Stopwatch, pause, seconds};
use rustix::process::{Pid, Signal, WaitOptions, getpid, wait};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use super::tree;

/// The name of the hidden command; the command to run is its one argument.
pub(crate) const GUARD: &str = "guard-command";

/// What the worker asks for.
pub(super) const END: u8 = b'T';
pub(super) const KILL: u8 = b'K';

/// How long the guard waits for killed processes before it reports without them: one that belongs
/// to another user, or that the kernel holds, may stay.
const KILLED_WITHIN: std::time::Duration = seconds(2);

/// Runs the command that the arguments name, under the worker at the other end of the socket.
pub(crate) fn guard() -> ExitCode {
    let Some(command) = std::env::args_os().nth(2) else {
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.and_then(|runtime| runtime.block_on(run(&command))) {
        Ok(()) => ExitCode::SUCCESS,
        // The worker sees that the socket closed without a report.
        Err(_) => ExitCode::FAILURE,
    }
}

async fn run(command: &std::ffi::OsStr) -> io::Result<()> {
    // Handlers in place of the default action: these signals are for the worker and the command.
    let _kept = [
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
    ];
    let mut ended = signal(SignalKind::child())?;
    tree::adopt_orphans();
    let socket = StdStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    let (mut asked, mut report) = UnixStream::from_std(socket)?.into_split();

    let length = asked.read_u64().await?;
    let mut payload = Vec::new();
    (&mut asked).take(length).read_to_end(&mut payload).await?;
    if payload.len() as u64 != length {
        // The worker ended before it had sent the whole payload.
        return Ok(());
    }
    let mut tree = match Tree::start(command) {
        Ok(tree) => tree,
        Err(error) => {
            return report.write_i32(-error.raw_os_error().unwrap_or(1)).await;
        }
    };
    report.write_i32(tree.leader.as_raw_nonzero().get()).await?;
    let feeding = feed(tree.stdin.take(), payload);
    tokio::pin!(feeding);
    let mut is_fed = false;
    while !tree.is_over() {
        tokio::select! {
            _ = ended.recv() => {}
            () = &mut feeding, if !is_fed => is_fed = true,
            () = pause(KILLED_WITHIN), if tree.killing.is_some() => {}
            asked = asked.read_u8(), if tree.killing.is_none() => match asked {
                Ok(END) => tree.end(),
                _ => tree.kill(),
            },
        }
        tree.collect();
    }
    report.write_i32(tree.status.unwrap_or_default()).await
}

/// Writes the payload to the command, which may ignore it.
async fn feed(stdin: Option<ChildStdin>, payload: Vec<u8>) {
    if let Some(mut stdin) = stdin.and_then(|it| tokio::process::ChildStdin::from_std(it).ok()) {
        let _ = stdin.write_all(&payload).await;
        let _ = stdin.shutdown().await;
    }
}

/// The command and all processes under it.
struct Tree {
    leader: Pid,
    stdin: Option<ChildStdin>,
    /// How the command itself ended, as the system states it.
    status: Option<i32>,
    is_asked_to_end: bool,
    killing: Option<Stopwatch>,
    is_empty: bool,
}

impl Tree {
    fn start(command: &std::ffi::OsStr) -> io::Result<Self> {
        let mut child = process::Command::new("sh")
            .arg("-c")
            .arg(command)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let leader = Pid::from_raw(child.id() as i32)
            .ok_or_else(|| io::Error::other("the command has no process id"))?;
        Ok(Self {
            leader,
            stdin: child.stdin.take(),
            status: None,
            is_asked_to_end: false,
            killing: None,
            is_empty: false,
        })
    }

    /// Collects the children that have ended. A command that ended by itself leaves nothing behind.
    fn collect(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) if id == self.leader => self.status = Some(status.as_raw()),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    self.is_empty = true;
                    return;
                }
            }
        }
        // Each end of a process may have left new orphans: kill again.
        if self.killing.is_some() || self.status.is_some() && !self.is_asked_to_end {
            self.kill();
        }
    }

    fn end(&mut self) {
        self.is_asked_to_end = true;
        tree::signal(getpid(), self.leader, self.status.is_none(), Signal::TERM);
    }

    fn kill(&mut self) {
        self.killing.get_or_insert_with(Stopwatch::start);
        tree::signal(getpid(), self.leader, self.status.is_none(), Signal::KILL);
    }

    fn is_over(&self) -> bool {
        let waited = self.killing.as_ref().map(Stopwatch::elapsed);
        self.is_empty || waited.is_some_and(|waited| waited >= KILLED_WITHIN)
    }
}
