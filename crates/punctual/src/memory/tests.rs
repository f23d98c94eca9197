//! Unit tests of `memory`.

use super::*;
use crate::engine::{Claim, LeaseReport, Settle, SettleVerdict, Settlement, WorkerId};
use crate::job::{Due, JobState, Outcome};
use crate::time::{ManualClock, minutes};

#[tokio::test]
async fn a_delayed_job_is_claimed_when_it_is_due_and_not_before() {
    let clock = ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000));
    let engine = MemoryEngine::with_clock(clock.clone());
    let namespace = Namespace::default();
    let job = NewJob {
        due: Due::After(minutes(30)),
        ..NewJob::new("orders", "{}")
    };
    let id = job.id;
    engine.enqueue(&namespace, vec![job]).await.unwrap();

    let worker = WorkerId::random();
    let claimed = engine
        .claim(&namespace, Claim::new(worker, "orders", 10))
        .await
        .unwrap();
    assert!(claimed.leases.is_empty());
    assert_eq!(claimed.wake_at, Some(clock.now() + minutes(30)));

    clock.advance(minutes(30));
    let claimed = engine
        .claim(&namespace, Claim::new(worker, "orders", 10))
        .await
        .unwrap();
    let lease = &claimed.leases[0];
    assert_eq!((lease.jobs[0].id, lease.jobs[0].attempt), (id, 1));

    let done = Settlement::new(id, 1, Outcome::Completed);
    let settle = Settle {
        leases: vec![LeaseReport::new(lease.token, vec![done])],
    };
    let settled = engine.settle(&namespace, settle.clone()).await.unwrap();
    let expected = SettleVerdict::Settled {
        state: JobState::Completed,
        due: None,
        effects: vec![],
    };
    assert_eq!(settled.verdicts, [[expected]]);
    let again = engine.settle(&namespace, settle).await.unwrap();
    assert_eq!(again.verdicts, [[SettleVerdict::Repeated]]);
}

#[tokio::test]
async fn a_waiter_for_changes_of_a_quiet_engine_rests() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake, Waker};

    #[derive(Default)]
    struct Wakes(AtomicUsize);
    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    let engine = MemoryEngine::with_clock(ManualClock::new(Timestamp::from_micros(7)));
    let namespace = Namespace::default();
    let wait = |after| engine.wait(&namespace, WaitFor::Changes(after), Timestamp::MAX);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    // The first wait makes the engine record; the second one waits while it does.
    let begun = engine.wait(&namespace, WaitFor::Changes(None), Timestamp::ZERO);
    let Ok(Waited::Changes { cursor, .. }) = begun.await else {
        panic!("a feed begins");
    };
    for after in [None, Some(cursor)] {
        let mut waiting = wait(after);
        let first = waiting.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(first.is_pending());
        assert_eq!(
            wakes.0.load(Ordering::Relaxed),
            0,
            "it looked again and again"
        );
    }
}
