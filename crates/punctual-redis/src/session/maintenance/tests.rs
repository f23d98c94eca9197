//! Unit tests of `maintenance`.

use std::collections::BTreeMap;

use punctual::conformance::START;
use punctual::engine::{Claim, Durability, Maintained, StatsRequest, WorkerId};
use punctual::time::{ManualClock, hours, within};
use punctual::{Due, Engine, Namespace, NewJob};

use super::*;
use crate::RedisEngine;
use crate::library::Library;
use crate::testing::TestServer;

#[tokio::test]
async fn lost_data_are_noticed_within_five_seconds_without_calls() {
    let server = TestServer::start();
    let options: crate::Options = server.address().parse().expect("a good address");
    let calls = Arc::new(Calls::new(options, Library::production()).expect("no files are read"));
    let maintenance = Maintenance::start(calls.clone(), Arc::default());
    let options: crate::Options = server.address().parse().expect("a good address");
    let producer = RedisEngine::connect(options).await.expect("connect");
    let (here, jobs) = (Namespace::default(), vec![NewJob::new("mail", "{}")]);
    producer.enqueue(&here, jobs).await.expect("enqueue");
    drop(producer);
    calls.shards_of(&here).await.expect("it is there");
    let mut missing = maintenance
        .progress
        .lock()
        .expect("no panic")
        .missing
        .subscribe();
    let watch = Stopwatch::start();
    server.cli(&["FLUSHALL"]);
    let changed = within(seconds(30), missing.changed()).await;
    changed.expect("it polls").expect("it lives");
    assert!(watch.elapsed() < seconds(5), "{:?}", watch.elapsed());
    let problems = maintenance.missing();
    assert!(problems.len() == 1 && problems[0].namespace == here);
    assert!(problems[0].text.contains("lost"), "{problems:?}");
    assert_eq!(server.cli(&["DBSIZE"]), "0", "never a silent new queue");
}

#[tokio::test]
async fn data_that_are_back_are_no_problem_any_more() {
    let server = TestServer::start();
    let options: crate::Options = server.address().parse().expect("a good address");
    let calls = Arc::new(Calls::new(options, Library::production()).expect("no files are read"));
    let maintenance = Maintenance::start(calls.clone(), Arc::default());
    let here = Namespace::default();
    calls.shards_of(&here).await.expect("it is there");
    let mut missing = maintenance
        .progress
        .lock()
        .expect("no panic")
        .missing
        .subscribe();
    server.cli(&["SWAPDB", "0", "1"]);
    let changed = within(seconds(30), missing.wait_for(|shards| !shards.is_empty())).await;
    drop(changed.expect("it polls").expect("it lives"));
    server.cli(&["SWAPDB", "0", "1"]);
    let changed = within(seconds(30), missing.wait_for(Missing::is_empty)).await;
    drop(changed.expect("it polls again").expect("it lives"));
    assert_eq!(maintenance.missing(), []);
}

/// What a server is set up for is read again, here each round, and reported if it is wrong now.
#[tokio::test]
async fn a_server_that_is_set_up_otherwise_since_is_noticed() {
    let server = TestServer::start();
    let options: crate::Options = server.address().parse().expect("a good address");
    let calls = Arc::new(Calls::new(options, Library::production()).expect("no files are read"));
    let server_infos = Arc::new(Mutex::new(examine(&calls).await.expect("it is there")));
    let problems = || {
        let known = server_infos.lock().expect("no panic");
        let of_servers = known.iter().flat_map(|it| it.problems(Durability::Memory));
        of_servers.collect::<Vec<_>>()
    };
    assert_eq!(problems(), Vec::<String>::new());
    let _maintenance =
        Maintenance::with_examine_interval(Duration::ZERO, calls, server_infos.clone());
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let watch = Stopwatch::start();
    while problems().is_empty() && watch.elapsed() < seconds(30) {
        tokio::task::yield_now().await;
    }
    assert!(problems()[0].contains("noeviction"), "{:?}", problems());
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    while !problems().is_empty() && watch.elapsed() < seconds(30) {
        tokio::task::yield_now().await;
    }
    assert_eq!(problems(), Vec::<String>::new(), "and that it is mended");
}

/// A list of cold jobs is begun five minutes ahead of its time: an idle worker's look each second
/// gets through 75,000.
#[tokio::test]
async fn cold_jobs_are_spread_ahead_of_their_time_after_a_recent_poll() {
    const FAR: usize = 60;
    const BATCH: usize = 1_000;
    let server = TestServer::start();
    let clock = ManualClock::new(START);
    let options: crate::Options = server.address().parse().expect("a good address");
    let engine = RedisEngine::connect_with_clock(options, clock.clone()).await;
    let engine = engine.expect("the server is there");
    let here = Namespace::default();
    let width = 1 << 32;
    let begins = Timestamp::from_micros((START + hours(5)).as_micros() / width * width);
    for _ in 0..FAR {
        let job = |_| NewJob::new("mail", "{}").due(Due::At(begins + seconds(1)));
        let jobs = (0..BATCH).map(job).collect();
        engine.enqueue(&here, jobs).await.expect("enqueue");
    }
    let ahead = Timestamp::from_micros(begins.as_micros() - 60_000_000);
    engine.set_time(ahead).await.expect("it is there");
    clock.set(ahead);
    let stats = engine.stats(&here, StatsRequest::default()).await;
    stats.expect("stats");
    let (mut rounds, mut again) = (0, Some(1));
    while again.is_some() {
        let (round, missing) = run_once(&engine.calls, &BTreeMap::new(), || {}).await;
        again = round.expect("a round");
        assert!(missing.is_empty(), "{missing:?}");
        rounds += 1;
        assert!(rounds < 9, "it does not come to an end");
    }
    assert!(rounds > 1, "one round is bounded");
    engine
        .set_time(begins + seconds(1))
        .await
        .expect("it is there");
    clock.set(begins + seconds(1));
    let order = Claim::new(WorkerId::random(), "mail", 1);
    let claimed = engine.claim(&here, order).await.expect("claim");
    assert_eq!(claimed.leases.len(), 1, "the list is not looked up");
}

#[test]
fn many_workers_share_the_maintenance() {
    let maintained = Some(seconds(30));
    assert!(
        can_skip(Some(seconds(8)), maintained, 100),
        "it polls that often"
    );
    assert!(
        !can_skip(Some(seconds(8)), maintained, 1),
        "there is no other worker"
    );
    assert!(
        !can_skip(Some(seconds(8)), maintained, 10),
        "ten poll more often"
    );
    assert!(
        !can_skip(Some(seconds(31)), maintained, 10_000),
        "it receives nothing"
    );
    assert!(
        !can_skip(Some(seconds(1)), Some(seconds(61)), 100),
        "its turn"
    );
    let long_ago = Some(seconds(149));
    assert!(
        can_skip(Some(seconds(1)), long_ago, 1_000),
        "a thousand have later turns"
    );
    assert!(
        can_skip(Some(seconds(1)), maintained, 1),
        "it has just been called"
    );
    assert!(
        !can_skip(Some(seconds(1)), Some(seconds(61)), 1),
        "calls refill no lists of schedules"
    );
}

/// How many slices a round has, of which each answers this, and is done a bit later than the one
/// before.
fn slices(done: impl Fn(u32) -> Maintained) -> u32 {
    let mut slices = Slices::default();
    (1..)
        .find(|slice| {
            let reply = MaintainReply {
                done: done(*slice),
                spread: 0,
                at: NOW + millis(u64::from(*slice) - 1),
            };
            !slices.go_on(&reply)
        })
        .expect("a round ends")
}

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

#[test]
fn a_run_has_a_bounded_number_of_slices() {
    let answer = |moved, next| {
        let mut answer = Maintained::default();
        (answer.moved, answer.next) = (moved, Some(next));
        answer
    };
    let more = || answer(0, NOW);
    let moved = || answer(1, NOW);
    assert_eq!(slices(|_| Maintained::default()), 1, "nothing to come");
    let later = |_| answer(1, NOW + millis(1));
    assert_eq!(
        slices(later),
        1,
        "what falls due meanwhile is of the next round"
    );
    let busy = |slice| answer(1, NOW + millis(u64::from(slice) - 1));
    assert_eq!(slices(busy), 2, "something is always due");
    assert_eq!(slices(|_| moved()), SLICES_MAX);
    assert_eq!(
        slices(|_| more()),
        IDLE_SLICES_MAX + 1,
        "nothing is reported"
    );
    let seldom = |slice: u32| match slice % IDLE_SLICES_MAX {
        0 => moved(),
        _ => more(),
    };
    assert_eq!(slices(seldom), SLICES_MAX, "something now and then");
}
