//! Laws of shares: jobs of one key take turns with those of others, by weight.

use std::collections::HashMap;

use super::case::*;
use crate::engine::{
    Action, Claim, Control, Controlled, Filter, ListBy, QueueSettings, Reason, ShareSettings,
    ShareStats, StatsRequest,
};
use crate::error::ErrorKind;
use crate::job::{Due, Group, JobId, JobState, NewJob, OnRetry, Outcome};
use crate::time::{hours, seconds};

/// A job of a share.
pub(super) fn of(share: &str) -> NewJob {
    job().share(share)
}

pub(super) fn by_weight(weights: &[(&str, u32)]) -> QueueSettings {
    let shares = weights
        .iter()
        .fold(ShareSettings::new(), |all, (share, weight)| {
            all.weight(*share, *weight)
        });
    QueueSettings::new().shares(shares)
}

impl Case {
    pub(super) async fn many_of(&self, share: &str, jobs: usize) -> Vec<JobId> {
        let mut ids = Vec::new();
        for start in (0..jobs).step_by(1_000) {
            let part = (jobs - start).min(1_000);
            ids.extend(
                self.enqueue_all((0..part).map(|_| of(share)).collect())
                    .await,
            );
        }
        ids
    }

    /// Claims and completes jobs one by one; their shares, in order.
    async fn turns(&self, jobs: usize) -> Vec<String> {
        let mut shares = Vec::new();
        for _ in 0..jobs {
            let attempt = self.claim_one().await;
            self.complete(&attempt).await;
            shares.push(attempt.job.share.unwrap_or_default());
        }
        shares
    }

    /// The same with claims of many.
    async fn turns_of(&self, claims: usize, limit: usize) -> Vec<String> {
        let mut shares = Vec::new();
        for _ in 0..claims {
            for attempt in self.claim(limit).await {
                self.complete(&attempt).await;
                shares.push(attempt.job.share.unwrap_or_default());
            }
        }
        shares
    }

    pub(super) async fn block(&self, share: &str, span: std::time::Duration) -> Controlled {
        let (queue, share) = (QUEUE.into(), share.into());
        self.control(Control::BlockShare { queue, share, span })
            .await
    }

    pub(super) async fn pause_share(&self, share: &str) -> Controlled {
        let (queue, share) = (QUEUE.into(), share.into());
        self.control(Control::PauseShare { queue, share }).await
    }

    pub(super) async fn top(&self, shares: usize) -> Vec<ShareStats> {
        let request = StatsRequest {
            shares,
            ..StatsRequest::default()
        };
        let stats = self.stats_of(request).await;
        let of_queue = stats.queues.into_iter().find(|one| one.queue == QUEUE);
        of_queue.map(|queue| queue.shares).unwrap_or_default()
    }
}

/// How often each stands in a list.
fn counts(shares: &[String]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for share in shares {
        *counts.entry(share.as_str()).or_default() += 1;
    }
    counts
}

/// However many jobs wait in one share, a single job of another is claimed after at most one turn
/// of each.
pub(super) async fn a_flood_delays_a_single_job_by_one_turn(case: Case) {
    case.many_of("flood", 600).await;
    case.turns(20).await;
    for small in ["a", "z"] {
        case.many_of(small, 1).await;
        let turns = case.turns(2).await;
        assert!(turns.contains(&small.to_owned()), "{turns:?}");
    }
    for small in ["b", "c", "y"] {
        case.many_of(small, 1).await;
    }
    let turns = case.turns_of(1, 4).await;
    assert_eq!(counts(&turns)["flood"], 1, "one turn of each: {turns:?}");
    case.turns_of(3, 50).await;
    case.many_of("d", 1).await;
    let turns = case.turns_of(1, 2).await;
    assert!(
        turns.contains(&"d".to_owned()),
        "after large claims: {turns:?}"
    );
}

/// Of shares that always have work, each gets turns by its weight, in any span.
pub(super) async fn weights_hold_over_any_span(case: Case) {
    case.configure(by_weight(&[("b", 2), ("c", 5)]), 0).await;
    for share in ["a", "b", "c"] {
        case.many_of(share, 250).await;
    }
    let mut turns = case.turns(80).await;
    turns.extend(case.turns_of(10, 16).await);
    for span in turns.windows(40) {
        let counts = counts(span);
        for (share, turns) in [("a", 5_usize), ("b", 10), ("c", 25)] {
            let found = counts.get(share).copied().unwrap_or(0);
            assert!(found.abs_diff(turns) <= 3, "{share}: {found} of {span:?}");
        }
    }
    let all = counts(&turns);
    assert_eq!((all["a"], all["b"], all["c"]), (30, 60, 150));
}

/// A share that had nothing for a while has saved nothing up, nor does it get more than its turn by
/// coming again and again.
pub(super) async fn a_share_that_returns_has_no_credit(case: Case) {
    for share in ["a", "b", "c"] {
        case.many_of(share, 3).await;
    }
    case.turns(9).await;
    case.many_of("a", 200).await;
    case.many_of("b", 200).await;
    case.turns(100).await;
    case.many_of("c", 100).await;
    let turns = case.turns(30).await;
    assert_eq!(counts(&turns)["c"], 10, "after a long absence: {turns:?}");
    let mut found = Vec::new();
    for _ in 0..30 {
        case.many_of("d", 1).await;
        found.extend(case.turns(1).await);
    }
    let often = counts(&found).get("d").copied().unwrap_or(0);
    assert!(often <= 9, "one job at a time: {often} of {found:?}");
}

/// A weight counts for jobs that are waiting already.
pub(super) async fn a_changed_weight_counts_at_once(case: Case) {
    case.many_of("a", 200).await;
    case.many_of("b", 200).await;
    let before = case.turns(20).await;
    assert_eq!(counts(&before)["a"], 10);
    let version = case.configure(by_weight(&[("a", 9)]), 0).await;
    let after = case.turns(40).await;
    assert_eq!(counts(&after)["a"], 36, "{after:?}");
    case.configure(QueueSettings::new(), version).await;
    let again = case.turns(20).await;
    assert!((9..=11).contains(&counts(&again)["a"]), "{again:?}");
}

/// Within a share jobs go by priority, then by due, then as they were sent.
pub(super) async fn a_share_keeps_its_own_order(case: Case) {
    let mut expected = Vec::new();
    for share in ["a", "b"] {
        let late = case.enqueue(of(share).delay(seconds(2))).await;
        let first = case.enqueue(of(share).delay(seconds(1))).await;
        let now = case.enqueue_all(vec![of(share), of(share)]).await;
        let urgent = case.enqueue(of(share).priority(2)).await;
        expected.push(vec![urgent, now[0], now[1], first, late]);
    }
    case.advance(seconds(3)).await;
    let mut found = [Vec::new(), Vec::new()];
    for attempt in case.claim(100).await {
        let nth = usize::from(attempt.job.share.as_deref() == Some("b"));
        found[nth].push(attempt.id());
        if found[nth].len() == 1 {
            case.end(&attempt, Outcome::Released).await;
        }
    }
    assert_eq!(found.to_vec(), expected);
    let again = case.claim_ids(10).await;
    assert_eq!(
        again,
        [expected[0][0], expected[1][0]],
        "a released one is first"
    );
}

/// Jobs without a share take turns with shares as one of them does.
pub(super) async fn jobs_without_a_share_take_turns_too(case: Case) {
    case.enqueue_all((0..300).map(|_| job()).collect()).await;
    case.turns(10).await;
    case.many_of("a", 1).await;
    assert!(
        case.turns(2).await.contains(&"a".to_owned()),
        "behind plain jobs"
    );
    case.many_of("a", 100).await;
    let turns = case.turns(40).await;
    assert_eq!(
        (counts(&turns)["a"], counts(&turns)[""]),
        (20, 20),
        "{turns:?}"
    );
    case.drain().await;
    case.many_of("a", 300).await;
    case.turns(50).await;
    case.enqueue(job()).await;
    assert!(
        case.turns(2).await.contains(&String::new()),
        "behind a share"
    );
    case.enqueue_all((0..5).map(|_| job()).collect()).await;
    let turns = case.turns_of(1, 10).await;
    assert_eq!(counts(&turns)[""], 5, "{turns:?}");
}

/// Jobs without a share come back behind those that wait, as a share does.
pub(super) async fn jobs_without_a_share_that_return_have_no_credit(case: Case) {
    for one_by_one in [true, false] {
        let case = case.another().await;
        case.many_of("a", 6).await;
        case.many_of("b", 6).await;
        case.enqueue(job()).await;
        assert_eq!(case.turns(4).await, ["", "a", "b", "a"]);
        case.enqueue(job()).await;
        let turns = match one_by_one {
            true => case.turns(4).await,
            false => case.turns_of(1, 4).await,
        };
        assert_eq!(turns, ["b", "", "a", "b"], "{one_by_one}");
    }
}

/// A job of a share and of the group `g`.
fn grouped(share: &str) -> NewJob {
    let group = Group {
        key: "g".into(),
        on_retry: OnRetry::Hold,
    };
    NewJob {
        group: Some(group),
        ..of(share)
    }
}

impl Case {
    /// Claims all there is, and completes it, until there is nothing; the jobs of groups in order,
    /// and how many others.
    async fn drain_groups(&self) -> (Vec<JobId>, usize) {
        let (mut serial, mut others) = (Vec::new(), 0);
        loop {
            let mut claimed = self.claim(3).await;
            claimed.extend(self.claim(100).await);
            if claimed.is_empty() {
                return (serial, others);
            }
            let of_group = claimed.iter().filter(|one| one.job.group.is_some());
            let of_group: Vec<_> = of_group.map(Attempt::id).collect();
            assert!(of_group.len() <= 1, "one of the group is active");
            others += claimed.len() - of_group.len();
            serial.extend(of_group);
            for attempt in claimed {
                self.complete(&attempt).await;
            }
        }
    }
}

/// At most one job of a group is active, and they go in order.
pub(super) async fn a_serial_group_within_a_share_stays_serial(case: Case) {
    let serial = case
        .enqueue_all((0..4).map(|_| grouped("a")).collect())
        .await;
    case.many_of("a", 4).await;
    case.many_of("b", 8).await;
    assert_eq!(case.drain_groups().await, (serial, 12));
    let held = case.enqueue(grouped("a")).await;
    let attempt = case.claim_one().await;
    assert_eq!(attempt.id(), held);
    let next = case.enqueue(grouped("a")).await;
    case.retry(&attempt, seconds(5)).await;
    case.many_of("a", 1).await;
    assert_eq!(
        case.claim(10).await.len(),
        1,
        "the group is held, its share is not"
    );
    case.advance(seconds(5)).await;
    let again = case.claim_one().await;
    assert_eq!(again.id(), held);
    case.complete(&again).await;
    assert_eq!(case.claim_ids(10).await, [next]);
}

/// The jobs of a group may be of several shares: each is claimed in the turn of its own.
pub(super) async fn a_group_may_have_jobs_of_several_shares(case: Case) {
    let jobs = ["a", "b", "a", "c"].map(grouped);
    let mut serial = case.enqueue_all(jobs.to_vec()).await;
    let plain = NewJob {
        share: None,
        ..grouped("")
    };
    serial.push(case.enqueue(plain).await);
    serial.push(case.enqueue(grouped("b")).await);
    case.many_of("b", 3).await;
    assert_eq!(case.drain_groups().await, (serial, 3));
    assert_eq!(case.top(10).await, [], "nothing is left of any share");
}

/// With all slots taken by long jobs of one share, the next slot that frees is a newcomer's; then
/// both have as many.
pub(super) async fn long_jobs_leave_the_next_slot_to_a_newcomer(case: Case) {
    case.many_of("flood", 100).await;
    let mut running = case.claim(8).await;
    case.many_of("new", 8).await;
    for _ in 0..4 {
        case.complete(&running.remove(0)).await;
        let next = case.claim_one().await;
        assert_eq!(next.job.share.as_deref(), Some("new"));
        running.push(next);
    }
    let turns = case.turns(8).await;
    assert!((3..=5).contains(&counts(&turns)["new"]), "{turns:?}");
}

/// A lane of a better priority goes first, whatever the turns are.
pub(super) async fn a_better_priority_goes_before_any_turn(case: Case) {
    case.many_of("a", 3).await;
    let urgent = (0..3).map(|_| of("b").priority(1)).collect();
    let urgent = case.enqueue_all(urgent).await;
    assert_eq!(case.claim_ids(3).await, urgent);
    assert_eq!(case.claim(3).await.len(), 3);
}

/// A share is read back with its job, and listed with the others.
pub(super) async fn a_job_of_a_share_is_read_back_and_listed(case: Case) {
    let shared = case.many_of("a", 3).await;
    let plain = case.enqueue(job()).await;
    assert_eq!(case.get(shared[0]).await.share.as_deref(), Some("a"));
    let mut all = vec![plain];
    all.extend(&shared);
    assert_eq!(case.listed(JobState::Ready).await, all);
    let mut found = Vec::new();
    let by = ListBy::State {
        queue: QUEUE.into(),
        state: JobState::Ready,
    };
    found.extend(case.list_by(by, Filter::default(), 1).await);
    assert_eq!(found.len(), 4, "one after the other");
    assert_eq!(case.counts().await.of(JobState::Ready), 4);
}

/// Jobs of a share that are moved or end outside of a claim leave nothing in its line.
pub(super) async fn an_edit_leaves_no_place_behind(case: Case) {
    let jobs = case.many_of("a", 5).await;
    case.cancel(jobs[0]).await;
    case.edit(jobs[1], Action::Reprioritise(1)).await;
    case.edit(
        jobs[2],
        Action::Reschedule(crate::job::Due::After(hours(1))),
    )
    .await;
    let expiring = NewJob {
        expires_at: Some(case.clock() + seconds(1)),
        ..of("b")
    };
    case.enqueue(expiring).await;
    case.advance(seconds(2)).await;
    assert_eq!(case.claim_ids(10).await, [jobs[1], jobs[3], jobs[4]]);
    case.advance(hours(1)).await;
    let claimed = case.claim(10).await;
    let found: Vec<_> = claimed.iter().map(Attempt::id).collect();
    assert!(found.contains(&jobs[2]), "{found:?}");
    let purge = Control::Purge {
        queue: QUEUE.into(),
        cursor: None,
        limit: 1_000,
    };
    case.many_of("c", 20).await;
    case.control(purge).await;
    assert_eq!(case.claim_ids(10).await, []);
}

/// A suspect of a share is claimed alone.
pub(super) async fn a_suspect_of_a_share_runs_alone(case: Case) {
    let suspect = case.suspect(of("a")).await;
    case.many_of("a", 1).await;
    assert_eq!(case.claim(10).await.len(), 1, "not the suspect");
    let alone = case.claim_alone().await;
    assert_eq!(alone.iter().map(Attempt::id).collect::<Vec<_>>(), [suspect]);
}

/// Shares of one key in two queues have nothing to do with each other.
pub(super) async fn a_share_is_of_one_queue(case: Case) {
    let other = NewJob {
        queue: "mail".into(),
        kind: "mail".into(),
        ..of("a")
    };
    case.enqueue(other).await;
    let here = case.many_of("a", 1).await;
    assert_eq!(case.claim_ids(10).await, here);
    let mail = Claim {
        queues: vec!["mail".into(), QUEUE.into()],
        ..case.wants(10)
    };
    assert_eq!(attempts(&case.claim_as(mail).await).len(), 1);
}

/// A ready job says how many shares have their turn before the next one of its own, and how many
/// jobs of its share are before it.
pub(super) async fn explain_counts_the_turns_before(case: Case) {
    for share in ["a", "b", "c"] {
        case.many_of(share, 3).await;
    }
    let running = case.claim(3).await;
    assert_eq!(running.len(), 3);
    case.complete(&running[0]).await;
    let last = case.many_of("c", 1).await[0];
    let reasons = case.reasons(last).await;
    let turn = Reason::ShareTurn {
        share: "c".into(),
        ahead: 2,
    };
    assert!(reasons.contains(&turn), "{reasons:?}");
    assert!(
        reasons.contains(&Reason::InLine { ahead: 2 }),
        "{reasons:?}"
    );
}

/// Statistics answer the shares with the most ready jobs first, as many as are asked for.
pub(super) async fn the_largest_shares_come_first(case: Case) {
    case.configure(by_weight(&[("m", 3)]), 0).await;
    for (share, jobs) in [("a", 1), ("m", 40), ("q", 20), ("z", 3), ("b", 1)] {
        case.many_of(share, jobs).await;
    }
    let reported = |stats: Vec<ShareStats>| -> Vec<(String, u64, u64, u32)> {
        let reported = |one: ShareStats| (one.share, one.ready, one.active, one.weight);
        stats.into_iter().map(reported).collect()
    };
    let two = reported(case.top(2).await);
    assert_eq!(two, [("m".into(), 40, 0, 3), ("q".into(), 20, 0, 1)]);
    let all = reported(case.top(100).await);
    let order: Vec<_> = all.iter().map(|(share, ..)| share.as_str()).collect();
    assert_eq!(order, ["m", "q", "z", "a", "b"]);
    assert_eq!(case.top(0).await, []);
    case.claim(5).await;
    let active: u64 = case.top(10).await.iter().map(|one| one.active).sum();
    assert_eq!(active, 5);
    let request = StatsRequest {
        shares: 101,
        ..StatsRequest::default()
    };
    let error = case.engine().stats(&case.namespace, request).await;
    assert_eq!(error.expect_err("over 100").kind(), ErrorKind::InvalidInput);
}

/// A share is any printable text of at most 256 bytes.
pub(super) async fn a_hostile_share_is_refused(case: Case) {
    for share in ["", "a\nb", "a\0", &"x".repeat(257)] {
        let error = case.enqueue_error(of(share)).await;
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{share:?}: {error}");
    }
    for share in ["a b", "*", "ü", "{a}:b", &"x".repeat(256)] {
        let id = case.enqueue(of(share)).await;
        assert_eq!(case.claim_ids(10).await, [id], "{share:?}");
    }
}

/// A claim of many takes what claims of one take, one after the other: a job of a better priority
/// that it has just taken is active when the turns of the next lane are counted.
pub(super) async fn a_job_that_a_claim_took_counts_for_its_next_turn(case: Case) {
    let urgent = NewJob {
        priority: 3,
        ..job()
    };
    let sent = case.enqueue_all(vec![urgent, of("a"), job()]).await;
    let claimed = case.claim(10).await;
    let ids: Vec<JobId> = claimed.iter().map(Attempt::id).collect();
    assert_eq!(ids, sent);
}

/// Jobs that became due since the last call are cancelled like those that were ready before.
pub(super) async fn a_purge_takes_jobs_of_shares_that_are_due_since(case: Case) {
    let due_in = |share: &str| NewJob {
        due: Due::After(seconds(5)),
        ..of(share)
    };
    let sent = case
        .enqueue_all(vec![due_in("a"), due_in("b"), due_in("a")])
        .await;
    case.set_time(case.clock() + seconds(6)).await;
    assert_eq!(super::control::purge(&case, 100).await, sent.len());
    assert_eq!(case.claim(10).await.len(), 0);
    assert_eq!(case.top(10).await, []);
}
