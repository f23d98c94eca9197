//! Laws of the limits of shares: how many of its jobs are active, how many start, and blocks.

use std::collections::BTreeMap;
use std::time::Duration;

use super::case::*;
use super::polls::at_once;
use super::shares::of;
use crate::engine::{
    BlockedShare, ClosedShare, Control, Controlled, QueueSettings, Rate, Reason, RecordValue,
    ShareSettings, StatsRequest, Waited,
};
use crate::error::ErrorKind;
use crate::job::{JobState, Outcome};
use crate::time::{days, hours, millis, minutes, seconds};

fn at_most(concurrency: u64) -> QueueSettings {
    QueueSettings::new().shares(ShareSettings::new().concurrency(concurrency))
}

fn at_rate(rate: Rate) -> QueueSettings {
    QueueSettings::new().shares(ShareSettings::new().rate(rate))
}

impl Case {
    /// The shares of a queue that are blocked or paused, by key.
    async fn blocked_shares(&self, queue: &str) -> Vec<BlockedShare> {
        let (mut found, mut cursor) = (BTreeMap::new(), None);
        loop {
            let page = Control::BlockedShares {
                queue: queue.into(),
                cursor,
                limit: 100,
            };
            let Controlled::BlockedShares {
                shares,
                cursor: next,
            } = self.control(page).await
            else {
                panic!("shares are answered");
            };
            found.extend(shares.into_iter().map(|one| (one.share.clone(), one)));
            cursor = next;
            if cursor.is_none() {
                return found.into_values().collect();
            }
        }
    }

    /// Claims as many as it is given; how many of each of two shares.
    async fn claim_two(&self, shares: [&str; 2]) -> [Vec<Attempt>; 2] {
        let claimed = self.claim(100).await;
        let of_share = |share: &str| {
            let all = claimed.iter().cloned();
            all.filter(|one| one.job.share.as_deref() == Some(share))
                .collect()
        };
        shares.map(of_share)
    }

    /// Claims several times, as an engine may answer fewer at a time than it is asked for; how many
    /// jobs.
    async fn claim_often(&self) -> usize {
        let mut jobs = 0;
        for _ in 0..8 {
            jobs += self.claim(1_000).await.len();
        }
        jobs
    }

    async fn claim_counts(&self, shares: [&str; 2]) -> [usize; 2] {
        self.claim_two(shares).await.map(|all| all.len())
    }
}

/// No more jobs of a share have a lease than its limit says, whatever became of others.
pub(super) async fn no_more_of_a_share_are_active_than_allowed(case: Case) {
    case.configure(at_most(3), 0).await;
    case.many_of("a", 60).await;
    case.many_of("b", 60).await;
    let [mut active, _] = case.claim_two(["a", "b"]).await;
    assert_eq!(active.len(), 3);
    assert_eq!(case.claim_counts(["a", "b"]).await, [0, 0]);
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
        case.end(&active.remove(0), outcome.clone()).await;
        let [claimed, others] = case.claim_two(["a", "b"]).await;
        assert_eq!((claimed.len(), others.len()), (1, 0), "after {outcome:?}");
        active.extend(claimed);
        assert_eq!(case.counts().await.of(JobState::Active), 6);
    }
    case.enqueue_all((0..9).map(|_| job()).collect()).await;
    assert_eq!(
        case.claim(100).await.len(),
        9,
        "jobs without a share have no such limit"
    );
}

/// A lease that runs out gives the slots of its shares back.
pub(super) async fn a_lost_lease_frees_the_slot_of_its_share(case: Case) {
    case.configure(at_most(2), 0).await;
    case.many_of("a", 10).await;
    for _ in 0..3 {
        assert_eq!(case.claim(10).await.len(), 2);
        assert!(case.claim(10).await.is_empty());
        case.leases_run_out().await;
    }
}

/// The jobs of a share that is at its limit keep no other job from a claim.
pub(super) async fn a_share_at_its_limit_hides_no_other_share(case: Case) {
    case.configure(at_most(1), 0).await;
    case.many_of("a", 900).await;
    case.claim_one().await;
    let mut others = case.many_of("b", 1).await;
    others.push(case.enqueue(job()).await);
    others.extend(case.many_of("c", 1).await);
    let mut found = case.claim_ids(10).await;
    found.sort();
    others.sort();
    assert_eq!(found, others);
    assert_eq!(case.claim_ids(10).await, []);
}

/// A slot of a share that becomes free wakes a worker that waits, and new work behind a closed
/// limit of its share does not.
pub(super) async fn a_freed_slot_of_a_share_wakes(case: Case) {
    case.configure(at_most(1), 0).await;
    case.many_of("a", 2).await;
    let first = case.claim_one().await;
    assert!(case.claim(1).await.is_empty());
    let waiter = case.listens().await;
    case.complete(&first).await;
    assert_eq!(at_once(waiter).await, Waited::Work);
    assert_eq!(case.claim(1).await.len(), 1);
}

/// No span of a window's length has more starts of a share than its rate says.
pub(super) async fn no_window_of_a_share_has_more_than_its_rate(case: Case) {
    for rate in [
        Rate::window(3, seconds(10)),
        Rate::smooth(3, seconds(10)).burst(2),
    ] {
        let case = case.another().await;
        case.configure(at_rate(rate), 0).await;
        case.many_of("a", 50).await;
        case.many_of("b", 50).await;
        let mut starts: Vec<(crate::time::Timestamp, usize)> = Vec::new();
        for step in [1, 3_000, 3_000, 4_001, 1, 6_000, 4_000, 25_000, 1] {
            let [a, b] = case.claim_two(["a", "b"]).await;
            assert_eq!(a.len(), b.len(), "{rate}: both have the same rate");
            for attempt in a.iter().chain(&b) {
                case.complete(attempt).await;
            }
            starts.push((case.clock(), a.len()));
            case.advance(millis(step)).await;
        }
        assert_eq!(starts[0].1, 3, "{rate}: all at once");
        let total: usize = starts.iter().map(|(_, n)| n).sum();
        assert!(total >= 12, "{rate}: {starts:?}");
        for (at, _) in &starts {
            let within = starts
                .iter()
                .filter(|(one, _)| one >= at && *one - *at < seconds(10));
            let most: usize = within.map(|(_, n)| n).sum();
            assert!(most as u64 <= rate.most(), "{rate}: {most} in {starts:?}");
        }
    }
}

/// A claim that finds shares closed says when time opens the first of them.
pub(super) async fn wake_at_is_when_a_share_opens(case: Case) {
    case.configure(at_rate(Rate::window(1, minutes(1))), 0)
        .await;
    case.many_of("a", 2).await;
    let claimed = case.claim_as(case.wants(1)).await;
    let opens = claimed.now + minutes(1);
    case.complete(&attempts(&claimed)[0]).await;
    assert_eq!(case.wake_at().await, Some(opens));
    case.set_time(before(opens, TICK)).await;
    assert!(case.claim(1).await.is_empty());
    case.set_time(opens).await;
    assert_eq!(case.claim(1).await.len(), 1);
}

/// Raised or removed limits of shares let the jobs go that waited, lower ones stop them.
pub(super) async fn a_changed_limit_of_shares_counts_at_once(case: Case) {
    let mut version = case.configure(at_most(1), 0).await;
    for nth in 0..600 {
        if nth % 100 == 0 {
            let jobs = (nth..nth + 100).flat_map(|nth| {
                let share = format!("s{nth}");
                [of(&share), of(&share), of(&share)]
            });
            case.enqueue_all(jobs.collect()).await;
        }
    }
    assert_eq!(case.claim_often().await, 600);
    version = case.configure(at_most(2), version).await;
    assert_eq!(case.claim_often().await, 600, "one more of each");
    version = case.configure(at_most(1), version).await;
    assert_eq!(case.claim_often().await, 0);
    case.configure(QueueSettings::new(), version).await;
    assert_eq!(case.claim_often().await, 600, "no limit is left");
}

/// A blocked share starts nothing until its time, other shares do, and no attempt is counted.
pub(super) async fn a_blocked_share_starts_nothing(case: Case) {
    let jobs = case.many_of("a", 2).await;
    let running = case.claim_one().await;
    assert_eq!(case.block("a", seconds(8)).await, Controlled::Done(true));
    case.end(&running, Outcome::Released).await;
    let late = case.many_of("a", 1).await;
    let other = case.many_of("b", 1).await;
    assert_eq!(case.claim_ids(10).await, other);
    assert_eq!(case.wake_at().await, Some(case.clock() + seconds(8)));
    let waits = case.get(jobs[1]).await;
    assert_eq!((waits.state, waits.attempt), (JobState::Ready, 0));
    let closed = case.top(1).await;
    assert_eq!(closed[0].closed, Some(ClosedShare::Blocked));
    assert_eq!(closed[0].opens_at, Some(case.clock() + seconds(8)));
    case.advance(seconds(8) - TICK).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(TICK).await;
    assert_eq!(case.claim_ids(10).await, [jobs[0], jobs[1], late[0]]);
}

/// A claim says since when a share is open of which it has a job that was due before that, and of
/// others nothing.
pub(super) async fn a_claim_says_since_when_a_share_is_open(case: Case) {
    case.block("a", seconds(3)).await;
    case.many_of("a", 1).await;
    case.many_of("b", 1).await;
    let first = case.claim_as(case.wants(10)).await;
    assert_eq!(attempts(&first).len(), 1, "the other share is open");
    assert_eq!(first.limited[0].shares, []);
    let opens = first.now + seconds(3);
    case.set_time(opens + seconds(4)).await;
    let second = case.claim_as(case.wants(10)).await;
    assert_eq!(attempts(&second).len(), 1);
    assert_eq!(second.limited[0].shares, [("a".to_owned(), opens)]);
    case.many_of("a", 1).await;
    let third = case.claim_as(case.wants(10)).await;
    assert_eq!(attempts(&third).len(), 1, "it was due when it was sent");
    assert_eq!(third.limited[0].shares, []);
}

/// Jobs behind a share that time has opened are late from then on, also while no worker claims.
pub(super) async fn jobs_of_a_share_that_time_opened_are_late(case: Case) {
    case.many_of("a", 1).await;
    case.block("a", seconds(1)).await;
    assert_eq!(case.oldest_due().await, None);
    case.advance(seconds(8)).await;
    assert_eq!(case.oldest_due().await, Some(seconds(7)));
    let rate = Rate::window(1, seconds(60));
    let case = case.another().await;
    case.configure(at_rate(rate), 0).await;
    case.many_of("a", 2).await;
    let first = case.claim_one().await;
    case.complete(&first).await;
    case.advance(seconds(59)).await;
    assert_eq!(case.oldest_due().await, None);
    case.advance(seconds(3)).await;
    assert_eq!(case.oldest_due().await, Some(seconds(2)));
}

/// A paused share starts nothing however long it lasts, and no block of a span ends the pause.
pub(super) async fn a_paused_share_starts_nothing_until_resumed(case: Case) {
    let jobs = case.many_of("a", 2).await;
    let running = case.claim_one().await;
    assert_eq!(case.pause_share("a").await, Controlled::Done(true));
    assert_eq!(case.pause_share("a").await, Controlled::Done(false));
    assert_eq!(case.block("a", seconds(1)).await, Controlled::Done(false));
    case.complete(&running).await;
    let other = case.many_of("b", 1).await;
    let others = case.claim(10).await;
    assert_eq!(others.len(), 1);
    assert_eq!(others[0].id(), other[0]);
    case.complete(&others[0]).await;
    let paused = Reason::SharePaused { share: "a".into() };
    let reasons = case.reasons(jobs[1]).await;
    assert!(reasons.contains(&paused), "{reasons:?}");
    let closed = case.top(1).await;
    assert_eq!(closed[0].closed, Some(ClosedShare::Paused));
    assert_eq!(closed[0].opens_at, None);
    case.advance(days(366)).await;
    assert_eq!(case.claim_ids(10).await, []);
    let late = case.many_of("a", 1).await;
    assert_eq!(case.claim_ids(10).await, []);
    let resumed = case.block("a", seconds(0)).await;
    assert_eq!(resumed, Controlled::Done(true));
    assert_eq!(case.claim_ids(10).await, [jobs[1], late[0]]);
    assert_eq!(case.pause_share("new").await, Controlled::Done(true));
    case.many_of("new", 1).await;
    assert_eq!(case.claim_ids(10).await, [], "a pause may come first");
}

/// A block may come before the jobs, and ends when it is taken back.
pub(super) async fn a_block_ends_when_it_is_taken_back(case: Case) {
    assert_eq!(case.block("a", hours(1)).await, Controlled::Done(true));
    let jobs = case.many_of("a", 2).await;
    assert_eq!(case.claim_ids(10).await, []);
    let waiter = case.listens().await;
    assert_eq!(
        case.block("a", Duration::ZERO).await,
        Controlled::Done(true)
    );
    assert_eq!(at_once(waiter).await, Waited::Work);
    assert_eq!(case.claim_ids(10).await, jobs);
    assert_eq!(
        case.block("a", Duration::ZERO).await,
        Controlled::Done(false)
    );
    let (queue, share) = (QUEUE.into(), "a".into());
    let span = days(366);
    let refused = case
        .try_control(Control::BlockShare { queue, share, span })
        .await;
    assert_eq!(
        refused.expect_err("too long").kind(),
        ErrorKind::InvalidInput
    );
}

/// A limit of the whole queue holds over all its shares, and they take turns within it.
pub(super) async fn a_limit_of_the_queue_holds_over_all_shares(case: Case) {
    let settings = QueueSettings::new()
        .concurrency(4)
        .shares(ShareSettings::new().concurrency(3));
    case.configure(settings, 0).await;
    case.many_of("a", 10).await;
    case.many_of("b", 10).await;
    assert_eq!(case.claim_counts(["a", "b"]).await, [2, 2]);
    assert_eq!(case.claim_ids(10).await, []);
}

/// A ready job names what keeps its share back, and until when.
pub(super) async fn explain_names_the_closed_share(case: Case) {
    let rate = Rate::window(1, hours(1));
    let settings = at_most(1);
    let version = case.configure(settings, 0).await;
    let jobs = case.many_of("a", 2).await;
    let running = case.claim_one().await;
    let reasons = case.reasons(jobs[1]).await;
    let full = Reason::ShareConcurrencyReached {
        share: "a".into(),
        limit: 1,
        active: 1,
    };
    assert!(reasons.contains(&full), "{reasons:?}");
    case.configure(at_rate(rate), version).await;
    case.end(&running, Outcome::Released).await;
    let started = case.claim_one().await;
    let until = case.clock() + hours(1);
    case.complete(&started).await;
    let reasons = case.reasons(jobs[1]).await;
    let closed = Reason::ShareRateReached {
        share: "a".into(),
        rate,
        until,
    };
    assert!(reasons.contains(&closed), "{reasons:?}");
    case.block("a", minutes(1)).await;
    let reasons = case.reasons(jobs[1]).await;
    let blocked = Reason::ShareBlocked {
        share: "a".into(),
        until: case.clock() + minutes(1),
    };
    assert!(reasons.contains(&blocked), "{reasons:?}");
}

/// Settings of shares that cannot hold are refused, with what to use instead.
pub(super) async fn share_settings_out_of_range_are_refused(case: Case) {
    let new = ShareSettings::new;
    let mut twice = new().weight("a", 1);
    twice.weights.push(("a".into(), 2));
    let nameless = new().weight("", 1);
    assert_eq!(
        nameless.check().expect_err("empty").kind(),
        ErrorKind::InvalidName
    );
    let many = (0..1_001).fold(new(), |all, nth| all.weight(format!("{nth}"), 2));
    let wrong = [
        new().concurrency(0),
        new().rate(Rate::window(0, seconds(1))),
        new().max_pending(0),
        new().max_pending(1_000_001),
        new().weight("a", 0),
        new().weight("a", 1_001),
        twice,
        many,
    ];
    for shares in wrong {
        let write = Control::Write {
            name: format!("queue/{QUEUE}"),
            expected: 0,
            value: Some(RecordValue::Queue(
                QueueSettings::new().shares(shares.clone()),
            )),
        };
        let error = case.try_control(write).await.expect_err("out of range");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{shares:?}: {error}");
    }
}

/// Every block and pause is read, of however many shares, and none of another queue or tenant; the
/// cursor of another queue is refused.
pub(super) async fn all_blocked_shares_are_read(case: Case) {
    const SHARES: usize = 260;
    assert_eq!(case.blocked_shares(QUEUE).await, []);
    let jobs = (0..SHARES).map(|n| job().share(format!("{n:03}")));
    case.enqueue_all(jobs.collect()).await;
    assert_eq!(case.blocked_shares(QUEUE).await, []);
    let until = case.clock() + hours(1);
    let mut expected = Vec::new();
    for n in (0..SHARES).step_by(2) {
        let (share, is_paused) = (format!("{n:03}"), n % 20 == 0);
        match is_paused {
            true => case.pause_share(&share).await,
            false => case.block(&share, hours(1)).await,
        };
        expected.push((share, is_paused));
    }
    // A block may come before the jobs.
    case.block("later", hours(1)).await;
    expected.push(("later".into(), false));
    let read = case.blocked_shares(QUEUE).await;
    let keys = read
        .iter()
        .map(|one| (one.share.clone(), one.until.is_none()));
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    let opens = read.iter().filter_map(|one| one.until);
    assert!(
        opens
            .into_iter()
            .all(|at| at >= until && at < until + minutes(1))
    );
    let page = |queue: &str, cursor| Control::BlockedShares {
        queue: queue.into(),
        cursor,
        limit: 50,
    };
    let Controlled::BlockedShares { shares, cursor } = case.control(page(QUEUE, None)).await else {
        panic!("shares are answered");
    };
    assert!(shares.len() < expected.len() && cursor.is_some());
    let refused = case.try_control(page("other", cursor)).await;
    let refused = refused.expect_err("a cursor of another queue");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(case.blocked_shares("other").await, []);
    // What has opened is not read.
    case.advance(hours(2)).await;
    let read = case.blocked_shares(QUEUE).await;
    assert!(read.iter().all(|one| one.until.is_none()), "{read:?}");
    assert_eq!(read.len(), SHARES / 20);
    assert_eq!(case.tenant("other").blocked_shares(QUEUE).await, []);
}

/// A queue without jobs can be deleted although shares are blocked: nothing of them is left.
pub(super) async fn a_queue_with_a_block_can_be_deleted(case: Case) {
    for share in ["a", "b"] {
        case.block(share, hours(1)).await;
    }
    let queue = QUEUE.into();
    let deleted = case.control(Control::DeleteQueue { queue }).await;
    assert_eq!(deleted, Controlled::Done(true));
    let jobs = case.many_of("a", 1).await;
    assert_eq!(case.claim_ids(10).await, jobs);
}

/// To end a block in an unknown queue changes nothing, and makes no queue.
pub(super) async fn the_end_of_no_block_makes_no_queue(case: Case) {
    assert_eq!(
        case.block("a", Duration::ZERO).await,
        Controlled::Done(false)
    );
    let stats = case.stats_of(StatsRequest::default()).await;
    assert_eq!(stats.queues, []);
}
