//! The life of a file, from its upload to its expiry.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn a_file_is_processed_once_and_its_steps_are_shown() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &[]).await;
    let at = &web.address;
    let id = upload(at, "some.csv", &csv("ann", 1_000))
        .await
        .expect("an id");
    let views = follow(at, &id).await.expect("views");
    assert_eq!(views.last().expect("a view")["state"], "processed");
    let view = until_state(at, &id, "processed").await;
    assert_eq!(
        (&view["rows"], &view["columns"]),
        (&json!(1_000), &json!(2))
    );
    assert_eq!(view["header"], json!(["name", "n"]));
    assert_eq!(view["preview"][0], json!(["ann", "1"]));
    let steps: Vec<_> = view["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| step["step"].clone())
        .collect();
    assert_eq!(steps, ["stored", "queued", "started", "ended"]);
    let (_, rows) = get(at, &format!("/files/{id}/rows?from=1000"))
        .await
        .expect("rows");
    assert_eq!(
        rows["rows"],
        json!([{"n": 1_000, "cells": ["ann", "1000"]}])
    );

    // The same bytes under another name are the same file.
    let again = upload(at, "other.csv", &csv("ann", 1_000))
        .await
        .expect("an id");
    assert_eq!(again, id);
    until(|| objects(data.path()).len() == 1).await;
    assert_eq!(count(data.path(), "SELECT count(*) FROM files"), 1);
    assert_eq!(count(data.path(), "SELECT max(generation) FROM files"), 1);
}

#[tokio::test]
async fn an_image_gets_a_thumbnail_and_a_broken_one_a_reason() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &[]).await;
    let at = &web.address;
    let mut png = std::io::Cursor::new(Vec::new());
    image::DynamicImage::new_rgb8(640, 480)
        .write_to(&mut png, image::ImageFormat::Png)
        .expect("an image");
    let png = png.into_inner();
    let id = upload(at, "a.png", &png).await.expect("an id");
    let view = until_state(at, &id, "processed").await;
    assert_eq!(
        (&view["width"], &view["height"]),
        (&json!(640), &json!(480))
    );
    let (status, _) = get(at, view["thumbnail"].as_str().expect("an address"))
        .await
        .expect("a thumbnail");
    assert_eq!(status, 200);
    let broken = upload(at, "b.png", &png[..png.len() / 2])
        .await
        .expect("an id");
    let view = until_state(at, &broken, "refused").await;
    assert!(
        view["reason"]
            .as_str()
            .is_some_and(|why| why.contains("image")),
        "{view}"
    );
}

#[tokio::test]
async fn a_csv_out_of_bounds_is_refused_with_its_row() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &[]).await;
    for (bytes, why) in [
        (b"a,b\n1,\xff\xfe".to_vec(), "row 2 is not UTF-8 text"),
        (b"a,b\n1,2\n3,\0\n".to_vec(), "row 3 has a NUL byte"),
        (
            format!("a,1\nb,\"{}", "x".repeat(1 << 20)).into_bytes(),
            "row 2 has more than 65536 bytes",
        ),
        (
            format!("a,1\n{}\n", ",".repeat(100_000)).into_bytes(),
            "row 2 has more than 1000 columns",
        ),
    ] {
        let id = upload(&web.address, "bomb.csv", &bytes)
            .await
            .expect("an id");
        let view = until_state(&web.address, &id, "refused").await;
        assert!(
            view["reason"].as_str().is_some_and(|is| is.contains(why)),
            "{view}"
        );
    }
    assert_eq!(count(data.path(), "SELECT count(*) FROM file_rows"), 0);
}

#[tokio::test]
async fn a_result_is_renewed_before_its_cache_expires_and_ends_with_its_record() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--cache-for", "1s", "--keep", "6s"]).await;
    let at = &web.address;
    let id = upload(at, "some.csv", &csv("ann", 700))
        .await
        .expect("an id");
    until_state(at, &id, "processed").await;
    // No client asks for it in between.
    let generations = || count(data.path(), "SELECT max(done) FROM files");
    until(|| generations() >= 3).await;
    let view = until_state(at, &id, "processed").await;
    assert_eq!(view["rows"], 700);
    until_state(at, &id, "expired").await;
    // The bytes, the rows and the quota are free again.
    until(|| objects(data.path()).is_empty()).await;
    assert_eq!(count(data.path(), "SELECT count(*) FROM file_rows"), 0);
    assert_eq!(count(data.path(), "SELECT bytes FROM totals"), 0);
    // The same bytes are a new file now.
    let new = upload(at, "some.csv", &csv("ann", 700))
        .await
        .expect("an id");
    assert_ne!(new, id);
    assert_eq!(until_state(at, &new, "processed").await["rows"], 700);
}

/// No worker is there to end the record: its time is over all the same, for whatever is asked.
#[tokio::test]
async fn an_expired_record_shows_no_rows_although_no_worker_ends_it() {
    let data = tempfile::tempdir().expect("a directory");
    let all = Process::start(data.path(), &[]).await;
    let id = upload(&all.address, "some.csv", &csv("ann", 10))
        .await
        .expect("an id");
    until_state(&all.address, &id, "processed").await;
    all.kill().await;
    let database = rusqlite::Connection::open(data.path().join("files.db")).expect("a database");
    let overdue = database.execute("UPDATE files SET expires = created", []);
    assert_eq!(overdue, Ok(1));
    let web = Process::start(data.path(), &["--role", "web"]).await;
    until_state(&web.address, &id, "expired").await;
    assert!(count(data.path(), "SELECT count(*) FROM file_rows") > 0);
    for part in ["rows?from=0", "thumbnail"] {
        let (status, answer) = get(&web.address, &format!("/files/{id}/{part}"))
            .await
            .expect("an answer");
        assert_eq!(
            (status, answer["error"]["code"].as_str()),
            (410, Some("expired")),
            "{part}"
        );
    }
}

#[tokio::test]
async fn a_result_that_was_deleted_is_processed_again() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &[]).await;
    let at = &web.address;
    let id = upload(at, "some.csv", &csv("ann", 40))
        .await
        .expect("an id");
    until_state(at, &id, "processed").await;
    let (status, _) = ask(at, "DELETE", &format!("/files/{id}/result"), &[], "")
        .await
        .expect("an answer");
    assert_eq!(status, 202);
    let views = follow(at, &id).await.expect("views");
    assert_eq!(views.last().expect("a view")["rows"], 40);
    assert_eq!(count(data.path(), "SELECT done FROM files"), 2);
    let (status, _) = ask(at, "DELETE", &format!("/files/{id}"), &[], "")
        .await
        .expect("an answer");
    assert_eq!(status, 204);
    until_state(at, &id, "expired").await;
    until(|| objects(data.path()).is_empty()).await;
}

#[tokio::test]
async fn the_same_bytes_with_another_choice_of_header_are_processed_again() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &[]).await;
    let at = &web.address;
    let send = async |choice: &str| {
        let file = part("name=\"file\"; filename=\"h.csv\"", None, &csv("ann", 2));
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let path = format!("/upload{choice}");
        ask(
            at,
            "POST",
            &path,
            &[("content-type", kind.as_str())],
            form(&[file]),
        )
        .await
        .expect("an answer")
    };
    let reported = |(status, answer): &(u16, serde_json::Value)| {
        (
            *status,
            answer["duplicate"] == true,
            answer["reprocessed"] == true,
        )
    };
    let first = send("?header=no").await;
    assert_eq!(reported(&first), (202, false, false));
    let id = first.1["id"].as_str().expect("an id").to_owned();
    let view = until_state(at, &id, "processed").await;
    assert_eq!((&view["header"], &view["rows"]), (&json!(null), &json!(3)));
    // The stored choice, or none, changes nothing.
    assert_eq!(reported(&send("?header=no").await), (200, true, false));
    assert_eq!(reported(&send("").await), (200, true, false));

    // Of those who say another at once, one asks: one job.
    let (a, b) = tokio::join!(send("?header=yes"), send("?header=yes"));
    let mut both = [reported(&a), reported(&b)];
    both.sort_unstable();
    assert_eq!(both, [(200, true, false), (202, true, true)]);
    assert_eq!(a.1["id"], id);
    let view = until_state(at, &id, "processed").await;
    assert_eq!(view["header"], json!(["name", "n"]));
    assert_eq!(
        (&view["rows"], &view["preview"][0]),
        (&json!(2), &json!(["ann", "1"]))
    );
    assert_eq!(count(data.path(), "SELECT generation FROM files"), 2);

    // A result that is deleted comes again with the choice that is stored.
    let path = format!("/files/{id}/result");
    let (status, _) = ask(at, "DELETE", &path, &[], "").await.expect("an answer");
    assert_eq!(status, 202);
    let view = until_state(at, &id, "processed").await;
    assert_eq!(
        (&view["header"], &view["rows"]),
        (&json!(["name", "n"]), &json!(2))
    );
    assert_rows(data.path(), &id, 2).await;
    until(|| objects(data.path()).len() == 1).await;
}

#[tokio::test]
async fn another_choice_supersedes_an_attempt_that_runs() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--pace", "200ms"]).await;
    let at = &web.address;
    let id = upload(at, "some.csv", &csv("ann", 3_000))
        .await
        .expect("an id");
    until(|| count(data.path(), "SELECT row_total FROM files") > 0).await;
    let file = part(
        "name=\"file\"; filename=\"a.csv\"",
        None,
        &csv("ann", 3_000),
    );
    let kind = format!("multipart/form-data; boundary={BOUNDARY}");
    let headers = [("content-type", kind.as_str())];
    let (status, answer) = ask(at, "POST", "/upload?header=no", &headers, form(&[file]))
        .await
        .expect("an answer");
    assert_eq!((status, &answer["reprocessed"]), (202, &json!(true)));
    let view = until_state(at, &id, "processed").await;
    assert_eq!(
        (&view["header"], &view["rows"]),
        (&json!(null), &json!(3_001))
    );
    assert_rows(data.path(), &id, 3_001).await;
}

#[tokio::test]
async fn a_file_whose_bytes_are_gone_fails_and_may_be_sent_again() {
    let data = tempfile::tempdir().expect("a directory");
    let web = Process::start(data.path(), &["--role", "web"]).await;
    let bytes = csv("ann", 10);
    let id = upload(&web.address, "some.csv", &bytes)
        .await
        .expect("an id");
    std::fs::remove_file(&objects(data.path())[0]).expect("it is there");
    let worker = Process::start(data.path(), &["--role", "worker"]).await;
    let view = until_state(&web.address, &id, "failed").await;
    assert!(
        view["reason"]
            .as_str()
            .is_some_and(|why| why.contains("no such object")),
        "{view}"
    );
    let again = upload(&web.address, "some.csv", &bytes)
        .await
        .expect("an id");
    assert_ne!(again, id);
    until_state(&web.address, &again, "processed").await;
    drop(worker);
}

/// Rows of a file's result, which are each there once. Those of generations before it are removed
/// after readers see the result.
pub(crate) async fn assert_rows(data: &std::path::Path, id: &str, wanted: usize) {
    let database = rusqlite::Connection::open(data.join("files.db")).expect("the database");
    let mut select = database
        .prepare(
            "SELECT cells FROM file_rows JOIN files ON files.id = file \
             WHERE file = ? AND file_rows.generation = files.generation AND n > 0",
        )
        .expect("a statement");
    let rows = select
        .query_map([id], |row| row.get::<_, String>(0))
        .expect("rows");
    let rows: Vec<String> = rows.map(|row| row.expect("a row")).collect();
    let distinct: BTreeSet<&String> = rows.iter().collect();
    assert_eq!((rows.len(), distinct.len()), (wanted, wanted), "{id}");
    let all = format!("SELECT count(*) FROM file_rows WHERE file = '{id}' AND n > 0");
    until(|| count(data, &all) == wanted as i64).await;
}
