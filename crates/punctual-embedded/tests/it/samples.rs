//! Goal: what a version wrote, every later one reads. Method: directories that are kept in the
//! repository, one per format, are opened, and so is one that is made now.

use std::path::Path;

use punctual::conformance::START;
use punctual::engine::{
    Claim, Control, Controlled, Durability, LeaseReport, OnFull, QueueSettings, RecordValue,
    ScheduleAct, Settle, Settlement, Target, WorkerId, WorkerPlace,
};
use punctual::schedule::{Fold, Gap, Missed, Overlap, Schedule, Spec, Template};
use punctual::time::{ManualClock, hours, minutes, seconds};
use punctual::{
    Due, Engine, Hold, JobId, JobRecord, JobState, Limits, Namespace, NewJob, OnRetry, Outcome,
    RetryPolicy, UniquePolicy,
};
use punctual_embedded::{EmbeddedEngine, Options, backup, restore};

use crate::harness::options;

const WORKER: WorkerId = WorkerId(0x5a);

fn id(n: u8) -> JobId {
    JobId::from_bytes([n; 16])
}

/// Every field that is not at its default, so that each is read back.
fn full() -> NewJob {
    NewJob::new("reminders", r#"{"order":1}"#)
        .id(id(1))
        .kind("orders.remind")
        .headers(vec![("trace".into(), "00-1".into())])
        .due(Due::After(hours(2)))
        .expires_at(START + hours(9))
        .priority(3)
        .unique_with("order:1", UniquePolicy::Replace, Hold::UntilSettled)
        .group_with("rider:7", OnRetry::Pass)
        .max_attempts(9)
        .retry(RetryPolicy::fixed(seconds(11)))
        .timeout(minutes(3))
        .retention(hours(5))
}

/// Every part of a schedule that is not at its default.
fn schedule() -> Schedule {
    let spec = Spec::cron("0 18 * * FRI")
        .cron_with_seconds("30 0 9 * * *")
        .quartz("0 0/5 14 ? * MON")
        .every_with_phase(hours(9), minutes(3))
        .at([START + hours(700)])
        .except_cron("* * 25 12 *")
        .zone("Europe/Berlin")
        .before(minutes(30))
        .gap(Gap::Shift)
        .fold(Fold::Last)
        .jitter(seconds(10))
        .start(START)
        .end(START + hours(99_999))
        .max_runs(77);
    let mut job = full().due(Due::Now);
    job.expires_at = None;
    let template = Template::of(job).expect("a plain job");
    let spec = spec.build().expect("it runs");
    let mut schedule = Schedule::new(spec.parts().clone(), template);
    schedule.overlap = Overlap::BufferOne;
    schedule.missed = Missed::All { max: 3 };
    schedule.note = "a note".into();
    schedule.pause_on_failure = true;
    schedule
}

fn plain(n: u8, queue: &str) -> NewJob {
    NewJob::new(queue, vec![n; 40])
        .id(id(n))
        .retention(hours(1))
}

/// A directory with a job in every state, a tombstone, a lease, a pause and records.
async fn make(path: &Path) {
    let options = options(Limits::default(), &ManualClock::new(START));
    let options = options.durability(Durability::Os).reserve_bytes(0);
    let engine = EmbeddedEngine::open(path, options).expect("it is new");
    let namespace = Namespace::default();
    let held = plain(2, "held").wait_for(["paid"]);
    let bare = plain(8, "tombstones").retention(hours(0));
    let jobs = vec![
        full(),
        held,
        plain(3, "ready"),
        plain(4, "active"),
        plain(5, "completed"),
    ];
    let more = vec![plain(6, "cancelled"), plain(7, "dead"), bare];
    for jobs in [jobs, more] {
        engine.enqueue(&namespace, jobs).await.expect("enqueue");
    }
    let outcomes = [
        ("active", None),
        ("completed", Some(Outcome::Completed)),
        ("cancelled", Some(Outcome::Cancelled)),
        ("dead", Some(Outcome::Dead)),
        ("tombstones", Some(Outcome::Completed)),
    ];
    for (nonce, (queue, outcome)) in (1..).zip(outcomes) {
        let claim = Claim::new(WORKER, queue, 1)
            .place(WorkerPlace::Elsewhere)
            .lease_duration(hours(20))
            .nonce(nonce);
        let lease = engine
            .claim(&namespace, claim)
            .await
            .expect("claim")
            .leases
            .remove(0);
        if let Some(outcome) = outcome {
            let mut end = Settlement::new(lease.jobs[0].id, 1, outcome);
            end.result = Some(b"a result".as_slice().into());
            end.error = Some("an error".into());
            let leases = vec![LeaseReport::new(lease.token, vec![end])];
            engine
                .settle(&namespace, Settle::new(leases))
                .await
                .expect("settle");
        }
    }
    let settings = QueueSettings::new()
        .max_pending(12)
        .on_full(OnFull::DeadLetterOldest);
    let schedule = RecordValue::Schedule(Box::new(schedule()));
    for (name, value) in [
        ("schedule/weekly-report", schedule),
        ("queue/ready", RecordValue::Queue(settings)),
        ("notes", RecordValue::Opaque(b"opaque".as_slice().into())),
    ] {
        let value = Some(value);
        let (name, expected) = (name.into(), 0);
        let write = Control::Write {
            name,
            expected,
            value,
        };
        engine.control(&namespace, write).await.expect("control");
    }
    let queue = "ready".into();
    engine
        .control(&namespace, Control::Pause { queue })
        .await
        .expect("control");
}

/// Opens a copy of a directory that was made so, at the same time of the clock.
async fn check(sample: &Path) {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    restore(sample, &path).expect("it is whole");
    let clock = ManualClock::new(START + minutes(1));
    let engine = EmbeddedEngine::open(&path, read_options(&clock)).expect("it is read");
    let found = get(&engine, full().id).await;
    let sent = full();
    assert_eq!(
        (found.state, found.due),
        (JobState::Scheduled, START + hours(2))
    );
    assert_eq!((&found.queue, &found.kind), (&sent.queue, &sent.kind));
    assert_eq!(
        (&found.payload, &found.headers),
        (&sent.payload, &sent.headers)
    );
    assert_eq!((&found.unique, &found.group), (&sent.unique, &sent.group));
    assert_eq!(
        (found.expires_at, found.priority),
        (sent.expires_at, sent.priority)
    );
    assert_eq!(
        (found.max_attempts, &found.retry),
        (sent.max_attempts, &sent.retry)
    );
    assert_eq!(
        (found.timeout, found.retention),
        (sent.timeout, sent.retention)
    );
    let states = [
        JobState::Held,
        JobState::Ready,
        JobState::Active,
        JobState::Completed,
        JobState::Cancelled,
        JobState::Dead,
    ];
    for (n, state) in (2..).zip(states) {
        let found = get(&engine, id(n)).await;
        assert_eq!(
            (found.state, found.payload.to_vec()),
            (state, vec![n; 40]),
            "job {n}"
        );
    }
    let held = get(&engine, id(2)).await;
    assert_eq!(held.wait_for, ["paid"]);
    let dead = get(&engine, id(7)).await;
    assert_eq!(
        (dead.failures, dead.last_error.as_deref()),
        (1, Some("an error"))
    );
    let tombstone = engine
        .get(&Namespace::default(), vec![Target::Id(id(8))], false)
        .await;
    let tombstone = tombstone
        .expect("get")
        .remove(0)
        .expect("its tombstone is kept");
    assert!(
        tombstone.job().is_none() && tombstone.state() == JobState::Completed,
        "{tombstone:?}"
    );
    check_control(&engine).await;
    // The first silence saves a lease, the second does not.
    for _ in 0..2 {
        clock.advance(hours(30));
        engine.maintain().await.expect("maintain");
    }
    let crashed = get(&engine, id(4)).await;
    assert_eq!(crashed.crashes, 1, "its lease ran out");
    // The row of the sample has no past attempt, the one that was written now does.
    assert_eq!(crashed.attempts.len(), 1);
    assert_eq!(crashed.attempts[0].worker, Some(WORKER.0));
}

fn read_options(clock: &ManualClock) -> Options {
    options(Limits::default(), clock)
        .durability(Durability::Os)
        .reserve_bytes(0)
}

async fn get(engine: &EmbeddedEngine, id: JobId) -> JobRecord {
    let got = engine
        .get(&Namespace::default(), vec![Target::Id(id)], false)
        .await;
    let got = got.expect("get").remove(0);
    got.and_then(|got| got.job().cloned())
        .unwrap_or_else(|| panic!("job {id} is kept whole"))
}

async fn check_control(engine: &EmbeddedEngine) {
    let namespace = Namespace::default();
    let claim = Claim::new(WORKER, "ready", 1);
    let claimed = engine.claim(&namespace, claim).await.expect("claim");
    assert!(claimed.leases.is_empty(), "its queue is paused");
    for name in ["queue/ready", "notes"] {
        let read = Control::Read { name: name.into() };
        let found = engine.control(&namespace, read).await.expect("control");
        assert!(matches!(found, Controlled::Record(Some(_))), "{name}");
    }
    let name = "weekly-report".into();
    let act = ScheduleAct::Read;
    let read = Control::Schedule { name, act };
    let found = engine.control(&namespace, read).await.expect("control");
    let Controlled::Schedule(Some(status)) = found else {
        panic!("the schedule is kept");
    };
    assert_eq!(status.schedule, schedule());
    assert_eq!(status.next.len(), 16);
    let run = get(engine, status.pending.expect("a run to come")).await;
    let run = run.schedule.expect("it names its schedule");
    assert_eq!((&*run.name, run.at), ("weekly-report", status.next[0]));
}

#[tokio::test]
async fn a_directory_of_format_1_is_read() {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/v1")).await;
}

/// What it makes stays in the target directory: the next sample is a copy of it.
#[tokio::test]
async fn a_directory_made_now_is_read_as_the_samples_are() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    make(&path).await;
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample");
    let _ = std::fs::remove_dir_all(&made);
    backup(&path, &made).expect("backup");
    assert!(made.join("base/current").exists());
    check(&made).await;
}
