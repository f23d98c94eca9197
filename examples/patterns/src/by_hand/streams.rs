//! A stream and its consumer group: read, work, acknowledge.

use std::sync::Arc;

use punctual_redis::testing::TestServer;
use redis::{RedisResult, cmd};
use tokio::task::JoinSet;

use super::{connect, processes, send_each};
use crate::ledger::Ledger;

const STREAM: &str = "messages";
const GROUP: &str = "workers";

/// Streams with their entries, each with its fields.
type Read = Vec<(String, Vec<(String, Vec<(String, u32)>)>)>;

pub(super) async fn group(server: &TestServer, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let mut redis = connect(&server.address()).await;
    let mut make = cmd("XGROUP");
    make.arg("CREATE")
        .arg(STREAM)
        .arg(GROUP)
        .arg("$")
        .arg("MKSTREAM");
    make.exec_async(&mut redis).await.expect("a group");
    let (address, seen, count) = (server.address(), ledger.clone(), ledger.work.workers);
    processes(tasks, count, move || {
        let (address, ledger) = (address.clone(), seen.clone());
        async move {
            let mut redis = connect(&address).await;
            let name = format!("consumer-{}", fastrand::u64(..));
            let mut read = cmd("XREADGROUP");
            read.arg("GROUP")
                .arg(GROUP)
                .arg(name)
                .arg("COUNT")
                .arg(1)
                .arg("BLOCK")
                .arg(0);
            read.arg("STREAMS").arg(STREAM).arg(">");
            loop {
                let reply: RedisResult<Option<Read>> = read.query_async(&mut redis).await;
                let Ok(Some(streams)) = reply else { return };
                for (entry, fields) in streams.into_iter().flat_map(|(_, entries)| entries) {
                    if !ledger.works(fields[0].1).await {
                        return;
                    }
                    let mut acknowledge = cmd("XACK");
                    acknowledge.arg(STREAM).arg(GROUP).arg(entry);
                    acknowledge
                        .exec_async(&mut redis)
                        .await
                        .expect("it is acknowledged");
                }
            }
        }
    });
    send_each(ledger, |id| {
        let mut redis = redis.clone();
        async move {
            let mut add = cmd("XADD");
            add.arg(STREAM).arg("*").arg("id").arg(id);
            add.exec_async(&mut redis).await.expect("it is stored");
        }
    })
    .await;
}
