//! Laws of full named limits: what they do with a new job that is due at once.

use super::case::*;
use super::effects::{complete_with, enqueues};
use super::named::{at_most, with};
use crate::engine::{EnqueueVerdict, LimitSettings, OnFull, QueueSettings, Reason, WhenFull};
use crate::job::{Due, Hold, JobId, JobState, NewJob, Outcome, Unique, UniquePolicy};
use crate::time::seconds;

fn refusing(concurrency: u64) -> Option<LimitSettings> {
    Some(at_most(concurrency).when_full(WhenFull::Refuse))
}

fn cancelling(concurrency: u64) -> Option<LimitSettings> {
    Some(at_most(concurrency).when_full(WhenFull::CancelRunning))
}

/// A job with a limit that is due in a second.
fn later(limit: &str) -> NewJob {
    NewJob {
        due: Due::After(seconds(1)),
        ..with(limit)
    }
}

impl Case {
    /// Which of these jobs are asked to stop.
    async fn asked(&self, jobs: &[JobId]) -> Vec<bool> {
        let mut asked = Vec::new();
        for id in jobs {
            asked.push(self.get(*id).await.cancel_requested);
        }
        asked
    }

    /// Starts so many jobs with a limit, a second apart.
    async fn started(&self, limit: &str, jobs: usize) -> Vec<Attempt> {
        let mut started = Vec::new();
        for _ in 0..jobs {
            started.push(self.active(with(limit)).await);
            self.advance(seconds(1)).await;
        }
        started
    }
}

/// A limit that refuses takes no new job while its active jobs are as many as may be.
pub(super) async fn a_full_limit_refuses_new_jobs(case: Case) {
    case.set_limit("build", refusing(1)).await;
    let ready = case.many_with("build:main", 2).await;
    let running = case.claim_one().await;
    assert_eq!(running.id(), ready[0], "ready jobs take no concurrency");
    let refused = with("build:main");
    let verdict = case.verdict(refused.clone()).await;
    assert_eq!(verdict, EnqueueVerdict::LimitFull(0));
    assert!(case.is_unknown(refused.id).await);
    let second = with("free").limit("build:main");
    assert_eq!(case.verdict(second).await, EnqueueVerdict::LimitFull(1));
    let other = case.verdict(with("build:dev")).await;
    assert_eq!(other, EnqueueVerdict::Created, "each key is for itself");
    case.complete(&running).await;
    assert_eq!(case.verdict(refused).await, EnqueueVerdict::Created);
}

/// Of jobs that are sent together each has its own verdict.
pub(super) async fn a_full_limit_refuses_its_own_jobs_only(case: Case) {
    case.set_limit("build", refusing(1)).await;
    let running = case.active(with("build")).await;
    let jobs = vec![with("build"), job(), with("build"), with("free")];
    let sent = ids(&jobs);
    let receipts = case.send_all(jobs).await;
    let verdicts: Vec<_> = receipts.iter().map(|receipt| receipt.verdict).collect();
    let full = EnqueueVerdict::LimitFull(0);
    let created = EnqueueVerdict::Created;
    assert_eq!(verdicts, [full, created, full, created]);
    assert_eq!(case.claim_ids(10).await, [sent[1], sent[3]]);
    assert_eq!(case.get(running.id()).await.state, JobState::Active);
}

/// A job that a full limit refuses changes nothing: the holder of its key and the oldest job stay.
pub(super) async fn a_refused_job_changes_nothing(case: Case) {
    case.set_limit("build", refusing(1)).await;
    case.active(with("build")).await;
    let keyed = |job: NewJob| NewJob {
        unique: Some(Unique {
            key: "page".into(),
            policy: UniquePolicy::Replace,
            hold: Hold::UntilSettled,
        }),
        ..job
    };
    let holder = case.enqueue(keyed(job())).await;
    let settings = QueueSettings::new().max_pending(1);
    case.configure(settings.on_full(OnFull::DeadLetterOldest), 0)
        .await;
    let full = EnqueueVerdict::LimitFull(0);
    assert_eq!(case.verdict(keyed(with("build"))).await, full);
    assert_eq!(case.verdict(with("build")).await, full);
    assert_eq!(case.state(holder).await, JobState::Ready);
    assert_eq!(case.holder("page").await, Some(holder));
}

/// A job that is known already answers as ever, and one that is not due yet waits for its limit.
pub(super) async fn a_full_limit_refuses_only_what_is_due(case: Case) {
    case.set_limit("build", refusing(1)).await;
    let first = with("build");
    let running = case.active(first.clone()).await;
    assert_eq!(case.verdict(first).await, EnqueueVerdict::Duplicate);
    let later = later("build");
    assert_eq!(case.verdict(later.clone()).await, EnqueueVerdict::Created);
    let held = NewJob {
        wait_for: vec!["go".into()],
        ..with("build")
    };
    assert_eq!(case.verdict(held).await, EnqueueVerdict::Created);
    let ends = case.active(job()).await;
    let effect = enqueues(with("build"));
    let verdicts = complete_with(&case, &ends, vec![effect]).await;
    assert_eq!(verdicts, [Some(EnqueueVerdict::Created)], "an effect waits");
    case.advance(seconds(1)).await;
    assert_eq!(case.state(later.id).await, JobState::Ready);
    assert_eq!(case.claim_ids(10).await, [], "they wait");
    case.complete(&running).await;
    assert_eq!(case.claim_ids(10).await.len(), 1);
}

/// Each new job asks the job to stop that started first and was not asked yet, then waits.
pub(super) async fn a_new_job_stops_the_oldest_running_one(case: Case) {
    case.set_limit("build", cancelling(2)).await;
    let running = case.started("build:main", 2).await;
    let other = case.started("build:dev", 1).await;
    let these: Vec<JobId> = running.iter().map(Attempt::id).collect();
    assert_eq!(case.asked(&these).await, [false, false]);
    let next = case.enqueue(with("build:main")).await;
    assert_eq!(case.asked(&these).await, [true, false]);
    assert_eq!(case.claim_ids(10).await, [], "it waits for the slot");
    let after = case.many_with("build:main", 2).await;
    assert_eq!(case.asked(&these).await, [true, true]);
    assert_eq!(case.asked(&[other[0].id()]).await, [false]);
    let cancelled = case.end(&running[0], Outcome::Cancelled).await;
    assert_eq!(cancelled, JobState::Cancelled);
    let started = case.claim_one().await;
    assert_eq!(started.id(), next);
    case.advance(seconds(1)).await;
    case.complete(&running[1]).await;
    assert_eq!(case.claim_ids(10).await, after[..1]);
    case.enqueue(with("build:main")).await;
    let now = [started.id(), after[0]];
    assert_eq!(case.asked(&now).await, [true, false]);
}

/// Jobs that end, crash or are tried again are not those that are asked.
pub(super) async fn only_running_jobs_are_asked_to_stop(case: Case) {
    case.set_limit("build", cancelling(2)).await;
    let running = case.started("build", 2).await;
    case.retry(&running[0], seconds(60)).await;
    let third = case.started("build", 1).await;
    case.enqueue(with("build")).await;
    let these = [running[0].id(), running[1].id(), third[0].id()];
    assert_eq!(case.asked(&these).await, [false, true, false]);
    case.leases_run_out().await;
    case.maintain().await;
    let again = case.claim(10).await;
    assert_eq!(again.len(), 2);
    case.enqueue(with("build")).await;
    let first = case.asked(&[again[0].id(), again[1].id()]).await;
    assert_eq!(first.iter().filter(|asked| **asked).count(), 1);
}

/// Only a caller's job that is due asks: a retry, a delayed job and an effect wait.
pub(super) async fn only_a_new_job_stops_a_running_one(case: Case) {
    case.set_limit("build", cancelling(1)).await;
    let first = case.active(with("build")).await;
    case.retry(&first, seconds(1)).await;
    let running = case.active(with("build")).await;
    case.enqueue(later("build")).await;
    let ends = case.active(job()).await;
    let verdicts = complete_with(&case, &ends, vec![enqueues(with("build"))]).await;
    assert_eq!(verdicts, [Some(EnqueueVerdict::Created)]);
    case.advance(seconds(2)).await;
    assert_eq!(case.claim_ids(10).await, []);
    assert_eq!(case.asked(&[running.id()]).await, [false]);
    let known = with("build");
    case.set_limit("build", Some(at_most(1))).await;
    case.enqueue(known.clone()).await;
    case.set_limit("build", cancelling(1)).await;
    assert_eq!(case.verdict(known).await, EnqueueVerdict::Duplicate);
    assert_eq!(case.asked(&[running.id()]).await, [false]);
}

/// A job that is asked for one limit serves for all that it has.
pub(super) async fn one_job_is_stopped_for_two_limits(case: Case) {
    case.set_limit("a", cancelling(1)).await;
    case.set_limit("b", cancelling(2)).await;
    let both = case.active(with("a").limit("b")).await;
    let other = case.active(with("b")).await;
    case.enqueue(with("b").limit("a")).await;
    let asked = case.asked(&[both.id(), other.id()]).await;
    assert_eq!(asked, [true, false]);
    case.enqueue(with("b")).await;
    let asked = case.asked(&[both.id(), other.id()]).await;
    assert_eq!(asked, [true, true]);
}

/// A full limit and what it does are read, and explained by the jobs that wait.
pub(super) async fn explain_says_what_a_full_limit_does(case: Case) {
    for (name, settings) in [("a", refusing(1)), ("b", cancelling(1))] {
        case.many_with(name, 1).await;
        let waits = case.many_with(name, 1).await;
        case.set_limit(name, settings).await;
        assert_eq!(case.claim(10).await.len(), 1);
        let limit = case.limit(name).await;
        assert_eq!(limit.settings, settings);
        let when_full = settings.map(|limit| limit.when_full).unwrap_or_default();
        let full = Reason::LimitConcurrencyReached {
            name: name.into(),
            limit: 1,
            active: 1,
            when_full,
        };
        let reasons = case.reasons(waits[0]).await;
        assert!(reasons.contains(&full), "{reasons:?}");
    }
}
