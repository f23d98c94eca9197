//! Packed calls on their way to a shard. Those that come while others are in flight leave
//! together, in the order in which they came; none waits for company.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use punctual::time::{Stopwatch, Timestamp, millis, within};
use punctual::{Error, ErrorKind, Result};
use redis::Value;
use tokio::sync::oneshot;

use crate::library::Library;
use crate::servers::{Sent, Servers};
use crate::session::batcher::{Answer, Call, CallClass};
use crate::session::shards::Shard;
use crate::transport::clock::ServerClock;
use crate::transport::error_mapping::{
    again, may_be_of_other_functions, refused, temporary_if_denied, unknown,
};
use crate::transport::link::Deadline;
use crate::transport::node::Kind;
use crate::wire::Packed;

/// Sends calls, and reads the server's time from the replies.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) servers: Arc<Servers>,
    pub(crate) library: Arc<Library>,
    pub(crate) server_clock: ServerClock,
}

/// The answer of a batch that ends at the deadline is worth more than a timeout.
const GRACE: Duration = millis(50);

impl Dispatcher {
    /// Sends a packed call of some cost, with what others send to the same shard now.
    ///
    /// Dropped before it has left, it is not sent; later, it is not sent again: it would come after
    /// what its caller does next.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        verb: &'static str,
        cost_us: usize,
        body: Packed,
        deadline: Deadline,
    ) -> Result<Answer> {
        let (answer, answered) = oneshot::channel();
        let class = CallClass::of(verb);
        let leaves = shard.batcher(class).join(Call {
            verb,
            body,
            cost_us,
            deadline,
            answer,
        });
        if leaves {
            tokio::spawn(self.clone().run(shard.clone(), class));
        }
        match within(deadline.left() + GRACE, answered).await {
            Some(Ok(answer)) => answer,
            Some(Err(_)) => Err(unknown("the engine ends").operation(verb)),
            None => {
                // It may have waited behind others, which know why they do.
                let failure = self.servers.last_failure(shard.slot);
                let why = failure.unwrap_or_else(|| "redis gave no answer in time".into());
                Err(of_shard(unknown(&why), shard).operation(verb))
            }
        }
    }

    /// Sends batches as long as calls wait.
    async fn run(self: Arc<Self>, shard: Arc<Shard>, class: CallClass) {
        let mut in_flight = shard.batcher(class).start();
        while let Some(calls) = in_flight.next() {
            self.send_batch(&shard, class, calls).await;
        }
    }

    async fn send_batch(&self, shard: &Shard, class: CallClass, calls: Vec<Call>) {
        let Some(deadline) = latest(&calls) else {
            return;
        };
        let sent = self.send_batch_once(shard, class, calls, deadline, false);
        let (mut refused, is_repeat) = sent.await;
        // A refusal has changed nothing; a sending before it may have.
        if !refused.is_empty() && self.servers.has_older(shard.slot, deadline).await {
            let calls = refused.into_iter().map(|(call, _)| call).collect();
            let sent = self.send_batch_once(shard, class, calls, deadline, is_repeat);
            (refused, _) = sent.await;
        }
        for (call, error) in refused {
            let _gone = call.answer.send(Err(error));
        }
    }

    /// Answers those of several calls, with what they are refused, that are of functions of another
    /// version perhaps, and whether they were sent more than once; all others are answered to their
    /// callers. `was_sent` if they were sent before this.
    async fn send_batch_once(
        &self,
        shard: &Shard,
        class: CallClass,
        mut calls: Vec<Call>,
        deadline: Deadline,
        was_sent: bool,
    ) -> (Vec<(Call, Error)>, bool) {
        if let [_, _, ..] = &calls[..] {
            return self
                .send_several(shard, class, calls, deadline, was_sent)
                .await;
        }
        let Some(call) = calls.pop() else {
            return (Vec::new(), was_sent);
        };
        let is_wanted = || !call.answer.is_closed();
        let sent = self.send_while(
            is_wanted,
            shard,
            call.verb,
            Kind::Changes,
            &call.body,
            deadline,
            was_sent,
        );
        let reply = sent.await.map(|(answer, took)| {
            self.observe_time(&answer.bytes, took);
            answer
        });
        let _gone = call.answer.send(reply);
        (Vec::new(), was_sent)
    }

    async fn send_several(
        &self,
        shard: &Shard,
        class: CallClass,
        mut calls: Vec<Call>,
        deadline: Deadline,
        was_sent: bool,
    ) -> (Vec<(Call, Error)>, bool) {
        let of_those_who_wait = || {
            calls.retain(|call| !call.answer.is_closed());
            let verbs: Vec<u8> = calls.iter().map(|call| class.letter(call.verb)).collect();
            let bodies = calls.iter().flat_map(|call| call.body.arguments());
            let letters = class.names_verbs().then_some(verbs.as_slice());
            let arguments = letters.into_iter().chain(bodies);
            let function = class.function();
            let command = || self.library.call(false, function, &shard.base, arguments);
            (!calls.is_empty()).then(command).map(Cow::Owned)
        };
        let watch = Stopwatch::start();
        let sent = self.servers.call_while(
            of_those_who_wait,
            shard.slot,
            Kind::Changes,
            deadline,
            was_sent,
        );
        let Sent { answer, is_repeat } = sent.boxed().await;
        let answers = answer.and_then(|value| {
            shard.has_answered(false);
            several(value, calls.len())
        });
        let mut open = Vec::new();
        match answers {
            Ok(answers) => {
                let took = watch.elapsed();
                for (call, answer) in calls.into_iter().zip(answers) {
                    if let Ok(reply) = &answer {
                        self.observe_time(reply, took);
                    }
                    let answer = answer.map(|bytes| Answer { bytes, is_repeat });
                    match answer.map_err(|error| of_shard(error, shard).operation(call.verb)) {
                        Err(error) if may_be_of_other_functions(&error) => open.push((call, error)),
                        answer => drop(call.answer.send(answer)),
                    }
                }
            }
            Err(error) => {
                shard.has_refused(&error);
                let error = of_shard(error, shard);
                for call in calls {
                    let error = again(&error).operation(call.verb);
                    match may_be_of_other_functions(&error) {
                        true => open.push((call, error)),
                        false => drop(call.answer.send(Err(error))),
                    }
                }
            }
        }
        (open, is_repeat)
    }

    /// One call, alone.
    pub(crate) async fn send(
        &self,
        shard: &Shard,
        verb: &'static str,
        kind: Kind,
        body: &Packed,
        deadline: Deadline,
    ) -> Result<(Answer, Duration)> {
        let sent = self.send_while(|| true, shard, verb, kind, body, deadline, false);
        sent.await
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what a call is, and what becomes of it"
    )]
    async fn send_while(
        &self,
        is_wanted: impl Fn() -> bool + Sync,
        shard: &Shard,
        verb: &'static str,
        kind: Kind,
        body: &Packed,
        deadline: Deadline,
        was_sent: bool,
    ) -> Result<(Answer, Duration)> {
        let reads = kind == Kind::Reads;
        let arguments = body.arguments();
        let call = self.library.call(reads, verb, &shard.base, arguments);
        let watch = Stopwatch::start();
        // Boxed, as is the contact: callers nest deep enough without these.
        let wanted = || is_wanted().then_some(Cow::Borrowed(&call));
        let sent = self
            .servers
            .call_while(wanted, shard.slot, kind, deadline, was_sent);
        let Sent { answer, is_repeat } = sent.boxed().await;
        let answer = answer.inspect_err(|error| shard.has_refused(error));
        let answer = answer.map_err(|error| of_shard(error, shard).operation(verb));
        match answer? {
            Value::BulkString(bytes) => {
                shard.has_answered(kind == Kind::Reads);
                Ok((Answer { bytes, is_repeat }, watch.elapsed()))
            }
            _ => Err(crate::wire::damaged().operation(verb)),
        }
    }

    /// A packed answer begins with the time there.
    fn observe_time(&self, reply: &[u8], took: Duration) {
        if let Some(now) = reply.first_chunk() {
            let now = Timestamp::from_micros(u64::from_be_bytes(*now));
            self.server_clock.observe(now, took);
        }
    }
}

/// The last deadline of several calls.
fn latest(calls: &[Call]) -> Option<Deadline> {
    let deadlines = calls.iter().map(|call| call.deadline);
    deadlines.max_by_key(Deadline::left)
}

/// How each of several calls went: a byte for each, then what each was answered.
fn several(value: Value, count: usize) -> Result<Vec<Result<Vec<u8>>>> {
    let Value::Array(values) = value else {
        return Err(crate::wire::damaged());
    };
    let mut values = values.into_iter().map(|value| match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(crate::wire::damaged()),
    });
    let how = values.next().ok_or_else(crate::wire::damaged)??;
    if how.len() != count || values.len() != count {
        return Err(crate::wire::damaged());
    }
    let answers = how.into_iter().zip(values).map(|(how, answer)| {
        let answer = answer?;
        Ok(match how {
            0 => Ok(answer),
            _ => {
                let said = String::from_utf8_lossy(&answer);
                let (code, said) = said.split_once(' ').unwrap_or((&said, ""));
                Err(refused(code, said))
            }
        })
    });
    answers.collect()
}

/// Names the shard that is unavailable; others may be there. One that was called before is away,
/// too, to a user that has lost a right.
fn of_shard(error: Error, shard: &Shard) -> Error {
    let error = match shard.contacted.initialized() {
        true => temporary_if_denied(error),
        false => error,
    };
    match error.kind() {
        ErrorKind::EngineUnavailable => {
            error.with("shard", format!("{}/{}", shard.namespace, shard.index))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests;
