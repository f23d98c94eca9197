//! Laws of runs: what a run of a schedule is, and what happens while another one is on its way.

use super::case::*;
use super::import::import_of;
use super::named::at_rate;
use super::schedules::{cron, every, minute};
use crate::engine::{
    Action, Controlled, EnqueueVerdict, QueueSettings, Rate, Receipt, ScheduleAct, StatsRequest,
};
use crate::error::ErrorKind;
use crate::job::{CancelReason, Due, JobId, JobState, Outcome};
use crate::schedule::{Overlap, Schedule, Success};
use crate::time::{Timestamp, hours, minutes, seconds};

/// A schedule of every minute with that policy.
fn overlapping(overlap: Overlap) -> Schedule {
    Schedule {
        overlap,
        ..every(minutes(1))
    }
}

impl Case {
    /// The run of `beat` of the minute `n`.
    async fn run_of(&self, n: u64) -> crate::job::JobRecord {
        self.get(JobId::occurrence("beat", minute(n))).await
    }

    /// Moves the clock to a minute, and lets the engine do all that is due.
    async fn at(&self, n: u64) {
        self.set_time(minute(n)).await;
        self.do_all().await;
    }

    async fn fired_and_skipped(&self) -> (u64, u64) {
        let status = self.beat().await;
        (status.fired, status.skipped)
    }

    async fn runs(&self, act: ScheduleAct) -> Vec<Receipt> {
        match self.act("beat", act).await {
            Ok(Controlled::Runs(runs)) => runs,
            other => panic!("runs are enqueued, got {other:?}"),
        }
    }

    async fn remove_beat(&self) {
        let version = self.beat().await.version;
        self.try_schedule("beat", version, None).await.unwrap();
    }

    async fn overdue(&self) -> Vec<(String, Timestamp)> {
        let overdue = self.stats_of(StatsRequest::default()).await.overdue;
        let pair = |one: crate::schedule::Overdue| (one.schedule, one.since);
        overdue.into_iter().map(pair).collect()
    }

    /// Claims what is ready, and answers the runs of `beat`.
    async fn runs_of_beat(&self) -> Vec<Attempt> {
        let claimed = attempts(
            &self
                .claim_as(self.wants(100).lease_duration(hours(10)))
                .await,
        );
        let is_beat = |attempt: &Attempt| {
            let run = attempt.job.schedule.as_deref();
            run.is_some_and(|run| run.name == "beat")
        };
        claimed.into_iter().filter(is_beat).collect()
    }

    /// Extends nothing: claims with a lease that lasts.
    async fn claim_for_long(&self) -> Attempt {
        let claim = self.wants(1).lease_duration(hours(10));
        attempts(&self.claim_as(claim).await).remove(0)
    }
}

/// A run takes its turn among the shares of its queue.
pub(super) async fn a_run_is_of_the_share_of_its_schedule(case: Case) {
    let mut schedule = every(minutes(1));
    schedule.template.share = Some("acme".into());
    case.write("beat", schedule.clone()).await;
    assert_eq!(case.beat().await.schedule.template, schedule.template);
    case.at(0).await;
    let run = case.run_of(0).await;
    assert_eq!(run.share.as_deref(), Some("acme"));
    let mates = (0..3).map(|_| job().share("acme"));
    case.enqueue_all(mates.collect()).await;
    let other = case.enqueue(job().share("other")).await;
    let claimed = case.claim_ids(2).await;
    assert!(claimed.contains(&other), "a share of four waits for a turn");
}

/// Runs wait at the named limits of their schedule, and cost what it says.
pub(super) async fn runs_hold_the_limits_of_their_schedule(case: Case) {
    let six_an_hour = at_rate(Rate::window(6, hours(1)));
    case.set_limit("api", Some(six_an_hour)).await;
    let mut schedule = every(minutes(1));
    schedule.template.limits = vec!["api".into()];
    schedule.template.cost = 4;
    case.write("beat", schedule.clone()).await;
    assert_eq!(case.beat().await.schedule.template, schedule.template);
    case.ended_job(job().limit("api"), Outcome::Completed).await;
    case.at(0).await;
    let run = case.claim_one().await;
    assert_eq!((&*run.job.limits, run.job.cost), (&["api".into()][..], 4));
    case.complete(&run).await;
    case.at(1).await;
    assert_eq!(case.run_of(1).await.state, JobState::Ready);
    assert_eq!(
        case.claim_ids(10).await,
        [],
        "five units of six have started"
    );
}

/// A run is a job with its schedule's name and its instant, however late it runs.
pub(super) async fn a_run_names_its_schedule_and_instant(case: Case) {
    case.write("beat", every(minutes(1))).await;
    case.set_time(minute(0) + seconds(20)).await;
    let attempt = case.claim_one().await;
    let run = attempt.job.schedule.clone().expect("a run");
    assert_eq!((run.name.as_str(), run.at), ("beat", minute(0)));
    assert_eq!(attempt.job.due, minute(0));
    case.retry(&attempt, seconds(5)).await;
    case.pass(seconds(5)).await;
    let again = case.claim_one().await;
    assert_eq!((again.id(), again.job.schedule), (attempt.id(), Some(run)));
}

/// A run is skipped while the one before is active.
pub(super) async fn a_running_one_skips_the_next(case: Case) {
    case.write("beat", overlapping(Overlap::Skip)).await;
    case.at(0).await;
    let running = case.claim_for_long().await;
    case.at(1).await;
    let skipped = case.run_of(1).await;
    assert_eq!(skipped.cancelled, Some(CancelReason::Skipped));
    assert_eq!(case.fired_and_skipped().await, (1, 1));
    case.complete(&running).await;
    case.at(2).await;
    assert_eq!(case.fired().await, [minute(2)]);
}

/// With `buffer_one` one run waits until the one before has settled; more are skipped.
pub(super) async fn one_is_buffered(case: Case) {
    case.write("beat", overlapping(Overlap::BufferOne)).await;
    case.at(0).await;
    let running = case.claim_for_long().await;
    case.at(1).await;
    case.at(2).await;
    assert_eq!(case.run_of(1).await.state, JobState::Held);
    assert_eq!(case.run_of(2).await.cancelled, Some(CancelReason::Skipped));
    assert_eq!(case.fired_and_skipped().await, (2, 1));
    case.complete(&running).await;
    assert_eq!(case.fired().await, [minute(1)]);
    case.at(3).await;
    assert_eq!(case.fired().await, [minute(3)]);
}

/// With `buffer_all` every run waits for those before it.
pub(super) async fn all_are_buffered(case: Case) {
    case.write("beat", overlapping(Overlap::BufferAll)).await;
    case.at(0).await;
    let running = case.claim_for_long().await;
    case.at(2).await;
    assert_eq!(case.fired().await, []);
    case.complete(&running).await;
    assert_eq!(case.fired().await, [minute(1)]);
    assert_eq!(case.fired().await, [minute(2)]);
    assert_eq!(case.fired_and_skipped().await, (3, 0));
}

/// With `cancel_other` an active run is asked to stop, one that waits is cancelled.
pub(super) async fn the_other_is_cancelled(case: Case) {
    case.write("beat", overlapping(Overlap::CancelOther)).await;
    case.at(0).await;
    case.at(1).await;
    assert_eq!(case.run_of(0).await.cancelled, Some(CancelReason::Replaced));
    let running = case.claim_for_long().await;
    case.at(2).await;
    assert!(case.run_of(1).await.cancel_requested);
    assert_eq!(case.run_of(2).await.state, JobState::Held);
    case.at(3).await;
    assert_eq!(case.run_of(2).await.cancelled, Some(CancelReason::Replaced));
    case.end(&running, Outcome::Cancelled).await;
    assert_eq!(case.fired().await, [minute(3)]);
}

/// A run that waits for its retry is still running.
pub(super) async fn a_retry_counts_as_running(case: Case) {
    for (overlap, state) in [
        (Overlap::Skip, JobState::Cancelled),
        (Overlap::BufferOne, JobState::Held),
    ] {
        let case = case.another().await;
        case.write("beat", overlapping(overlap)).await;
        case.at(0).await;
        let failed = case.claim_one().await;
        case.retry(&failed, minutes(2) + seconds(30)).await;
        case.at(1).await;
        assert_eq!(case.run_of(1).await.state, state);
        case.at(2).await;
        assert_eq!(case.fired().await, []);
        case.pass(seconds(30)).await;
        assert_eq!(case.fired().await, [minute(0)]);
    }
}

/// Of runs that failed together each is cancelled by itself, and the other one runs again.
pub(super) async fn runs_that_failed_together_are_cancelled_alone(case: Case) {
    case.write("beat", overlapping(Overlap::Skip)).await;
    case.write("tick", overlapping(Overlap::Skip)).await;
    case.at(0).await;
    let runs = case.claim(2).await;
    let after = Some(seconds(30));
    let failed = runs.iter().map(|run| run.ended(Outcome::Retry { after }));
    let settled = case.try_settle(runs[0].token, failed.collect()).await;
    settled.expect("settle");
    let waits = case.enqueue(job()).await;
    case.cancel(runs[0].id()).await;
    assert_eq!(case.get(runs[0].id()).await.state, JobState::Cancelled);
    assert_eq!(case.counts().await.of(JobState::Scheduled), 3);
    assert_eq!(case.claim_ids(10).await, [waits]);
}

/// A paused schedule fires nothing, and counts what it skips.
pub(super) async fn a_paused_schedule_counts_on(case: Case) {
    case.write("beat", every(minutes(1))).await;
    case.change(|schedule| {
        schedule.paused = true;
        schedule.note = "holiday".into();
    })
    .await;
    for n in 0..3 {
        case.at(n).await;
        assert_eq!(case.run_of(n).await.cancelled, Some(CancelReason::Skipped));
    }
    assert_eq!(case.fired().await, []);
    assert_eq!(case.fired_and_skipped().await, (0, 3));
    assert_eq!(case.beat().await.schedule.note, "holiday");
    case.change(|schedule| schedule.paused = false).await;
    case.at(3).await;
    assert_eq!(case.fired().await, [minute(3)]);
}

/// A dead run pauses its schedule, if that is wished, and the note says why.
pub(super) async fn a_failed_run_pauses_its_schedule(case: Case) {
    let schedule = Schedule {
        pause_on_failure: true,
        ..every(minutes(1))
    };
    let version = case.write("beat", schedule).await;
    case.at(0).await;
    let attempt = case.claim_one().await;
    assert!(!case.beat().await.schedule.paused);
    case.end(&attempt, Outcome::Dead).await;
    let status = case.beat().await;
    assert!(status.schedule.paused && status.version > version);
    assert!(status.schedule.note.contains(&attempt.id().to_string()));
    case.at(1).await;
    assert_eq!(case.fired().await, []);
}

/// A schedule of so many runs ends with the last of them.
pub(super) async fn a_schedule_ends_with_its_last_run(case: Case) {
    let mut schedule = every(minutes(1));
    schedule.spec.max_runs = Some(2);
    case.write("beat", schedule).await;
    for n in 0..4 {
        case.at(n).await;
    }
    assert_eq!(case.fired().await, [minute(0), minute(1)]);
    let status = case.beat().await;
    assert!(status.ended && status.pending.is_none() && status.next.is_empty());
    assert_eq!(case.listed(JobState::Scheduled).await, []);
}

/// The next run can be brought forward, or put off: then the one after it does not wait for it.
pub(super) async fn a_run_may_be_put_off_or_brought_forward(case: Case) {
    case.write("beat", every(minutes(1))).await;
    let first = case.beat().await.pending.expect("a run to come");
    case.edit(first, Action::RunNow).await;
    assert_eq!(case.fired().await, [minute(0)]);
    let second = case.beat().await.pending.expect("a run to come");
    case.edit(second, Action::Reschedule(Due::At(minute(9))))
        .await;
    assert_eq!(case.beat().await.next[0], minute(2));
    case.at(2).await;
    assert_eq!(case.fired().await, [minute(2)]);
    case.edit(second, Action::Reschedule(Due::Now)).await;
    assert_eq!(case.fired().await, [minute(1)]);
    assert_eq!(case.fired_and_skipped().await, (3, 0));
}

/// A run on request is one more; it obeys the overlap policy.
pub(super) async fn a_run_on_request_is_one_more(case: Case) {
    case.write("beat", overlapping(Overlap::Skip)).await;
    let run = case.runs(ScheduleAct::Run).await[0];
    assert_eq!(run.verdict, EnqueueVerdict::Created);
    let again = case.runs(ScheduleAct::Run).await[0];
    assert_eq!(again.verdict, EnqueueVerdict::Merged(run.id));
    let attempt = case.claim_one().await;
    assert_eq!(attempt.id(), run.id);
    case.complete(&attempt).await;
    assert_eq!(case.fired_and_skipped().await, (0, 0));
    case.at(0).await;
    assert_eq!(case.fired().await, [minute(0)]);
    let unknown = case.act("other", ScheduleAct::Run).await;
    let unknown = unknown.expect_err("no such schedule");
    assert_eq!(unknown.kind(), ErrorKind::NotFound, "{unknown}");
}

/// A backfill enqueues past instants; one whose run is still known is not repeated.
pub(super) async fn a_backfill_repeats_nothing(case: Case) {
    case.write("beat", overlapping(Overlap::Skip)).await;
    case.at(5).await;
    let fired = case.fired().await;
    assert_eq!(fired, [minute(4)]);
    // The first one was enqueued and came too late, the next two were passed over.
    let instants = vec![minute(0), minute(2), minute(4)];
    let backfill = || ScheduleAct::Backfill {
        instants: instants.clone(),
    };
    let verdicts: Vec<_> = case.runs(backfill()).await;
    let verdicts: Vec<_> = verdicts.iter().map(|run| run.verdict).collect();
    use EnqueueVerdict::{Created, Duplicate};
    assert_eq!(verdicts, [Created, Created, Duplicate]);
    assert_eq!(case.fired().await, [minute(0), minute(2)]);
    let again = case.runs(backfill()).await;
    assert!(again.iter().all(|run| run.verdict == Duplicate));
    let to_come = ScheduleAct::Backfill {
        instants: vec![minute(60)],
    };
    let error = case.act("beat", to_come).await.expect_err("not past yet");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// A full queue refuses jobs, not the runs of schedules.
pub(super) async fn a_full_queue_takes_a_run(case: Case) {
    let settings = QueueSettings::new().max_pending(1);
    case.configure(settings, 0).await;
    case.enqueue(job_in(hours(1))).await;
    case.write("beat", every(minutes(1))).await;
    assert_eq!(case.verdict(job()).await, EnqueueVerdict::Full);
    case.at(0).await;
    assert_eq!(case.fired().await, [minute(0)]);
}

/// Runs of a paused queue wait for it; the schedule goes on.
pub(super) async fn a_paused_queue_keeps_its_runs(case: Case) {
    case.write("beat", every(minutes(1))).await;
    case.pause().await;
    case.at(0).await;
    case.at(1).await;
    assert_eq!(case.fired().await, []);
    case.resume().await;
    assert_eq!(case.fired().await, [minute(0), minute(1)]);
}

/// An import brings the next run as it was; the schedule that is written after it repeats nothing.
pub(super) async fn an_imported_run_is_not_repeated(case: Case) {
    case.write("beat", overlapping(Overlap::Skip)).await;
    let next = case.beat().await.pending.expect("a run to come");
    let exported = case.get(next).await;
    let other = case.another().await;
    let verdict = other.verdict(import_of(&exported)).await;
    assert_eq!(verdict, EnqueueVerdict::Created);
    assert_eq!(other.get(next).await, exported);
    other.write("beat", overlapping(Overlap::Skip)).await;
    assert_eq!(other.beat().await.next[0], minute(1));
    other.at(0).await;
    assert_eq!(other.fired().await, [minute(0)]);
    other.at(1).await;
    assert_eq!(other.fired().await, [minute(1)]);
}

/// The next run finds the last one that completed, with its result, however many failed since.
pub(super) async fn the_last_success_is_kept_with_its_result(case: Case) {
    case.write("beat", every(minutes(1))).await;
    assert_eq!(case.beat().await.last_success, None);
    case.at(0).await;
    let first = case.claim_one().await;
    case.pass(seconds(7)).await;
    let mut done = first.ended(Outcome::Completed);
    done.result = Some("rows 1 to 9".into());
    case.try_settle(first.token, vec![done]).await.unwrap();
    case.at(1).await;
    let second = case.claim_one().await;
    case.end(&second, Outcome::Dead).await;
    let success = Success {
        at: minute(0),
        finished_at: minute(0) + seconds(7),
        result: Some("rows 1 to 9".into()),
    };
    assert_eq!(case.beat().await.last_success, Some(success.clone()));
    // A change keeps it; a schedule that is removed leaves nothing to another of its name.
    case.change(|schedule| schedule.note = "why".into()).await;
    assert_eq!(case.beat().await.last_success, Some(success));
    case.remove_beat().await;
    case.write("beat", every(minutes(1))).await;
    assert_eq!(case.beat().await.last_success, None);
}

/// An import brings the last success with its result; a schedule that has one keeps it.
pub(super) async fn an_imported_success_is_kept(case: Case) {
    let restore = async |name: &str, last_success: Success| {
        case.act(name, ScheduleAct::Restore { last_success }).await
    };
    let result = Some("rows 1 to 9".into());
    let success = Success::new(minute(0), minute(0) + seconds(7), result);
    let missing = restore("beat", success.clone()).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let expected = Schedule {
        expect_within: Some(hours(2)),
        ..every(minutes(1))
    };
    case.write("beat", expected).await;
    let large = Some(vec![b'x'; 8 * 1024 + 1].into());
    let large = Success::new(minute(0), minute(0), large);
    let refused = restore("beat", large).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PayloadTooLarge);
    assert!(refused.to_string().contains("last_success"), "{refused}");
    assert_eq!(case.beat().await.last_success, None);
    let Controlled::Schedule(Some(status)) = restore("beat", success.clone()).await.unwrap() else {
        panic!("it answers how the schedule stands");
    };
    assert_eq!(status.last_success, Some(success.clone()));
    // A change keeps it, and so does another import.
    case.change(|schedule| schedule.note = "why".into()).await;
    let other = Success::new(minute(5), minute(6), None);
    restore("beat", other).await.unwrap();
    assert_eq!(case.beat().await.last_success, Some(success));
    case.at(0).await;
    let run = case.claim_one().await;
    case.complete(&run).await;
    let own = Success::new(minute(0), minute(0), None);
    assert_eq!(case.beat().await.last_success, Some(own));
}

/// A schedule without a run that completed for longer than it is expected is overdue, until one
/// does; others are not named.
pub(super) async fn a_schedule_without_success_is_overdue(case: Case) {
    case.write("other", every(minutes(1))).await;
    case.at(0).await;
    let expected = Schedule {
        expect_within: Some(minutes(3)),
        ..every(minutes(1))
    };
    case.write("beat", expected).await;
    let from = case.clock();
    case.set_time(from + minutes(3)).await;
    case.do_all().await;
    assert_eq!(case.overdue().await, []);
    case.set_time(from + minutes(3) + seconds(1)).await;
    assert_eq!(
        case.overdue().await,
        [("beat".to_owned(), from + minutes(3))]
    );
    assert_eq!(case.beat().await.overdue_since, Some(from + minutes(3)));
    // A run that fails is no success.
    let runs = case.runs_of_beat().await;
    case.end(&runs[0], Outcome::Dead).await;
    assert_eq!(case.overdue().await.len(), 1);
    case.complete(&runs[1]).await;
    assert_eq!(case.overdue().await, []);
    let from = case.clock();
    case.set_time(from + minutes(3) + seconds(1)).await;
    assert_eq!(
        case.overdue().await,
        [("beat".to_owned(), from + minutes(3))]
    );
    case.remove_beat().await;
    assert_eq!(case.overdue().await, []);
}

/// While a schedule is paused no run is expected; from its end on one is.
pub(super) async fn a_pause_ends_what_is_expected(case: Case) {
    let expected = Schedule {
        expect_within: Some(minutes(3)),
        ..every(minutes(1))
    };
    case.write("beat", expected).await;
    case.change(|schedule| schedule.paused = true).await;
    case.pass(minutes(10)).await;
    case.do_all().await;
    assert_eq!(case.overdue().await, []);
    case.change(|schedule| schedule.paused = false).await;
    let from = case.clock();
    assert_eq!(case.overdue().await, []);
    case.set_time(from + minutes(3) + seconds(1)).await;
    assert_eq!(
        case.overdue().await,
        [("beat".to_owned(), from + minutes(3))]
    );
    case.change(|schedule| schedule.expect_within = None).await;
    assert_eq!(case.overdue().await, []);
}

/// The first two instants of a pattern of Berlin.
async fn in_berlin(case: &Case, pattern: &str) -> Vec<String> {
    let mut schedule = cron(pattern);
    schedule.spec.zone = "Europe/Berlin".into();
    case.write("beat", schedule).await;
    let next = case.beat().await.next;
    next.iter().take(2).map(ToString::to_string).collect()
}

/// A local time that the clock skips is run when the gap ends.
pub(super) async fn a_gap_runs_at_its_end(case: Case) {
    let next = in_berlin(&case, "30 2 27,28 3 *").await;
    assert_eq!(next, ["2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z"]);
}

/// A local time that the clock shows twice is run the first time.
pub(super) async fn a_fold_runs_the_first_time(case: Case) {
    let next = in_berlin(&case, "30 2 25,26 10 *").await;
    assert_eq!(next, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
}

/// A pattern finer than an hour runs through both hours that the clock shows twice, and past the
/// one that it skips, by real time.
pub(super) async fn a_quarter_of_an_hour_runs_through_by_real_time(case: Case) {
    for start in ["2026-10-24T23:30:00Z", "2027-03-27T23:30:00Z"] {
        let start: Timestamp = start.parse().expect("an instant");
        let mut schedule = cron("*/15 * * * *");
        schedule.spec.zone = "Europe/Berlin".into();
        schedule.spec.start = Some(start);
        case.write("beat", schedule).await;
        let quarters = (0..16).map(|n| start + minutes(15) * n);
        assert_eq!(case.beat().await.next, quarters.collect::<Vec<_>>());
    }
}
