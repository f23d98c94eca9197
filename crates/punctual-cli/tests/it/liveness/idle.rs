//! Tests of the command: liveness: idle.

use std::time::Duration;

use futures_util::future::join_all;
use punctual::engine::{StatsRequest, Target};
use punctual::time::{Stopwatch, millis, minutes, pause, seconds, within};
use punctual::worker::Verdict;
use punctual::{Context, Engine, JobRecord, JobState, NewJob, Worker};
use punctual_redis::testing::TestServer;
use tokio::sync::watch;

use super::{QUEUE, engine, here};

const WORKERS: usize = 100;
/// Calls of functions a second that all of them may make together.
const CALLS_MAX: f64 = 50.0;
const SPAN: Duration = seconds(10);
/// They ask how many they are, often while they have only just come: it has to come down soon.
const SPANS_MAX: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_idle_workers_on_redis_make_few_calls_and_still_listen() {
    let server = TestServer::start();
    let asker = engine(&server.address()).await;
    let (end, ended) = watch::channel(false);
    // Each has connections of its own: calls of one engine would leave together.
    let works = (0..WORKERS).map(|_| {
        let (address, mut ended) = (server.address(), ended.clone());
        tokio::spawn(async move {
            let done = |_: JobRecord, _: Context| async { Verdict::completed() };
            let worker = Worker::new(engine(&address).await)
                .queues([QUEUE])
                .handle_any(done);
            let over = async move {
                let _ = ended.wait_for(|over| *over).await;
            };
            worker.run_until(over).await.expect("a good set-up");
        })
    });
    let works: Vec<_> = works.collect();
    while seen(&*asker).await < WORKERS {
        pause(millis(100)).await;
    }
    let mut rates = Vec::new();
    while rates.len() < SPANS_MAX && rates.last().is_none_or(|rate| *rate >= CALLS_MAX) {
        rates.push(rate(&server, SPAN).await);
    }
    println!("{WORKERS} idle workers: {rates:.1?} calls a second");
    assert!(
        rates.last().is_some_and(|rate| *rate < CALLS_MAX),
        "{rates:?}"
    );
    for minute in 1..=reported_minutes() {
        let rate = rate(&server, minutes(1)).await;
        println!("{WORKERS} idle workers, minute {minute}: {rate:.1} calls a second");
        assert!(rate < CALLS_MAX, "{rate} in minute {minute}");
    }

    let job = NewJob::new(QUEUE, "{}").retention(seconds(3_600));
    let id = job.id;
    asker.enqueue(&here(), vec![job]).await.expect("enqueue");
    let completed = within(seconds(5), async {
        loop {
            let got = asker.get(&here(), vec![Target::Id(id)], false).await;
            let job = got.expect("get").remove(0).expect("it is kept");
            if job.state() == JobState::Completed {
                return;
            }
            pause(millis(10)).await;
        }
    });
    completed.await.expect("they are woken");
    end.send_replace(true);
    join_all(works)
        .await
        .into_iter()
        .for_each(|ended| ended.expect("no panic"));
}

/// How many minutes more are looked at: `PUNCTUAL_IDLE` says so, else none.
fn reported_minutes() -> u32 {
    let reported = std::env::var("PUNCTUAL_IDLE").ok();
    reported.map_or(0, |reported| reported.parse().expect("a number of minutes"))
}

/// Calls of functions a second over a span.
async fn rate(server: &TestServer, span: Duration) -> f64 {
    let (before, watch) = (function_calls(server), Stopwatch::start());
    pause(span).await;
    (function_calls(server) - before) as f64 / watch.elapsed().as_secs_f64()
}

async fn seen(engine: &dyn Engine) -> usize {
    let stats = engine.stats(&here(), StatsRequest::default()).await;
    stats.expect("stats").workers.len()
}

/// Calls of functions, reading and writing ones, since the server began.
fn function_calls(server: &TestServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let count = |line: &str| {
        let line = line.strip_prefix("cmdstat_fcall")?;
        let (_, calls) = line.split_once(":calls=")?;
        calls.split(',').next()?.parse::<u64>().ok()
    };
    let calls: u64 = stats.lines().filter_map(count).sum();
    assert!(calls > 0, "a worker was seen by calls: {stats}");
    calls
}
