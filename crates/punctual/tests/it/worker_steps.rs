//! Durable steps: what is kept is not run again, whatever becomes of the worker.

use std::sync::{Arc, Mutex};

use punctual::engine::EditVerdict;
use punctual::job::{MemoSource, PastOutcome};
use punctual::time::{days, hours};
use punctual::{Context, ErrorKind, JobId, JobState, Outcome, Queue, Result, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::support::*;

const STEPS: usize = 10;

fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// The keys with which each step called the far side.
type Calls = Arc<Mutex<Vec<Vec<String>>>>;

/// Where a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// In that step, after the far side has taken the call and before it is kept.
    Within(usize),
    /// Once that step is kept.
    After(usize),
    Never,
}

/// A process whose handler takes ten steps, and which ends at that point.
fn process(probe: &Arc<Probe>, calls: &Calls, end: End) -> (Worker, mpsc::UnboundedReceiver<()>) {
    let (over, is_over) = mpsc::unbounded_channel();
    let calls = calls.clone();
    let handler = move |_: Ping, ctx: Context| {
        let (over, calls) = (over.clone(), calls.clone());
        async move {
            for nth in 0..STEPS {
                let name = format!("step-{nth}");
                let (key, calls, ends) = (ctx.key(&name), calls.clone(), over.clone());
                let step = || async move {
                    calls.lock().unwrap()[nth].push(key);
                    if end == End::Within(nth) {
                        ends.send(()).unwrap();
                        std::future::pending::<()>().await;
                    }
                    ok(nth * nth)
                };
                assert_eq!(ctx.step(name, step).await?, nth * nth);
                if end == End::After(nth) {
                    over.send(()).unwrap();
                    std::future::pending::<()>().await;
                }
            }
            ok(Outcome::Completed)
        }
    };
    (Worker::new(probe).handle(handler), is_over)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kept_step_runs_again_wherever_the_worker_is_killed() {
    let points = (0..STEPS).flat_map(|nth| [End::Within(nth), End::After(nth)]);
    for end in points {
        let (probe, clock) = Probe::new();
        let id = send(&probe, 1).await;
        let calls: Calls = Arc::new(Mutex::new(vec![Vec::new(); STEPS]));
        let (worker, mut is_over) = process(&probe, &calls, end);
        let holders = Arc::strong_count(&probe);
        let running = background(&worker);
        soon(is_over.recv()).await;
        running.kill(&probe, holders).await;
        leases_run_out(&probe, &clock).await;
        let (worker, _is_over) = process(&probe, &calls, End::Never);
        soon(worker.run_until_idle()).await.unwrap();
        assert_eq!(probe.job(id).await.state, JobState::Completed, "{end:?}");
        let calls = calls.lock().unwrap();
        for (nth, keys) in calls.iter().enumerate() {
            let times = if end == End::Within(nth) { 2 } else { 1 };
            let key = format!("{id}/step-{nth}");
            assert_eq!(*keys, vec![key; times], "step {nth}, {end:?}");
        }
    }
}

#[tokio::test]
async fn a_step_costs_one_call() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let calls: Calls = Arc::new(Mutex::new(vec![Vec::new(); STEPS]));
    let (worker, _is_over) = process(&probe, &calls, End::Never);
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(probe.job(id).await.memos.len(), STEPS);
    assert!(probe.calls("extend") * 10 <= STEPS * 11, "1.1 a step");
}

#[tokio::test]
async fn a_lost_answer_keeps_a_step_once() {
    for fault in [
        Fault::Lost(ErrorKind::EngineUnavailable),
        Fault::Unanswered(ErrorKind::EngineUnavailable),
    ] {
        let (probe, _clock) = Probe::new();
        let id = send(&probe, 1).await;
        let calls: Calls = Arc::new(Mutex::new(vec![Vec::new(); STEPS]));
        probe.fail("extend", [fault]);
        let (worker, _is_over) = process(&probe, &calls, End::Never);
        soon(worker.run_until_idle()).await.unwrap();
        let job = probe.job(id).await;
        assert_eq!((job.state, job.memos.len()), (JobState::Completed, STEPS));
        assert!(calls.lock().unwrap().iter().all(|keys| keys.len() == 1));
    }
}

/// How an attempt that does this ends.
async fn error_of<F, Fut>(handler: F) -> String
where
    F: Fn(Context) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    let worker = Worker::new(&probe).handle(move |_: Ping, ctx: Context| handler(ctx));
    soon(worker.run_until_idle()).await.unwrap();
    probe.job(id).await.last_error.unwrap()
}

#[tokio::test]
async fn a_name_is_used_once_and_no_step_is_within_another() {
    let twice = error_of(async |ctx: Context| {
        ctx.step("a", || async { ok(1) }).await?;
        ctx.step("a", || async { ok(2) }).await.map(drop)
    });
    let error = twice.await;
    assert!(error.contains("used in this attempt"), "{error}");
    let nested = error_of(async |ctx: Context| {
        let inner = ctx.clone();
        let outer = ctx.step("outer", || async move {
            inner.step("inner", || async { ok(1) }).await
        });
        outer.await.map(drop)
    });
    let error = nested.await;
    assert!(error.contains("within another one"), "{error}");
    let large = error_of(async |ctx: Context| {
        let value = "x".repeat(9 << 10);
        ctx.step("large", || async { ok(value) }).await.map(drop)
    });
    let error = large.await;
    assert!(error.contains("over the limit"), "{error}");
}

#[tokio::test]
async fn a_result_that_does_not_decode_is_a_dead_letter_with_the_name() {
    let (probe, clock) = Probe::new();
    let id = send(&probe, 1).await;
    async fn before(_: Ping, ctx: Context) -> Result<Outcome> {
        ctx.step("charge", || async { ok("receipt".to_owned()) })
            .await?;
        Ok(Outcome::Snooze { after: hours(1) })
    }
    async fn deployed(_: Ping, ctx: Context) -> Result<Outcome> {
        ctx.step("charge", || async { ok(7) }).await?;
        Ok(Outcome::Completed)
    }
    let worker = Worker::new(&probe).handle(before);
    soon(worker.run_until_idle()).await.unwrap();
    clock.advance(hours(1));
    let worker = Worker::new(&probe).handle(deployed);
    soon(worker.run_until_idle()).await.unwrap();
    let job = probe.job(id).await;
    assert_eq!(job.state, JobState::Dead);
    let error = job.last_error.unwrap();
    assert!(error.contains("charge"), "{error}");
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Approval {
    by: String,
}

/// Notes what it comes to; sleeps, and waits for an approval.
fn approving(probe: &Arc<Probe>) -> (Worker, Arc<Mutex<Vec<String>>>) {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let written = notes.clone();
    let handler = move |_: Ping, ctx: Context| {
        let notes = written.clone();
        async move {
            let note = |text: String| notes.lock().unwrap().push(text);
            ctx.step("ask", || async {
                note("asked".into());
                ok(())
            })
            .await?;
            ctx.sleep("cool-off", days(3)).await?;
            let approval: Option<Approval> = ctx.wait_for("approved", days(7)).await?;
            note(match approval {
                Some(Approval { by }) => format!("approved by {by}"),
                None => "timed out".into(),
            });
            ok(Outcome::Completed)
        }
    };
    (Worker::new(probe).handle(handler), notes)
}

#[tokio::test]
async fn a_handler_sleeps_and_waits_for_a_signal() {
    let (probe, clock) = Probe::new();
    let id = send(&probe, 1).await;
    let (worker, notes) = approving(&probe);
    soon(worker.run_until_idle()).await.unwrap();
    let asleep = probe.job(id).await;
    assert_eq!((asleep.state, asleep.attempt), (JobState::Held, 1));
    assert_eq!(asleep.attempts[0].outcome, PastOutcome::Hold);
    clock.advance(days(3));
    soon(worker.run_until_idle()).await.unwrap();
    let waits = probe.job(id).await;
    assert_eq!((waits.state, waits.failures), (JobState::Held, 0));
    assert_eq!(waits.wait_for, ["approved"]);
    let by = Approval { by: "ann".into() };
    let queue = Queue::new(&probe);
    let verdict = queue.signal(id, "approved", &by).await.unwrap();
    assert_eq!(verdict, EditVerdict::Done(JobState::Ready));
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(probe.job(id).await.state, JobState::Completed);
    assert_eq!(*notes.lock().unwrap(), ["asked", "approved by ann"]);
    let settled = queue.signal(id, "approved", &by).await.unwrap();
    assert_eq!(settled, EditVerdict::WrongState(JobState::Completed));
    let unknown = queue.signal(JobId::new(), "approved", &by).await.unwrap();
    assert_eq!(unknown, EditVerdict::NotFound);
}

#[tokio::test]
async fn a_wait_times_out_and_a_signal_before_it_counts() {
    let (probe, clock) = Probe::new();
    let (late, early) = (send(&probe, 1).await, send(&probe, 2).await);
    let queue = Queue::new(&probe);
    let by = Approval { by: "bob".into() };
    queue.signal(early, "approved", &by).await.unwrap();
    let (worker, notes) = approving(&probe);
    for span in [days(3), days(7)] {
        soon(worker.run_until_idle()).await.unwrap();
        clock.advance(span);
    }
    soon(worker.run_until_idle()).await.unwrap();
    let mut notes = notes.lock().unwrap().clone();
    notes.sort_unstable();
    assert_eq!(notes, ["approved by bob", "asked", "asked", "timed out"]);
    let memos = probe.job(late).await.memos;
    assert_eq!(memos.last().unwrap().source, MemoSource::TimedOut);
}
