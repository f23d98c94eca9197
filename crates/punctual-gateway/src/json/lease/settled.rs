//! The answer to a settlement.

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
    /// `settled`, `repeated`, `lease_lost`, or `guard_conflict` if subscriptions changed all the
    /// time. A first settle is `repeated` too if its answer was lost on the way and it was sent
    /// again.
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
    jobs: Vec<(JobId, Vec<Option<JobId>>)>,
}

impl Asked {
    pub(crate) fn of(settle: &Settle) -> Vec<Self> {
        let effect = |effect: &Effect| match effect {
            Effect::Enqueue(job) => Some(job.id),
            _ => None,
        };
        let lease = |lease: &LeaseReport| Self {
            token: lease.token,
            jobs: (lease.settlements.iter())
                .map(|one| (one.id, one.effects.iter().map(effect).collect()))
                .collect(),
        };
        settle.leases.iter().map(lease).collect()
    }
}

impl SettleAnswer {
    pub(crate) fn new(asked: &[Asked], settled: &Settled, matched: &Matched) -> Self {
        let leases = asked.iter().zip(&settled.verdicts).enumerate();
        let leases = leases.map(|(nth, (lease, verdicts))| {
            let lines = lease.jobs.iter().zip(verdicts).enumerate();
            let line = |(at, (job, verdict))| line(job, verdict, matched.get(&(nth, at)));
            SettledLease {
                token: lease.token.to_string(),
                settlements: lines.map(line).collect(),
            }
        });
        Self {
            leases: leases.collect(),
            now: settled.now.to_string(),
        }
    }
}

fn line(
    (id, effects): &(JobId, Vec<Option<JobId>>),
    verdict: &SettleVerdict,
    matched: Option<&Vec<usize>>,
) -> SettledLine {
    let mut line = SettledLine {
        id: id.to_string(),
        verdict: "lease_lost",
        state: None,
        due: None,
        effects: Vec::new(),
        matched: Vec::new(),
    };
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
            line.effects = effects.iter().zip(verdicts).map(effect).collect();
            line.matched = matched.cloned().unwrap_or_default();
        }
        SettleVerdict::Repeated => line.verdict = "repeated",
        SettleVerdict::GuardConflict { .. } => line.verdict = "guard_conflict",
        _ => {}
    }
    line
}
