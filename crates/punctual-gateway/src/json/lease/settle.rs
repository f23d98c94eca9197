//! Settlements as they are settled.

use punctual::engine::{LeaseReport, Settle, Settlement};
use punctual::job::Stop;
use punctual::queue::Messages;
use punctual::topic::Message;
use punctual::trace::name_parent;
use punctual::{Effect, JobId, Outcome};
use punctual_push::Guard;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::token::token_of;
use crate::bounded::bounded;
use crate::decode::shown;
use crate::http::{Problem, Result};
use crate::job_json::{JobJson, SpanText, either, raw};
use crate::json::new_job::new_job;
use crate::json::topic::{MessageLine, message_of};
use crate::words::{Count, Id, LeaseToken, Name};

/// How attempts ended, a part per lease.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleRequest {
    #[serde(deserialize_with = "bounded")]
    leases: Vec<ReportLine>,
}

impl SettleRequest {
    /// The call, and what its settlements publish.
    pub(crate) fn settle(
        self,
        guard: &Guard,
        header_bytes_max: usize,
    ) -> Result<(Settle, Messages)> {
        let mut messages = Messages::new();
        let mut count = 0;
        let mut leases = Vec::with_capacity(self.leases.len());
        for lease in self.leases {
            let token = token_of(&lease.token)?;
            let mut settlements = Vec::with_capacity(lease.settlements.len());
            for line in lease.settlements {
                let settlement = line
                    .settlement(guard, header_bytes_max)
                    .map_err(|problem| problem.index(count));
                let (settlement, published) = settlement?;
                if !published.is_empty() {
                    messages.insert((leases.len(), settlements.len()), published);
                }
                settlements.push(settlement);
                count += 1;
            }
            leases.push(
                LeaseReport::new(token, settlements)
                    .lateness_us(lease.lateness_us)
                    .run_time_us(lease.run_time_us),
            );
        }
        Ok((Settle::new(leases), messages))
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = LeaseReport)]
#[serde(deny_unknown_fields)]
struct ReportLine {
    #[schema(value_type = LeaseToken)]
    token: String,
    #[serde(deserialize_with = "bounded")]
    settlements: Vec<SettlementLine>,
    /// Handler start minus due, in microseconds.
    #[serde(default, deserialize_with = "bounded")]
    #[schema(value_type = Vec<Count>)]
    lateness_us: Vec<u64>,
    /// Run times in microseconds.
    #[serde(default, deserialize_with = "bounded")]
    #[schema(value_type = Vec<Count>)]
    run_time_us: Vec<u64>,
}

/// How one attempt ended.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = Settlement)]
#[serde(deny_unknown_fields)]
struct SettlementLine {
    #[schema(value_type = Id)]
    id: String,
    #[schema(value_type = u64, maximum = 4294967295i64)]
    attempt: u32,
    outcome: OutcomeLine,
    /// For retry (else by policy), snooze, and hold: its limit.
    after: Option<SpanText>,
    /// For hold: the signals that the job waits for, 1 to 64.
    #[serde(default)]
    names: Option<Vec<String>>,
    /// A small result, any JSON.
    #[serde(default, deserialize_with = "raw")]
    #[schema(value_type = serde_json::Value, required = false)]
    result: Option<Box<RawValue>>,
    result_base64: Option<String>,
    error: Option<String>,
    #[serde(default, deserialize_with = "bounded")]
    effects: Vec<EffectLine>,
    /// How a cancel was obeyed: `token`, `aborted` or `killed`.
    stopped: Option<String>,
    /// Lines to append to its log: at most 100 lines and 16 KiB.
    #[serde(default)]
    log: Vec<String>,
}

impl SettlementLine {
    fn settlement(
        self,
        guard: &Guard,
        header_bytes_max: usize,
    ) -> Result<(Settlement, Vec<Message>)> {
        let settled: JobId = self.id.parse()?;
        let names = self.names;
        if names.is_some() && self.outcome != OutcomeLine::Hold {
            return Err(Problem::invalid("names belongs to hold only"));
        }
        let outcome = match (self.outcome, self.after) {
            (OutcomeLine::Hold, Some(limit)) => Outcome::Hold {
                names: names.unwrap_or_default(),
                limit: limit.0,
            },
            (OutcomeLine::Hold, None) => {
                return Err(Problem::invalid("hold needs after, its limit").hint("such as \"7d\""));
            }
            (OutcomeLine::Completed, None) => Outcome::Completed,
            (OutcomeLine::Retry, after) => Outcome::Retry {
                after: after.map(|span| span.0),
            },
            (OutcomeLine::Snooze, Some(after)) => Outcome::Snooze { after: after.0 },
            (OutcomeLine::Snooze, None) => {
                return Err(Problem::invalid("snooze needs after").hint("such as \"30s\""));
            }
            (OutcomeLine::Cancelled, None) => Outcome::Cancelled,
            (OutcomeLine::Dead, None) => Outcome::Dead,
            (OutcomeLine::Released, None) => Outcome::Released,
            (_, Some(_)) => {
                return Err(Problem::invalid(
                    "after belongs to retry, snooze and hold only",
                ));
            }
        };
        let stopped = self.stopped.as_deref().map(|name| {
            let known = Stop::ALL.into_iter().find(|stop| stop.name() == name);
            known.ok_or_else(|| {
                let names = Stop::ALL.map(Stop::name).join(", ");
                Problem::invalid(format!("stopped is \"{}\"", shown(name)))
                    .hint(format!("use one of {names}"))
            })
        });
        let mut messages = Vec::new();
        let effects = self.effects.into_iter().map(|effect| {
            Ok(Some(match effect {
                EffectLine::Enqueue(line) => {
                    let mut job = new_job(*line, guard)?;
                    name_parent(settled, &mut job, header_bytes_max);
                    Effect::Enqueue(Box::new(job))
                }
                EffectLine::Clear(clear) => Effect::Clear {
                    job: clear.job.parse()?,
                    name: clear.name,
                },
                EffectLine::Cancel(cancel) => Effect::Cancel {
                    queue: cancel.queue,
                    key: cancel.unique,
                },
                EffectLine::Signal(signal) => Effect::Signal {
                    job: signal.job.parse()?,
                    name: signal.name,
                    payload: either(&signal.payload, &signal.payload_base64, "payload")
                        .map_err(|why| Problem::invalid(format!("a signal {why}")))?
                        .unwrap_or_default(),
                },
                EffectLine::Publish(line) => {
                    let (subject, mut job) = message_of(*line, guard)?;
                    name_parent(settled, &mut job, header_bytes_max);
                    messages.push(Message::new(subject, job)?);
                    return Ok(None);
                }
            }))
        });
        let effects: Vec<Option<Effect>> = effects.collect::<Result<_>>()?;
        let mut settlement = Settlement::new(settled, self.attempt, outcome);
        settlement.effects = effects.into_iter().flatten().collect();
        settlement.result = either(&self.result, &self.result_base64, "result")
            .map_err(|why| Problem::invalid(format!("a settlement {why}")))?;
        settlement.error = self.error;
        settlement.log = self.log;
        settlement.stopped = stopped.transpose()?;
        Ok((settlement, messages))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeLine {
    Completed,
    Retry,
    Snooze,
    Cancelled,
    Dead,
    Released,
    Hold,
}

/// An effect of an outcome.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum EffectLine {
    /// A new job.
    Enqueue(Box<JobJson>),
    /// Clears a name that a held job waits for.
    Clear(ClearLine),
    /// Cancels the job that holds a unique key.
    Cancel(CancelLine),
    /// Signals a job: ends its wait for that name.
    Signal(SignalEffect),
    /// Publishes a message; its copies are stored with the outcome.
    Publish(Box<MessageLine>),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CancelLine {
    #[schema(value_type = Name)]
    queue: String,
    unique: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ClearLine {
    #[schema(value_type = Id)]
    job: String,
    name: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SignalEffect {
    #[schema(value_type = Id)]
    job: String,
    name: String,
    /// Any JSON, at most 8 KiB.
    #[serde(default, deserialize_with = "raw")]
    #[schema(value_type = serde_json::Value, required = false)]
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
}
