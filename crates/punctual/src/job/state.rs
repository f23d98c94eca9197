//! States of a job and the transitions between them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// Where a job stands. Scheduled against ready is decided by engine time alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum JobState {
    /// Waits for names to be cleared, or for the active holder of its unique key.
    Held = 0,
    /// Due in the future; a retry is scheduled with failures > 0.
    Scheduled = 1,
    /// Due; may be claimed.
    Ready = 2,
    /// Under a lease.
    Active = 3,
    /// Settled: done.
    Completed = 4,
    /// Settled: given up on purpose, expired or replaced.
    Cancelled = 5,
    /// Settled: kept for a person.
    Dead = 6,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Held,
        Self::Scheduled,
        Self::Ready,
        Self::Active,
        Self::Completed,
        Self::Cancelled,
        Self::Dead,
    ];

    /// The name on the wire, in the shell and on the screen.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Active => "active",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
        }
    }

    /// Completed, cancelled or dead.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Dead)
    }

    /// Held, scheduled or ready: what `max_pending` counts.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Held | Self::Scheduled | Self::Ready)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JobState {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|state| state.name() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                Error::new(
                    ErrorKind::InvalidInput,
                    format!("no such state; write one of {names}"),
                )
                .with("state", format!("{text:?}"))
            })
    }
}

/// What moves a job from one state to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// The instant it is due has come.
    DueReached,
    /// The last name it waited for was cleared, the last job it waited for ended as asked, its flow
    /// was sealed or has settled, or the holder of its key has settled.
    Cleared,
    /// A person or program made it due now.
    RunNow,
    /// A person or program gave it another due.
    Reschedule,
    /// A worker took it under a lease.
    Claim,
    /// The worker settled it as completed.
    Complete,
    /// The worker settled it as failed, and attempts are left.
    Retry,
    /// The worker settled it as failed, and no attempt is left; or as dead.
    Fail,
    /// The worker snoozed it: delayed, without a failure.
    Snooze,
    /// The worker settled it as one that waits for signals.
    Hold,
    /// The worker handed it back unrun.
    Release,
    /// Its lease ran out.
    Rescue,
    /// Its lease ran out while it ran alone, after it was suspect.
    Poison,
    /// It was cancelled, or an active one whose cancel was requested ended its attempt.
    Cancel,
    /// `expires_at` has passed.
    Expire,
    /// Another job took its unique key.
    Replace,
    /// The queue was full and set to dead-letter its oldest.
    Overflow,
    /// A person or program sent it back to its queue, or a job that it waits for.
    Redrive,
}

/// One allowed step of a job's life, with the counters that it raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transition {
    /// The state before.
    pub from: JobState,
    /// What happens.
    pub event: Event,
    /// The state after.
    pub to: JobState,
    /// The counters that grow by one, of `attempt`, `failures`, `crashes`.
    pub raises: &'static [&'static str],
}

const fn step(from: JobState, event: Event, to: JobState) -> Transition {
    Transition {
        from,
        event,
        to,
        raises: &[],
    }
}

const fn counted(
    from: JobState,
    event: Event,
    to: JobState,
    raises: &'static [&'static str],
) -> Transition {
    Transition {
        from,
        event,
        to,
        raises,
    }
}

/// Every allowed step; a step that is not here cannot happen, and engines assert it.
pub const TRANSITIONS: &[Transition] = {
    use Event::*;
    use JobState::*;
    &[
        step(Held, Cleared, Ready),
        step(Held, Cleared, Scheduled),
        step(Held, RunNow, Ready),
        step(Held, Reschedule, Held),
        step(Held, Cancel, Cancelled),
        step(Held, Expire, Cancelled),
        step(Held, Replace, Cancelled),
        step(Scheduled, DueReached, Ready),
        step(Scheduled, RunNow, Ready),
        step(Scheduled, Reschedule, Scheduled),
        step(Scheduled, Reschedule, Ready),
        step(Scheduled, Cancel, Cancelled),
        step(Scheduled, Expire, Cancelled),
        step(Scheduled, Replace, Cancelled),
        step(Scheduled, Overflow, Dead),
        step(Ready, Reschedule, Scheduled),
        step(Ready, Reschedule, Ready),
        counted(Ready, Claim, Active, &["attempt"]),
        step(Ready, Cancel, Cancelled),
        step(Ready, Expire, Cancelled),
        step(Ready, Replace, Cancelled),
        step(Ready, Overflow, Dead),
        step(Active, Complete, Completed),
        counted(Active, Retry, Scheduled, &["failures"]),
        counted(Active, Retry, Ready, &["failures"]),
        counted(Active, Retry, Cancelled, &["failures"]),
        counted(Active, Fail, Dead, &["failures"]),
        step(Active, Snooze, Scheduled),
        step(Active, Snooze, Ready),
        step(Active, Hold, Held),
        step(Active, Hold, Ready),
        step(Active, Release, Ready),
        counted(Active, Rescue, Ready, &["crashes"]),
        counted(Active, Poison, Dead, &["crashes"]),
        step(Active, Cancel, Cancelled),
        counted(Active, Rescue, Cancelled, &["crashes"]),
        step(Active, Expire, Cancelled),
        step(Scheduled, Redrive, Held),
        step(Ready, Redrive, Held),
        step(Completed, Redrive, Ready),
        step(Completed, Redrive, Held),
        step(Cancelled, Redrive, Ready),
        step(Cancelled, Redrive, Held),
        step(Dead, Redrive, Ready),
        step(Dead, Redrive, Held),
    ]
};
