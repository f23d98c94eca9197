//! The signals that end a command: its `punctual lock` gets them, and forwards them.

use std::fs::File;

use rustix::process::{Signal, getpgrp};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{self, SignalKind};

use crate::failure::Result;
use crate::signals::listen;

/// Receives them from the moment it is made.
pub(super) struct Endings {
    terminate: Option<unix::Signal>,
    interrupt: Option<unix::Signal>,
    hangup: Option<unix::Signal>,
    quit: Option<unix::Signal>,
}

impl Endings {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            terminate: listen_unless_ignored(SignalKind::terminate())?,
            interrupt: listen_unless_ignored(SignalKind::interrupt())?,
            hangup: listen_unless_ignored(SignalKind::hangup())?,
            quit: listen_unless_ignored(SignalKind::quit())?,
        })
    }

    /// The next of them.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            () = received(&mut self.terminate) => Signal::TERM,
            () = received(&mut self.interrupt) => Signal::INT,
            () = received(&mut self.hangup) => Signal::HUP,
            () = received(&mut self.quit) => Signal::QUIT,
        }
    }
}

async fn received(signal: &mut Option<unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// A signal that is ignored, as `nohup` has it for SIGHUP, stays so, and the command inherits that.
fn listen_unless_ignored(kind: SignalKind) -> Result<Option<unix::Signal>> {
    match is_ignored(kind) {
        true => Ok(None),
        false => listen(kind).map(Some),
    }
}

/// As Linux reports it; elsewhere none is known to be.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.is_some_and(|bits| bits >> (kind.as_raw_value() - 1) & 1 == 1)
}

/// Whether a signal came from the keys of a terminal, which sends it to every process of the group
/// that it shows: a second one makes some commands give up at once.
pub(super) fn is_of_terminal(signal: Signal) -> bool {
    let is_key = signal == Signal::INT || signal == Signal::QUIT;
    let shown = || tcgetpgrp(File::open("/dev/tty").ok()?).ok();
    is_key && shown() == Some(getpgrp())
}
