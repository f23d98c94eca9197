//! A list, and a published hint that it has something: one pop for each hint.

use std::sync::Arc;

use futures_util::StreamExt;
use punctual_redis::testing::TestServer;
use redis::{AsyncCommands, Client};
use tokio::task::JoinSet;

use super::{connect, processes, send_each};
use crate::ledger::Ledger;

pub(super) async fn hint(server: &TestServer, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let (address, seen) = (server.address(), ledger.clone());
    processes(tasks, ledger.work.workers, move || {
        let (address, ledger) = (address.clone(), seen.clone());
        async move {
            let mut redis = connect(&address).await;
            let client = Client::open(address).expect("an address");
            let mut hints = client.get_async_pubsub().await.expect("the server answers");
            hints.subscribe("hints").await.expect("a subscription");
            let mut hints = hints.on_message();
            while hints.next().await.is_some() {
                let popped: Option<u32> = redis.rpop("todo", None).await.expect("a list");
                let Some(id) = popped else { continue };
                if !ledger.works(id).await {
                    return;
                }
            }
        }
    });
    let redis = connect(&server.address()).await;
    send_each(ledger, |id| {
        let mut redis = redis.clone();
        async move {
            let mut send = redis::pipe();
            send.lpush("todo", id).publish("hints", "").ignore();
            send.exec_async(&mut redis).await.expect("it is stored");
        }
    })
    .await;
}
