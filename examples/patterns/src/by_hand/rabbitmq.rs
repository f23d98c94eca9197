//! RabbitMQ: messages with a time to live in a queue without readers, whose dead letters are due.

use std::sync::Arc;

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use tokio::task::JoinSet;

use super::processes;
use crate::ledger::Ledger;

const WAITS: &str = "patterns.waits";
const DUE: &str = "patterns.due";

async fn connect(address: &str) -> (Connection, Channel) {
    let connection = Connection::connect(address, ConnectionProperties::default()).await;
    let connection = connection.expect("the broker answers");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

async fn declare(channel: &Channel, name: &str, arguments: FieldTable) {
    let gone = channel.queue_delete(name.into(), QueueDeleteOptions::default());
    gone.await.expect("it is deleted");
    let options = QueueDeclareOptions {
        durable: true,
        ..Default::default()
    };
    let declared = channel.queue_declare(name.into(), options, arguments);
    declared.await.expect("it is declared");
}

/// A time to live per message. The queue checks its first message only, so one that is due soon
/// waits for those in front of it.
pub(super) async fn ttl(address: String, ledger: &Arc<Ledger>, tasks: &mut JoinSet<()>) {
    let (_connection, channel) = connect(&address).await;
    declare(&channel, DUE, FieldTable::default()).await;
    let mut arguments = FieldTable::default();
    let text = |text: &str| AMQPValue::LongString(text.into());
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(DUE));
    declare(&channel, WAITS, arguments).await;

    let (place, seen) = (address.clone(), ledger.clone());
    processes(tasks, ledger.work.workers, move || {
        let (address, ledger) = (place.clone(), seen.clone());
        async move {
            let (_connection, channel) = connect(&address).await;
            let one = channel.basic_qos(1, BasicQosOptions::default());
            one.await.expect("it is set");
            let options = BasicConsumeOptions::default();
            let consumer =
                channel.basic_consume(DUE.into(), "".into(), options, FieldTable::default());
            let mut consumer = consumer.await.expect("a consumer");
            while let Some(Ok(message)) = consumer.next().await {
                let id = String::from_utf8_lossy(&message.data).parse().unwrap_or(0);
                if !ledger.works(id).await {
                    return;
                }
                let ack = message.ack(BasicAckOptions::default());
                ack.await.expect("it is acknowledged");
            }
        }
    });

    // What is due last is sent first: that is any order but the one of the dues.
    for id in (0..ledger.work.messages).rev() {
        let due = ledger.work.due(id);
        ledger.sends(id, due);
        let properties = BasicProperties::default()
            .with_delivery_mode(2)
            .with_expiration(due.as_millis().to_string().into());
        let body = id.to_string();
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish(
            "".into(),
            WAITS.into(),
            options,
            body.as_bytes(),
            properties,
        );
        sent.await.expect("it is sent");
    }
}
