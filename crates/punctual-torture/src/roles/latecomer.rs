use fastrand::Rng;
use punctual::engine::{Claim, Extend, Page, PageReport, Settle, Settlement, Token, WorkerId};
use punctual::time::{millis, pause};
use punctual::{Namespace, Outcome};

use super::Begun;
use crate::event::Event;
use crate::setting::QUEUES;

/// Takes a few jobs, hands one back in time, lets the lease of the others run out, and then acts as
/// if it still held them. A right engine changes nothing.
///
/// It is what a stopped worker would be if its own clock did not keep it from acting.
pub(super) async fn run(begun: Begun, seed: u64) {
    let mut random = Rng::with_seed(seed ^ 0x1a7e);
    loop {
        pause(millis(random.u64(500..2_500))).await;
        if begun.setting.is_enough() {
            return;
        }
        let _ = be_late(&begun, &mut random).await;
    }
}

const LEASE: std::time::Duration = millis(250);

async fn be_late(begun: &Begun, random: &mut Rng) -> punctual::Result<()> {
    let (engine, namespace) = (&begun.engine, Namespace::default());
    let queue = QUEUES[random.usize(0..QUEUES.len())];
    let mut claim = Claim::new(WorkerId::random(), queue, 3);
    claim.lease = LEASE;
    let claimed = engine.claim(&namespace, claim).await?;
    for page in claimed.pages {
        begun.history.note(Event::Late { token: page.token });
        forge(begun, &page).await?;
        if let Some(first) = page.jobs.first().filter(|_| page.jobs.len() > 1) {
            let back = Settlement::new(first.id, first.attempt, Outcome::Released);
            engine.settle(&namespace, report(&page, vec![back])).await?;
        }
        pause(LEASE * 3).await;
        let jobs = page.jobs.iter().map(|job| job.id).collect();
        let extend = Extend {
            token: page.token,
            lease: LEASE,
            progress: Vec::new(),
            jobs,
        };
        engine.extend(&namespace, vec![extend]).await?;
        let ends = page.jobs.iter().map(|job| {
            let outcome = if random.bool() {
                Outcome::Completed
            } else {
                Outcome::Retry { after: None }
            };
            Settlement::new(job.id, job.attempt, outcome)
        });
        engine
            .settle(&namespace, report(&page, ends.collect()))
            .await?;
    }
    Ok(())
}

/// Acts under the number of a lease without its nonce, as if the number were proof enough.
async fn forge(begun: &Begun, page: &Page) -> punctual::Result<()> {
    let token = Token {
        nonce: page.token.nonce ^ 1,
        ..page.token
    };
    let jobs = page.jobs.iter().map(|job| job.id).collect();
    let (lease, progress) = (LEASE * 8, Vec::new());
    let extend = Extend {
        token,
        lease,
        progress,
        jobs,
    };
    let namespace = Namespace::default();
    begun
        .engine
        .extend(&namespace, vec![extend])
        .await
        .map(drop)
}

fn report(page: &Page, ends: Vec<Settlement>) -> Settle {
    Settle {
        pages: vec![PageReport::new(page.token, ends)],
    }
}
