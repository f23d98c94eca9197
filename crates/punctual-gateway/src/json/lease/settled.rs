//! The answer to a settlement.

use std::collections::BTreeMap;

use punctual::engine::{EnqueueVerdict, LeaseReport, Settle, SettleVerdict, Settled, Token};
use punctual::queue::Matched;
use punctual::{Effect, JobId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::job::holder;

/// The answer to a settlement, in the order sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettleAnswer {
    leases: Vec<SettledLease>,
    now: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct SettledLease {
    token: String,
    settlements: Vec<SettledLine>,
}

#[derive(Debug, Serialize, ToSchema)]
struct SettledLine {
    id: String,
    /// `settled`, `repeated`, `lease_lost`, `guard_conflict` if subscriptions changed all the time,
    /// or `publish_refused` if what it publishes came through too many publishes: then nothing is
    /// changed, and the lease holds. A first settle is `repeated` too if its answer was lost on the
    /// way and it was sent again.
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    /// One per effect that publishes nothing; null for a clear and a cancel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    effects: Vec<Option<EffectVerdict>>,
    /// How many subscriptions each published message matched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    matched: Vec<usize>,
    /// Why its publish is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct EffectVerdict {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
}

/// What the answer to a settlement says of what was asked.
pub(crate) struct Asked {
    token: Token,
    jobs: Vec<AskedJob>,
}

struct AskedJob {
    id: JobId,
    effects: Vec<Option<JobId>>,
    /// Why the engine is not asked to settle it.
    refused: Option<String>,
}

/// Settlements whose publishes are refused, by the place of the lease and that in the lease.
pub(crate) type PublishRefused = BTreeMap<(usize, usize), punctual::Error>;

impl Asked {
    pub(crate) fn of(settle: &Settle, refused: &PublishRefused) -> Vec<Self> {
        let effect = |effect: &Effect| match effect {
            Effect::Enqueue(job) => Some(job.id),
            _ => None,
        };
        let lease = |(nth, lease): (usize, &LeaseReport)| Self {
            token: lease.token,
            jobs: (lease.settlements.iter().enumerate())
                .map(|(at, one)| AskedJob {
                    id: one.id,
                    effects: one.effects.iter().map(effect).collect(),
                    refused: refused.get(&(nth, at)).map(ToString::to_string),
                })
                .collect(),
        };
        settle.leases.iter().enumerate().map(lease).collect()
    }

    /// Whether the engine is asked for none of its jobs.
    fn is_left_out(&self) -> bool {
        !self.jobs.is_empty() && self.jobs.iter().all(|job| job.refused.is_some())
    }
}

impl SettleAnswer {
    pub(crate) fn new(asked: &[Asked], settled: &Settled, matched: &Matched) -> Self {
        let mut answered = settled.verdicts.iter().enumerate();
        let leases = asked.iter().map(|lease| {
            let answer = if lease.is_left_out() {
                None
            } else {
                answered.next()
            };
            let mut verdicts = answer.into_iter().flat_map(|(nth, verdicts)| {
                let verdicts = verdicts.iter().enumerate();
                verdicts.map(move |(at, verdict)| (verdict, matched.get(&(nth, at))))
            });
            let line = |job: &AskedJob| match &job.refused {
                Some(error) => SettledLine {
                    verdict: "publish_refused",
                    error: Some(error.clone()),
                    ..unsettled(job.id)
                },
                None => match verdicts.next() {
                    Some((verdict, matched)) => line(job, verdict, matched),
                    None => unsettled(job.id),
                },
            };
            SettledLease {
                token: lease.token.to_string(),
                settlements: lease.jobs.iter().map(line).collect(),
            }
        });
        Self {
            leases: leases.collect(),
            now: settled.now.to_string(),
        }
    }
}

fn unsettled(id: JobId) -> SettledLine {
    SettledLine {
        id: id.to_string(),
        verdict: "lease_lost",
        state: None,
        due: None,
        effects: Vec::new(),
        matched: Vec::new(),
        error: None,
    }
}

fn line(job: &AskedJob, verdict: &SettleVerdict, matched: Option<&Vec<usize>>) -> SettledLine {
    let mut line = unsettled(job.id);
    match verdict {
        SettleVerdict::Settled {
            state,
            due,
            effects: verdicts,
        } => {
            let effect = |(id, verdict): (&Option<JobId>, &Option<EnqueueVerdict>)| {
                verdict.map(|verdict| EffectVerdict {
                    verdict: verdict.name(),
                    id: id.map(|id| id.to_string()),
                    holder: holder(verdict),
                })
            };
            line.verdict = "settled";
            line.state = Some(state.name());
            line.due = due.map(|due| due.to_string());
            line.effects = job.effects.iter().zip(verdicts).map(effect).collect();
            line.matched = matched.cloned().unwrap_or_default();
        }
        SettleVerdict::Repeated => line.verdict = "repeated",
        SettleVerdict::GuardConflict { .. } => line.verdict = "guard_conflict",
        _ => {}
    }
    line
}
