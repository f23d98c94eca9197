//! What there is: two jobs in an engine, two workers outside of it, and what really happened.

/// A state of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The jobs, as the engine has them.
    pub jobs: [JobTruth; 2],
    /// For each worker, the attempt of each job that it believes to hold. It may be long over.
    pub workers: [[Option<Holding>; 2]; 2],
    /// What really happened to each job, as seen from outside of the engine.
    pub truth: [Truth; 2],
    /// What a replica has, where there is one.
    pub replica: Option<Replica>,
}

/// A job as a replica has it, and what had really happened then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Replica {
    /// The jobs.
    pub jobs: [JobTruth; 2],
    /// What had happened to them.
    pub truth: [Truth; 2],
}

/// The right to run one attempt. Attempts are counted anew after a loss; a nonce is never made
/// twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Holding {
    /// Which attempt.
    pub attempt: u8,
    /// What the claimer sent.
    pub nonce: u8,
}

/// A job in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobTruth {
    /// Where it stands.
    pub ending: Ending,
    /// How often it was claimed.
    pub attempt: u8,
    /// Outcomes that count.
    pub failures: u8,
    /// Leases that ran out.
    pub crashes: u8,
    /// Whether its worker was asked to stop it.
    pub cancel_requested: bool,
    /// Under which lease it was settled last.
    pub settled: Option<Holding>,
    /// How often its effect was caused.
    pub effects: u8,
    /// Ticks that are left of its lease.
    pub left: u8,
    /// Ticks until it is due.
    pub wait: u8,
    /// Who has it.
    pub holder: u8,
    /// The nonce of that lease.
    pub nonce: u8,
    /// Whether it was claimed alone.
    pub alone: bool,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It may be claimed.
    Ready,
    /// A worker has it.
    Active,
    /// It is done.
    Completed,
    /// It was cancelled.
    Cancelled,
    /// It failed too often.
    Exhausted,
    /// It ended its process while it ran alone.
    Poison,
}

/// What really happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Truth {
    /// The lease that is not over, and its ticks.
    pub holding: Option<(Holding, u8)>,
    /// A lease was given out while another one was not over.
    pub two_leases: bool,
    /// A settle was taken although its lease was over.
    pub stale_settle: bool,
    /// It was claimed before it was due.
    pub early: bool,
    /// Ticks until it is due, whatever was lost.
    pub wait: u8,
    /// It is completed.
    pub completed: bool,
    /// A worker received that answer; checked where there is a replica.
    pub reported: bool,
    /// A caller got the answer that the job is, or is to be, cancelled.
    pub cancelled: bool,
    /// Leases that ran out.
    pub crashes: u8,
    /// One of them while the job ran alone.
    pub crashed_alone: bool,
    /// Whether the present lease is of a job alone.
    pub alone: bool,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// A worker that holds nothing claims one job or both, alone or not.
    Claim {
        /// The worker.
        worker: u8,
        /// Which jobs it asks for, one bit each.
        jobs: u8,
        /// Whether it runs nothing else.
        alone: bool,
    },
    /// A worker extends the lease of all it believes to hold.
    Extend(u8),
    /// A worker settles a job that it believes to hold.
    Settle {
        /// The worker.
        worker: u8,
        /// Which job.
        job: u8,
        /// Completed, with an effect; else retry.
        completed: bool,
        /// Whether the answer reaches the worker; if not, it may settle again.
        received: bool,
    },
    /// A caller cancels a job.
    Cancel(u8),
    /// Half a lease passes, in which the engine is awake.
    Tick,
    /// A worker dies and comes back knowing nothing.
    Die(u8),
    /// The engine's process is killed, with worker 1 in it, and comes back.
    Failover,
    /// A replica comes to have all that there is.
    Replicate,
    /// The engine is lost, and a replica goes on with what that has. Workers live on.
    Lose,
}

/// What the engine says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To a claim: the jobs.
    Claimed(Vec<ClaimedJob>),
    /// To an extend: which of the jobs are lost, and which are to stop.
    Extended {
        /// Jobs asked about that are not of this lease any more.
        lost: Vec<u8>,
        /// Jobs whose cancel was requested.
        stop: Vec<u8>,
    },
    /// To a settle: what the job is now.
    Settled(Ending),
    /// To a settle that was taken before.
    Repeated,
    /// To a worker without a lease.
    LeaseLost,
    /// To a cancel: it is cancelled.
    Cancelled,
    /// To a cancel: its worker is asked to stop.
    CancelRequested,
    /// To a cancel: it was cancelled before.
    AlreadyCancelled,
    /// To a cancel: it has ended otherwise.
    WrongState,
    /// There was no call.
    Silence,
}

/// A job in the answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimedJob {
    /// Which job.
    pub job: u8,
    /// Which attempt this is.
    pub attempt: u8,
}

impl JobTruth {
    /// The lease that is out, or was.
    pub(crate) fn holding(&self) -> Holding {
        Holding {
            attempt: self.attempt,
            nonce: self.nonce,
        }
    }
}

impl World {
    /// Two jobs, of which the first is due after a tick; two workers that have nothing; no replica.
    pub fn new() -> Self {
        let truth_of_job = JobTruth {
            ending: Ending::Ready,
            attempt: 0,
            failures: 0,
            crashes: 0,
            cancel_requested: false,
            settled: None,
            effects: 0,
            left: 0,
            wait: 0,
            holder: 0,
            nonce: 0,
            alone: false,
        };
        let truth = Truth::default();
        Self {
            jobs: [
                JobTruth {
                    wait: 1,
                    ..truth_of_job
                },
                truth_of_job,
            ],
            workers: [[None; 2]; 2],
            truth: [Truth { wait: 1, ..truth }, truth],
            replica: None,
        }
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}
