//! Callbacks of jobs for which no worker enqueued one.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use punctual::engine::{
    Action, Claim, ClaimMode, Control, LeaseReport, List, ListBy, OnFull, QueueSettings,
    RecordValue, Settle, Settlement, WorkerId,
};

use punctual::time::{hours, millis, seconds};
use punctual::{JobId, JobState, Namespace, NewJob, Outcome, Unique, UniquePolicy, Worker, push};
use punctual_push::{Callbacks, Guard};
use serde_json::Value;

use crate::injected::Injected;
use crate::support::Under;

fn asking(queue: &str) -> NewJob {
    let mut job = NewJob::new(queue, "{}");
    push::set(&mut job, push::CALLBACK, "https://example.com/done");
    job
}

fn callbacks(under: &Under) -> Callbacks {
    Callbacks::new(under.engine.clone(), Namespace::default())
}

async fn control(under: &Under, control: Control) {
    let space = Namespace::default();
    under.engine.control(&space, control).await.expect("done");
}

/// What is said of each job, as `state why`; every one must be posted once.
async fn posted(under: &Under) -> BTreeMap<String, String> {
    let mut posted = BTreeMap::new();
    for state in JobState::ALL {
        let list = List::new(ListBy::State {
            queue: push::CALLBACK_QUEUE.to_owned(),
            state,
        })
        .limit(1_000)
        .payloads(true);
        let space = Namespace::default();
        let listing = under.engine.list(&space, list).await.expect("an answer");
        for job in listing.jobs {
            let said: Value = serde_json::from_slice(&job.payload).expect("JSON");
            let words = ["state", "cancelled", "dead"].map(|name| said[name].as_str());
            let words: Vec<&str> = words.into_iter().flatten().collect();
            let id = said["id"].as_str().expect("an id").to_owned();
            let before = posted.insert(id, words.join(" "));
            assert_eq!(before, None, "posted twice: {said}");
        }
    }
    posted
}

#[tokio::test]
async fn every_end_without_a_worker_that_knows_callbacks_has_one() {
    let under = Under::new(Guard::new());
    let ends = [
        (cancelled(&under).await, "cancelled requested"),
        (expired(&under).await, "cancelled expired"),
        (replaced(&under).await, "cancelled replaced"),
        (purged(&under).await, "cancelled purged"),
        (pushed_out(&under).await, "dead overflow"),
        (poisonous(&under).await, "dead poison"),
        (settled(&under, Outcome::Completed).await, "completed"),
        (settled(&under, Outcome::Dead).await, "dead permanent"),
    ];
    let expected = ends.map(|(id, how)| (id.to_string(), how.to_owned()));
    let expected = BTreeMap::from(expected);
    // Those that asked for none have none.
    let silent = under.send(NewJob::new("silent", "")).await;
    under.edit(silent, Action::Cancel).await;

    let mut first = callbacks(&under);
    assert_eq!(first.scan().await.expect("a scan"), expected.len());
    for _ in 0..5 {
        assert_eq!(first.scan().await.expect("a scan"), 0);
        under.clock.advance(seconds(5));
    }
    assert_eq!(posted(&under).await, expected);
    // Another one, and one that is started when the callbacks themselves are forgotten.
    assert_eq!(callbacks(&under).scan().await.expect("a scan"), 0);
    let worker = Worker::new(under.engine.clone()).queues([push::CALLBACK_QUEUE]);
    let worker = worker.handle_any(|_, _| async { Ok::<(), &str>(()) });
    worker.run_until_idle().await.expect("it works");
    under.clock.advance(hours(5));
    callbacks(&under).scan().await.expect("a scan");
    assert_eq!(posted(&under).await, BTreeMap::new());

    // It goes on from there.
    cancelled(&under).await;
    assert_eq!(first.scan().await.expect("a scan"), 1);
    assert_eq!(callbacks(&under).scan().await.expect("a scan"), 0);
}

#[tokio::test]
async fn a_callback_of_a_worker_is_not_sent_again_by_the_scan() {
    let under = Under::new(Guard::new());
    let mut job = asking("reports");
    job.retention = hours(24);
    under.send(job).await;
    let mut doomed = asking("reports");
    doomed.max_attempts = 1;
    under.send(doomed).await;
    let worker = Worker::new(under.engine.clone())
        .queues(["reports"])
        .handle_any(|job: punctual::JobRecord, _| async move {
            match job.max_attempts {
                1 => Err("broken"),
                _ => Ok(()),
            }
        });
    worker.run_until_idle().await.expect("it works");
    assert_eq!(posted(&under).await.len(), 2);
    under.clock.advance(hours(3));
    assert_eq!(callbacks(&under).scan().await.expect("a scan"), 0);
    assert_eq!(posted(&under).await.len(), 2);
}

#[tokio::test]
async fn more_than_a_lease_is_posted_and_what_is_new_behind_it_too() {
    let under = Under::new(Guard::new());
    let space = Namespace::default();
    let mut scanning = callbacks(&under);
    for round in 0..3 {
        for _ in 0..2 {
            let jobs: Vec<NewJob> = (0..700).map(|_| asking("mail")).collect();
            under.engine.enqueue(&space, jobs).await.expect("taken");
        }
        let mut cursor = None;
        loop {
            let purge = Control::Purge {
                queue: "mail".to_owned(),
                cursor: cursor.take(),
                limit: 1_000,
            };
            let purged = under.engine.control(&space, purge).await.expect("purged");
            match purged {
                punctual::engine::Controlled::Purged {
                    cursor: Some(next), ..
                } => cursor = Some(next),
                _ => break,
            }
        }
        assert_eq!(scanning.scan().await.expect("a scan"), 1_400, "{round}");
        under.clock.advance(seconds(7));
    }
}

/// Workers post all the time, and there is a history: scans do not walk through it again and again.
#[tokio::test]
async fn steady_callbacks_do_not_walk_through_the_history_at_every_scan() {
    const HISTORY: usize = 2_000;
    const SCANS: usize = 120;
    for is_sharded in [false, true] {
        let under = Under::new(Guard::new());
        let injected = Injected::over(&under);
        injected.is_sharded.store(is_sharded, Ordering::SeqCst);
        let worker = || {
            let worker = Worker::new(&under.engine).queues(["reports"]);
            worker.handle_any(|_, _| async { Ok::<(), &str>(()) })
        };
        let mut quiet = NewJob::new("reports", "");
        quiet.retention = hours(24);
        let history = (0..HISTORY).map(|_| quiet.clone().id(JobId::new()));
        let history: Vec<NewJob> = history.collect();
        let space = Namespace::default();
        for some in history.chunks(1_000) {
            let put = under.engine.enqueue(&space, some.to_vec()).await;
            put.expect("taken");
        }
        worker().run_until_idle().await.expect("it works");
        under.clock.advance(seconds(60));
        let mut scanning = Callbacks::new(injected.clone(), space);
        scanning.scan().await.expect("a scan");
        let counted = || {
            let all = [&injected.lists, &injected.listed, &injected.enqueued];
            all.map(|count| count.swap(0, Ordering::SeqCst))
        };
        counted();
        // Ten minutes of them.
        for nth in 0..SCANS {
            under.clock.advance(seconds(5));
            let mut job = asking("reports");
            job.retention = hours(24);
            under.send(job).await;
            worker().run_until_idle().await.expect("it works");
            assert_eq!(scanning.scan().await.expect("a scan"), 0, "{nth}");
        }
        let [lists, listed, enqueued] = counted();
        // Two walks at most; some shards are listed after others, and their clocks lie apart. The
        // clock stands still between an end and a scan.
        let (of_a_scan, again) = if is_sharded { (210, 5) } else { (10, 3) };
        let most = SCANS * of_a_scan + 2 * (HISTORY + SCANS);
        assert!(listed <= most, "{listed} of {most} jobs listed");
        assert!(lists <= 3 * SCANS, "{lists} lists of {SCANS} scans");
        let most = SCANS * again;
        assert!(enqueued <= most, "{enqueued} of {most} put in");
    }
}

async fn cancelled(under: &Under) -> JobId {
    let id = under.send(asking("mail")).await;
    under.edit(id, Action::Cancel).await;
    id
}

async fn expired(under: &Under) -> JobId {
    let mut job = asking("mail");
    job.expires_at = Some(under.now() + seconds(1));
    let id = under.send(job).await;
    under.clock.advance(seconds(2));
    id
}

async fn replaced(under: &Under) -> JobId {
    let keyed = |mut job: NewJob| {
        job.unique = Some(
            Unique::new("order:7".to_owned())
                .policy(UniquePolicy::Replace)
                .hold(Default::default()),
        );
        job
    };
    let id = under.send(keyed(asking("mail"))).await;
    under.send(keyed(NewJob::new("mail", ""))).await;
    id
}

async fn purged(under: &Under) -> JobId {
    let id = under.send(asking("purged")).await;
    let purge = Control::Purge {
        queue: "purged".to_owned(),
        cursor: None,
        limit: 100,
    };
    control(under, purge).await;
    id
}

async fn pushed_out(under: &Under) -> JobId {
    let settings = QueueSettings::new()
        .max_pending(1)
        .on_full(OnFull::DeadLetterOldest);
    let write = Control::Write {
        name: "queue/small".to_owned(),
        expected: 0,
        value: Some(RecordValue::Queue(settings)),
    };
    control(under, write).await;
    let id = under.send(asking("small")).await;
    under.send(NewJob::new("small", "")).await;
    id
}

async fn poisonous(under: &Under) -> JobId {
    let id = under.send(asking("heavy")).await;
    for _ in 0..3 {
        let mut claim = Claim::new(WorkerId::random(), "heavy", 1);
        claim.lease_duration = millis(100);
        claim.mode = ClaimMode::Alone;
        let space = Namespace::default();
        let claimed = under.engine.claim(&space, claim).await.expect("a lease");
        assert_eq!(claimed.leases.len(), 1);
        // A silence is forgiven once.
        for _ in 0..2 {
            under.clock.advance(seconds(1));
            under.get(id).await;
        }
    }
    assert_eq!(under.get(id).await.state, JobState::Dead);
    id
}

/// Ended by a worker that knows no callbacks.
async fn settled(under: &Under, outcome: Outcome) -> JobId {
    let mut job = asking("foreign");
    job.retention = hours(1);
    let id = under.send(job).await;
    let claim = Claim::new(WorkerId::random(), "foreign", 1);
    let space = Namespace::default();
    let claimed = under.engine.claim(&space, claim).await.expect("a lease");
    let (lease, job) = (&claimed.leases[0], &claimed.leases[0].jobs[0]);
    let settlement = Settlement::new(job.id, job.attempt, outcome);
    let settle = Settle::new(vec![LeaseReport::new(lease.token, vec![settlement])]);
    under.engine.settle(&space, settle).await.expect("settled");
    id
}
