//! Laws of named limits in calls: blocks, changes, what is read, and what is refused.

use std::time::Duration;

use super::case::*;
use super::named::{OTHER, at_most, at_rate, with};
use super::polls::at_once;
use crate::engine::{
    Action, Claim, ClosedShare, Control, Controlled, Filter, LimitSettings, List, ListBy,
    NamedLimit, QueueSettings, Rate, Reason, RecordValue, Waited, WhenFull, WorkerRecord,
};
use crate::error::ErrorKind;
use crate::job::{Group, JobId, JobState, NewJob, OnRetry, Outcome};
use crate::time::{days, hours, minutes, seconds};

impl Case {
    pub(super) async fn limit(&self, name: &str) -> NamedLimit {
        let name = name.into();
        match self.control(Control::Limit { name }).await {
            Controlled::Limit(limit) => *limit,
            other => panic!("a read answers a limit, not {other:?}"),
        }
    }

    async fn limits(&self, after: &str, limit: usize) -> Vec<NamedLimit> {
        let after = after.into();
        match self.control(Control::Limits { after, limit }).await {
            Controlled::Limits(limits) => limits,
            other => panic!("a read answers limits, not {other:?}"),
        }
    }

    /// Claims several times, as an engine may answer fewer at a time than it is asked for.
    async fn claim_all(&self) -> usize {
        let mut jobs = 0;
        for _ in 0..8 {
            jobs += self.claim(1_000).await.len();
        }
        jobs
    }
}

/// Jobs that hold a limit and those that wait at it are listed over all queues, a bounded number
/// per call, by a cursor of that limit; others are not.
pub(super) async fn jobs_of_a_limit_are_listed(case: Case) {
    case.set_limit("api", Some(at_most(2))).await;
    let there = || NewJob {
        queue: OTHER.into(),
        ..with("api")
    };
    let grouped = || NewJob {
        group: Some(Group {
            key: "g".into(),
            on_retry: OnRetry::Hold,
        }),
        ..with("api")
    };
    let jobs = vec![
        with("api"),
        with("api").limit("key:b"),
        there(),
        there(),
        grouped(),
        job(),
    ];
    let sent = ids(&jobs);
    case.enqueue_all(jobs).await;
    case.enqueue_all(vec![grouped(), with("key:b"), job()])
        .await;
    let wants = case.wants(10);
    let queues = vec![QUEUE.into(), OTHER.into()];
    let claimed = case.claim_as(Claim { queues, ..wants }).await;
    let active: Vec<JobId> = attempts(&claimed).iter().map(Attempt::id).collect();
    let by = |name: &str| ListBy::Limit { name: name.into() };
    for limit in [1, 3, 1_000] {
        let found = case.list_by(by("api"), Filter::default(), limit).await;
        let holds = found.iter().filter(|job| job.state == JobState::Active);
        let (holds, all) = (holds.count(), found.iter().map(|job| job.id));
        let mut all: Vec<JobId> = all.collect();
        all.sort_unstable();
        let mut expected = sent[..5].to_vec();
        expected.sort_unstable();
        assert_eq!(
            (all, holds),
            (expected, 2),
            "{limit} a call; active: {active:?}"
        );
    }
    let of_other = Filter {
        queue: Some(OTHER.into()),
        ..Filter::default()
    };
    assert_eq!(case.list_by(by("api"), of_other, 10).await.len(), 2);
    assert_eq!(case.list_by(by("ap"), Filter::default(), 10).await.len(), 0);
    let list = |name: &str, cursor| List {
        by: by(name),
        filter: Filter::default(),
        cursor,
        limit: 1,
        payloads: true,
    };
    let first = case.list_as(list("api", None)).await.expect("a list");
    assert!(first.cursor.is_some() && first.examined == 1);
    let strange = case.list_as(list("key:b", first.cursor)).await;
    let strange = strange.expect_err("the cursor of another limit");
    assert_eq!(strange.kind(), ErrorKind::InvalidInput);
    let bad = case.list_as(list("two words", None)).await;
    assert!(bad.is_err(), "no name of a limit");
}

/// A blocked limit starts nothing until its time, other jobs start, and no attempt is counted.
pub(super) async fn a_block_starts_nothing_and_counts_no_attempt(case: Case) {
    let jobs = case.many_with("smtp:a", 2).await;
    let running = case.claim_one().await;
    let blocked = case.block_limit("smtp:a", seconds(8)).await;
    assert_eq!(blocked, Controlled::Done(true), "it needs no settings");
    case.end(&running, Outcome::Released).await;
    let late = case.many_with("smtp:a", 1).await;
    let other = case.many_with("smtp:b", 1).await;
    assert_eq!(case.claim_ids(10).await, other);
    assert_eq!(case.wake_at().await, Some(case.clock() + seconds(8)));
    let waits = case.get(jobs[1]).await;
    assert_eq!((waits.state, waits.attempt), (JobState::Ready, 0));
    assert_eq!(case.get(jobs[0]).await.failures, 0);
    let closed = case.limit("smtp:a").await;
    assert_eq!(closed.closed, Some(ClosedShare::Blocked));
    assert_eq!(closed.opens_at, Some(case.clock() + seconds(8)));
    case.advance(seconds(8) - TICK).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(TICK).await;
    assert_eq!(case.claim_ids(10).await, [jobs[0], jobs[1], late[0]]);
}

/// A block may come before the jobs, and ends when it is taken back.
pub(super) async fn a_block_of_a_limit_ends_when_taken_back(case: Case) {
    case.block_limit("smtp", hours(1)).await;
    let jobs = case.many_with("smtp", 2).await;
    assert_eq!(case.claim_ids(10).await, []);
    let waiter = case.listens().await;
    let ended = case.block_limit("smtp", Duration::ZERO).await;
    assert_eq!(ended, Controlled::Done(true));
    assert_eq!(at_once(waiter).await, Waited::Work);
    assert_eq!(case.claim_ids(10).await, jobs);
    let again = case.block_limit("smtp", Duration::ZERO).await;
    assert_eq!(again, Controlled::Done(false));
    let (name, span) = ("smtp".into(), days(366));
    let refused = case.try_control(Control::BlockLimit { name, span }).await;
    let error = refused.expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// Raised or removed limits let the jobs go that waited, lower ones stop them.
pub(super) async fn a_changed_limit_counts_at_once_for_waiting_jobs(case: Case) {
    case.set_limit("smtp", Some(at_most(1))).await;
    case.many_with("smtp", 10).await;
    assert_eq!(case.claim_all().await, 1);
    let waiter = case.listens().await;
    case.set_limit("smtp", Some(at_most(3))).await;
    assert_eq!(at_once(waiter).await, Waited::Work);
    assert_eq!(case.claim_all().await, 2);
    case.set_limit("smtp", Some(at_most(2))).await;
    assert_eq!(case.claim_all().await, 0);
    let hourly = at_rate(Rate::window(1, hours(1)));
    case.set_limit("smtp", Some(hourly)).await;
    assert_eq!(case.claim_all().await, 1, "no rate has counted yet");
    case.set_limit("smtp", None).await;
    assert_eq!(case.claim_all().await, 6, "no limit is left");
}

/// Other settings of a name count for all keys that have none of their own.
pub(super) async fn a_changed_family_lets_all_its_keys_go(case: Case) {
    case.set_limit("tenant", Some(at_most(1))).await;
    for hundreds in 0..4 {
        let names = (0..100).map(|nth| format!("tenant:{}", hundreds * 100 + nth));
        let jobs = names.flat_map(|name| [with(&name), with(&name), with(&name)]);
        case.enqueue_all(jobs.collect()).await;
    }
    assert_eq!(case.claim_all().await, 400);
    case.set_limit("tenant", Some(at_most(2))).await;
    assert_eq!(case.claim_all().await, 400, "one more of each");
    case.set_limit("tenant", None).await;
    assert_eq!(case.claim_all().await, 400);
}

/// A claim that finds limits closed says when time opens the first of them.
pub(super) async fn wake_at_is_when_a_named_limit_opens(case: Case) {
    let rate = Rate::window(1, minutes(1));
    case.set_limit("smtp", Some(at_rate(rate))).await;
    case.many_with("smtp", 2).await;
    let claimed = case.claim_as(case.wants(1)).await;
    let opens = claimed.now + minutes(1);
    case.complete(&attempts(&claimed)[0]).await;
    assert_eq!(case.wake_at().await, Some(opens));
    case.set_time(before(opens, TICK)).await;
    assert!(case.claim(1).await.is_empty());
    case.set_time(opens).await;
    assert_eq!(case.claim(1).await.len(), 1);
}

/// A worker gets no more jobs of a queue with named limits than it has free slots.
pub(super) async fn a_queue_with_named_limits_is_not_claimed_ahead(case: Case) {
    case.many_with("smtp", 10).await;
    let mut claim = case.wants(10);
    claim.worker = WorkerRecord {
        slots: 4,
        busy: 1,
        ..claim.worker
    };
    let claimed = case.claim_as(claim).await;
    assert_eq!(attempts(&claimed).len(), 3);
    assert_eq!(
        claimed.limited.len(),
        1,
        "it says that the queue is limited"
    );
}

/// A claim says since when the limits of a job are open that was due before that.
pub(super) async fn lateness_counts_from_the_opening(case: Case) {
    let rate = Rate::window(1, minutes(1));
    case.set_limit("smtp", Some(at_rate(rate))).await;
    case.many_with("smtp", 2).await;
    let first = case.claim_as(case.wants(1)).await;
    assert_eq!(first.limited[0].limits, []);
    assert_eq!(case.claim_ids(1).await, [], "a worker comes again");
    case.complete(&attempts(&first)[0]).await;
    let opens = first.now + minutes(1);
    case.set_time(opens + seconds(5)).await;
    let second = case.claim_as(case.wants(1)).await;
    assert_eq!(attempts(&second).len(), 1);
    assert_eq!(second.limited[0].limits, [("smtp".to_owned(), opens)]);
}

/// Jobs behind a limit that time has opened are late from then on, also while no worker claims.
pub(super) async fn jobs_of_a_limit_that_time_opened_are_late(case: Case) {
    case.block_limit("smtp", seconds(1)).await;
    case.many_with("smtp", 1).await;
    assert_eq!(case.claim_ids(1).await, [], "the limit keeps it back");
    assert_eq!(case.oldest_due().await, None);
    case.advance(seconds(8)).await;
    assert_eq!(case.oldest_due().await, Some(seconds(7)));
}

/// A job that time lets start by one limit is not late while another of its limits is closed, and
/// is once that is open.
pub(super) async fn a_job_that_another_limit_keeps_back_is_not_late(case: Case) {
    case.set_limit("api", Some(at_most(1))).await;
    case.block_limit("smtp", seconds(1)).await;
    case.enqueue(job().limit("smtp").limit("api")).await;
    assert_eq!(case.claim_ids(10).await, [], "smtp is blocked");
    let running = case.active(job().limit("api")).await;
    case.advance(seconds(8)).await;
    assert_eq!(case.oldest_due().await, None, "api is full");
    case.complete(&running).await;
    case.advance(seconds(2)).await;
    assert_eq!(case.oldest_due().await, Some(seconds(2)));
}

/// One behind it in the line of the open limit is late.
pub(super) async fn a_job_behind_one_that_is_kept_back_is_late(case: Case) {
    case.set_limit("api", Some(at_most(1))).await;
    case.block_limit("smtp", seconds(1)).await;
    case.enqueue(job().limit("smtp").limit("api")).await;
    case.enqueue(job().limit("smtp")).await;
    assert_eq!(case.claim_ids(10).await, [], "smtp is blocked");
    case.active(job().limit("api")).await;
    case.advance(seconds(8)).await;
    assert_eq!(case.oldest_due().await, Some(seconds(7)));
}

/// A ready job names each limit that keeps it back, and until when.
pub(super) async fn explain_names_the_closed_named_limit(case: Case) {
    let rate = Rate::window(2, hours(1));
    let settings = at_rate(rate).concurrency(1);
    case.set_limit("smtp", Some(settings)).await;
    let jobs = case.many_with("smtp", 3).await;
    let running = case.claim_one().await;
    let until = case.clock() + hours(1);
    let reasons = case.reasons(jobs[1]).await;
    let full = Reason::LimitConcurrencyReached {
        name: "smtp".into(),
        limit: 1,
        active: 1,
        when_full: WhenFull::Wait,
    };
    assert!(reasons.contains(&full), "{reasons:?}");
    case.complete(&running).await;
    let running = case.claim_one().await;
    case.complete(&running).await;
    let reasons = case.reasons(jobs[2]).await;
    let closed = Reason::LimitRateReached {
        name: "smtp".into(),
        rate,
        until,
    };
    assert!(reasons.contains(&closed), "{reasons:?}");
    case.block_limit("smtp", minutes(1)).await;
    let reasons = case.reasons(jobs[2]).await;
    let blocked = Reason::LimitBlocked {
        name: "smtp".into(),
        until: case.clock() + minutes(1),
    };
    assert!(reasons.contains(&blocked), "{reasons:?}");
}

/// Jobs that a limit keeps back are ready: they are listed, counted and edited as others are.
pub(super) async fn waiting_jobs_are_listed_and_edited(case: Case) {
    case.set_limit("smtp", Some(at_most(1))).await;
    case.many_with("smtp", 5).await;
    let running = case.claim_one().await;
    assert_eq!(case.claim_ids(10).await, []);
    let mut listed = case.listed(JobState::Ready).await;
    assert_eq!(listed.len(), 4);
    assert_eq!(case.counts().await.of(JobState::Ready), 4);
    listed.sort();
    case.edit(listed[3], Action::Reprioritise(1)).await;
    case.cancel(listed[0]).await;
    case.edit(listed[1], Action::Reschedule(crate::Due::After(hours(1))))
        .await;
    assert_eq!(case.limit("smtp").await.waiting, 2);
    case.complete(&running).await;
    let next = case.claim_one().await;
    assert_eq!(next.id(), listed[3], "it has the better priority now");
    case.complete(&next).await;
    let last = case.claim_one().await;
    assert_eq!(last.id(), listed[2]);
    case.complete(&last).await;
    case.advance(hours(1)).await;
    assert_eq!(case.claim_ids(10).await, [listed[1]]);
}

/// Jobs that wait at a limit expire at their time, and a purge cancels them.
pub(super) async fn waiting_jobs_expire_and_are_purged(case: Case) {
    case.block_limit("smtp", hours(2)).await;
    let short = with("smtp").expires_at(case.clock() + minutes(1));
    let short = case.enqueue(short).await;
    let rest = case.many_with("smtp", 3).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(minutes(1)).await;
    assert_eq!(case.state(short).await, JobState::Cancelled);
    assert_eq!(case.limit("smtp").await.waiting, 3);
    let queue = QUEUE.into();
    let purge = Control::Purge {
        queue,
        cursor: None,
        limit: 100,
    };
    let purged = case.control(purge).await;
    assert!(
        matches!(purged, Controlled::Purged { matched: 3, .. }),
        "{purged:?}"
    );
    assert_eq!(case.state(rest[0]).await, JobState::Cancelled);
    assert_eq!(case.limit("smtp").await.waiting, 0);
    case.advance(hours(2)).await;
    case.maintain().await;
    assert_eq!(case.limits("", 10).await, [], "nothing is left of it");
}

/// What was sent is read back; a job without limits costs one unit of none.
pub(super) async fn a_job_with_limits_is_read_back(case: Case) {
    let sent = with("b").limit("a:1").cost(7);
    let id = case.enqueue(sent).await;
    let record = case.get(id).await;
    assert_eq!(record.limits, ["b", "a:1"]);
    assert_eq!(record.cost, 7);
    let plain = case.enqueue(job()).await;
    let record = case.get(plain).await;
    assert_eq!((record.limits.len(), record.cost), (0, 1));
}

/// Limits are listed by name: those with settings, and those of which something is to be known.
pub(super) async fn limits_are_listed_with_how_they_stand(case: Case) {
    let rate = Rate::window(10, hours(1));
    let settings = at_rate(rate).concurrency(1);
    case.set_limit("smtp", Some(settings)).await;
    case.many_with("smtp:a", 3).await;
    let running = case.claim_one().await;
    assert_eq!(case.claim_ids(10).await, []);
    case.block_limit("api", minutes(1)).await;
    let limits = case.limits("", 10).await;
    let names: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
    assert_eq!(names, ["api", "smtp", "smtp:a"]);
    assert_eq!(limits[0].closed, Some(ClosedShare::Blocked));
    assert_eq!(limits[0].settings, None);
    assert_eq!((limits[1].active, limits[1].settings), (0, Some(settings)));
    let of_key = &limits[2];
    assert_eq!((of_key.active, of_key.waiting), (1, 2));
    assert_eq!(of_key.set_by.as_deref(), Some("smtp"));
    assert_eq!(of_key.closed, Some(ClosedShare::Concurrency));
    assert_eq!(case.limits("api", 1).await, limits[1..2]);
    case.complete(&running).await;
    assert_eq!(case.limit("smtp:a").await.active, 0);
    assert_eq!(case.limit("unknown").await, NamedLimit::new("unknown"));
}

/// A limit holds for the jobs of its namespace.
pub(super) async fn limits_of_another_namespace_are_others(case: Case) {
    case.set_limit("smtp", Some(at_most(1))).await;
    case.many_with("smtp", 2).await;
    assert_eq!(case.claim_all().await, 1);
    let case = case.tenant("other");
    case.many_with("smtp", 3).await;
    assert_eq!(case.claim_all().await, 3);
    assert_eq!(case.limit("smtp").await.active, 3);
}

/// A job has at most three limits, each once, of names; its cost is 1 to 1,000 units of them.
pub(super) async fn hostile_limits_are_refused(case: Case) {
    for name in ["", "a b", "a\n", "../x", "ü", "{a}", &"x".repeat(123)] {
        let error = case.enqueue_error(with(name)).await;
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{name:?}: {error}");
    }
    let four = ["a", "b", "c", "d"]
        .iter()
        .fold(job(), |job, name| job.limit(*name));
    let wrong = [
        four,
        with("a").limit("a"),
        with("a").cost(0),
        with("a").cost(1_001),
        job().cost(2),
    ];
    for job in wrong {
        let error = case.enqueue_error(job).await;
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let jobs = case
        .enqueue_all(vec![
            with("a:b:c/d.e_f-9").cost(1_000),
            with(&"x".repeat(122)).limit("b").limit("c"),
        ])
        .await;
    let ids: Vec<JobId> = case.claim_ids(10).await;
    assert_eq!(ids, jobs);
}

/// Settings that cannot hold are refused, and so is what is no setting under the name of one.
pub(super) async fn settings_of_limits_out_of_range_are_refused(case: Case) {
    let new = LimitSettings::new;
    let wrong = [
        ("limit/a", RecordValue::Limit(new())),
        ("limit/a", RecordValue::Limit(new().concurrency(0))),
        ("limit/a", RecordValue::Limit(new().concurrency(1 << 63))),
        (
            "limit/a",
            RecordValue::Limit(
                new()
                    .rate(Rate::window(1, seconds(1)))
                    .when_full(WhenFull::Refuse),
            ),
        ),
        (
            "limit/a",
            RecordValue::Limit(at_most(65).when_full(WhenFull::CancelRunning)),
        ),
        (
            "limit/a",
            RecordValue::Limit(new().rate(Rate::window(0, seconds(1)))),
        ),
        (
            "limit/a",
            RecordValue::Limit(new().rate(Rate::window(1, days(366)))),
        ),
        ("limit/a", RecordValue::Opaque(bytes("{}"))),
        ("limit/a", RecordValue::Queue(QueueSettings::new())),
        ("queue/a", RecordValue::Limit(at_most(1))),
        ("a", RecordValue::Limit(at_most(1))),
    ];
    for (name, value) in wrong {
        let write = Control::Write {
            name: name.into(),
            expected: 0,
            value: Some(value.clone()),
        };
        let error = case.try_control(write).await.expect_err("out of range");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{value:?}: {error}");
    }
    let write = Control::Write {
        name: "limit/".into(),
        expected: 0,
        value: Some(RecordValue::Limit(at_most(1))),
    };
    let error = case.try_control(write).await.expect_err("no name");
    assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
}
