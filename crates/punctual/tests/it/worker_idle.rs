//! Workers that have nothing to do: how much they ask of the engine, and what they miss.

use punctual::engine::{Namespace, StatsRequest, WaitFor, Waited};
use punctual::time::{Clock, ManualClock, hours, minutes, seconds};
use punctual::{Engine, JobState, Worker};

use crate::support::*;

async fn plain(_: Ping) {}

/// Lets every loop do what the last step caused: on one thread, that takes a few turns.
async fn settle_down() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Time passes second by second, so that no loop sleeps over anything.
async fn seconds_pass(clock: &ManualClock, count: u64) {
    for _ in 0..count {
        clock.advance(seconds(1));
        settle_down().await;
    }
}

#[tokio::test]
async fn an_idle_worker_asks_little_and_is_seen_all_the_time() {
    let (probe, clock) = Probe::new();
    let running = background(&Worker::new(&probe).handle(plain));
    settle_down().await;
    let before = probe.all_calls();
    for _ in 0..20 {
        seconds_pass(&clock, 30).await;
        let (namespace, all) = (Namespace::default(), StatsRequest::default());
        let stats = probe.beside().stats(&namespace, all).await.unwrap();
        let seen_at = stats.workers[0].seen_at;
        assert!(clock.now() - seen_at <= seconds(25), "seen at {seen_at}");
    }
    let calls = probe.all_calls() - before;
    // A claim and a wait each time that it shows itself: every 17 to 25 s.
    assert!((48..=72).contains(&calls), "{calls} calls in ten minutes");
    let claims = probe.calls("claim");
    clock.advance(hours(1));
    settle_down().await;
    let more = probe.calls("claim") - claims;
    assert_eq!(more, 1, "an hour in one step is one round");
    running.stop().await;
}

#[tokio::test]
async fn many_idle_workers_do_not_ask_in_step() {
    let (probe, clock) = Probe::new();
    let worker = || background(&Worker::new(&probe).handle(plain));
    let workers: Vec<_> = (0..20).map(|_| worker()).collect();
    settle_down().await;
    seconds_pass(&clock, 120).await;
    let mut most = 0;
    for _ in 0..60 {
        let before = probe.calls("claim");
        seconds_pass(&clock, 1).await;
        most = most.max(probe.calls("claim") - before);
    }
    assert!(most <= 8, "{most} of 20 claimed in one second");
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_lost_wakeup_costs_a_second_while_another_worker_is_idle() {
    let (probe, clock) = Probe::new();
    // It listened first, so a wakeup reaches it; then it does nothing.
    let (engine, work) = (probe.beside().clone(), WaitFor::Work(vec!["pings".into()]));
    let (namespace, never) = (Namespace::default(), clock.now() + minutes(60));
    let deserter = tokio::spawn(async move { engine.wait(&namespace, work, never).await });
    settle_down().await;
    let running = background(&Worker::new(&probe).handle(plain));
    settle_down().await;
    let id = send(&probe, 1).await;
    assert_eq!(deserter.await.unwrap().unwrap(), Waited::Work);
    settle_down().await;
    assert_eq!(probe.job(id).await.state, JobState::Ready);
    seconds_pass(&clock, 1).await;
    assert_eq!(probe.job(id).await.state, JobState::Completed);
    running.stop().await;
}
