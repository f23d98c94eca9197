//! A database server, which `scripts/test-relay` starts.

use serde_json::json;

use crate::support::*;

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
