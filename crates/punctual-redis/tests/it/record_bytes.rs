//! What a record takes in the memory of the server.

use punctual::time::minutes;
use punctual::{Due, Engine, JobId, NewJob};
use punctual_redis::testing::TestServer;

use crate::client::{QUEUE, all_records, connect, here};
use crate::hand::raw;

fn record_bytes(server: &TestServer, id: JobId) -> usize {
    let length = |key: &String| {
        let request = [&b"HSTRLEN"[..], key.as_bytes(), id.as_bytes()];
        let said = raw(server.port(), &request);
        let digits = String::from_utf8(said[1..].to_vec()).expect("digits");
        digits.trim().parse::<usize>().expect("a number")
    };
    all_records("punctual:{default/0}").iter().map(length).sum()
}

/// The allocator of Redis gives 160 bytes to a value of 125 to 156.
#[tokio::test]
async fn a_plain_record_takes_160_bytes_whatever_its_content_type() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    for content_type in [
        "application/json",
        "text/plain",
        "application/octet-stream",
        "application/x-www-form-urlencoded",
    ] {
        let job = NewJob::new(QUEUE, vec![b'x'; 100])
            .kind("bench.sixteen_by")
            .content_type(content_type)
            .due(Due::After(minutes(1)));
        let id = job.id;
        engine.enqueue(&here(), vec![job]).await.expect("enqueue");
        let bytes = record_bytes(&server, id);
        assert!((125..=156).contains(&bytes), "{content_type}: {bytes}");
    }
}
