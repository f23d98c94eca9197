/// A bug that can be put into the model, to see that the invariants find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A settle under any token is taken while the job is active.
    SettleIgnoresToken,
    /// An extend under any token counts while the job is active.
    ExtendIgnoresToken,
    /// A claim takes jobs that another worker has.
    ClaimTakesActive,
    /// A lease that ran out returns its job, whatever has become of that meanwhile.
    RescueDoesNotCheck,
    /// A lease that ran out is no crash.
    RescueDoesNotCount,
    /// The second crash buries a job, although it ran beside another one.
    NeighboursAreBlamed,
    /// A job that is asked to stop may be retried.
    CancelIsForgotten,
    /// The effects of a settle that is refused or repeated are caused.
    EffectsOutsideStep,
    /// The end of the process takes what was settled in it.
    FailoverForgets,
    /// A settle that names the attempt is taken, although a loss lets attempts be counted anew.
    SettleComparesAttempt,
    /// A claim takes jobs that are not due.
    ClaimTakesWaiting,
    /// A loss takes the instant at which a job is due.
    LossForgetsDue,
    /// What a replica is to have is answered before it has it.
    AnswerBeforeReplica,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::SettleIgnoresToken,
        Self::ExtendIgnoresToken,
        Self::ClaimTakesActive,
        Self::RescueDoesNotCheck,
        Self::RescueDoesNotCount,
        Self::NeighboursAreBlamed,
        Self::CancelIsForgotten,
        Self::EffectsOutsideStep,
        Self::FailoverForgets,
        Self::SettleComparesAttempt,
        Self::ClaimTakesWaiting,
        Self::LossForgetsDue,
        Self::AnswerBeforeReplica,
    ];
}
