//! Keys that expire, and the events that Redis publishes when it removes them.

use std::sync::Arc;

use futures_util::StreamExt;
use punctual_redis::testing::TestServer;
use redis::Client;
use tokio::task::JoinSet;

use super::{connect, processes};
use crate::ledger::Ledger;

/// Keys of others that expire much later: Redis finds expired ones by samples.
const OTHERS: u32 = 50_000;

pub(super) async fn keys(server: &TestServer, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let mut redis = connect(&server.address()).await;
    for part in 0..OTHERS / 1_000 {
        let mut sets = redis::pipe();
        for id in part * 1_000..(part + 1) * 1_000 {
            sets.set_ex(format!("session:{id}"), "", 3_600).ignore();
        }
        sets.exec_async(&mut redis).await.expect("they are stored");
    }
    let (address, seen) = (server.address(), ledger.clone());
    processes(tasks, ledger.work.workers, move || {
        let (address, ledger) = (address.clone(), seen.clone());
        async move {
            let client = Client::open(address).expect("an address");
            let mut events = client.get_async_pubsub().await.expect("the server answers");
            events
                .subscribe("__keyevent@0__:expired")
                .await
                .expect("a subscription");
            let mut events = events.on_message();
            while let Some(event) = events.next().await {
                let key: String = event.get_payload().unwrap_or_default();
                let id = key.strip_prefix("message:").and_then(|id| id.parse().ok());
                let Some(id) = id else { continue };
                if !ledger.works(id).await {
                    return;
                }
            }
        }
    });
    let mut sets = redis::pipe();
    for id in 0..ledger.work.messages {
        let due = ledger.work.due(id);
        ledger.sends(id, due);
        sets.pset_ex(format!("message:{id}"), "", due.as_millis().max(1) as u64)
            .ignore();
    }
    sets.exec_async(&mut redis).await.expect("they are stored");
}
