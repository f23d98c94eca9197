//! Laws of how many jobs of a share may wait (`max_pending` of a share).

use super::case::*;
use super::control::purge;
use super::draw::Draw;
use super::shares::of;
use crate::engine::{
    Action, EnqueueVerdict, Filter, ListBy, OnFull, QueueSettings, Settlement, ShareSettings,
};
use crate::job::{
    DeadReason, Effect, Group, Hold, JobId, JobState, NewJob, OnRetry, Outcome, Unique,
    UniquePolicy,
};
use crate::time::{hours, millis, seconds};

const CREATED: EnqueueVerdict = EnqueueVerdict::Created;

fn at_most(jobs: u64) -> QueueSettings {
    QueueSettings::new().shares(ShareSettings::new().max_pending(jobs))
}

fn keyed(job: NewJob, policy: UniquePolicy) -> NewJob {
    NewJob {
        unique: Some(Unique {
            key: "page".into(),
            policy,
            hold: Hold::UntilSettled,
        }),
        ..job
    }
}

fn grouped(job: NewJob) -> NewJob {
    NewJob {
        group: Some(Group {
            key: "g".into(),
            on_retry: OnRetry::Hold,
        }),
        ..job
    }
}

impl Case {
    async fn verdicts(&self, jobs: Vec<NewJob>) -> Vec<EnqueueVerdict> {
        let receipts = self.send_all(jobs).await;
        receipts.iter().map(|receipt| receipt.verdict).collect()
    }

    /// Fills a share of one place, whose job waits in this way.
    async fn fill(&self, job: NewJob) -> JobId {
        let id = self.enqueue(job).await;
        self.refuses_more().await;
        id
    }

    async fn refuses_more(&self) {
        let full = EnqueueVerdict::ShareFull(1);
        assert_eq!(self.verdict(of("a")).await, full);
    }

    /// The place of the share is free: the next job takes it, and leaves by its claim.
    async fn has_room_after(&self, what: &str) {
        assert_eq!(self.verdict(of("a")).await, CREATED, "after {what}");
        self.refuses_more().await;
        let attempt = self.claim_one().await;
        assert_eq!(attempt.job.share.as_deref(), Some("a"), "after {what}");
        self.complete(&attempt).await;
    }
}

/// One job more than a share may have is refused, also within one call, and no other is.
pub(super) async fn a_full_share_refuses_one_more(case: Case) {
    case.configure(at_most(3), 0).await;
    let full = EnqueueVerdict::ShareFull(3);
    let later = of("a").delay(hours(1));
    let held = of("a").wait_for(["go"]);
    let jobs = vec![
        later,
        of("b"),
        held,
        of("a"),
        of("a"),
        job(),
        of("a"),
        of("b"),
    ];
    let verdicts = case.verdicts(jobs).await;
    let expected = [
        CREATED, CREATED, CREATED, CREATED, full, CREATED, full, CREATED,
    ];
    assert_eq!(verdicts, expected);
    let first = of("a");
    assert_eq!(case.verdict(first.clone()).await, full);
    let again = case.another().await;
    again.configure(at_most(1), 0).await;
    assert_eq!(again.verdict(first.clone()).await, CREATED);
    assert_eq!(again.verdict(first).await, EnqueueVerdict::Duplicate);
    let mut named = of("a");
    named.queue = "other".into();
    assert_eq!(
        again.verdict(named).await,
        CREATED,
        "another queue has no bound"
    );
}

/// However a job leaves those that wait, its place is free, and one that comes back takes it.
pub(super) async fn every_way_to_leave_frees_a_place_of_a_share(case: Case) {
    case.configure(at_most(1), 0).await;
    let later = || of("a").delay(hours(1));
    case.fill(of("a")).await;
    let attempt = case.claim_one().await;
    case.has_room_after("a claim").await;
    for outcome in [
        Outcome::Released,
        Outcome::Snooze { after: hours(1) },
        Outcome::Retry {
            after: Some(hours(1)),
        },
    ] {
        let case = case.another().await;
        case.configure(at_most(1), 0).await;
        case.fill(of("a")).await;
        let attempt = case.claim_one().await;
        case.end(&attempt, outcome).await;
        case.refuses_more().await;
    }
    case.complete(&attempt).await;
    for job in [
        of("a"),
        later(),
        of("a").wait_for(["go"]),
        grouped(of("a")),
        grouped(later()),
    ] {
        let id = case.fill(job).await;
        case.edit(id, Action::Cancel).await;
        case.has_room_after("a cancel").await;
    }
    for job in [of("a"), later(), of("a").wait_for(["go"])] {
        let mut job = job;
        job.expires_at = Some(case.clock() + seconds(5));
        case.fill(job).await;
        case.advance(seconds(6)).await;
        case.has_room_after("its expiry").await;
    }
    for job in [of("a"), later(), of("a").wait_for(["go"])] {
        case.fill(job).await;
        purge(&case, 100).await;
        case.has_room_after("a purge").await;
    }
    let id = case.fill(of("a")).await;
    let dead = case.ended_by_claim(id).await;
    case.edit(dead, Action::Redrive).await;
    case.refuses_more().await;
    case.edit(dead, Action::Cancel).await;
    case.has_room_after("a cancelled redrive").await;
}

impl Case {
    /// Claims the job and lets it die.
    async fn ended_by_claim(&self, id: JobId) -> JobId {
        let attempt = self.claim_one().await;
        assert_eq!(attempt.id(), id);
        self.end(&attempt, Outcome::Dead).await;
        id
    }
}

/// A job that another replaces gives its place to it; one that follows takes one of its own.
pub(super) async fn a_replaced_job_gives_its_place_of_a_share(case: Case) {
    case.configure(at_most(1), 0).await;
    let first = case.fill(keyed(of("a"), UniquePolicy::Replace)).await;
    let verdict = case.verdict(keyed(of("a"), UniquePolicy::Replace)).await;
    assert_eq!(verdict, EnqueueVerdict::Replaced(first));
    case.refuses_more().await;
    let other = case.verdict(keyed(of("b"), UniquePolicy::Replace)).await;
    assert!(matches!(other, EnqueueVerdict::Replaced(_)), "{other:?}");
    assert_eq!(case.verdict(of("a")).await, CREATED, "its job went to b");
    let refused = case.verdict(keyed(of("a"), UniquePolicy::Replace)).await;
    assert_eq!(refused, EnqueueVerdict::ShareFull(1));
    assert!(case.holder("page").await.is_some(), "nothing was replaced");
}

/// A lost lease brings its job back to those that wait, and a dead letter of a full queue leaves.
pub(super) async fn a_lost_lease_and_an_overflow_count_in_a_share(case: Case) {
    case.configure(at_most(1), 0).await;
    case.fill(of("a")).await;
    case.claim_one().await;
    case.leases_run_out().await;
    case.maintain().await;
    case.refuses_more().await;
    let case = case.another().await;
    let settings = at_most(1).max_pending(1).on_full(OnFull::DeadLetterOldest);
    case.configure(settings, 0).await;
    let oldest = case.fill(of("a")).await;
    assert_eq!(case.verdict(of("b")).await, CREATED);
    assert_eq!(case.get(oldest).await.dead, Some(DeadReason::Overflow));
    assert_eq!(case.verdict(of("a")).await, CREATED);
}

/// Jobs that wait when a bound is set count, a bound below them cancels none, and one that is taken
/// off counts anew when it is set again.
pub(super) async fn a_new_bound_counts_what_waits_in_a_share(case: Case) {
    case.many_of("a", 3).await;
    let later = of("a").delay(hours(1));
    case.enqueue_all(vec![
        later,
        of("a").wait_for(["go"]),
        grouped(of("a")),
        grouped(of("a")),
    ])
    .await;
    let mut version = case.configure(at_most(7), 0).await;
    assert_eq!(case.verdict(of("a")).await, EnqueueVerdict::ShareFull(7));
    version = case.configure(at_most(2), version).await;
    assert_eq!(case.verdict(of("a")).await, EnqueueVerdict::ShareFull(2));
    assert_eq!(case.counts().await.pending(), 7, "none was cancelled");
    version = case.configure(QueueSettings::new(), version).await;
    let attempts = case.claim(100).await;
    assert_eq!(attempts.len(), 4, "one of the group");
    case.many_of("a", 2).await;
    case.configure(at_most(6), version).await;
    assert_eq!(case.verdict(of("a")).await, CREATED);
    assert_eq!(case.verdict(of("a")).await, EnqueueVerdict::ShareFull(6));
}

/// More jobs than one call examines are counted by the enqueues after it, wherever they go.
pub(super) async fn a_new_bound_counts_thousands_a_part_each_call(case: Case) {
    case.many_of("a", 2_000).await;
    for _ in 0..3 {
        let later = |nth: u64| of("a").delay(seconds(1 + nth % 50));
        case.enqueue_all((0..1_000).map(later).collect()).await;
    }
    case.configure(at_most(4_000), 0).await;
    case.advance(seconds(20)).await;
    case.maintain().await;
    let claimed = case.claim(100).await.len() as u64;
    let mut created = 0;
    for _ in 0..60 {
        created += u64::from(case.verdict(of("a")).await == CREATED);
        case.maintain().await;
    }
    assert!(created < 60, "all are counted by now");
    let full = EnqueueVerdict::ShareFull(4_000);
    assert_eq!(case.verdict(of("a")).await, full);
    let over = 5_000 - claimed + created - 4_000;
    let mut left = over;
    while left > 0 {
        let some = case.claim(left.min(100) as usize).await.len() as u64;
        assert!(some > 0, "{left} more than may wait");
        left -= some;
    }
    assert_eq!(case.verdict(of("a")).await, full, "as many as may be");
    case.claim(1).await;
    assert_eq!(case.verdict(of("a")).await, CREATED);
    assert_eq!(case.verdict(of("a")).await, full);
}

/// Effects and edits are not refused by a full share, and count.
pub(super) async fn an_effect_goes_into_a_full_share(case: Case) {
    case.configure(at_most(1), 0).await;
    let attempt = case.active(of("b")).await;
    case.fill(of("a")).await;
    let child = of("a");
    let id = child.id;
    let settlement = Settlement {
        effects: vec![Effect::Enqueue(Box::new(child))],
        ..attempt.ended(Outcome::Completed)
    };
    case.settle_as(attempt.token, settlement).await;
    assert_eq!(case.state(id).await, JobState::Ready);
    case.claim(1).await;
    case.refuses_more().await;
}

const HISTORIES: u64 = 10;
const ACTIONS: usize = 80;

/// Over random jobs, ends and settings a share is full exactly when as many of its jobs wait as
/// may, as a count of all jobs says.
pub(super) async fn random_jobs_fill_shares_as_a_count_says(case: Case) {
    for seed in 0..HISTORIES {
        let case = case.another().await;
        let mut draw = Draw(seed);
        let mut known = Known {
            bound: None,
            version: 0,
            claimed: Vec::new(),
        };
        for nth in 0..ACTIONS {
            let at = format!("history {seed}, action {nth}");
            act(&case, &mut draw, &mut known, &at).await;
        }
    }
}

struct Known {
    bound: Option<u64>,
    version: u64,
    claimed: Vec<Attempt>,
}

async fn act(case: &Case, draw: &mut Draw, known: &mut Known, at: &str) {
    match draw.below(16) {
        0..=6 => send(case, draw, known, at).await,
        7..=8 => known
            .claimed
            .extend(case.claim(1 + draw.below(3) as usize).await),
        9..=10 => end_one(case, draw, known).await,
        11 => {
            known.bound = draw.one(&[None, Some(1), Some(2), Some(4)]);
            let settings = known.bound.map_or(QueueSettings::new(), at_most);
            known.version = case.configure(settings, known.version).await;
        }
        12 => case.advance(millis(draw.below(9_000))).await,
        13 => {
            case.leases_run_out().await;
            known.claimed.clear();
        }
        14 => {
            let waiting = waiting(case).await;
            if !waiting.is_empty() {
                let (id, _) = draw.one(&waiting);
                let action = draw.one(&[Action::Cancel, Action::RunNow, Action::Reprioritise(2)]);
                case.edit(id, action).await;
            }
        }
        _ if draw.below(5) == 0 => {
            purge(case, 50).await;
        }
        _ => case.advance(seconds(draw.below(3))).await,
    }
}

async fn send(case: &Case, draw: &mut Draw, known: &Known, at: &str) {
    let mut jobs = Vec::new();
    for _ in 0..=draw.below(4) {
        let mut job = of(draw.one(&["a", "b"]));
        match draw.below(6) {
            0 => job = job.delay(millis(draw.below(5_000))),
            1 => job = job.wait_for(["go"]),
            2 => job = grouped(job),
            3 => job.expires_at = Some(case.clock() + millis(1 + draw.below(6_000))),
            _ => {}
        }
        if draw.below(6) == 0 {
            job = keyed(job, UniquePolicy::Keep);
        }
        jobs.push(job);
    }
    let mut counts = waiting(case).await;
    let sent = jobs.clone();
    for (job, verdict) in sent.iter().zip(case.verdicts(jobs).await) {
        let share = job.share.as_deref().unwrap_or_default();
        let n = counts.iter().filter(|(_, of)| of == share).count() as u64;
        let full = known.bound.filter(|most| n >= *most);
        match verdict {
            EnqueueVerdict::ShareFull(most) => {
                assert_eq!(Some(most), full, "{at}: {n} of {share} wait");
            }
            EnqueueVerdict::Merged(_) => {}
            verdict => {
                assert_eq!(
                    (verdict, full),
                    (CREATED, None),
                    "{at}: {n} of {share} wait"
                );
                counts.push((job.id, share.to_owned()));
            }
        }
    }
}

async fn end_one(case: &Case, draw: &mut Draw, known: &mut Known) {
    if known.claimed.is_empty() {
        return;
    }
    let nth = draw.below(known.claimed.len() as u64) as usize;
    let attempt = known.claimed.swap_remove(nth);
    let after = Some(seconds(draw.below(4)));
    let outcome = draw.one(&[
        Outcome::Completed,
        Outcome::Retry { after },
        Outcome::Snooze { after: seconds(3) },
        Outcome::Released,
        Outcome::Dead,
    ]);
    case.settle_as(attempt.token, attempt.ended(outcome)).await;
}

/// Jobs that wait, with their shares.
async fn waiting(case: &Case) -> Vec<(JobId, String)> {
    let found = case.list_by(ListBy::All, Filter::default(), 1_000).await;
    let pending = found.into_iter().filter(|job| job.state.is_pending());
    pending
        .map(|job| (job.id, job.share.unwrap_or_default()))
        .collect()
}
