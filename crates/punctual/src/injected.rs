//! Bugs that a test injects at run time, to prove that the conformance suite finds them.
//!
//! Compiled only with the feature `injected-bugs`; without it [`is_injected`] is `false` and the
//! compiler removes every use. The switch is one per process: a test that injects runs alone.

/// A bug that an engine could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// An enqueue is answered before it is written (embedded engine).
    AckBeforeWrite = 1,
    /// Rescue returns a lease's jobs without looking whether they are still in it.
    RescueWithoutStateCheck,
    /// Settle does not compare the token.
    SettleWithoutToken,
    /// A retry gives the job another id.
    NewIdOnRetry,
    /// A job is due a millisecond before its time.
    EarlyByOneMillisecond,
    /// A settled job leaves its unique key behind.
    UniqueKeyLeftBehind,
    /// Effects take place even if the settlement is refused.
    EffectsOutsideStep,
    /// A release counts as a failure.
    FailuresCountedOnRelease,
    /// A second job of a group is claimed while one is active.
    GroupOvertaken,
    /// A cancelled job is left in its lane and claimed.
    StaleIndexEntryClaimed,
    /// An extend does not check which worker holds the lease.
    ExtendWithoutToken,
    /// A crash counts as a failure.
    CrashCountedAsFailure,
    /// Scheduled jobs of a paused queue never become ready after it is resumed.
    WakeupForgotten,
    /// A settled job leaves no tombstone.
    TombstoneForgotten,
    /// An enqueue is answered without a sync (embedded engine).
    SyncSkipped,
    /// What stands in the log is taken as it is (embedded engine).
    ChecksumIgnored,
    /// A schedule enqueues an instant twice.
    TickedTwice,
    /// A schedule does not go on when its next run is cancelled.
    TickLostOnCancel,
    /// Every run that an outage made late starts.
    MissedAllFired,
    /// A run starts although another one of its schedule is on its way.
    OverlapUnchecked,
    /// A lost lease does not give the slots of its queue's limit back.
    SlotLeftBehind,
    /// A rate counts what is enqueued, not what is claimed.
    TokenAtEnqueue,
    /// A window begins at a full span of the clock, so that two may meet at its end.
    WindowAligned,
    /// A worker is given more jobs of a limited queue than it has free slots.
    ClaimedAheadOfLimit,
    /// A job's dependants learn of its completion only.
    WatchOnlyOnCompleted,
    /// A flow counts what workers settle, and nothing else.
    CountByClient,
    /// Steps start before their flow is sealed.
    HalfPlanRuns,
    /// A share that has had its turn stands where it stood.
    PassNotRaised,
    /// An extend keeps memos without checking which worker holds the lease.
    MemoWithoutToken,
    /// A guard is not compared with the record that it names.
    GuardNotCompared,
    /// The copy of a message for a subscription has another id each time.
    CopyIdDrawn,
    /// A job that ends leaves its slot of a named limit taken.
    NamedSlotKept,
    /// A job starts when one of its named limits is open.
    OneGateIsEnough,
    /// A clear that comes before its job is dropped.
    EarlyClearForgotten,
    /// A full limit asks the job to stop that started last.
    NewestAsked,
    /// A job that is cancelled while it waits still counts as one of its share that waits.
    WaitingLeftBehind,
    /// A step that is gone when its flow is retried stays passed over, which is no failure.
    GoneStepPassedOver,
    /// A run whose local time a clock skips does not run that day.
    GapSkipped,
    /// A run whose local time a clock shows twice runs twice.
    FoldTwice,
    /// A share that time has opened stays closed.
    ParkedForgotten,
}

impl Bug {
    /// Bugs that no law finds by asking an engine: only a power cut or a damaged disk brings them
    /// out.
    pub const BELOW_THE_LAW: [Self; 2] = [Self::SyncSkipped, Self::ChecksumIgnored];

    /// Every other bug.
    pub const ALL: [Self; 38] = [
        Self::AckBeforeWrite,
        Self::RescueWithoutStateCheck,
        Self::SettleWithoutToken,
        Self::NewIdOnRetry,
        Self::EarlyByOneMillisecond,
        Self::UniqueKeyLeftBehind,
        Self::EffectsOutsideStep,
        Self::FailuresCountedOnRelease,
        Self::GroupOvertaken,
        Self::StaleIndexEntryClaimed,
        Self::ExtendWithoutToken,
        Self::CrashCountedAsFailure,
        Self::WakeupForgotten,
        Self::TombstoneForgotten,
        Self::TickedTwice,
        Self::TickLostOnCancel,
        Self::MissedAllFired,
        Self::OverlapUnchecked,
        Self::SlotLeftBehind,
        Self::TokenAtEnqueue,
        Self::WindowAligned,
        Self::ClaimedAheadOfLimit,
        Self::WatchOnlyOnCompleted,
        Self::CountByClient,
        Self::HalfPlanRuns,
        Self::PassNotRaised,
        Self::MemoWithoutToken,
        Self::GuardNotCompared,
        Self::CopyIdDrawn,
        Self::NamedSlotKept,
        Self::OneGateIsEnough,
        Self::EarlyClearForgotten,
        Self::NewestAsked,
        Self::WaitingLeftBehind,
        Self::GoneStepPassedOver,
        Self::GapSkipped,
        Self::FoldTwice,
        Self::ParkedForgotten,
    ];
}

#[cfg(feature = "injected-bugs")]
mod switch {
    use std::sync::atomic::{AtomicU8, Ordering};

    static INJECTED: AtomicU8 = AtomicU8::new(0);

    /// Injects a bug in every engine of this process, or with `None` takes it out.
    pub fn inject(bug: Option<super::Bug>) {
        INJECTED.store(bug.map_or(0, |bug| bug as u8), Ordering::SeqCst);
    }

    /// Whether any bug is injected now.
    pub fn any_injected() -> bool {
        INJECTED.load(Ordering::Relaxed) != 0
    }

    /// Whether that bug is injected now.
    pub fn is_injected(bug: super::Bug) -> bool {
        INJECTED.load(Ordering::Relaxed) == bug as u8
    }
}

#[cfg(feature = "injected-bugs")]
pub use switch::{any_injected, inject, is_injected};

/// Whether that bug is injected now: never, in this build.
#[cfg(not(feature = "injected-bugs"))]
#[inline(always)]
pub fn is_injected(_: Bug) -> bool {
    false
}

/// Whether any bug is injected now: never, in this build.
#[cfg(not(feature = "injected-bugs"))]
#[inline(always)]
pub fn any_injected() -> bool {
    false
}
