//! What the histories say of one job, and of one fault.

use punctual::JobId;
use punctual::engine::Token;

use crate::event::{Received, Sent, Verdict};

/// A fault, from its beginning until what it hit ran again.
#[derive(Debug, Clone)]
pub(crate) struct FaultSpan {
    pub(crate) id: String,
    pub(crate) what: String,
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) done: bool,
    /// The processes that it hits, where it hits some and not what all share.
    pub(crate) on: Vec<String>,
    /// Whether it was counted that it met something.
    pub(crate) met: bool,
}

/// One job.
#[derive(Debug, Default)]
pub(crate) struct JobTimeline {
    /// As first sent: stamp, wall clock, content.
    pub(crate) sent: Option<(u64, u64, Sent)>,
    pub(crate) receipts: Vec<Receipt>,
    /// Sends without an answer.
    pub(crate) unknown: u64,
    pub(crate) grants: Vec<Grant>,
    pub(crate) ends: Vec<Handed>,
    pub(crate) starts: Vec<Start>,
    /// Stamps and attempts of handlers that ended, by whatever cause.
    pub(crate) finishes: Vec<(u64, u32)>,
    pub(crate) aborts: u64,
    /// Asked to be cancelled: when, and when and what was answered.
    pub(crate) cancels: Vec<(u64, Option<(u64, String)>)>,
    /// The engine time of the first answer that it was active, and asked to stop.
    pub(super) stop_asked: Option<u64>,
    /// Effects that were tried once more, and kept out by the sink.
    pub(crate) tried_again: u64,
    /// Whether a latecomer completed it: a lease that was extended after a silence of the engine is
    /// valid, though no handler ran under it.
    pub(crate) completed_late: bool,
    /// Whether a fault that may lose what was acknowledged came after its first claim: what quiet
    /// periods on that is not judged.
    pub(crate) over_a_loss: bool,
}

#[derive(Debug)]
pub(crate) struct Receipt {
    pub(crate) at: u64,
    /// Engine time.
    pub(crate) now: u64,
    pub(crate) invoked: u64,
    pub(crate) received: Received,
}

/// A lease of the job, as the claim was answered.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) invoked: u64,
    pub(crate) at: u64,
    pub(crate) now: u64,
    pub(crate) attempt: u32,
    pub(crate) failures: u32,
    pub(crate) crashes: u32,
    pub(crate) due: u64,
    pub(crate) token: Token,
    /// The span that was asked for.
    pub(super) lease_duration: Option<u64>,
    /// The end of the lease that was answered.
    pub(crate) deadline: u64,
    pub(crate) alone: bool,
    /// The engine time of the step that claimed it.
    pub(super) started: Option<u64>,
    pub(super) content: Option<u64>,
    /// When the holder died, where the engine dies with it.
    pub(crate) died: Option<u64>,
}

/// An end of an attempt, as settled once.
#[derive(Debug, Clone)]
pub(crate) struct Handed {
    pub(crate) invoked: u64,
    pub(crate) attempt: u32,
    pub(crate) token: Token,
    pub(crate) outcome: String,
    /// The span that was asked for.
    pub(super) after: Option<u64>,
    pub(crate) answer: Answer,
    /// When the answer came.
    pub(crate) answered: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// Engine time and verdict.
    Known(u64, Verdict),
    Unknown,
    /// Refused as a whole: no effect.
    Refused,
}

#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) at: u64,
    pub(crate) wall: u64,
    pub(crate) due: u64,
    pub(crate) attempt: u32,
    pub(super) token: Token,
    pub(super) content: Option<u64>,
    pub(crate) process: usize,
}

/// An answer to an extend of one lease.
#[derive(Debug)]
pub(super) struct Extension {
    pub(super) invoked: u64,
    pub(super) answered: u64,
    /// Engine time.
    pub(super) now: u64,
    pub(super) token: Token,
    /// The span that was asked for.
    pub(super) lease_duration: Option<u64>,
    pub(super) deadline: Option<u64>,
    pub(super) asked: Vec<JobId>,
    pub(super) lost: Vec<JobId>,
}

impl JobTimeline {
    /// The receipt that says that this job itself is stored, if any does.
    pub(crate) fn stored(&self) -> Option<&Receipt> {
        let stores = |receipt: &&Receipt| {
            matches!(
                &*receipt.received.verdict,
                "created" | "replaced" | "duplicate"
            )
        };
        self.receipts.iter().find(stores)
    }
}
