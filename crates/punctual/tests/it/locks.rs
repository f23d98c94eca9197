//! Locks: one holder, fences, waiters, and what becomes of a lock whose holder is gone.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::engine::{Claim, ClaimMode, StatsRequest, WorkerId};
use punctual::lock::{LockGuard, LockWaiter, lock_all};
use punctual::time::{ManualClock, millis, seconds};
use punctual::worker::{HandlerResult, State as Shared};
use punctual::{
    Context, Engine, ErrorKind, JobState, MemoryEngine, Namespace, Outcome, Queue, Worker,
};

use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_has_one_holder_and_fences_grow() {
    let queue = Queue::new(MemoryEngine::new());
    let inside = Arc::new(AtomicUsize::new(0));
    let fences = Arc::new(Mutex::new(Vec::new()));
    let takers = (0..8).map(|_| {
        let (queue, inside, fences) = (queue.clone(), inside.clone(), fences.clone());
        tokio::spawn(async move {
            for _ in 0..20 {
                let guard = soon(queue.lock("stock:7").wait(seconds(20))).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                fences.lock().unwrap().push(guard.fence());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        })
    });
    for taker in takers.collect::<Vec<_>>() {
        taker.await.unwrap();
    }
    let fences = fences.lock().unwrap();
    assert_eq!(fences.len(), 160);
    assert!(fences.is_sorted_by(|a, b| a < b));
}

#[tokio::test]
async fn a_free_lock_takes_two_round_trips() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let guard = queue.lock("a").try_now().await.unwrap();
    // These two are sent together.
    assert_eq!((probe.calls("enqueue"), probe.calls("claim")), (1, 1));
    guard.release().await.unwrap();
    assert_eq!((probe.calls("settle"), probe.all_calls()), (1, 3));
}

/// A waiter outlives an engine that is away for a while; what is wrong for good ends the wait.
#[tokio::test]
async fn a_waiter_tries_an_engine_that_is_away_again() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let away = Fault::Lost(ErrorKind::EngineUnavailable);
    for verb in ["enqueue", "claim"] {
        probe.fail(verb, [away; 3]);
        let guard = soon(queue.lock("a").wait(seconds(60))).await.unwrap();
        guard.release().await.unwrap();
    }
    probe.fail("claim", [Fault::Lost(ErrorKind::InvalidInput)]);
    let error = soon(queue.lock("a").wait(seconds(60))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn a_waiter_is_woken_by_the_release() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let guard = queue.lock("a").try_now().await.unwrap();
    let other = queue.clone();
    let waiting = tokio::spawn(async move { other.lock("a").wait(seconds(60)).await });
    soon(async {
        while probe.calls("wait") == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    guard.release().await.unwrap();
    // It asks for nothing but the ticket, the lock and the release, each time it wakes.
    assert_eq!(probe.calls("info"), 0);
    // The clock stands still: nothing else can have woken it.
    drop(soon(waiting).await.unwrap().unwrap());
}

/// Eight wait: a handover costs what two takers call, not what eight do.
#[tokio::test]
async fn a_release_wakes_one_waiter_and_they_take_turns() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let first = queue.lock("a").lease(seconds(600)).try_now().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..8 {
        let (other, order) = (queue.clone(), order.clone());
        waiters.push(tokio::spawn(async move {
            let lock = other.lock("a").lease(seconds(600));
            let guard = lock.wait(seconds(600)).await.unwrap();
            order.lock().unwrap().push(number);
            // Each other waiter has the time to try.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            guard.release().await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    soon(async {
        while probe.calls("wait") == 0 || probe.calls("claim") < 9 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let before = probe.all_calls();
    first.release().await.unwrap();
    for waiter in waiters {
        soon(waiter).await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    // A settle, two calls of the one that takes it, two and a wait of the next.
    let calls = probe.all_calls() - before;
    assert!(calls <= 8 * 6, "{calls} calls for eight handovers");
}

#[tokio::test]
async fn a_wait_that_ends_names_the_holder() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    let _guard = queue.lock("a").lease(seconds(600)).try_now().await.unwrap();
    let other = queue.clone();
    let waiting = tokio::spawn(async move { other.lock("a").wait(seconds(60)).await });
    let error = soon(async {
        while !waiting.is_finished() {
            clock.advance(millis(500));
            tokio::task::yield_now().await;
        }
        waiting.await.unwrap().unwrap_err()
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error
            .to_string()
            .contains("lock: lock is held (conflict, lock: a"),
        "{error}"
    );
}

/// The holder stands still for three leases: another one has the lock, and the store that keeps the
/// largest fence refuses the old one.
#[tokio::test]
async fn a_stopped_holder_is_refused_by_its_fence() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    let lease = millis(60);
    let stopped = queue.lock("a").lease(lease).try_now().await.unwrap();
    pass(&probe, &clock, 3 * lease).await;
    let next = queue.lock("a").lease(seconds(60)).try_now().await.unwrap();
    let store = Store::default();
    assert!(store.write(next.fence()));
    assert!(!store.write(stopped.fence()));
    soon(stopped.lost()).await;
    assert!(!stopped.is_valid() && next.is_valid());
    let error = stopped.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LeaseLost);
    let held = queue.lock("a").try_now().await.unwrap_err();
    assert_eq!(held.kind(), ErrorKind::Conflict);
}

/// Time passes while the engine is at work: after a jump it would extend all leases once.
async fn pass(probe: &Probe, clock: &ManualClock, span: Duration) {
    for _ in 0..20 {
        clock.advance(span / 20);
        probe.maintain().await.unwrap();
    }
}

/// Takes writes of fences that are not smaller than the last one.
#[derive(Default)]
struct Store(AtomicU64);

impl Store {
    fn write(&self, fence: u64) -> bool {
        self.0.fetch_max(fence, Ordering::SeqCst) <= fence
    }
}

#[tokio::test]
async fn a_lock_outlives_any_number_of_dead_holders() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    queue
        .lock("a")
        .try_now()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    // A first ticket, and holders that never answer again.
    let mut ticket = punctual::NewJob::new("lock:a", "");
    ticket.kind = "lock".into();
    ticket = ticket.unique("lock");
    queue.enqueue_job(ticket).await.unwrap();
    for _ in 0..5 {
        let claim = Claim::new(WorkerId::random(), "lock:a", 1).mode(ClaimMode::Alone);
        let claimed = probe.claim(&Namespace::default(), claim).await.unwrap();
        assert!(claimed.leases.len() <= 1);
        pass(&probe, &clock, seconds(11)).await;
    }
    drop(queue.lock("a").try_now().await.unwrap());
}

async fn buy(job: Ping, ctx: Context, Shared(runs): Shared<Arc<AtomicUsize>>) -> HandlerResult {
    runs.fetch_add(1, Ordering::SeqCst);
    let guard = ctx.lock("stock")?.or_snooze(seconds(2)).await?;
    assert!(guard.is_valid() && job.n == 1);
    Ok(Outcome::Completed)
}

#[tokio::test]
async fn a_job_that_meets_a_lock_comes_again_later() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    let guard = queue.lock("stock").try_now().await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let worker = Worker::new(&probe).state(runs.clone()).handle(buy);
    let id = send(&probe, 1).await;
    soon(worker.run_until_idle()).await.unwrap();
    let job = probe.job(id).await;
    assert_eq!(
        (job.state, job.failures, runs.load(Ordering::SeqCst)),
        (JobState::Scheduled, 0, 1)
    );
    let span = job.due - clock_now(&probe).await;
    assert!(span >= seconds(2) && span <= seconds(3), "{span:?}");
    guard.release().await.unwrap();
    clock.advance(seconds(3));
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    drop(queue.lock("stock").wait(seconds(1)).await.unwrap());
}

async fn clock_now(probe: &Probe) -> punctual::time::Timestamp {
    probe.info().await.unwrap().now
}

/// The error names the job that holds the lock; and the lock goes with the attempt, whatever
/// became of its guard.
#[tokio::test]
async fn a_guard_left_behind_is_released_with_its_attempt() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let kept: Arc<Mutex<Vec<LockGuard>>> = Arc::default();
    let refusal: Arc<Mutex<String>> = Arc::default();
    let (guards, reported) = (kept.clone(), refusal.clone());
    let worker = Worker::new(&probe).handle(move |_: Ping, ctx: Context| {
        let (guards, reported) = (guards.clone(), reported.clone());
        async move {
            let guard = ctx.lock("a")?.try_now().await?;
            let refused = ctx.lock("a")?.try_now().await.unwrap_err();
            *reported.lock().unwrap() = refused.to_string();
            guards.lock().unwrap().push(guard);
            HandlerResult::Ok(Outcome::Completed)
        }
    });
    let id = send(&probe, 1).await;
    soon(worker.run_until_idle()).await.unwrap();
    assert!(refusal.lock().unwrap().contains(&format!("holder: {id}")));
    drop(soon(queue.lock("a").wait(seconds(1))).await.unwrap());
    assert!(!kept.lock().unwrap()[0].is_valid());
}

#[tokio::test]
async fn several_locks_are_taken_all_or_none() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    let two = || [queue.lock("b"), queue.lock("a")];
    let guards = lock_all(two(), seconds(1)).await.unwrap();
    assert_eq!(
        guards.iter().map(LockGuard::name).collect::<Vec<_>>(),
        ["a", "b"]
    );
    drop(guards);
    let b = soon(queue.lock("b").wait(seconds(1))).await.unwrap();
    let refused = tokio::spawn(lock_all(two(), seconds(1)));
    let refused = soon(async {
        while !refused.is_finished() {
            clock.advance(millis(500));
            tokio::task::yield_now().await;
        }
        refused.await.unwrap().unwrap_err()
    })
    .await;
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    drop(soon(queue.lock("a").wait(seconds(1))).await.unwrap());
    drop(b);

    let twice = lock_all([queue.lock("a"), queue.lock("a")], seconds(1)).await;
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn malformed_names_are_refused() {
    let queue = Queue::new(MemoryEngine::new());
    for name in ["", "a b", "../a", &"x".repeat(124)] {
        let error = queue.lock(name).try_now().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName, "{name}");
    }
    drop(queue.lock("x".repeat(123)).try_now().await.unwrap());
}

/// A producer may enqueue into the queue of a lock: such jobs are no locks, and become dead.
#[tokio::test]
async fn a_job_in_the_queue_of_a_lock_is_no_lock() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let mut no_tickets = Vec::new();
    for _ in 0..2 {
        let job = punctual::NewJob::new("lock:a", "{}");
        no_tickets.push(queue.enqueue_job(job).await.unwrap().id);
    }
    let _guard = queue.lock("a").try_now().await.unwrap();
    let error = queue.lock("a").try_now().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    for id in no_tickets {
        assert_eq!(probe.job(id).await.state, JobState::Dead);
    }
}

#[tokio::test]
async fn a_paused_lock_says_so() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let pause = punctual::engine::Control::Pause {
        queue: "lock:a".into(),
    };
    probe.control(&Namespace::default(), pause).await.unwrap();
    let error = queue.lock("a").try_now().await.unwrap_err();
    assert!(error.to_string().contains("its queue is paused"), "{error}");
}

/// A producer can have the one key of a lock for a job of its own: the error says which to cancel.
#[tokio::test]
async fn a_lock_whose_ticket_is_due_later_says_so() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let job = punctual::NewJob::new("lock:a", "").unique("lock");
    let later = queue.enqueue_job(job.delay(seconds(3_600))).await.unwrap();
    let error = queue.lock("a").try_now().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("cancel that job"), "{error}");
    queue.cancel(later.id).await.unwrap();
    drop(queue.lock("a").try_now().await.unwrap());
}

/// A lease of a millisecond makes no waiter that tries each millisecond.
#[tokio::test]
async fn a_waiter_with_a_short_lease_does_not_poll_all_the_time() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    let holder = queue.lock("a").lease(seconds(60)).try_now().await.unwrap();
    let waiting = tokio::spawn({
        let lock = queue.lock("a").lease(millis(1));
        async move { lock.wait(millis(500)).await }
    });
    while !waiting.is_finished() {
        pass(&probe, &clock, millis(1)).await;
        tokio::task::yield_now().await;
    }
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(probe.calls("wait") <= 11, "{} waits", probe.calls("wait"));
    holder.release().await.unwrap();
}

/// Who waits is shown beside the holder, and is no worker; a lock that is free costs no record.
#[tokio::test]
async fn a_lock_shows_its_holder_and_its_waiters() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    assert_eq!(queue.locks().await.unwrap(), []);
    let kept: Arc<Mutex<Vec<LockGuard>>> = Arc::default();
    let (guards, entered) = (kept.clone(), Arc::new(tokio::sync::Notify::new()));
    let enters = entered.clone();
    let worker = Worker::new(&probe).handle(move |_: Ping, ctx: Context| {
        let (guards, enters) = (guards.clone(), enters.clone());
        async move {
            let held = ctx.lock("a")?.lease(seconds(600)).try_now().await?;
            guards.lock().unwrap().push(held);
            enters.notify_one();
            let _other = ctx.lock("b")?.wait(seconds(600)).await?;
            HandlerResult::Ok(Outcome::Completed)
        }
    });
    let b = queue.lock("b").lease(seconds(600)).try_now().await.unwrap();
    let id = send(&probe, 1).await;
    let running = tokio::spawn(async move { worker.run_until(std::future::pending::<()>()).await });
    soon(entered.notified()).await;
    let other = queue.clone();
    let waiting = tokio::spawn(async move { other.lock("a").wait(seconds(600)).await });
    let locks = soon(async {
        loop {
            clock.advance(millis(100));
            let locks = queue.locks().await.unwrap();
            if locks.iter().filter(|lock| !lock.waiters.is_empty()).count() == 2 {
                break locks;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let names: Vec<&str> = locks.iter().map(|lock| &*lock.name).collect();
    assert_eq!(names, ["a", "b"]);
    let holder = |at: usize| locks[at].holder.as_ref().expect("it is held").job;
    assert_eq!((holder(0), holder(1)), (Some(id), None));
    assert_eq!(locks[0].waiters[0].job, None);
    assert_eq!(locks[1].waiters[0].job, Some(id));
    let one = queue.lock("a").status().await.unwrap();
    assert_eq!(
        (one.holder, one.waiters.len()),
        (locks[0].holder.clone(), 1)
    );
    let home = Namespace::default();
    let stats = probe.stats(&home, StatsRequest::default());
    let stats = stats.await.unwrap();
    let (waiters, workers): (Vec<_>, Vec<_>) =
        stats.workers.iter().partition(|seen| LockWaiter::is(seen));
    assert_eq!((waiters.len(), workers.len()), (2, 1));

    // What has given up is gone after a while.
    waiting.abort();
    running.abort();
    clock.advance(millis(2_100));
    assert_eq!(queue.lock_waiters().await.unwrap(), []);
    drop(b);
}

/// Its record is two seconds old at most, but the lock has been taken and is free since.
#[tokio::test]
async fn a_waiter_that_had_the_lock_is_listed_no_more() {
    let (probe, clock) = Probe::new();
    let queue = Queue::new(&probe);
    let first = queue.lock("a").lease(seconds(600)).try_now().await.unwrap();
    let other = queue.clone();
    let waiting =
        tokio::spawn(async move { other.lock("a").lease(seconds(600)).wait(seconds(600)).await });
    let waiters = async || queue.lock("a").status().await.unwrap().waiters.len();
    soon(async {
        while waiters().await == 0 {
            clock.advance(millis(100));
            tokio::task::yield_now().await;
        }
    })
    .await;
    first.release().await.unwrap();
    let second = soon(waiting).await.unwrap().unwrap();
    assert_eq!(waiters().await, 0);
    second.release().await.unwrap();
    assert_eq!(waiters().await, 0);
    assert_eq!(queue.locks().await.unwrap(), []);
    // Another holder: what waited before that has tried since, or is gone.
    let third = queue.lock("a").lease(seconds(600)).try_now().await.unwrap();
    clock.advance(millis(1_100));
    assert_eq!(waiters().await, 0);
    third.release().await.unwrap();
}

#[tokio::test]
async fn the_bound_of_the_name_of_a_lock_is_named() {
    let queue = Queue::new(MemoryEngine::new());
    let longest = "a".repeat(123);
    let guard = queue.lock(&longest).try_now().await.unwrap();
    guard.release().await.unwrap();
    for name in [
        "a".repeat(124),
        "a".repeat(129),
        "a b".into(),
        String::new(),
    ] {
        let error = queue.lock(&name).try_now().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidName);
        let text = error.to_string();
        assert!(text.contains("use 1 to 123 of a-z"), "{text}");
    }
}
