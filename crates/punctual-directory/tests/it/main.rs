//! Several engines on one directory: one opens it, the others join and continue when it ends.

mod example;

use punctual::engine::{Action, Claim, Edit, EditVerdict, Select, WorkerId};
use punctual::{Engine, ErrorKind, JobId, Namespace, NewJob};
use punctual_directory::{OpenOrJoin, SharedDirectory};
use punctual_embedded::{EmbeddedEngine, Options};
use tempfile::TempDir;

async fn open(directory: &TempDir) -> SharedDirectory {
    let opened = EmbeddedEngine::open_or_join(directory.path(), Options::default()).await;
    opened.expect("opened or joined")
}

async fn enqueue(engine: &SharedDirectory) -> JobId {
    let job = NewJob::new("mail", "{}");
    let id = job.id;
    let sent = engine.enqueue(&Namespace::default(), vec![job]).await;
    sent.expect("the job is stored");
    id
}

async fn cancel(engine: &SharedDirectory, id: JobId) -> EditVerdict {
    let edit = Edit::new(Select::Targets(vec![id.into()]), Action::Cancel).dry_run(true);
    let edited = engine.edit(&Namespace::default(), edit).await;
    edited.expect("an answer").verdicts[0].1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_engine_joins_the_first_and_replaces_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = open(&directory).await;
    let second = open(&directory).await;
    assert!(first.is_holder() && !second.is_holder());
    let id = enqueue(&second).await;
    assert!(matches!(cancel(&first, id).await, EditVerdict::Done(_)));
    let claim = Claim::new(WorkerId::random(), "mail", 10);
    let claimed = second.claim(&Namespace::default(), claim).await;
    assert_eq!(claimed.expect("a claim").leases[0].jobs[0].id, id);

    first.close().await.expect("the first closes");
    let next = enqueue(&second).await;
    assert!(second.is_holder());
    let third = open(&directory).await;
    assert!(!third.is_holder());
    assert!(matches!(cancel(&third, next).await, EditVerdict::Done(_)));
    second.close().await.expect("the second closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_for_a_held_directory_names_open_or_join() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = open(&directory).await;
    let refused = EmbeddedEngine::open(directory.path(), Options::default());
    let error = refused.expect_err("another engine holds it");
    assert_eq!(error.kind(), ErrorKind::DataLocked);
    assert!(
        error.message().contains("EmbeddedEngine::open_or_join"),
        "{error}"
    );
    first.close().await.expect("it closes");
}
