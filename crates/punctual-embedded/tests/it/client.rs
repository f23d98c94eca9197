//! A client that tests drive an engine with.

use punctual::engine::{
    Action, Claim, Edit, LeaseReport, Select, Settle, Settlement, Target, WorkerId,
};
use punctual::{Effect, Engine, JobId, JobState, Namespace, NewJob, Outcome, Result};

/// The queue of every job here.
pub(crate) const QUEUE: &str = "orders";

/// A job of so many bytes.
pub(crate) fn job(bytes: usize) -> NewJob {
    NewJob::new(QUEUE, vec![b'x'; bytes])
}

pub(crate) async fn enqueue(engine: &impl Engine, bytes: usize) -> Result<JobId> {
    let job = job(bytes);
    let id = job.id;
    engine.enqueue(&Namespace::default(), vec![job]).await?;
    Ok(id)
}

/// Claims one job and completes it, with another job as its effect; answers both.
pub(crate) async fn work(engine: &impl Engine, bytes: usize) -> Result<Option<(JobId, JobId)>> {
    let claim = Claim::new(WorkerId::random(), QUEUE, 1);
    let claimed = engine.claim(&Namespace::default(), claim).await?;
    let Some(lease) = claimed.leases.first() else {
        return Ok(None);
    };
    let (held, follower) = (&lease.jobs[0], job(bytes));
    let next = follower.id;
    let mut end = Settlement::new(held.id, held.attempt, Outcome::Completed);
    end.effects = vec![Effect::Enqueue(Box::new(follower))];
    let leases = vec![LeaseReport::new(lease.token, vec![end])];
    engine
        .settle(&Namespace::default(), Settle::new(leases))
        .await?;
    Ok(Some((held.id, next)))
}

pub(crate) async fn cancel(engine: &impl Engine, id: JobId) -> Result<bool> {
    let edit = Edit::new(Select::Targets(vec![id.into()]), Action::Cancel);
    let edited = engine.edit(&Namespace::default(), edit).await?;
    Ok(edited.verdicts[0].1.is_change())
}

pub(crate) async fn state(engine: &impl Engine, id: JobId) -> Option<JobState> {
    let got = engine
        .get(&Namespace::default(), vec![Target::Id(id)], false)
        .await;
    got.expect("get").remove(0).map(|job| job.state())
}
