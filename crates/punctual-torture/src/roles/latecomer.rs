//! A worker that acts after its lease has expired.

use fastrand::Rng;
use punctual::engine::{Claim, Extend, Lease, LeaseReport, Settle, Settlement, Token, WorkerId};
use punctual::time::{millis, pause, seconds, within};
use punctual::{JobRecord, Namespace, Outcome};

use super::Begun;
use crate::event::Event;
use crate::setting::QUEUES;

/// Takes a few jobs, hands one back in time, lets the lease of the others run out, and then acts as
/// if it still held them. A right engine changes nothing.
///
/// It is what a stopped worker would be if its own clock did not keep it from acting.
pub(super) async fn run(begun: Begun, seed: u64) {
    if begun.setting.mix.quiet_periods > 0 {
        return;
    }
    let mut random = Rng::with_seed(seed ^ 0x1a7e);
    loop {
        pause(millis(random.u64(500..2_500))).await;
        if begun.setting.is_enough() {
            return;
        }
        let _ = be_late(&begun, &mut random).await;
    }
}

const LEASE_DURATION: std::time::Duration = millis(250);
/// Longer than any call takes.
const PATIENT: std::time::Duration = seconds(60);

async fn be_late(begun: &Begun, random: &mut Rng) -> punctual::Result<()> {
    let queue = QUEUES[random.usize(0..QUEUES.len())];
    // Now and then the answer is dropped: a lease without a holder.
    let time_limit = if random.u32(0..4) == 0 {
        millis(2)
    } else {
        PATIENT
    };
    let Some(leases) = within(time_limit, take(begun, queue)).await else {
        begun.history.note(Event::Dropped);
        return Ok(());
    };
    for lease in leases? {
        forge(begun, &lease).await?;
        if lease.jobs.len() > 1 {
            hand_back(begun, &lease, 1).await?;
        }
        pause(LEASE_DURATION).await;
        // Under a lease of their own they are active again: the old one is to be of no use.
        let again = take_again(begun, queue, &lease).await?;
        if again.is_empty() {
            pause(LEASE_DURATION * 2).await;
        }
        act_late(begun, random, &lease).await?;
        for lease in again {
            hand_back(begun, &lease, lease.jobs.len()).await?;
        }
    }
    Ok(())
}

async fn take(begun: &Begun, queue: &str) -> punctual::Result<Vec<Lease>> {
    let mut claim = Claim::new(WorkerId::random(), queue, 3);
    claim.lease_duration = LEASE_DURATION;
    let claimed = begun.engine.claim(&Namespace::default(), claim).await?;
    for lease in &claimed.leases {
        begun.history.note(Event::Late { token: lease.token });
    }
    Ok(claimed.leases)
}

/// Claims until jobs of a lease that is over are among those that come, or others have taken them.
async fn take_again(begun: &Begun, queue: &str, over: &Lease) -> punctual::Result<Vec<Lease>> {
    let mut taken = Vec::new();
    for _ in 0..5 {
        taken.extend(take(begun, queue).await?);
        let jobs = || taken.iter().flat_map(|lease: &Lease| &lease.jobs);
        let same = |job: &JobRecord| over.jobs.iter().any(|old| old.id == job.id);
        if jobs().any(same) {
            break;
        }
        pause(millis(10)).await;
    }
    Ok(taken)
}

/// Prolongs and settles what a lease held, though its lease has ended.
async fn act_late(begun: &Begun, random: &mut Rng, lease: &Lease) -> punctual::Result<()> {
    let namespace = Namespace::default();
    let extend = Extend::new(lease.token, LEASE_DURATION)
        .jobs(lease.jobs.iter().map(|job| job.id).collect());
    begun.engine.extend(&namespace, vec![extend]).await?;
    let ends = lease.jobs.iter().map(|job| {
        let outcome = if random.bool() {
            Outcome::Completed
        } else {
            Outcome::Retry { after: None }
        };
        Settlement::new(job.id, job.attempt, outcome)
    });
    let ends = report(lease, ends.collect());
    begun.engine.settle(&namespace, ends).await.map(drop)
}

/// Releases the first jobs of a lease.
async fn hand_back(begun: &Begun, lease: &Lease, count: usize) -> punctual::Result<()> {
    let ends = lease.jobs[..count].iter();
    let ends = ends.map(|job| Settlement::new(job.id, job.attempt, Outcome::Released));
    let ends = report(lease, ends.collect());
    let settled = begun.engine.settle(&Namespace::default(), ends).await;
    settled.map(drop)
}

/// Acts under the number of a lease without its nonce, as if the number were proof enough.
async fn forge(begun: &Begun, lease: &Lease) -> punctual::Result<()> {
    let token = Token::new(lease.token.fence, lease.token.nonce ^ 1);
    let jobs = lease.jobs.iter().map(|job| job.id).collect();
    let (lease_duration, progress) = (LEASE_DURATION * 8, Vec::new());
    let extend = Extend::new(token, lease_duration)
        .progress(progress)
        .jobs(jobs);
    let namespace = Namespace::default();
    begun.engine.extend(&namespace, vec![extend]).await?;
    let ends = lease.jobs.iter();
    let ends = ends.map(|job| Settlement::new(job.id, job.attempt, Outcome::Completed));
    let ends = Settle::new(vec![LeaseReport::new(token, ends.collect())]);
    begun.engine.settle(&namespace, ends).await.map(drop)
}

fn report(lease: &Lease, ends: Vec<Settlement>) -> Settle {
    Settle::new(vec![LeaseReport::new(lease.token, ends)])
}
