//! Groups of dead letters.

use punctual::engine::{Claim, Engine, LeaseReport, Settle, Settlement, WorkerId};
use punctual::queue::dead_letters::{DeadSearch, EXAMINED_MAX, dead_groups};
use punctual::{MemoryEngine, Namespace, NewJob, Outcome};

/// Dead letters with these errors, in that order.
async fn dead(engine: &MemoryEngine, queue: &str, errors: &[String]) {
    let namespace = Namespace::default();
    for errors in errors.chunks(1_000) {
        let jobs = errors.iter().map(|_| NewJob::new(queue, "{}")).collect();
        engine.enqueue(&namespace, jobs).await.expect("enqueue");
        let claim = Claim::new(WorkerId::random(), queue, errors.len());
        let claimed = engine.claim(&namespace, claim).await.expect("claim");
        for lease in claimed.leases {
            let settlements = lease.jobs.iter().zip(errors).map(|(job, error)| {
                let mut settlement = Settlement::new(job.id, job.attempt, Outcome::Dead);
                settlement.error = (!error.is_empty()).then(|| error.clone());
                settlement
            });
            let report = LeaseReport::new(lease.token, settlements.collect());
            let settle = Settle::new(vec![report]);
            engine.settle(&namespace, settle).await.expect("settle");
        }
    }
}

#[tokio::test]
async fn groups_come_largest_first_bounded_and_say_if_all_were_examined() {
    let engine = MemoryEngine::new();
    let namespace = Namespace::default();
    let timeouts: Vec<_> = (0..3).map(|n| format!("timeout after {n} ms")).collect();
    dead(&engine, "mail", &timeouts).await;
    dead(&engine, "mail", &["refused".to_owned(), String::new()]).await;
    dead(&engine, "bills", &["refused".to_owned()]).await;
    let groups = async |search: DeadSearch| {
        dead_groups(&engine, &namespace, &search)
            .await
            .expect("groups")
    };
    let all = groups(DeadSearch::default()).await;
    let shown: Vec<_> = (all.groups.iter())
        .map(|group| (&*group.queue, &*group.error, group.jobs))
        .collect();
    assert_eq!(shown[0], ("mail", "timeout after # ms", 3));
    assert_eq!(shown.len(), 4, "{shown:?}");
    assert!(shown.contains(&("mail", "permanent", 1)), "{shown:?}");
    assert_eq!((all.examined, all.others, all.complete), (6, 0, true));
    let one = groups(DeadSearch::default().groups(1));
    let one = one.await;
    assert_eq!((one.groups.len(), one.others), (1, 3));
    let found = groups(
        DeadSearch::default()
            .queues(vec!["mail".into()])
            .error(all.groups[0].search.clone()),
    );
    assert_eq!(found.await.groups, all.groups[..1]);

    let many: Vec<_> = (0..EXAMINED_MAX).map(|_| "boom".to_owned()).collect();
    dead(&engine, "mail", &many).await;
    let many = groups(DeadSearch::default()).await;
    assert_eq!((many.examined, many.complete), (EXAMINED_MAX, false));
}
