//! What a handler may be, what it may return, and when it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::engine::Engine;
use punctual::time::{Clock, days, hours, millis, seconds};
use punctual::worker::{BoxError, HandlerResult, Next, State, Verdict};
use punctual::{Context, Error, ErrorKind, Job, JobRecord, NewJob, Outcome, Queue, Worker};
use tokio::sync::{Barrier, Semaphore, mpsc};

use crate::support::*;

#[tokio::test]
async fn a_due_job_runs_and_completes() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 7).await;
    let worker = Worker::new(&probe).handle(|job: Ping, ctx: Context| async move {
        ctx.result(format!("pong {}", job.n))?;
        done()
    });
    worker.run_until_idle().await.unwrap();
    let job = probe.job(id).await;
    assert_eq!(job.state, punctual::JobState::Completed);
    assert_eq!(job.result.as_deref(), Some(&b"pong 7"[..]));
    assert_eq!((job.attempt, job.failures), (1, 0));
}

#[tokio::test]
async fn arguments_come_in_any_order() {
    let (probe, _clock) = Probe::new();
    async fn all(
        _: Ping,
        State(a): State<u8>,
        ctx: Context,
        State(b): State<char>,
    ) -> HandlerResult {
        ctx.result(format!("{a}{b}{}", ctx.attempt()))?;
        Ok(Outcome::Completed)
    }
    let id = send(&probe, 1).await;
    let worker = Worker::new(&probe).state(4_u8).state('x').handle(all);
    worker.run_until_idle().await.unwrap();
    assert_eq!(probe.job(id).await.result.as_deref(), Some(&b"4x1"[..]));
}

#[tokio::test]
async fn a_mistake_in_the_set_up_is_found_before_any_claim() {
    let (probe, _clock) = Probe::new();
    async fn needs_state(_: Ping, _: State<u8>) {}
    async fn plain(_: Ping) {}
    let reported = async |worker: Worker| worker.run_until_idle().await.unwrap_err().to_string();

    let error = reported(Worker::new(&probe).handle(needs_state)).await;
    assert!(
        error.contains("no state of type u8") && error.contains("ping"),
        "{error}"
    );
    let error = reported(Worker::new(&probe)).await;
    assert!(error.contains("no handler"), "{error}");
    let error = reported(Worker::new(&probe).handle(plain).handle(plain)).await;
    assert!(error.contains("ping has two handlers"), "{error}");
    let error = reported(Worker::new(&probe).handle(plain).concurrency(0)).await;
    assert!(error.contains("concurrency"), "{error}");
    let error = reported(Worker::new(&probe).handle(plain).lease_duration(millis(1))).await;
    assert!(error.contains("lease"), "{error}");
    let error = reported(Worker::new(&probe).handle(plain).queues(["no spaces"])).await;
    assert!(error.contains("queue name"), "{error}");
    assert_eq!(probe.calls("claim"), 0);
}

#[tokio::test]
async fn any_error_is_retried_by_policy_and_kept() {
    let (probe, clock) = Probe::new();
    async fn broken(_: Ping) -> HandlerResult {
        Err(std::io::Error::other("disk is on fire"))?;
        Ok(Outcome::Completed)
    }
    let policy = punctual::RetryPolicy::fixed(seconds(9));
    let id = Queue::new(&probe)
        .enqueue(ping(1))
        .retry(policy)
        .await
        .unwrap()
        .id;
    let next = Worker::new(&probe)
        .handle(broken)
        .run_until_idle()
        .await
        .unwrap();
    let job = probe.job(id).await;
    assert_eq!(job.state, punctual::JobState::Scheduled);
    assert_eq!(job.failures, 1);
    assert_eq!(job.last_error.as_deref(), Some("disk is on fire"));
    assert_eq!(job.due, clock.now() + seconds(9));
    assert_eq!(next, Some(job.due));
}

#[tokio::test]
async fn a_permanent_error_is_dead_at_once() {
    let (probe, _clock) = Probe::new();
    async fn hopeless(_: Ping) -> punctual::Result<()> {
        Err(Error::permanent("no such customer"))
    }
    let id = send(&probe, 1).await;
    Worker::new(&probe)
        .handle(hopeless)
        .run_until_idle()
        .await
        .unwrap();
    let job = probe.job(id).await;
    assert_eq!(job.dead, Some(punctual::job::DeadReason::Permanent));
    assert_eq!(job.attempt, 1);
}

#[tokio::test]
async fn a_panic_is_a_failure_with_its_message() {
    let (probe, _clock) = Probe::new();
    let worker = Worker::new(&probe).handle(|job: Ping| async move {
        if job.n == 1 {
            panic!("cannot divide {} by zero", job.n);
        }
    });
    let broken = send(&probe, 1).await;
    let healthy = send(&probe, 2).await;
    worker.run_until_idle().await.unwrap();
    let job = probe.job(broken).await;
    assert_eq!(job.failures, 1);
    let error = job.last_error.unwrap();
    assert_eq!(error, "handler panicked: cannot divide 1 by zero");
    assert_eq!(
        probe.job(healthy).await.state,
        punctual::JobState::Completed
    );
}

#[tokio::test]
async fn a_payload_that_does_not_fit_is_a_failure() {
    let (probe, _clock) = Probe::new();
    let job = NewJob::new("pings", r#"{"m":1}"#).kind("ping");
    let id = Queue::new(&probe).enqueue_job(job).await.unwrap().id;
    async fn plain(_: Ping) {}
    Worker::new(&probe)
        .handle(plain)
        .run_until_idle()
        .await
        .unwrap();
    let job = probe.job(id).await;
    assert_eq!(
        (job.state, job.failures),
        (punctual::JobState::Scheduled, 1)
    );
    assert!(job.last_error.unwrap().contains("missing field `n`"));
}

#[tokio::test]
async fn an_own_function_may_compute_the_span() {
    let (probe, clock) = Probe::new();
    async fn fails(job: Ping) -> HandlerResult {
        Err(if job.n == 1 { "busy" } else { "broken" }.into())
    }
    let policy = punctual::RetryPolicy::fixed(hours(5));
    let queue = Queue::new(&probe);
    let busy = queue
        .enqueue(ping(1))
        .retry(policy.clone())
        .await
        .unwrap()
        .id;
    let broken = queue.enqueue(ping(2)).retry(policy).await.unwrap().id;
    Worker::new(&probe)
        .handle(fails)
        .retry_after(|ctx: &Context, error: &BoxError| {
            let busy = error.to_string() == "busy";
            busy.then(|| seconds(3) * (ctx.failures() + 1))
        })
        .run_until_idle()
        .await
        .unwrap();
    assert_eq!(probe.job(busy).await.due, clock.now() + seconds(3));
    assert_eq!(probe.job(broken).await.due, clock.now() + hours(5));
}

#[tokio::test]
async fn a_raw_handler_gives_outcome_result_and_error_itself() {
    let (probe, _clock) = Probe::new();
    let queue = Queue::new(&probe);
    let send = async |payload: &'static str| {
        let job = NewJob::new("exec", payload).retention(days(1));
        queue.enqueue_job(job).await.unwrap().id
    };
    let (good, bad) = (send("true").await, send("false").await);
    Worker::new(&probe)
        .queues(["exec"])
        .handle_raw("exec", |job: JobRecord, _: Context| async move {
            match &job.payload[..] {
                b"true" => Verdict::completed().result("out"),
                _ => Verdict::dead("exit status 1"),
            }
        })
        .run_until_idle()
        .await
        .unwrap();
    assert_eq!(probe.job(good).await.result.as_deref(), Some(&b"out"[..]));
    let bad = probe.job(bad).await;
    assert_eq!(bad.state, punctual::JobState::Dead);
    assert_eq!(bad.last_error.as_deref(), Some("exit status 1"));
}

#[tokio::test]
async fn a_handler_of_any_kind_takes_what_has_no_other() {
    let (probe, _clock) = Probe::new();
    let (seen, mut kinds) = mpsc::unbounded_channel();
    let queue = Queue::new(&probe);
    for kind in ["a", "b"] {
        let job = NewJob::new("mixed", "{}").kind(kind);
        queue.enqueue_job(job).await.unwrap();
    }
    Worker::new(&probe)
        .queues(["mixed"])
        .concurrency(1)
        .handle_raw("a", |_: JobRecord, _: Context| async {})
        .handle_any(move |job: JobRecord, _: Context| {
            seen.send(job.kind).unwrap();
            async {}
        })
        .run_until_idle()
        .await
        .unwrap();
    assert_eq!(kinds.recv().await.as_deref(), Some("b"));
    assert!(kinds.try_recv().is_err());
    assert_eq!(probe.claims()[0].worker.kinds, [""; 0], "it takes any");
}

#[tokio::test]
async fn an_unknown_kind_is_delayed_and_never_failed() {
    let (probe, clock) = Probe::new();
    let job = NewJob::new("pings", "{}").kind("pong");
    let id = Queue::new(&probe).enqueue_job(job).await.unwrap().id;
    async fn plain(_: Ping) {}
    let worker = Worker::new(&probe).handle(plain);
    let mut waits = Vec::new();
    for _ in 0..8 {
        worker.run_until_idle().await.unwrap();
        let job = probe.job(id).await;
        assert_eq!((job.failures, job.crashes), (0, 0));
        waits.push((job.due - clock.now()).as_secs());
        clock.set(job.due);
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 600, 600, 600]);
}

#[tokio::test]
async fn layers_go_around_the_handler_in_order() {
    let (probe, _clock) = Probe::new();
    let (steps, mut seen) = mpsc::unbounded_channel::<&str>();
    let layer = |before: &'static str, after: &'static str| {
        let steps = steps.clone();
        move |ctx: Context, next: Next| {
            let steps = steps.clone();
            async move {
                steps.send(before).unwrap();
                let verdict = next.run(ctx).await;
                steps.send(after).unwrap();
                verdict
            }
        }
    };
    let handler_steps = steps.clone();
    send(&probe, 1).await;
    Worker::new(&probe)
        .layer(layer("a in", "a out"))
        .layer(layer("b in", "b out"))
        .handle(move |_: Ping| {
            handler_steps.send("handler").unwrap();
            async {}
        })
        .run_until_idle()
        .await
        .unwrap();
    drop(steps);
    let mut order = Vec::new();
    while let Ok(step) = seen.try_recv() {
        order.push(step);
    }
    assert_eq!(order, ["a in", "b in", "handler", "b out", "a out"]);
}

#[tokio::test]
async fn a_layer_may_answer_in_place_of_the_handler() {
    let (probe, _clock) = Probe::new();
    let id = send(&probe, 1).await;
    Worker::new(&probe)
        .layer(|ctx: Context, _: Next| async move {
            assert_eq!(ctx.job().kind, Ping::KIND);
            Verdict::dead("not on Sundays")
        })
        .handle(|_: Ping| async { unreachable() })
        .run_until_idle()
        .await
        .unwrap();
    assert_eq!(
        probe.job(id).await.last_error.as_deref(),
        Some("not on Sundays")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_jobs_run_at_the_same_time_and_not_one_more() {
    let (probe, _clock) = Probe::new();
    for n in 0..256 {
        send(&probe, n).await;
    }
    let all_there = Arc::new(Barrier::new(64));
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let worker = Worker::new(&probe).concurrency(64).handle({
        let (running, most) = (running.clone(), most.clone());
        move |_: Ping| {
            let (all_there, running, most) = (all_there.clone(), running.clone(), most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Passes only when 64 are here.
                all_there.wait().await;
                running.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
    soon(worker.run_until_idle()).await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_is_woken_by_a_wakeup_and_by_the_clock() {
    let (probe, clock) = Probe::new();
    let (seen, mut ran) = mpsc::unbounded_channel();
    let worker = Worker::new(&probe).handle(move |job: Ping| {
        seen.send(job.n).unwrap();
        async {}
    });
    let running = background(&worker);
    Queue::new(&probe)
        .enqueue(ping(2))
        .delay(days(30))
        .await
        .unwrap();
    send(&probe, 1).await;
    assert_eq!(soon(ran.recv()).await, Some(1), "time stands still");
    clock.advance(days(30));
    assert_eq!(soon(ran.recv()).await, Some(2));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_without_free_slots_neither_claims_nor_listens() {
    let (probe, _clock) = Probe::new();
    let (started, mut starts) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let worker = Worker::new(&probe).concurrency(2).handle({
        let go = go.clone();
        move |_: Ping| {
            started.send(()).unwrap();
            let go = go.clone();
            async move { go.acquire().await.unwrap().forget() }
        }
    });
    send(&probe, 1).await;
    send(&probe, 2).await;
    let running = background(&worker);
    soon(starts.recv()).await;
    soon(starts.recv()).await;
    for n in 3..50 {
        send(&probe, n).await;
    }
    assert_eq!(probe.calls("claim"), 1);
    assert_eq!(probe.calls("wait"), 0);
    go.add_permits(100);
    running.stop().await;
}

#[tokio::test]
async fn claims_ask_for_free_slots_and_a_bounded_number_ahead() {
    let (probe, _clock) = Probe::new();
    async fn plain(_: Ping) {}
    for n in 0..2_000 {
        send(&probe, n).await;
    }
    let worker = Worker::new(&probe).concurrency(10).handle(plain);
    worker.run_until_idle().await.unwrap();
    let limits: Vec<_> = probe.claims().iter().map(|claim| claim.limit).collect();
    assert_eq!(limits[0], 10, "nothing ahead before a run time is known");
    assert!(limits.iter().all(|limit| *limit <= 10 + 936), "{limits:?}");
    assert!(limits.iter().any(|limit| *limit > 100), "{limits:?}");
}

#[tokio::test]
async fn weighted_queues_take_turns_and_strict_ones_do_not() {
    for (weights, expected) in [(Some((2, 1)), "a b a a b a"), (None, "a a a a a a")] {
        let (probe, _clock) = Probe::new();
        let queue = Queue::new(&probe);
        for _ in 0..10 {
            for name in ["a", "b"] {
                let job = NewJob::new(name, "{}");
                queue.enqueue_job(job).await.unwrap();
            }
        }
        let (seen, mut order) = mpsc::unbounded_channel();
        let worker =
            Worker::new(&probe)
                .concurrency(1)
                .handle_any(move |job: JobRecord, _: Context| {
                    seen.send(job.queue).unwrap();
                    // Long enough that nothing is claimed ahead.
                    async { punctual::time::pause(millis(6)).await }
                });
        let worker = match weights {
            Some((a, b)) => worker.queues([("a", a), ("b", b)]),
            None => worker.queues(["a", "b"]),
        };
        let running = background(&worker);
        let mut queues = Vec::new();
        while queues.len() < 6 {
            queues.extend(soon(order.recv()).await);
        }
        assert_eq!(queues.join(" "), expected);
        running.stop().await;
    }
}

#[tokio::test]
async fn the_context_has_the_attempts_before() {
    let (probe, clock) = Probe::new();
    let (seen, mut reported) = mpsc::unbounded_channel();
    let worker = Worker::new(&probe).handle(move |job: Ping, ctx: Context| {
        let facts = (ctx.attempt(), ctx.failures(), ctx.redelivered());
        seen.send((facts, ctx.token().fence)).unwrap();
        async move {
            match (job.n, ctx.attempt()) {
                (1, 1) => Ok(Outcome::Snooze { after: seconds(1) }),
                (1, 2) => Err("no"),
                _ => Ok(Outcome::Completed),
            }
        }
    });
    let policy = punctual::RetryPolicy::fixed(seconds(1));
    let queue = Queue::new(&probe);
    queue
        .enqueue(ping(1))
        .retry(policy)
        .header("trace", "x")
        .await
        .unwrap();
    punctual::testing::advance(&clock, &worker, seconds(10))
        .await
        .unwrap();
    let mut facts = Vec::new();
    let mut fences = Vec::new();
    while let Ok((fact, fence)) = reported.try_recv() {
        facts.push(fact);
        fences.push(fence);
    }
    assert_eq!(facts, [(1, 0, false), (2, 0, true), (3, 1, true)]);
    assert!(fences.is_sorted() && fences[0] < fences[2], "{fences:?}");
}

#[tokio::test]
async fn the_context_shows_header_deadline_and_lease() {
    let (probe, clock) = Probe::new();
    let now = clock.now();
    let queue = Queue::new(&probe);
    queue
        .enqueue(ping(1))
        .header("trace", "x")
        .timeout(seconds(30))
        .await
        .unwrap();
    Worker::new(&probe)
        .handle(move |_: Ping, ctx: Context| async move {
            assert_eq!(ctx.header("trace"), Some("x"));
            assert_eq!(ctx.header("other"), None);
            assert_eq!(ctx.lease_until(), now + seconds(10));
            assert_eq!(ctx.deadline(), Some(ctx.started_at() + seconds(30)));
            assert!(!ctx.is_cancelled());
            let large = ctx.result(vec![0; 9 << 10]).unwrap_err();
            assert_eq!(large.kind(), ErrorKind::PayloadTooLarge);
        })
        .run_until_idle()
        .await
        .unwrap();
    let stats = probe
        .stats(&Default::default(), Default::default())
        .await
        .unwrap();
    assert_eq!(
        stats.queues[0].counts.of(punctual::JobState::Completed),
        0,
        "only its tombstone is left"
    );
    assert_eq!(probe.settles()[0].leases[0].settlements[0].error, None);
}

fn unreachable() {
    panic!("it is never called")
}

#[tokio::test]
async fn a_panic_anywhere_around_a_handler_is_a_failure_of_that_job_alone() {
    let (probe, _clock) = Probe::new();
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(send(&probe, n).await);
    }
    Worker::new(&probe)
        .layer(|ctx: Context, next: Next| async move {
            let n = ctx.job().payload.clone();
            assert_ne!(&n[..], br#"{"n":0}"#, "before");
            let verdict = next.run(ctx).await;
            assert_ne!(&n[..], br#"{"n":1}"#, "after");
            verdict
        })
        .retry_after(
            |_: &Context, error: &BoxError| match error.to_string().as_str() {
                "odd" => panic!("in the policy"),
                _ => None,
            },
        )
        .handle(|job: Ping| {
            // Before there is a future.
            assert_ne!(job.n, 2, "at the start");
            async move {
                match job.n {
                    3 => Err("odd"),
                    _ => Ok(()),
                }
            }
        })
        .run_until_idle()
        .await
        .unwrap();
    for (id, place) in ids
        .iter()
        .zip(["before", "after", "at the start", "in the policy"])
    {
        let job = probe.job(*id).await;
        assert_eq!(
            (job.state, job.failures),
            (punctual::JobState::Scheduled, 1)
        );
        let error = job.last_error.unwrap();
        assert!(
            error.starts_with("handler panicked: ") && error.contains(place),
            "{error}"
        );
    }
    assert_eq!(probe.job(ids[4]).await.state, punctual::JobState::Completed);
}
