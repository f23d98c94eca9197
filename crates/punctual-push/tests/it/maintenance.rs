//! Loops that end before they are stopped: seen, and started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual::engine::Health;
use punctual::time::{days, millis, seconds, within};
use punctual::{JobId, JobState, Namespace};
use punctual_push::{
    AlertRules, Alerts, Guard, Maintenance, MaintenanceHealth, Posting, PushWakeup,
};
use tokio::sync::{Notify, Semaphore};
use tokio::task::yield_now;

use crate::injected::Injected;
use crate::support::{Answer, Server, Under, job};

fn health_of(maintenance: &MaintenanceHealth) -> Health {
    let mut health = Health::new(Vec::new(), Vec::new());
    maintenance.add_to(&mut health);
    health
}

fn restarts(maintenance: &MaintenanceHealth, name: &str) -> u64 {
    let loops = health_of(maintenance).loops;
    let one = loops.iter().find(|one| one.name == name);
    one.map_or(0, |one| one.restarts)
}

async fn until(what: &str, fact: impl Fn() -> bool) {
    let waiting = async {
        while !fact() {
            yield_now().await;
        }
    };
    let is_so = within(seconds(60), waiting).await;
    is_so.unwrap_or_else(|| panic!("not in time: {what}"));
}

#[tokio::test]
async fn a_loop_that_ends_unasked_is_red_until_it_goes_round_again() {
    let shop = Namespace::new("shop").expect("a name");
    let mut maintenance = Maintenance::new();
    let health = maintenance.health();
    let steps = Arc::new(Semaphore::new(0));
    let runs = Arc::new(AtomicUsize::new(0));
    let theirs = (steps.clone(), runs.clone());
    maintenance.start("injected", &shop, move |heartbeat| {
        let steps = theirs.0.clone();
        let nth = theirs.1.fetch_add(1, Ordering::SeqCst);
        async move {
            let step = async || steps.acquire().await.expect("it is open").forget();
            step().await;
            heartbeat.works();
            match nth {
                0 => {
                    step().await;
                    panic!("injected");
                }
                1 => step().await,
                _ => {
                    heartbeat.rests();
                    heartbeat.ended().await;
                }
            }
        }
    });
    for nth in 1..=2 {
        steps.add_permits(1);
        until("it works", || health_of(&health).ok).await;
        steps.add_permits(1);
        until("it has ended", || !health_of(&health).ok).await;
        until("it runs again", || runs.load(Ordering::SeqCst) > nth).await;
        let red = health_of(&health);
        assert!(!red.ok, "it has not gone round yet");
        assert_eq!(red.of_namespaces.len(), 1, "{red:?}");
        assert_eq!(red.of_namespaces[0].namespace, shop);
        assert!(
            red.of_namespaces[0]
                .text
                .contains("injected ended and was restarted")
        );
        assert_eq!(restarts(&health, "injected"), nth as u64);
    }
    steps.add_permits(1);
    until("it works", || health_of(&health).ok).await;
    let ended = within(seconds(20), maintenance.end()).await;
    ended.expect("it ends when it is stopped");
    assert_eq!(restarts(&health, "injected"), 2, "and is not started again");
}

#[tokio::test]
async fn a_loop_that_is_down_ends_when_it_is_stopped() {
    let mut maintenance = Maintenance::new();
    maintenance.start("injected", &Namespace::default(), |_| async {
        panic!("injected")
    });
    let health = maintenance.health();
    until("it has ended", || !health_of(&health).ok).await;
    let ended = within(seconds(20), maintenance.end()).await;
    ended.expect("it waits for nothing");
}

#[tokio::test]
async fn posting_goes_on_after_a_panic_of_its_own_and_after_one_of_its_workers() {
    let server = Server::start(204).await;
    let under = Under::new(server.guard());
    let injected = Injected::over(&under);
    let (home, push_wakeup) = (Namespace::default(), PushWakeup::default());
    let mut maintenance = Maintenance::new();
    let health = maintenance.health();
    Posting::new(injected.clone(), home.clone(), under.pusher.clone())
        .push_wakeup(push_wakeup.clone())
        .poll_every(millis(20))
        .start(&mut maintenance);
    let post = async |queue: &str| {
        let mut job = job(&server.url());
        job.queue = queue.to_owned();
        under.send(job).await;
        push_wakeup.notify(&home, queue);
    };
    post("http:first").await;
    server.until_seen(1).await;

    injected.stats.store(true, Ordering::SeqCst);
    until("it panicked", || restarts(&health, "posting") > 0).await;
    assert!(!health_of(&health).ok);
    injected.stats.store(false, Ordering::SeqCst);
    post("http:second").await;
    server.until_seen(2).await;
    until("all is well", || health_of(&health).ok).await;

    let before = restarts(&health, "posting");
    injected.info.store(true, Ordering::SeqCst);
    post("http:third").await;
    until("its worker ended", || restarts(&health, "posting") > before).await;
    injected.info.store(false, Ordering::SeqCst);
    server.until_seen(3).await;
    until("all is well", || health_of(&health).ok).await;
    within(seconds(60), maintenance.end())
        .await
        .expect("it ends");
    assert_eq!(server.seen().len(), 3, "each was posted once");
}

/// Posting over an engine with a delivery that its target does not answer yet, and what lets it.
async fn with_one_on_its_way(
    poll: Duration,
) -> (
    Server,
    Under,
    Arc<Injected>,
    Maintenance,
    JobId,
    Arc<Notify>,
) {
    let server = Server::start(204).await;
    let held = Arc::new(Notify::new());
    server.answers(Answer {
        status: 204,
        held: Some(held.clone()),
        ..Answer::default()
    });
    let under = Under::new(server.guard());
    let injected = Injected::over(&under);
    let mut maintenance = Maintenance::new();
    let id = under.enqueue(&server.url()).await;
    Posting::new(injected.clone(), Namespace::default(), under.pusher.clone())
        .poll_every(poll)
        .start(&mut maintenance);
    server.until_seen(1).await;
    (server, under, injected, maintenance, id, held)
}

/// Waits until a job is completed that was claimed no more than once.
async fn until_posted_once(under: &Under, id: JobId) {
    let posted = async {
        loop {
            let job = under.get(id).await;
            assert!(job.attempt <= 1, "it was posted again");
            if job.state == JobState::Completed {
                return;
            }
            yield_now().await;
        }
    };
    let in_time = within(seconds(20), posted).await;
    in_time.expect("what was on its way is settled");
}

#[tokio::test]
async fn a_panic_of_the_poll_cuts_off_no_delivery() {
    let (server, under, injected, maintenance, id, held) = with_one_on_its_way(millis(20)).await;
    let health = maintenance.health();
    injected.stats.store(true, Ordering::SeqCst);
    until("it panicked", || restarts(&health, "posting") > 1).await;
    injected.stats.store(false, Ordering::SeqCst);
    until("all is well", || health_of(&health).ok).await;
    held.notify_one();
    until_posted_once(&under, id).await;
    // The workers from before it go on.
    server.status(204);
    let next = under.enqueue(&server.url()).await;
    until_posted_once(&under, next).await;
    within(seconds(60), maintenance.end())
        .await
        .expect("it ends");
    assert_eq!(server.seen().len(), 2, "each was posted once");
}

#[tokio::test]
async fn deliveries_end_in_peace_though_their_posting_has_panicked() {
    let (server, under, injected, maintenance, id, held) = with_one_on_its_way(millis(20)).await;
    let health = maintenance.health();
    injected.stats.store(true, Ordering::SeqCst);
    until("it panicked", || restarts(&health, "posting") > 0).await;
    // Whether stopped before the next poll or while it panics again.
    let ending = tokio::spawn(maintenance.end());
    for _ in 0..100 {
        yield_now().await;
    }
    held.notify_one();
    let ended = within(seconds(60), ending).await;
    ended.expect("it ends").expect("without a panic");
    until_posted_once(&under, id).await;
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_wait_for_deliveries_to_end_does_not_hang() {
    let (_server, under, _injected, mut maintenance, id, held) = with_one_on_its_way(days(1)).await;
    let health = maintenance.health();
    let at_work = Arc::new(Notify::new());
    let theirs = at_work.clone();
    maintenance.start("injected", &Namespace::default(), move |heartbeat| {
        let at_work = theirs.clone();
        async move {
            heartbeat.works();
            at_work.notify_one();
            heartbeat.ended().await;
        }
    });
    at_work.notified().await;
    let ageing = || -> Vec<String> {
        let loops = health_of(&health).loops.into_iter();
        let ageing = loops.filter(|one| !one.age.is_zero());
        ageing.map(|one| one.name).collect()
    };
    until("both are at work", || {
        let names = ageing();
        ["injected", "posting claimer"].map(|name| names.iter().any(|known| known == name))
            == [true, true]
    })
    .await;
    let ending = tokio::spawn(maintenance.end());
    until("none of them ages", || ageing().is_empty()).await;
    assert!(health_of(&health).ok && !ending.is_finished());
    held.notify_one();
    let ended = within(seconds(60), ending).await;
    ended.expect("it ends").expect("without a panic");
    until_posted_once(&under, id).await;
}

#[tokio::test]
async fn a_check_of_many_namespaces_shows_that_it_goes_on() {
    let under = Under::new(Guard::new());
    let injected = Injected::over(&under);
    let (asked, answers) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let gate = (asked.clone(), answers.clone());
    assert!(injected.gate.set(gate).is_ok());
    let name = |nth| Namespace::new(format!("shop-{nth}")).expect("a name");
    let alerts = Alerts::new(
        injected,
        Namespace::default(),
        (0..100).map(name).collect(),
        "https://example.com/alerts",
        AlertRules::default(),
    );
    let mut maintenance = Maintenance::new();
    let health = maintenance.health();
    maintenance.start("alerts", &Namespace::default(), move |heartbeat| {
        alerts.clone().run(heartbeat)
    });
    let age = || health_of(&health).loops[0].age;
    let (mut before, mut is_younger) = (Duration::ZERO, false);
    for _ in 0..100 {
        let next = within(seconds(20), asked.acquire()).await;
        next.expect("it goes on").expect("it is open").forget();
        is_younger |= age() < before;
        until("some time has passed", || age() > millis(2)).await;
        before = age();
        answers.add_permits(1);
    }
    assert!(
        is_younger,
        "it showed no sign between one namespace and the next"
    );
    within(seconds(20), maintenance.end())
        .await
        .expect("it ends");
}

#[tokio::test]
async fn a_worker_that_ends_at_once_is_not_hired_again_for_each_ring() {
    let server = Server::start(204).await;
    let under = Under::new(server.guard());
    let injected = Injected::over(&under);
    injected.info.store(true, Ordering::SeqCst);
    let push_wakeup = PushWakeup::default();
    under.enqueue(&server.url()).await;
    let mut maintenance = Maintenance::new();
    let health = maintenance.health();
    Posting::new(injected.clone(), Namespace::default(), under.pusher.clone())
        .push_wakeup(push_wakeup.clone())
        .poll_every(days(1))
        .start(&mut maintenance);
    until("its worker ended", || restarts(&health, "posting") > 0).await;
    let other = Namespace::new("other").expect("a name");
    for nth in 0..100 {
        push_wakeup.notify(&other, &format!("http:{nth}"));
        for _ in 0..100 {
            yield_now().await;
        }
    }
    let hired = injected.infos.load(Ordering::SeqCst);
    assert!(hired < 40, "{hired} were hired for 100 notifies");
    // And is, after a pause, though no wakeup comes any more.
    injected.info.store(false, Ordering::SeqCst);
    server.until_seen(1).await;
    until("all is well", || health_of(&health).ok).await;
    within(seconds(60), maintenance.end())
        .await
        .expect("it ends");
}
