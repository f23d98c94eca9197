//! Goal: a backup of a directory in use opens, and has everything acknowledged before it.
//! Method: producers and workers go on while backups are taken, each of which is opened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use punctual::engine::Durability;
use punctual::{ErrorKind, JobId, JobState};
use punctual_embedded::{EmbeddedEngine, Options, backup, restore};

use crate::client::{enqueue, state, work};

fn options() -> Options {
    // Small, so that checkpoints and compactions come between.
    Options::default()
        .durability(Durability::Os)
        .checkpoint_bytes(30_000)
        .reserve_bytes(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_of_a_directory_in_use_has_everything_acknowledged_before() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let engine = Arc::new(EmbeddedEngine::open(&path, options()).expect("it is new"));
    let reported: Arc<Mutex<BTreeMap<JobId, JobState>>> = Arc::default();
    let ends = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for producer in [true, false] {
        let (engine, reported, ends) = (engine.clone(), reported.clone(), ends.clone());
        tasks.push(tokio::spawn(async move {
            while !ends.load(Ordering::Relaxed) {
                if producer {
                    let id = enqueue(&*engine, 200).await.expect("enqueue");
                    reported
                        .lock()
                        .expect("lock")
                        .entry(id)
                        .or_insert(JobState::Ready);
                } else if let Some((done, _)) = work(&*engine, 200).await.expect("work") {
                    reported
                        .lock()
                        .expect("lock")
                        .insert(done, JobState::Completed);
                }
            }
        }));
    }
    let mut copied = 0;
    for n in 0..12 {
        let before = reported.lock().expect("lock").clone();
        let kept = parent.path().join(format!("kept-{n}"));
        let copy = backup(&path, &kept).expect("backup");
        assert!(copy.files >= 4, "{copy:?}");
        let opened = EmbeddedEngine::open(&kept, options().maintenance(false)).expect("it opens");
        for (id, reported) in &before {
            let found = state(&opened, *id).await;
            let found = found
                .unwrap_or_else(|| panic!("{id} was {reported} before the backup and is gone"));
            assert!(
                found == *reported || !reported.is_settled(),
                "{id} was {reported} and is {found}"
            );
        }
        copied += before.len();
    }
    ends.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("it goes on beside a backup");
    }
    assert!(copied > 200, "{copied} jobs looked for");
}

#[tokio::test]
async fn a_restored_backup_goes_on_where_it_was_taken() {
    let parent = tempfile::tempdir().expect("a directory");
    let [data, kept, again] = ["data", "kept", "again"].map(|name| parent.path().join(name));
    let engine = EmbeddedEngine::open(&data, options()).expect("it is new");
    let before = enqueue(&engine, 10).await.expect("enqueue");
    backup(&data, &kept).expect("backup");
    let after = enqueue(&engine, 10).await.expect("enqueue");
    drop(engine);
    restore(&kept, &again).expect("restore");
    let engine = EmbeddedEngine::open(&again, options()).expect("it opens");
    assert_eq!(state(&engine, before).await, Some(JobState::Ready));
    assert_eq!(
        state(&engine, after).await,
        None,
        "it came after the backup"
    );
    enqueue(&engine, 10).await.expect("it goes on");
    drop(engine);
    EmbeddedEngine::open(&kept, options()).expect("the backup stayed as it was");
}

#[test]
fn a_copy_needs_an_empty_target_and_a_source_with_data() {
    let parent = tempfile::tempdir().expect("a directory");
    let [data, kept] = ["data", "kept"].map(|name| parent.path().join(name));
    assert_eq!(
        backup(&data, &kept).expect_err("nothing is there").kind(),
        ErrorKind::NotFound
    );
    drop(EmbeddedEngine::open(&data, options()).expect("it is new"));
    std::fs::create_dir(&kept).expect("a directory");
    std::fs::write(kept.join("thesis.tex"), "text").expect("write");
    let error = backup(&data, &kept).expect_err("something is there");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("not empty"), "{error}");
}
