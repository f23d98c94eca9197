//! Laws of clears that come before their jobs: kept for an hour, and used by the enqueue.

use super::case::*;
use super::import::import_of;
use crate::engine::{Action, Control, Settlement};
use crate::error::ErrorKind;
use crate::job::{Due, Effect, JobId, JobRecord, JobState, NewJob, Outcome};
use crate::time::{hours, minutes};

fn held(names: &[&str]) -> NewJob {
    let wait_for = names.iter().map(ToString::to_string).collect();
    NewJob { wait_for, ..job() }
}

fn clears(job: JobId, name: &str) -> Effect {
    Effect::Clear {
        job,
        name: name.into(),
    }
}

/// Settles a job whose outcome has these effects.
async fn cause(case: &Case, effects: Vec<Effect>) {
    let attempt = case.active(job()).await;
    let settlement = Settlement {
        effects,
        ..attempt.ended(Outcome::Completed)
    };
    case.end_as(&attempt, settlement).await;
}

/// A clear that comes before its job counts when the job comes; in one settle, too.
pub(super) async fn a_clear_before_its_job_counts_when_it_comes(case: Case) {
    let early = held(&["paid"]);
    cause(&case, vec![clears(early.id, "paid")]).await;
    let id = case.enqueue(early).await;
    let got = case.get(id).await;
    assert_eq!((got.state, got.wait_for.len()), (JobState::Ready, 0));
    assert_eq!(case.drain().await, [id]);
    let (later, sent) = (held(&["paid"]), |job: &NewJob| {
        Effect::Enqueue(Box::new(job.clone()))
    });
    cause(&case, vec![clears(later.id, "paid"), sent(&later)]).await;
    assert_eq!(case.drain().await, [later.id]);
}

/// A clear that no settle brings counts as well.
pub(super) async fn a_clear_without_a_settle_counts_too(case: Case) {
    let early = held(&["paid"]);
    case.control(Control::clear(early.id, "paid")).await;
    let id = case.enqueue(early).await;
    let waiting = case.enqueue(held(&["packed"])).await;
    assert_eq!(case.state(waiting).await, JobState::Held);
    case.control(Control::clear(waiting, "packed")).await;
    let mut ran = case.drain().await;
    ran.sort_unstable();
    let mut expected = [id, waiting];
    expected.sort_unstable();
    assert_eq!(ran, expected);
}

/// An early clear is of that job, and of that name.
pub(super) async fn an_early_clear_is_of_one_job_and_one_name(case: Case) {
    let early = held(&["paid", "packed", "paid"]);
    let effects = vec![clears(early.id, "paid"), clears(early.id, "no such name")];
    cause(&case, effects).await;
    let other = case.enqueue(held(&["paid"])).await;
    let id = case.enqueue(early).await;
    assert_eq!(case.state(other).await, JobState::Held);
    assert_eq!(case.state(id).await, JobState::Held);
    assert_eq!(case.get(id).await.wait_for, ["packed"]);
    cause(&case, vec![clears(id, "packed")]).await;
    assert_eq!(case.drain().await, [id]);
}

/// It counts for an hour of engine time, and not at its end.
pub(super) async fn an_early_clear_counts_for_an_hour(case: Case) {
    let (one, two) = (held(&["paid"]), held(&["paid"]));
    cause(&case, vec![clears(one.id, "paid"), clears(two.id, "paid")]).await;
    case.advance(hours(1) - TICK).await;
    let one = case.enqueue(one).await;
    case.advance(TICK).await;
    let two = case.enqueue(two).await;
    assert_eq!(case.state(one).await, JobState::Ready);
    assert_eq!(case.state(two).await, JobState::Held);
}

/// The same clear once more counts from then on.
pub(super) async fn the_same_clear_again_counts_an_hour_more(case: Case) {
    let early = held(&["paid"]);
    for _ in 0..2 {
        cause(&case, vec![clears(early.id, "paid")]).await;
        case.advance(minutes(45)).await;
    }
    let id = case.enqueue(early).await;
    assert_eq!(case.state(id).await, JobState::Ready);
}

/// The job uses it up: the next one under its id waits again.
pub(super) async fn an_early_clear_is_used_up(case: Case) {
    let early = NewJob {
        due: Due::After(minutes(5)),
        ..held(&["paid"])
    };
    cause(&case, vec![clears(early.id, "paid")]).await;
    let id = case.enqueue(early.clone()).await;
    assert_eq!(case.state(id).await, JobState::Scheduled);
    case.cancel(id).await;
    case.edit(id, Action::Delete).await;
    assert!(case.is_unknown(id).await);
    case.enqueue(early).await;
    assert_eq!(case.state(id).await, JobState::Held);
}

/// A job whose names are cleared is not early for that.
pub(super) async fn an_early_clear_makes_no_job_early(case: Case) {
    let early = NewJob {
        due: Due::After(minutes(5)),
        ..held(&["paid"])
    };
    cause(&case, vec![clears(early.id, "paid")]).await;
    let id = case.enqueue(early).await;
    case.advance(minutes(5) - TICK).await;
    assert_eq!(case.claim_ids(10).await, []);
    case.advance(TICK).await;
    assert_eq!(case.claim_ids(10).await, [id]);
}

/// An imported job that is held for the name runs, too.
pub(super) async fn an_early_clear_lets_an_import_run(case: Case) {
    let now = case.clock();
    let mut past = JobRecord::new(held(&["paid"]), now, now);
    past.state = JobState::Held;
    let early = import_of(&past);
    cause(&case, vec![clears(early.id, "paid")]).await;
    let id = case.enqueue(early).await;
    assert_eq!(case.drain().await, [id]);
}

/// Of jobs that come in one call each has its own.
pub(super) async fn an_early_clear_waits_for_jobs_of_one_call(case: Case) {
    let jobs: Vec<NewJob> = (0..20).map(|_| held(&["paid"])).collect();
    let cleared = jobs.iter().skip(5).step_by(3).map(|job| job.id);
    let cleared: Vec<JobId> = cleared.collect();
    let effects = cleared.iter().map(|id| clears(*id, "paid"));
    cause(&case, effects.collect()).await;
    case.enqueue_all(jobs.clone()).await;
    for job in jobs {
        let expected = match cleared.contains(&job.id) {
            true => JobState::Ready,
            false => JobState::Held,
        };
        assert_eq!(case.state(job.id).await, expected);
    }
    let mut ran = case.drain().await;
    ran.sort_unstable();
    let mut cleared = cleared;
    cleared.sort_unstable();
    assert_eq!(ran, cleared);
}

/// An early clear is of the namespace in which it was made.
pub(super) async fn an_early_clear_is_of_a_namespace(case: Case) {
    let early = held(&["paid"]);
    let case = case.tenant("other");
    case.control(Control::clear(early.id, "paid")).await;
    let case = case.tenant("default");
    let id = case.enqueue(early).await;
    assert_eq!(case.state(id).await, JobState::Held);
}

/// The clear of a job that comes to another shard counts, before or after the job came there.
pub(super) async fn a_clear_for_elsewhere_counts_too(case: Case) {
    for shard in [0, 613, 1_022] {
        let far = NewJob {
            id: JobId::new().in_shard(shard),
            ..held(&["paid"])
        };
        cause(&case, vec![clears(far.id, "paid")]).await;
        let id = case.enqueue(far).await;
        for _ in 0..100 {
            if case.state(id).await != JobState::Held {
                break;
            }
            case.maintain().await;
        }
        assert_eq!(case.drain().await, [id]);
    }
}

/// Of more than a namespace keeps the oldest are forgotten, and nothing is refused.
pub(super) async fn the_oldest_early_clears_give_way(case: Case) {
    const MOST: usize = 8;
    let case = case.limited(|limits| limits.early_clears = MOST).await;
    let (oldest, next) = (held(&["paid"]), held(&["paid"]));
    case.control(Control::clear(oldest.id, "paid")).await;
    case.advance(TICK).await;
    case.control(Control::clear(next.id, "paid")).await;
    case.advance(TICK).await;
    for _ in 1..MOST {
        case.control(Control::clear(JobId::new(), "paid")).await;
    }
    let oldest = case.enqueue(oldest).await;
    let next = case.enqueue(next).await;
    assert_eq!(case.state(oldest).await, JobState::Held);
    assert_eq!(case.state(next).await, JobState::Ready);
}

/// A clear of a name that nothing may have is refused whole.
pub(super) async fn a_hostile_clear_is_refused(case: Case) {
    let long = "x".repeat(257);
    for name in ["", long.as_str(), "a\nb", "a\u{202e}b"] {
        let clear = Control::clear(JobId::new(), name);
        let refused = case.engine().control(&case.namespace, clear).await;
        let error = refused.expect_err("a hostile name");
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{name:?}");
    }
}
