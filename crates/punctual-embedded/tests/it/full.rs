//! Goal: a full disk lets jobs be settled, and an engine that cannot sync promises nothing more.
//! Method: a disk of a given size, and one whose syncs fail.

use std::sync::Arc;

use punctual::conformance::START;
use punctual::engine::{Control, Durability, Guard};
use punctual::time::{ManualClock, millis, pause, seconds, within};
use punctual::{Effect, Engine, ErrorKind, JobId, JobState, Limits, Namespace, NewJob, Result};
use punctual_embedded::disk::Disk;
use punctual_embedded::testing::{Crash, ForgetfulDisk, MemoryStore};
use punctual_embedded::{EmbeddedEngine, Options};

use crate::client::{cancel, enqueue, state, work};
use crate::harness::options;

const RESERVE: u64 = 100_000;

struct Full {
    disk: ForgetfulDisk,
    store: MemoryStore,
    options: Options,
    engine: EmbeddedEngine,
}

/// An engine on a disk without bounds yet. Checkpoints are far, so that the log takes the room.
fn open() -> Full {
    open_with(10_000_000)
}

fn open_with(checkpoint_bytes: usize) -> Full {
    open_keeping(RESERVE, checkpoint_bytes)
}

fn open_keeping(reserve_bytes: u64, checkpoint_bytes: usize) -> Full {
    let options = options(Limits::default(), &ManualClock::new(START))
        .reserve_bytes(reserve_bytes)
        .checkpoint_bytes(checkpoint_bytes);
    let disk = ForgetfulDisk::default();
    let store = MemoryStore::new(disk.clone());
    let engine = reopen(&disk, &store, &options);
    Full {
        disk,
        store,
        options,
        engine,
    }
}

fn reopen(disk: &ForgetfulDisk, store: &MemoryStore, options: &Options) -> EmbeddedEngine {
    let (disk, store) = (Arc::new(disk.clone()), Arc::new(store.clone()));
    EmbeddedEngine::open_on(disk, store, options.clone()).expect("the data are whole")
}

impl Full {
    /// Leaves so many bytes of the disk free.
    fn leave(&self, free: u64) {
        let names = self.disk.names().expect("names");
        let used: u64 = names.iter().map(|(_, bytes)| bytes).sum();
        self.disk.set_capacity(Some(used + free));
    }

    fn has_reserve(&self) -> bool {
        let names = self.disk.names().expect("names");
        names.iter().any(|(name, _)| name == "reserve")
    }

    /// Enqueues until that is refused; answers what was taken, and the refusal.
    async fn enqueue_until_refused(&self) -> (Vec<JobId>, ErrorKind) {
        let mut taken = Vec::new();
        loop {
            match enqueue(&self.engine, 1_000).await {
                Ok(id) => taken.push(id),
                Err(error) => return (taken, error.kind()),
            }
            assert!(taken.len() < 10_000, "the disk is never full");
        }
    }

    /// Enqueues until that is taken again.
    async fn enqueue_until_taken(&self) -> JobId {
        let taken = within(seconds(10), async {
            loop {
                match enqueue(&self.engine, 10).await {
                    Ok(id) => return id,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::EngineFull, "{error}"),
                }
                pause(millis(5)).await;
            }
        });
        taken.await.expect("it recovers without a restart")
    }

    /// Forgets everything that was not synced, and checks whether these jobs are there.
    async fn assert_kept(self, jobs: impl IntoIterator<Item = (JobId, JobState)>) {
        let disk = self.disk.crash(Crash::PowerCut { keeps: 0 });
        disk.set_capacity(None);
        let store = self.store.copy(disk.clone());
        drop(self.engine);
        let engine = reopen(&disk, &store, &self.options);
        for (id, reported) in jobs {
            assert_eq!(state(&engine, id).await, Some(reported), "{id}");
        }
    }
}

#[tokio::test]
async fn a_full_disk_without_a_reserve_takes_jobs_again_when_there_is_room() {
    let full = open_keeping(0, 10_000_000);
    full.leave(50_000);
    let (taken, met) = full.enqueue_until_refused().await;
    assert_eq!(
        met,
        ErrorKind::EngineUnavailable,
        "full was not foreseen: it may yet take effect"
    );
    let refusal = enqueue(&full.engine, 10).await.expect_err("it is full");
    assert_eq!(refusal.kind(), ErrorKind::EngineFull);
    assert!(!taken.is_empty());
    full.leave(8 << 20);
    let again = full.enqueue_until_taken().await;
    let kept = taken.into_iter().chain([again]);
    full.assert_kept(kept.map(|id| (id, JobState::Ready))).await;
}

#[tokio::test]
async fn a_disk_that_fills_up_is_foreseen_and_only_enqueue_is_refused() {
    let full = open();
    full.leave(3 * RESERVE);
    let (taken, refusal) = full.enqueue_until_refused().await;
    assert_eq!(refusal, ErrorKind::EngineFull);
    assert!(!taken.is_empty());
    assert!(full.has_reserve(), "the reserve is not needed yet");
    assert!(
        full.disk.free_bytes().expect("free") > RESERVE / 4,
        "full is foreseen, not met"
    );
    let health = full.engine.info().await.expect("info").health;
    assert!(
        !health.ok && health.problems[0].contains("disk"),
        "{health:?}"
    );
    let error = enqueue(&full.engine, 10).await.expect_err("it is full");
    let wanted =
        "new jobs are taken from 1 MiB on; free some, or set less aside with file:DIR?reserve=";
    assert!(error.message().contains(wanted), "{error}");

    let guarded = Control::Guarded {
        guard: Guard::new("offsets", 0),
        value: None,
        effects: vec![Effect::Enqueue(Box::new(NewJob::new("mail", "{}")))],
    };
    let refused = full.engine.control(&Namespace::default(), guarded).await;
    assert_eq!(refused.expect_err("full").kind(), ErrorKind::EngineFull);

    let (done, follower) = work(&full.engine, 10)
        .await
        .expect("settle goes on")
        .expect("a job");
    assert!(
        cancel(&full.engine, *taken.last().expect("one"))
            .await
            .expect("cancel goes on")
    );
    assert_eq!(
        enqueue(&full.engine, 10).await.expect_err("refused").kind(),
        ErrorKind::EngineFull
    );

    full.disk.set_capacity(None);
    let after = full.enqueue_until_taken().await;
    let reported = [
        (done, JobState::Completed),
        (follower, JobState::Ready),
        (taken[taken.len() - 1], JobState::Cancelled),
        (taken[1], JobState::Ready),
        (after, JobState::Ready),
    ];
    full.assert_kept(reported).await;
}

#[tokio::test]
async fn a_disk_that_is_full_at_once_lets_jobs_be_settled_from_the_reserve() {
    let full = open();
    for _ in 0..60 {
        enqueue(&full.engine, 1_000).await.expect("there is room");
    }
    full.leave(100);
    let mut reported = Vec::new();
    while full.has_reserve() || reported.len() < 40 {
        let settled = work(&full.engine, 1_000).await.expect("settle goes on");
        let (done, follower) = settled.expect("a job");
        reported.extend([(done, JobState::Completed), (follower, JobState::Ready)]);
        assert!(reported.len() < 1_000, "the reserve is never needed");
    }
    assert_eq!(
        enqueue(&full.engine, 1).await.expect_err("refused").kind(),
        ErrorKind::EngineFull
    );
    full.disk.set_capacity(None);
    reported.push((full.enqueue_until_taken().await, JobState::Ready));
    let kept = within(seconds(10), async {
        while !full.has_reserve() {
            pause(millis(5)).await;
        }
    });
    kept.await.expect("the reserve is kept back again");
    full.assert_kept(reported).await;
}

#[tokio::test]
async fn a_full_disk_is_opened_with_the_reserve() {
    let full = open();
    let id = enqueue(&full.engine, 1_000).await.expect("there is room");
    full.engine.close().await.expect("it closes");
    assert!(full.has_reserve());
    full.leave(0);
    let engine = reopen(&full.disk, &full.store, &full.options);
    assert!(cancel(&engine, id).await.expect("cancel goes on"));
    let refusal = enqueue(&engine, 10).await.expect_err("there is no room");
    assert_eq!(refusal.kind(), ErrorKind::EngineFull);
}

#[tokio::test]
async fn a_full_disk_lets_more_be_settled_than_the_reserve_could_log() {
    let full = open_with(200_000);
    for _ in 0..10 {
        enqueue(&full.engine, 1_000).await.expect("there is room");
    }
    full.leave(RESERVE / 2);
    let mut logged = 0;
    while logged < 10 * RESERVE {
        let settled = work(&full.engine, 1_000).await;
        settled.expect("settle goes on").expect("a job");
        logged += 1_000;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_disk_without_any_room_refuses_changes_answers_reads_and_recovers() {
    let full = open();
    let mut reported = Vec::new();
    for _ in 0..300 {
        reported.push(enqueue(&full.engine, 1_000).await.expect("there is room"));
    }
    full.leave(100);
    let mut settled = Vec::new();
    let refusal = loop {
        match work(&full.engine, 4_000).await {
            Ok(done) => settled.extend(done),
            Err(error) => break error,
        }
        assert!(settled.len() < 300, "the disk is never full");
    };
    assert_eq!(
        refusal.kind(),
        ErrorKind::EngineUnavailable,
        "it may yet take effect: {refusal}"
    );
    assert!(settled.len() > 10, "the reserve was used first");
    assert_eq!(
        state(&full.engine, reported[299]).await,
        Some(JobState::Ready),
        "reads go on"
    );
    let error = cancel(&full.engine, reported[299])
        .await
        .expect_err("no room for a change");
    assert_eq!(error.kind(), ErrorKind::EngineFull);

    full.disk.set_capacity(None);
    let after = full.enqueue_until_taken().await;
    let mut reported: Vec<_> = vec![(reported[299], JobState::Ready), (after, JobState::Ready)];
    for (done, follower) in settled {
        reported.extend([(done, JobState::Completed), (follower, JobState::Ready)]);
    }
    full.assert_kept(reported).await;
}

/// A sync that fails, at the k-th attempt, ends all promises.
async fn fails_at_sync(k: usize) -> Result<()> {
    let full = open();
    let mut reported = Vec::new();
    for _ in 0..k {
        reported.push((enqueue(&full.engine, 100).await?, JobState::Ready));
    }
    full.disk.fail_syncs(true);
    let error = enqueue(&full.engine, 100)
        .await
        .expect_err("not on disk: not acknowledged");
    assert_eq!(error.kind(), ErrorKind::EngineStopped);
    assert!(
        error.message().contains("sync of the log failed"),
        "{error}"
    );

    full.disk.fail_syncs(false);
    for _ in 0..3 {
        let error = enqueue(&full.engine, 100).await.expect_err("never again");
        assert_eq!(error.kind(), ErrorKind::EngineStopped);
        let error = work(&full.engine, 100).await.expect_err("never again");
        assert!(
            error.message().contains("sync of the log failed"),
            "{error}"
        );
    }
    let error = full.engine.info().await.expect_err("not even that");
    assert_eq!(error.kind(), ErrorKind::EngineStopped);
    full.assert_kept(reported).await;
    Ok(())
}

#[tokio::test]
async fn a_failed_sync_acknowledges_nothing_more() {
    for k in 0..50 {
        fails_at_sync(k).await.expect("until then all is well");
    }
}

#[tokio::test]
async fn a_failed_sync_in_the_background_acknowledges_nothing_more() {
    let mut full = open();
    full.options = full.options.durability(Durability::Interval(millis(1)));
    full.engine.close().await.expect("close");
    full.engine = reopen(&full.disk, &full.store, &full.options);
    full.disk.fail_syncs(true);
    let refused = within(seconds(10), async {
        loop {
            if let Err(error) = enqueue(&full.engine, 10).await {
                return error;
            }
            pause(millis(1)).await;
        }
    });
    let error = refused.await.expect("the interval ends");
    assert_eq!(error.kind(), ErrorKind::EngineStopped);
    full.disk.fail_syncs(false);
    assert!(enqueue(&full.engine, 10).await.is_err(), "never again");
}
