//! Laws of named limits: over all queues no more jobs of a name are active, or start, than its
//! settings say.

use std::time::Duration;

use super::case::*;
use super::polls::at_once;
use crate::engine::{
    Claim, Control, Controlled, LimitSettings, Rate, RecordValue, WaitFor, Waited,
};
use crate::job::{Group, JobId, JobState, NewJob, OnRetry, Outcome};
use crate::time::{Timestamp, hours, millis, seconds};

pub(super) const OTHER: &str = "other";

/// A job of the queue with a named limit.
pub(super) fn with(limit: &str) -> NewJob {
    job().limit(limit)
}

/// The same in another queue.
fn elsewhere(limit: &str) -> NewJob {
    NewJob {
        queue: OTHER.into(),
        ..with(limit)
    }
}

pub(super) fn at_most(concurrency: u64) -> LimitSettings {
    LimitSettings::new().concurrency(concurrency)
}

pub(super) fn at_rate(rate: Rate) -> LimitSettings {
    LimitSettings::new().rate(rate)
}

impl Case {
    /// Writes the settings of a limit, or removes them; its version.
    pub(super) async fn set_limit(&self, name: &str, settings: Option<LimitSettings>) -> u64 {
        let record = format!("limit/{name}");
        let read = Control::Read {
            name: record.clone(),
        };
        let Controlled::Record(known) = self.control(read).await else {
            panic!("a read answers a record");
        };
        let write = Control::Write {
            name: record,
            expected: known.map_or(0, |known| known.version),
            value: settings.map(RecordValue::Limit),
        };
        match self.control(write).await {
            Controlled::Written(version) => version,
            other => panic!("a write answers a version, not {other:?}"),
        }
    }

    pub(super) async fn block_limit(&self, name: &str, span: Duration) -> Controlled {
        let name = name.into();
        self.control(Control::BlockLimit { name, span }).await
    }

    pub(super) async fn many_with(&self, limit: &str, jobs: usize) -> Vec<JobId> {
        let jobs = (0..jobs).map(|_| with(limit));
        self.enqueue_all(jobs.collect()).await
    }

    /// Claims from the other queue.
    async fn claim_elsewhere(&self, limit: usize) -> Vec<Attempt> {
        let claim = Claim {
            queues: vec![OTHER.into()],
            ..self.wants(limit)
        };
        attempts(&self.claim_as(claim).await)
    }
}

/// No more jobs with a limit are active than it says, whichever queues they are in.
pub(super) async fn a_limit_holds_over_two_queues(case: Case) {
    case.set_limit("smtp", Some(at_most(3))).await;
    case.many_with("smtp", 20).await;
    case.enqueue_all((0..20).map(|_| elsewhere("smtp")).collect())
        .await;
    let here = case.claim(2).await;
    assert_eq!(here.len(), 2);
    let there = case.claim_elsewhere(10).await;
    assert_eq!(there.len(), 1, "the third slot of all queues");
    assert_eq!(case.claim_ids(10).await, []);
    assert!(case.claim_elsewhere(10).await.is_empty());
    case.complete(&here[0]).await;
    assert_eq!(
        case.claim_elsewhere(10).await.len(),
        1,
        "a slot of the other"
    );
    assert_eq!(case.claim_ids(10).await, []);
    let free: Vec<_> = (0..5).map(|_| job()).collect();
    let free = case.enqueue_all(free).await;
    assert_eq!(case.claim_ids(10).await, free, "others have no such limit");
}

/// Whatever ends an attempt frees its slot in that step, and it is used.
pub(super) async fn every_end_frees_the_slot(case: Case) {
    case.set_limit("smtp", Some(at_most(2))).await;
    case.many_with("smtp", 20).await;
    let mut active = case.claim(10).await;
    assert_eq!(active.len(), 2);
    let ends = [
        Outcome::Completed,
        Outcome::Retry {
            after: Some(hours(1)),
        },
        Outcome::Snooze { after: hours(1) },
        Outcome::Released,
        Outcome::Dead,
        Outcome::Cancelled,
    ];
    for outcome in ends {
        assert_eq!(case.claim_ids(10).await, []);
        case.end(&active.remove(0), outcome.clone()).await;
        let claimed = case.claim(10).await;
        assert_eq!(claimed.len(), 1, "after {outcome:?}");
        active.extend(claimed);
        assert_eq!(case.counts().await.of(JobState::Active), 2);
    }
}

/// A lease that runs out gives back the slots of its jobs' limits.
pub(super) async fn a_lost_lease_frees_the_slot_of_its_limits(case: Case) {
    case.set_limit("smtp", Some(at_most(2))).await;
    case.many_with("smtp", 10).await;
    for _ in 0..3 {
        assert_eq!(case.claim(10).await.len(), 2);
        assert!(case.claim(10).await.is_empty());
        case.leases_run_out().await;
    }
}

/// A slot that becomes free wakes a worker of any queue whose jobs wait for it; new work behind a
/// closed limit wakes no worker.
pub(super) async fn a_freed_slot_wakes_the_other_queue(case: Case) {
    case.set_limit("smtp", Some(at_most(1))).await;
    let first = case.enqueue(with("smtp")).await;
    let running = case.claim_one().await;
    assert_eq!(running.id(), first);
    case.enqueue(elsewhere("smtp")).await;
    assert!(case.claim_elsewhere(10).await.is_empty());
    case.takes_every_wakeup_of(OTHER).await;
    let waiter = case.waits(WaitFor::Work(vec![OTHER.into()]));
    case.complete(&running).await;
    assert_eq!(at_once(waiter).await, Waited::Work);
    assert_eq!(case.claim_elsewhere(10).await.len(), 1);
}

/// Of more queues than a limit wakes, those that came late are woken once others have gone.
pub(super) async fn a_queue_that_came_late_is_woken_too(case: Case) {
    let last = 65;
    let queue = |nth: usize| format!("mail-{nth}");
    let claim_of = async |nth: usize| {
        let claim = Claim {
            queues: vec![queue(nth)],
            ..case.wants(1)
        };
        attempts(&case.claim_as(claim).await)
    };
    case.set_limit("smtp", Some(at_most(1))).await;
    let one = |nth| NewJob {
        queue: queue(nth),
        ..with("smtp")
    };
    let ids = case.enqueue_all((0..=last).map(one).collect()).await;
    let running = claim_of(0).await.remove(0);
    for nth in 1..=last {
        assert!(claim_of(nth).await.is_empty());
    }
    for id in &ids[1..last] {
        case.cancel(*id).await;
    }
    case.advance(seconds(1)).await;
    assert!(claim_of(last).await.is_empty());
    case.takes_every_wakeup_of(&queue(last)).await;
    let waiter = case.waits(WaitFor::Work(vec![queue(last)]));
    case.complete(&running).await;
    assert_eq!(at_once(waiter).await, Waited::Work);
    assert_eq!(claim_of(last).await.len(), 1);
}

/// No span of a window's length has more units than the rate says.
pub(super) async fn no_window_of_a_limit_has_more_units(case: Case) {
    for rate in [
        Rate::window(6, seconds(10)),
        Rate::smooth(6, seconds(10)).burst(3),
        Rate::window(200, seconds(10)),
    ] {
        let case = case.another().await;
        case.set_limit("api", Some(at_rate(rate))).await;
        let cost = if rate.starts() > 100 { 40 } else { 2 };
        let jobs = (0..60).map(|_| with("api").cost(cost));
        case.enqueue_all(jobs.collect()).await;
        let mut starts: Vec<(Timestamp, u64)> = Vec::new();
        for step in [1, 3_000, 3_000, 4_001, 1, 6_000, 4_000, 25_000, 1] {
            let claimed = case.claim(100).await;
            for attempt in &claimed {
                case.complete(attempt).await;
            }
            let units = claimed.len() as u64 * u64::from(cost);
            starts.push((case.clock(), units));
            case.advance(millis(step)).await;
        }
        assert!(starts[0].1 > 0, "{rate}: {starts:?}");
        let total: u64 = starts.iter().map(|(_, n)| n).sum();
        assert!(total >= rate.starts() * 3, "{rate}: {starts:?}");
        for (at, _) in &starts {
            let within = starts
                .iter()
                .filter(|(one, _)| one >= at && *one - *at < seconds(10));
            let most: u64 = within.map(|(_, n)| n).sum();
            assert!(most <= rate.most(), "{rate}: {most} in {starts:?}");
        }
    }
}

/// Units of a smooth limit are a step apart.
pub(super) async fn a_smooth_limit_spaces_units(case: Case) {
    let rate = Rate::smooth(10, seconds(10)).burst(0);
    case.set_limit("api", Some(at_rate(rate))).await;
    let jobs = case
        .enqueue_all([3, 1, 1].map(|cost| with("api").cost(cost)).to_vec())
        .await;
    assert_eq!(case.claim_ids(10).await, [jobs[0]]);
    case.advance(seconds(3) - TICK).await;
    assert_eq!(
        case.claim_ids(10).await,
        [],
        "three units take three seconds"
    );
    case.advance(TICK).await;
    assert_eq!(case.claim_ids(10).await, [jobs[1]]);
    case.advance(seconds(1)).await;
    assert_eq!(case.claim_ids(10).await, [jobs[2]]);
}

/// A job takes as many units of a rate as it costs; a concurrency counts jobs.
pub(super) async fn a_cost_counts_as_so_many_units(case: Case) {
    let settings = at_rate(Rate::window(10, seconds(10))).concurrency(3);
    case.set_limit("api", Some(settings)).await;
    let jobs = [4, 4, 4, 1].map(|cost| with("api").cost(cost));
    let jobs = case.enqueue_all(jobs.to_vec()).await;
    let first = case.claim(10).await;
    assert_eq!(first.iter().map(Attempt::id).collect::<Vec<_>>(), jobs[..2]);
    assert_eq!(first[0].job.cost, 4);
    for attempt in &first {
        case.complete(attempt).await;
    }
    assert_eq!(
        case.claim_ids(10).await,
        [],
        "two units are left, four are needed"
    );
    case.advance(seconds(10)).await;
    assert_eq!(case.claim_ids(10).await, jobs[2..]);
    case.many_with("api", 3).await;
    assert_eq!(case.claim_ids(10).await.len(), 1, "three are active");
}

/// While a costly job waits for units, cheaper ones that come later do not use them up.
pub(super) async fn a_costly_job_is_not_overtaken_for_ever(case: Case) {
    case.set_limit("api", Some(at_rate(Rate::window(4, seconds(4)))))
        .await;
    case.enqueue(with("api")).await;
    let first = case.claim_one().await;
    case.complete(&first).await;
    let costly = case.enqueue(with("api").cost(4)).await;
    assert_eq!(case.claim_ids(10).await, []);
    for _ in 0..3 {
        case.many_with("api", 2).await;
        assert_eq!(case.claim_ids(10).await, []);
        case.advance(seconds(1)).await;
    }
    case.advance(seconds(1)).await;
    assert_eq!(case.claim_ids(10).await, [costly]);
}

/// A job that costs more than may ever start at once starts while nothing else counts.
pub(super) async fn a_cost_over_the_rate_starts_alone(case: Case) {
    for rate in [
        Rate::window(5, seconds(5)),
        Rate::smooth(5, seconds(5)).burst(1),
    ] {
        let case = case.another().await;
        case.set_limit("api", Some(at_rate(rate))).await;
        let first = case.enqueue(with("api")).await;
        let large = case.enqueue(with("api").cost(9)).await;
        let next = case.enqueue(with("api")).await;
        let counts = if rate.most() > 5 { 1 } else { 5 };
        for (job, free_in) in [(first, counts), (large, 9), (next, 0)] {
            let started = case.claim(10).await;
            assert_eq!(started.len(), 1, "{rate}");
            assert_eq!(started[0].id(), job, "{rate}");
            case.complete(&started[0]).await;
            case.advance(seconds(free_in / 2)).await;
            let early = case.claim_ids(10).await;
            assert_eq!(early, [], "{rate}: {free_in}");
            case.advance(seconds(free_in - free_in / 2)).await;
        }
    }
}

/// A job with three limits starts when all are open; while one is closed it takes none of others.
pub(super) async fn a_job_starts_when_all_its_limits_are_open(case: Case) {
    for name in ["a", "b", "c"] {
        case.set_limit(name, Some(at_most(1))).await;
    }
    let all = || with("a").limit("b").limit("c");
    let holders = case.enqueue_all(["a", "b", "c"].map(with).to_vec()).await;
    let mut active = case.claim(3).await;
    assert_eq!(active.len(), holders.len());
    let waits = case.enqueue(all()).await;
    for nth in 0..3 {
        assert_eq!(case.claim_ids(10).await, [], "{nth} limits are open");
        let name = active[0].job.limits[0].clone();
        case.complete(&active.remove(0)).await;
        if nth < 2 {
            let own = case.enqueue(with(&name)).await;
            let took = case.claim(10).await;
            assert_eq!(took.len(), 1, "{name} is free for others");
            assert_eq!(took[0].id(), own);
            case.complete(&took[0]).await;
        }
    }
    assert_eq!(case.claim_ids(10).await, [waits]);
    case.enqueue_all(["a", "b", "c"].map(with).to_vec()).await;
    assert_eq!(case.claim_ids(10).await, [], "it has taken of all three");
}

/// A job that another limit keeps back leaves the slot to those that lack only this one.
pub(super) async fn a_job_at_a_closed_limit_leaves_room_at_others(case: Case) {
    case.set_limit("a", Some(at_most(1))).await;
    case.set_limit("b", Some(at_most(1))).await;
    case.enqueue_all(vec![with("a"), with("b")]).await;
    let active = case.claim(2).await;
    let both: Vec<NewJob> = (0..20).map(|_| with("a").limit("b")).collect();
    let both = case.enqueue_all(both).await;
    let last = case.enqueue(with("a")).await;
    assert_eq!(case.claim_ids(50).await, []);
    case.complete(&active[0]).await;
    let claimed = case.claim(50).await;
    assert_eq!(claimed.len(), 1, "no slot is idle");
    assert_eq!(claimed[0].id(), last);
    case.complete(&active[1]).await;
    assert_eq!(case.claim_ids(50).await, []);
    case.complete(&claimed[0]).await;
    assert_eq!(case.claim_ids(50).await, both[..1]);
}

/// Jobs that a limit keeps back keep no other job from a claim, however many they are.
pub(super) async fn a_limit_hides_no_other_job(case: Case) {
    case.set_limit("full", Some(at_most(1))).await;
    case.many_with("full", 900).await;
    case.claim_one().await;
    let mut others = vec![case.enqueue(with("open")).await];
    others.push(case.enqueue(job()).await);
    // A claim keeps back a bounded number, each of them once.
    let mut found = Vec::new();
    for _ in 0..10 {
        found.extend(case.claim_ids(10).await);
    }
    assert_eq!(found, others);
    let late = case.enqueue(job()).await;
    assert_eq!(
        case.claim_ids(10).await,
        [late],
        "no claim passes over them again"
    );
    assert_eq!(case.counts().await.of(JobState::Ready), 899);
}

/// Jobs that waited at a limit start by priority, due and enqueue.
pub(super) async fn a_limited_job_keeps_its_place(case: Case) {
    case.set_limit("smtp", Some(at_most(1))).await;
    let first = case.enqueue(with("smtp")).await;
    let mut running = case.claim_one().await;
    assert_eq!(running.id(), first);
    let late = case.enqueue(with("smtp")).await;
    let later = case.enqueue(with("smtp")).await;
    let urgent = case.enqueue(with("smtp").priority(1)).await;
    for expected in [urgent, late, later] {
        case.complete(&running).await;
        running = case.claim_one().await;
        assert_eq!(running.id(), expected);
        assert_eq!(case.claim_ids(10).await, []);
    }
}

/// A name without settings limits nothing; settings that come later count what is active already.
pub(super) async fn a_name_without_settings_limits_nothing(case: Case) {
    case.many_with("new", 4).await;
    let active = case.claim(3).await;
    assert_eq!(active.len(), 3);
    case.set_limit("new", Some(at_most(2))).await;
    assert_eq!(case.claim_ids(10).await, [], "three are active already");
    case.complete(&active[0]).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.complete(&active[1]).await;
    assert_eq!(case.claim_ids(10).await.len(), 1);
}

/// Settings of a name hold for each of its keys, counted for each; those of a key go before them.
pub(super) async fn settings_of_a_family_hold_for_each_key(case: Case) {
    case.set_limit("smtp", Some(at_most(2))).await;
    case.set_limit("smtp:slow", Some(at_most(1))).await;
    for key in ["smtp:a", "smtp:b", "smtp:slow"] {
        case.many_with(key, 5).await;
    }
    let claimed = case.claim(50).await;
    let of_key = |key: &str| {
        let all = claimed.iter();
        all.filter(|one| one.job.limits[0] == key).count()
    };
    assert_eq!((of_key("smtp:a"), of_key("smtp:b")), (2, 2));
    assert_eq!(of_key("smtp:slow"), 1);
    case.set_limit("smtp:slow", None).await;
    assert_eq!(
        case.claim_ids(50).await.len(),
        1,
        "it has those of all keys"
    );
}

/// A group whose first job waits at a limit stays serial and in order; when another job comes
/// first, its own limits count.
pub(super) async fn a_limit_of_a_group_keeps_its_order(case: Case) {
    case.set_limit("smtp", Some(at_most(1))).await;
    case.enqueue(with("smtp")).await;
    let running = case.claim_one().await;
    let grouped = |job: NewJob| NewJob {
        group: Some(Group {
            key: "g".into(),
            on_retry: OnRetry::Hold,
        }),
        ..job
    };
    let first = case.enqueue(grouped(with("smtp"))).await;
    let second = case.enqueue(grouped(job())).await;
    assert_eq!(case.claim_ids(10).await, [], "the first of the group waits");
    case.complete(&running).await;
    let claimed = case.claim_one().await;
    assert_eq!(claimed.id(), first);
    assert_eq!(case.claim_ids(10).await, [], "it is serial");
    case.complete(&claimed).await;
    let claimed = case.claim_one().await;
    assert_eq!(claimed.id(), second);
    case.complete(&claimed).await;
    case.enqueue(with("smtp")).await;
    case.claim_one().await;
    let first = case.enqueue(grouped(with("smtp"))).await;
    let second = case.enqueue(grouped(job())).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.cancel(first).await;
    assert_eq!(case.claim_ids(10).await, [second], "nothing limits it");
}

/// Named limits, limits of shares and turns hold at the same time.
pub(super) async fn a_limit_and_shares_hold_together(case: Case) {
    case.set_limit("smtp", Some(at_most(3))).await;
    for share in ["x", "y"] {
        let jobs = (0..10).map(|_| with("smtp").share(share));
        case.enqueue_all(jobs.collect()).await;
    }
    let free = case.enqueue(job().share("z")).await;
    let claimed = case.claim(50).await;
    let of = |share: &str| {
        let all = claimed.iter();
        all.filter(|one| one.job.share.as_deref() == Some(share))
            .count()
    };
    assert_eq!(claimed.len(), 4);
    assert!(claimed.iter().any(|one| one.id() == free));
    assert!(of("x") >= 1 && of("y") >= 1, "they take turns");
    for attempt in &claimed {
        case.complete(attempt).await;
    }
    let mut left = 0;
    for _ in 0..10 {
        let claimed = case.claim(50).await;
        assert!(claimed.len() <= 3);
        left += claimed.len();
        for attempt in &claimed {
            case.complete(attempt).await;
        }
    }
    assert_eq!(left, 17);
}

/// A suspect job starts alone, and only when its limits are open.
pub(super) async fn a_suspect_waits_at_its_limit_too(case: Case) {
    let suspect = case.suspect(with("smtp")).await;
    case.set_limit("smtp", Some(at_most(1))).await;
    let other = case.enqueue(with("smtp")).await;
    let running = case.claim_one().await;
    assert_eq!(running.id(), other);
    assert!(case.claim_alone().await.is_empty());
    case.complete(&running).await;
    let alone = case.claim_alone().await;
    assert_eq!(alone.len(), 1);
    assert_eq!(alone[0].id(), suspect);
}
