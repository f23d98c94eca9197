//! A channel of PUBLISH and SUBSCRIBE, with its loss.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use punctual::time::{seconds, within};
use punctual::{Error, ErrorKind, JobId, NewJob, Result};
use tokio::sync::mpsc;

use super::connection::Place;
use crate::message::{Message, check_queue, content_type_of};
use crate::source::{Open, Refused, Source};

/// What is published to a channel becomes jobs that are due at once.
///
/// Redis keeps no message: what is published while no relay listens is lost, and so is what a relay
/// has not stored when it is killed. Two relays store each message twice.
#[derive(Debug, Clone)]
pub struct PubSubSource {
    place: Place,
    queue: String,
}

/// Messages that wait in this process. More are dropped, and their number is logged: Redis would
/// otherwise close the connection, or this process grow without end.
const WAITING_MAX: usize = 100_000;

impl PubSubSource {
    /// The channel that the place's key names, or all that match if it has a `*`.
    pub fn new(place: Place, queue: impl Into<String>) -> Self {
        Self {
            place,
            queue: queue.into(),
        }
    }
}

#[async_trait]
impl Open for PubSubSource {
    async fn open(&self) -> Result<Box<dyn Source>> {
        check_queue(&self.queue)?;
        let mut messages = self.place.listen(self.place.key()).await?;
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(async move {
            let mut dropped = 0_u64;
            while let Some(message) = messages.next().await {
                let channel = message.get_channel_name().to_owned();
                let body = Bytes::copy_from_slice(message.get_payload_bytes());
                match sender.try_send((channel, body)) {
                    Ok(()) if dropped > 0 => {
                        tracing::error!(
                            dropped,
                            "messages of a channel were lost: the engine took none"
                        );
                        dropped = 0;
                    }
                    Ok(()) => {}
                    Err(mpsc::error::TrySendError::Full(_)) => dropped += 1,
                    Err(mpsc::error::TrySendError::Closed(_)) => return,
                }
            }
        });
        Ok(Box::new(PubSub {
            queue: self.queue.clone(),
            waiting,
        }))
    }
}

struct PubSub {
    queue: String,
    waiting: mpsc::Receiver<(String, Bytes)>,
}

#[async_trait]
impl Source for PubSub {
    async fn next(&mut self, at_most: usize) -> Result<Vec<Message>> {
        let mut taken = Vec::new();
        let some = self.waiting.recv_many(&mut taken, at_most);
        match within(seconds(1), some).await {
            Some(0) => {
                let message = "the source on Redis closed the connection; is it running?";
                Err(Error::new(ErrorKind::EngineUnavailable, message))
            }
            Some(_) => {
                let job = |(channel, body): (String, Bytes)| {
                    let mut job = NewJob::with_id(JobId::new(), self.queue.clone(), body);
                    job.content_type = content_type_of(&job.payload).into();
                    job.headers = vec![("channel".into(), channel)];
                    job.into()
                };
                Ok(taken.into_iter().map(job).collect())
            }
            None => Ok(Vec::new()),
        }
    }

    async fn accept(&mut self, _: &[Refused]) -> Result<()> {
        Ok(())
    }

    async fn waiting(&mut self) -> Result<Option<u64>> {
        Ok(Some(self.waiting.len() as u64))
    }
}
