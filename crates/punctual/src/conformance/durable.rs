//! Laws of durability: acknowledged means kept, over a crash and over a close.

use super::START;
use super::case::*;
pub(super) use super::ends::{ends_outlive_a_close, ends_outlive_a_crash};
pub(super) use super::flow_ends::{flows_outlive_a_close, flows_outlive_a_crash};
use super::schedules::{cron, every, minute};
use super::wake::{SOON, assert_claims_at, expiring, in_group, with_key};
use crate::engine::{
    Action, Claim, Control, Controlled, EnqueueVerdict, Filter, LimitSettings, ListBy,
    QueueSettings, Rate, RecordValue, SettleVerdict, Settlement, ShareSettings, WorkerPlace,
};
use crate::job::{
    Due, Effect, Group, Hold, JobId, JobRecord, JobState, NewJob, OnRetry, Outcome, Unique,
    UniquePolicy,
};
use crate::schedule::ScheduleStatus;
use crate::time::{hours, minutes, seconds};

async fn everything(case: &Case) -> Vec<JobRecord> {
    case.list_by(ListBy::All, Filter::default(), 1_000).await
}

/// A job in every state but active, whose lease is another law's matter.
async fn one_of_each(case: &Case) {
    for state in [0, 1, 4, 5, 6, 2].map(|nth| JobState::ALL[nth]) {
        case.job_in_state(state).await;
    }
    let failed = case.active(job()).await;
    case.retry(&failed, minutes(5)).await;
    let edited = case.enqueue(job_in(hours(3))).await;
    case.edit(edited, Action::Reschedule(Due::After(hours(2))))
        .await;
    case.edit(edited, Action::Reprioritise(8)).await;
}

/// Every acknowledged change is there after a crash, field by field, and counted.
pub(super) async fn acknowledged_is_kept_over_a_crash(mut case: Case) {
    one_of_each(&case).await;
    let (before, counts) = (everything(&case).await, case.counts().await);
    case.crash().await;
    assert_eq!(everything(&case).await, before);
    assert_eq!(case.counts().await, counts);
}

/// Every acknowledged change is there after a clean close.
pub(super) async fn acknowledged_is_kept_over_a_close(mut case: Case) {
    one_of_each(&case).await;
    let (before, counts) = (everything(&case).await, case.counts().await);
    case.reopen().await;
    assert_eq!(everything(&case).await, before);
    assert_eq!(case.counts().await, counts);
}

/// A settled job stays settled over a crash: its tombstone answers a repeated send and a get.
pub(super) async fn a_tombstone_outlives_a_crash(mut case: Case) {
    let sent = job();
    let attempt = case.active(sent.clone()).await;
    case.complete(&attempt).await;
    case.crash().await;
    assert_eq!(case.state(sent.id).await, JobState::Completed);
    assert_eq!(case.verdict(sent).await, EnqueueVerdict::Duplicate);
    assert_eq!(
        case.settle(&attempt, Outcome::Completed).await,
        SettleVerdict::Repeated
    );
    assert_eq!(case.claim_ids(10).await, []);
}

/// An outcome and its effects outlive a crash together.
pub(super) async fn effects_outlive_a_crash(mut case: Case) {
    let wait_for = vec!["paid".into()];
    let held = case.enqueue(NewJob { wait_for, ..job() }).await;
    let attempt = case.active(job()).await;
    let next = job();
    let mut settlement = attempt.ended(Outcome::Completed);
    settlement.effects = vec![
        Effect::Enqueue(Box::new(next.clone())),
        Effect::Clear {
            job: held,
            name: "paid".into(),
        },
    ];
    case.end_as(&attempt, settlement).await;
    case.crash().await;
    assert_eq!(case.state(attempt.id()).await, JobState::Completed);
    let mut claimed = case.claim_ids(10).await;
    let mut expected = vec![held, next.id];
    claimed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(claimed, expected);
}

/// The leases of workers that ended with the engine's process are crashes at once.
pub(super) async fn leases_with_the_engine_are_crashes_after_a_crash(mut case: Case) {
    let attempt = case.active(job()).await;
    case.crash().await;
    let back = case.get(attempt.id()).await;
    assert_eq!(
        (back.state, back.attempt, back.crashes),
        (JobState::Ready, 1, 1)
    );
    assert_eq!(
        case.settle(&attempt, Outcome::Completed).await,
        SettleVerdict::LeaseLost
    );
    let again = case.claim_one().await;
    assert!(
        again.token.fence > attempt.token.fence,
        "a fence only grows"
    );
    assert_eq!(again.job.attempt, 2);
}

/// The leases of workers elsewhere are honoured over a crash, until their deadline.
pub(super) async fn leases_elsewhere_outlive_a_crash(mut case: Case) {
    case.enqueue_all(vec![job(), job()]).await;
    let elsewhere = Claim {
        place: WorkerPlace::Elsewhere,
        ..case.wants(2)
    };
    let claimed = attempts(&case.claim_as(elsewhere).await);
    case.crash().await;
    assert_eq!(case.claim_ids(10).await, []);
    case.complete(&claimed[0]).await;
    case.leases_run_out().await;
    let lost = case.get(claimed[1].id()).await;
    assert_eq!((lost.state, lost.crashes), (JobState::Ready, 1));
}

/// A clean close keeps leases, of workers in the process too: they settle as ever.
pub(super) async fn a_close_keeps_leases(mut case: Case) {
    let attempt = case.active(job()).await;
    case.reopen().await;
    assert_eq!(case.get(attempt.id()).await, attempt.job);
    assert_eq!(case.claim_ids(10).await, []);
    case.complete(&attempt).await;
}

/// Crashes of the engine's process make a suspect as lost leases do.
pub(super) async fn crashes_of_the_process_make_a_suspect(mut case: Case) {
    let poison = case.enqueue(job()).await;
    for _ in 0..2 {
        assert_eq!(case.claim_one().await.id(), poison);
        case.crash().await;
    }
    assert_eq!(case.claim_ids(10).await, []);
    assert_eq!(case.claim_alone().await[0].id(), poison);
    case.crash().await;
    assert_eq!(case.state(poison).await, JobState::Dead);
}

/// Unique keys, followers and the hold of a group outlive a crash.
pub(super) async fn keys_and_groups_outlive_a_crash(mut case: Case) {
    let with_key = |policy| {
        let (key, hold) = ("k".into(), Default::default());
        NewJob {
            unique: Some(Unique { key, policy, hold }),
            ..job()
        }
    };
    let in_group = || {
        let (key, on_retry) = ("g".into(), OnRetry::Hold);
        NewJob {
            group: Some(Group { key, on_retry }),
            ..job()
        }
    };
    let failed = case.active(in_group()).await;
    case.retry(&failed, hours(1)).await;
    case.enqueue(in_group()).await;
    case.enqueue(with_key(UniquePolicy::Keep)).await;
    let elsewhere = Claim {
        place: WorkerPlace::Elsewhere,
        ..case.wants(1)
    };
    let holder = attempts(&case.claim_as(elsewhere).await).remove(0);
    let follower = case.enqueue(with_key(UniquePolicy::After)).await;
    case.crash().await;
    assert_eq!(case.holder("k").await, Some(holder.id()));
    assert_eq!(
        case.claim_ids(10).await,
        [],
        "the group is held, the follower waits"
    );
    case.complete(&holder).await;
    assert_eq!(case.claim_ids(10).await, [follower]);
}

/// Pauses, bounds and records outlive a crash, with their versions.
pub(super) async fn control_outlives_a_crash(mut case: Case) {
    let settings = QueueSettings::new().max_pending(1);
    let version = case.configure(settings, 0).await;
    let value = RecordValue::Opaque(bytes("{}"));
    let name = String::from("a");
    let write = Control::Write {
        name: name.clone(),
        expected: 0,
        value: Some(value.clone()),
    };
    case.control(write).await;
    let before = case.control(Control::Read { name: name.clone() }).await;
    case.pause().await;
    case.crash().await;
    assert_eq!(case.control(Control::Read { name }).await, before);
    assert_eq!(case.verdict(job()).await, EnqueueVerdict::Created);
    assert_eq!(case.verdict(job()).await, EnqueueVerdict::Full);
    assert_eq!(case.claim_ids(10).await, []);
    assert_eq!(case.resume().await, Controlled::Done(true));
    assert!(case.configure(QueueSettings::default(), version).await > version);
}

/// A bound and its counts outlive a crash.
pub(super) async fn a_bound_of_shares_outlives_a_crash(mut case: Case) {
    let shares = ShareSettings::new().max_pending(2);
    case.configure(QueueSettings::new().shares(shares), 0).await;
    case.many_of("a", 1).await;
    let held = job().share("a").wait_for(["go"]);
    let id = held.id;
    case.enqueue(held).await;
    case.crash().await;
    let full = EnqueueVerdict::ShareFull(2);
    assert_eq!(case.verdict(job().share("a")).await, full);
    case.edit(id, Action::Cancel).await;
    case.crash().await;
    assert_eq!(
        case.verdict(job().share("a")).await,
        EnqueueVerdict::Created
    );
    assert_eq!(case.verdict(job().share("a")).await, full);
}

/// A limit, and what its rate has counted, outlives a crash.
pub(super) async fn limits_outlive_a_crash(mut case: Case) {
    for rate in [
        Rate::window(2, hours(1)),
        Rate::smooth(1, hours(1)).burst(1),
    ] {
        let mut case = case.another().await;
        case.configure(QueueSettings::new().concurrency(3).rate(rate), 0)
            .await;
        case.enqueue_all((0..9).map(|_| job()).collect()).await;
        let started = case.claim(9).await;
        assert_eq!(started.len(), 2, "{rate}");
        for attempt in &started {
            case.complete(attempt).await;
        }
        case.crash().await;
        assert_eq!(case.claim_ids(9).await, [], "two have started");
        assert!(case.wake_at().await.is_some_and(|at| at > case.clock()));
        case.advance(hours(2)).await;
        assert_eq!(case.claim(9).await.len(), 2, "{rate}");
    }
    case.configure(QueueSettings::new().concurrency(2), 0).await;
    case.enqueue_all((0..9).map(|_| job()).collect()).await;
    let claim = Claim {
        place: WorkerPlace::Elsewhere,
        ..case.wants(9)
    };
    assert_eq!(attempts(&case.claim_as(claim).await).len(), 2);
    case.crash().await;
    assert_eq!(case.claim_ids(9).await, [], "both are leased");
}

/// Turns, weights, limits and blocks of shares outlive a crash.
pub(super) async fn shares_outlive_a_crash(mut case: Case) {
    let shares = ShareSettings::new().concurrency(2).weight("a", 3);
    case.configure(QueueSettings::new().shares(shares), 0).await;
    for share in ["a", "b", "c"] {
        case.many_of(share, 9).await;
    }
    case.block("c", hours(1)).await;
    let claim = Claim {
        place: WorkerPlace::Elsewhere,
        ..case.wants(9)
    };
    let running = attempts(&case.claim_as(claim).await);
    assert_eq!(running.len(), 4, "two of each that is open");
    let before = case.top(10).await;
    case.crash().await;
    assert_eq!(case.top(10).await, before);
    assert_eq!(case.claim_ids(9).await, [], "both are full");
    case.complete(&running[0]).await;
    let next = case.claim_one().await;
    assert_eq!(next.job.share, running[0].job.share);
    assert_eq!(case.wake_at().await.map(|at| at > case.clock()), Some(true));
    case.advance(hours(1)).await;
    let opened = case.claim(9).await;
    let of_c = opened
        .iter()
        .filter(|one| one.job.share.as_deref() == Some("c"));
    assert_eq!(of_c.count(), 2, "its block is over");
}

/// Settings, slots, starts, blocks and lines of named limits outlive a crash.
pub(super) async fn named_limits_outlive_a_crash(mut case: Case) {
    let settings = LimitSettings::new().concurrency(2);
    case.set_limit("smtp", Some(settings)).await;
    let hourly = LimitSettings::new().rate(Rate::window(2, hours(1)));
    case.set_limit("api", Some(hourly)).await;
    for limit in ["smtp:a", "api", "free"] {
        case.many_with(limit, 5).await;
    }
    case.block_limit("free", hours(1)).await;
    let claim = Claim {
        place: WorkerPlace::Elsewhere,
        ..case.wants(9)
    };
    let running = attempts(&case.claim_as(claim).await);
    assert_eq!(running.len(), 4, "two of each that is open");
    for attempt in running.iter().filter(|one| one.job.limits[0] == "api") {
        case.complete(attempt).await;
    }
    case.crash().await;
    assert_eq!(case.claim_ids(9).await, [], "all are closed");
    assert!(case.wake_at().await.is_some_and(|at| at > case.clock()));
    let of_smtp = running.iter().find(|one| one.job.limits[0] == "smtp:a");
    case.complete(of_smtp.expect("two are active")).await;
    assert_eq!(case.claim_one().await.job.limits, ["smtp:a"]);
    assert_eq!(case.claim_ids(9).await, []);
    case.advance(hours(1)).await;
    let opened = case.claim(99).await;
    let of = |limit: &str| {
        let all = opened.iter();
        all.filter(|one| one.job.limits[0] == limit).count()
    };
    assert_eq!((of("api"), of("free")), (2, 5), "the hour is over");
}

/// Engine time does not step back over a crash, though the clock does.
pub(super) async fn time_does_not_step_back_over_a_crash(mut case: Case) {
    case.advance(hours(1)).await;
    let id = case.enqueue(job()).await;
    case.set_time(START).await;
    case.crash().await;
    let now = case.stats().await.now;
    assert!(now >= START + hours(1), "{now:?}");
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// What fell due while the engine was down is claimed by due once it is up.
pub(super) async fn what_fell_due_while_down_is_claimed(mut case: Case) {
    let delays = [3, 1, 2];
    let sent = case
        .enqueue_all(delays.map(|h| job_in(hours(h))).to_vec())
        .await;
    case.set_time(START + hours(10)).await;
    case.crash().await;
    assert_eq!(case.claim_ids(10).await, [1, 2, 0].map(|nth| sent[nth]));
}

/// Nothing comes back that was deleted, pruned or never acknowledged.
pub(super) async fn what_is_gone_stays_gone(mut case: Case) {
    let deleted = case.job_in_state(JobState::Dead).await;
    case.edit(deleted, Action::Delete).await;
    let expired = case.ended_job(job(), Outcome::Completed).await;
    let window = case.info().await.settled_window;
    case.advance(window).await;
    for _ in 0..5 {
        case.maintain().await;
    }
    let refused: JobId = {
        let bad = NewJob {
            priority: 10,
            ..job()
        };
        let good = job();
        case.try_enqueue(vec![good.clone(), bad])
            .await
            .expect_err("refused");
        good.id
    };
    case.crash().await;
    for id in [deleted, expired, refused] {
        assert!(case.is_unknown(id).await);
    }
}

/// What keeps others back and ends by itself still wakes after an orderly close.
pub(super) async fn what_ends_by_itself_wakes_after_a_close(mut case: Case) {
    let at = case.clock() + SOON;
    let failed = case.active(expiring(in_group(), at)).await;
    let next = case.enqueue(in_group()).await;
    case.retry(&failed, hours(1)).await;
    let period = SOON + seconds(1);
    case.active(with_key(UniquePolicy::Keep, Hold::For(period)))
        .await;
    let follower = with_key(UniquePolicy::After, Hold::UntilSettled);
    let follower = case.enqueue(follower).await;
    case.reopen().await;
    assert_claims_at(&case, at, next).await;
    assert_claims_at(&case, at + seconds(1), follower).await;
}

/// An updated payload is there after a crash, and a resend of what was sent first is a duplicate.
pub(super) async fn a_payload_update_outlives_a_crash(mut case: Case) {
    let sent = job_in(hours(1));
    case.send(sent.clone()).await;
    case.edit(sent.id, Action::UpdatePayload(bytes("new")))
        .await;
    case.crash().await;
    assert_eq!(case.get(sent.id).await.payload, bytes("new"));
    assert_eq!(case.verdict(sent).await, EnqueueVerdict::Duplicate);
}

/// A schedule, its next run and its counts outlive a crash in the middle, and an outage after it.
pub(super) async fn schedules_outlive_a_crash(mut case: Case) {
    begin_schedules(&case).await;
    let before = case.beat().await;
    case.crash().await;
    go_on_with_schedules(&case, before).await;
}

/// A crash after a run has moved, before anyone has its job, loses neither it nor the next one.
pub(super) async fn an_outage_after_a_move_loses_no_run(mut case: Case) {
    case.write("beat", every(minutes(1))).await;
    for n in 0..3 {
        case.set_time(minute(n)).await;
        case.do_all().await;
        let moved = case.beat().await;
        case.crash().await;
        let status = case.beat().await;
        assert_eq!((status.fired, status.next), (moved.fired, moved.next));
        assert_eq!(case.fired().await, [minute(n)]);
    }
    let after = case.beat().await;
    assert_eq!((after.fired, after.skipped, after.missed), (3, 0, 0));
}

/// The same after an orderly close.
pub(super) async fn schedules_outlive_a_close(mut case: Case) {
    begin_schedules(&case).await;
    let before = case.beat().await;
    case.reopen().await;
    go_on_with_schedules(&case, before).await;
}

async fn begin_schedules(case: &Case) {
    case.write("beat", every(minutes(1))).await;
    case.write("report", cron("0 9 * * MON")).await;
    case.set_time(minute(0)).await;
    assert_eq!(case.fired().await, [minute(0)]);
    let pending = case.beat().await.pending.expect("a run to come");
    case.cancel(pending).await;
}

async fn go_on_with_schedules(case: &Case, before: ScheduleStatus) {
    assert_eq!(case.beat().await, before);
    assert_eq!((before.fired, before.skipped), (1, 1));
    let report = case.find("report").await.expect("it is kept");
    assert_eq!(report.next.len(), 16);
    case.set_time(minute(2)).await;
    assert_eq!(case.fired().await, [minute(2)]);
    case.set_time(report.next[0]).await;
    case.do_all().await;
    let fired = case.fired().await;
    assert!(fired.contains(&report.next[0]), "{fired:?}");
    let after = case.beat().await;
    let passed = (after.next[0] - minute(0)).as_secs() / 60;
    assert_eq!(after.fired + after.skipped + after.missed, passed);
}

/// A clear that came before its job counts after a crash, and after a close, for its hour.
pub(super) async fn early_clears_outlive_a_crash(mut case: Case) {
    let wait_for = vec!["paid".to_owned()];
    let held = || NewJob {
        wait_for: wait_for.clone(),
        ..job()
    };
    let (one, two, late) = (held(), held(), held());
    let attempt = case.active(job()).await;
    let clears = [&one, &two, &late].map(|job| Effect::Clear {
        job: job.id,
        name: "paid".into(),
    });
    let settlement = Settlement {
        effects: clears.into(),
        ..attempt.ended(Outcome::Completed)
    };
    case.end_as(&attempt, settlement).await;
    case.crash().await;
    let one = case.enqueue(one).await;
    assert_eq!(case.state(one).await, JobState::Ready);
    case.reopen().await;
    let two = case.enqueue(two).await;
    assert_eq!(case.state(two).await, JobState::Ready);
    case.advance(hours(2)).await;
    let late = case.enqueue(late).await;
    assert_eq!(case.state(late).await, JobState::Held);
}
