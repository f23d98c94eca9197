//! What one row decides: which lease may write, and whether an upload is a file.

use serde_json::json;

use super::*;

/// Tables of its own.
async fn sqlite(directory: &tempfile::TempDir) -> Database {
    let address = format!("sqlite:{}", directory.path().join("files.db").display());
    Database::open(&address).await.expect("a database")
}

fn new<'a>(upload: &'a str, sha256: &'a str) -> NewFile<'a> {
    NewFile {
        upload,
        name: "a.csv",
        kind: "csv",
        header: -1,
        size: 60,
        sha256,
        now: 1,
        expires: i64::MAX / 2,
        quota: 100,
        is_stored: true,
    }
}

fn by(fence: i64) -> Attempt {
    Attempt {
        fence,
        attempt: 1,
        queued: 1,
        started: 2,
        lateness: 1,
    }
}

async fn stored(database: &Database, upload: &str, sha256: &str) -> String {
    database.open_upload(upload, 1).await.expect("a row");
    match database
        .finish_upload(&new(upload, sha256))
        .await
        .expect("it ends")
    {
        Finished::Stored(id) => id,
        other => panic!("{other:?}"),
    }
}

/// A lease with a smaller fence than another took the file with changes nothing any more.
async fn a_stale_lease_is_refused(database: &Database) {
    let id = stored(database, &uuid(), &hash('a')).await;
    let Taken::Ours(old) = database.take(&id, 1, by(5)).await.expect("it takes") else {
        panic!()
    };
    assert!(
        database
            .add_rows(&old, 1, &["[1]".into()], 10, 1)
            .await
            .expect("it adds")
    );
    let Taken::Ours(young) = database.take(&id, 1, by(7)).await.expect("it takes") else {
        panic!()
    };
    assert_eq!(
        (young.byte_offset, young.row_total),
        (10, 1),
        "it goes on where the other came to"
    );
    assert!(
        !database
            .add_rows(&old, 2, &["[2]".into()], 20, 2)
            .await
            .expect("it answers")
    );
    assert!(
        !database
            .store_result(&old, &json!({"rows": 2}), None, 9)
            .await
            .expect("it answers")
    );
    assert!(
        !database
            .end_without_result(&old, "refused", "", 9)
            .await
            .expect("it answers")
    );
    assert!(matches!(
        database.take(&id, 1, by(6)).await,
        Ok(Taken::Stale)
    ));
    assert_eq!(
        database.rows(&id, 1, 0, 9).await.expect("rows"),
        [(1, "[1]".to_owned())]
    );
    assert!(
        database
            .add_rows(&young, 2, &["[2]".into()], 20, 2)
            .await
            .expect("it adds")
    );
    assert!(
        database
            .store_result(&young, &json!({"rows": 2}), None, 9)
            .await
            .expect("it stores")
    );
    assert!(matches!(
        database.take(&id, 1, by(8)).await,
        Ok(Taken::Done(_))
    ));
    a_new_generation_ends_the_older_one(database, &id).await;
}

/// With a new generation, and at the end of the record, attempts at what was wanted write nothing.
async fn a_new_generation_ends_the_older_one(database: &Database, id: &str) {
    assert!(
        database
            .ask_again(id, 1, Again::ResultIsOld)
            .await
            .expect("it asks")
    );
    assert!(
        !database
            .ask_again(id, 1, Again::ResultIsOld)
            .await
            .expect("it answers"),
        "of two callers one asks"
    );
    assert!(matches!(
        database.take(id, 1, by(9)).await,
        Ok(Taken::NotWanted)
    ));
    let Taken::Ours(again) = database.take(id, 2, by(10)).await.expect("it takes") else {
        panic!()
    };
    assert_eq!((again.state.as_str(), again.byte_offset), ("processed", 0));
    database.expire(id).await.expect("it ends");
    assert!(
        !database
            .add_rows(&again, 1, &["[1]".into()], 10, 1)
            .await
            .expect("it answers")
    );
    assert!(
        !database
            .store_result(&again, &json!({}), None, 9)
            .await
            .expect("it answers")
    );
    assert!(matches!(
        database.take(id, 2, by(11)).await,
        Ok(Taken::NotWanted)
    ));
    assert_eq!(database.bytes_kept().await.expect("a number"), 0);
    database.expire(id).await.expect("it ends once");
    assert_eq!(database.bytes_kept().await.expect("a number"), 0);
    database
        .delete_rows(id, i64::MAX)
        .await
        .expect("it deletes");
    assert!(database.rows(id, 1, 0, 9).await.expect("rows").is_empty());
    // A deletion stores the job that removes the bytes, whatever is away.
    let jobs = || async { database.outbox(100).await.expect("rows").len() };
    let before = jobs().await;
    database.delete(id).await.expect("it ends");
    assert_eq!(jobs().await, before + 1);
}

/// An upload becomes a file or is cleaned up, never both.
async fn an_upload_ends_one_way(database: &Database) {
    let (late, twice, over) = (uuid(), uuid(), uuid());
    database.open_upload(&late, 1).await.expect("a row");
    assert!(database.abandon_upload(&late).await.expect("it answers"));
    assert_eq!(
        database
            .finish_upload(&new(&late, &hash('b')))
            .await
            .expect("it ends"),
        Finished::Gone
    );

    let upload = uuid();
    let jobs = database.outbox(99).await.expect("rows").len();
    let id = stored(database, &upload, &hash('c')).await;
    assert_eq!(database.outbox(99).await.expect("rows").len(), jobs + 2);
    assert!(
        !database.abandon_upload(&upload).await.expect("it answers"),
        "it is a file"
    );

    database.open_upload(&twice, 1).await.expect("a row");
    let same = database
        .finish_upload(&new(&twice, &hash('c')))
        .await
        .expect("it ends");
    assert_eq!(same, Finished::Duplicate(id.clone()));
    assert!(
        database.abandon_upload(&twice).await.expect("it answers"),
        "its bytes are to be deleted"
    );

    database.open_upload(&over, 1).await.expect("a row");
    let over_quota = database
        .finish_upload(&new(&over, &hash('d')))
        .await
        .expect("it ends");
    assert_eq!(over_quota, Finished::OverQuota);
    assert_eq!(
        database.outbox(99).await.expect("rows").len(),
        jobs + 2,
        "nothing is enqueued"
    );
    assert!(database.abandon_upload(&over).await.expect("it answers"));

    // Rows that were handed over go, and those that are no jobs are kept.
    let taken = database.outbox(99).await.expect("rows");
    let refused = [(taken[0].0.clone(), "why".to_owned())];
    database.accept(&taken, &refused).await.expect("it accepts");
    assert!(database.outbox(99).await.expect("rows").is_empty());
    let kept = "SELECT count(*) FROM punctual_outbox_refused";
    let kept: i64 = on_any!(database, pool => sqlx::query_scalar(kept).fetch_one(pool).await)
        .expect("a number");
    assert_eq!(kept, 1);
    database.expire(&id).await.expect("it ends");
}

/// The same bytes at the same moment are one file.
async fn one_of_two_at_once_is_stored(database: &Database) {
    let hash = hash('e');
    let mut finished = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (database, hash) = (database.clone(), hash.clone());
        finished.spawn(async move {
            let upload = uuid();
            database.open_upload(&upload, 1).await.expect("a row");
            let new = NewFile {
                size: 1,
                ..new(&upload, &hash)
            };
            database.finish_upload(&new).await.expect("it ends")
        });
    }
    let all = finished.join_all().await;
    let stored = all
        .iter()
        .filter(|one| matches!(one, Finished::Stored(_)))
        .count();
    let same = all
        .iter()
        .filter(|one| matches!(one, Finished::Duplicate(_)))
        .count();
    assert_eq!((stored, same), (1, 3), "{all:?}");
}

fn uuid() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn hash(letter: char) -> String {
    letter.to_string().repeat(64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_row_decides_in_sqlite() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = sqlite(&directory).await;
    a_stale_lease_is_refused(&database).await;
    an_upload_ends_one_way(&database).await;
    one_of_two_at_once_is_stored(&database).await;
}

/// `scripts/test-relay` starts the server.
mod servers {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_row_decides_in_mariadb() {
        let address = std::env::var("PUNCTUAL_MYSQL").expect("run scripts/test-relay");
        let server = MySqlPool::connect(&address).await.expect("a server");
        let fresh = "DROP DATABASE IF EXISTS upload_rows; CREATE DATABASE upload_rows";
        sqlx::raw_sql(fresh)
            .execute(&server)
            .await
            .expect("a database");
        let (server, _) = address.rsplit_once('/').expect("an address");
        let database = Database::open(&format!("{server}/upload_rows"))
            .await
            .expect("a database");
        a_stale_lease_is_refused(&database).await;
        an_upload_ends_one_way(&database).await;
        one_of_two_at_once_is_stored(&database).await;
    }
}
