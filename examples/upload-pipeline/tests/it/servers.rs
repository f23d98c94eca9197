//! A database server and a store that speaks S3, which `scripts/test-relay` starts.

use serde_json::json;

use crate::support::*;
use crate::transactions::a_cancel_rolls_back;

#[tokio::test]
async fn files_in_mariadb_survive_a_kill_right_after_the_answer() {
    let address = std::env::var("PUNCTUAL_MYSQL").expect("run scripts/test-relay");
    // A database of its own: the outbox of another test is not this one's.
    let server = sqlx::MySqlPool::connect(&address).await.expect("a server");
    let fresh = "DROP DATABASE IF EXISTS uploads; CREATE DATABASE uploads";
    sqlx::raw_sql(fresh)
        .execute(&server)
        .await
        .expect("a database");
    let (server, _) = address.rsplit_once('/').expect("an address");
    let address = format!("{server}/uploads");
    let data = tempfile::tempdir().expect("a directory");
    let args = ["--sql", &address];
    let all = Process::start(data.path(), &args).await;
    let id = upload(&all.address, "some.csv", &csv("中文 ann", 1_000))
        .await
        .expect("an id");
    all.kill().await;
    let all = Process::start(data.path(), &args).await;
    let view = until_state(&all.address, &id, "processed").await;
    assert_eq!(
        (&view["rows"], &view["preview"][0]),
        (&json!(1_000), &json!(["中文 ann", "1"]))
    );
    ask(&all.address, "DELETE", &format!("/files/{id}"), &[], "")
        .await
        .expect("an answer");
    until_state(&all.address, &id, "expired").await;
    until(|| objects(data.path()).is_empty()).await;
}

#[tokio::test]
async fn a_cancel_rolls_back_the_transaction_in_mariadb() {
    let address = std::env::var("PUNCTUAL_MYSQL").expect("run scripts/test-relay");
    let server = sqlx::MySqlPool::connect(&address).await.expect("a server");
    let fresh = "DROP DATABASE IF EXISTS bank; CREATE DATABASE bank";
    let made = sqlx::raw_sql(fresh).execute(&server).await;
    made.expect("a database");
    let (server, _) = address.rsplit_once('/').expect("an address");
    let pool = sqlx::MySqlPool::connect(&format!("{server}/bank")).await;
    a_cancel_rolls_back!(pool.expect("the database"), sqlx::MySqlPool);
}

/// The store is not ours, so it knows calls of S3 as others understood them.
#[tokio::test]
async fn files_in_a_store_of_others_survive_a_kill_and_go_when_deleted() {
    let endpoint = std::env::var("PUNCTUAL_S3").expect("run scripts/test-relay");
    let host = endpoint.strip_prefix("http://").expect("a plain address");
    // It checks no signature, but a request has to name a service.
    let signed = [(
        "authorization",
        "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0",
    )];
    let (status, _) = ask(host, "PUT", "/uploads", &signed, "")
        .await
        .expect("a bucket");
    assert_eq!(status, 200);
    let keys = [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let args = ["--store", "s3://uploads", "--s3-endpoint", &endpoint];
    let data = tempfile::tempdir().expect("a directory");
    let all = Process::start_with(data.path(), &args, &keys).await;
    // Over two parts of an upload in parts, and a name that has to be escaped.
    let name = "a row that is long enough to fill more than two parts";
    let id = upload(&all.address, "some, 中文.csv", &csv(name, 200_000))
        .await
        .expect("an id");
    all.kill().await;
    let all = Process::start_with(data.path(), &args, &keys).await;
    let view = until_state(&all.address, &id, "processed").await;
    assert_eq!(view["rows"], 200_000);
    let objects = || async {
        let (status, listed) = ask(host, "GET", "/uploads?list-type=2", &signed, "")
            .await
            .expect("an answer");
        assert_eq!(status, 200, "{listed}");
        listed.as_str().expect("text").matches("<Key>").count()
    };
    assert_eq!(objects().await, 1);
    ask(&all.address, "DELETE", &format!("/files/{id}"), &[], "")
        .await
        .expect("an answer");
    until_state(&all.address, &id, "expired").await;
    while objects().await > 0 {
        tokio::task::yield_now().await;
    }
}
