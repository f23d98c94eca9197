//! The answer to a settlement.

use punctual::engine::{EnqueueVerdict, PageReport, Settle, SettleVerdict, Settled, Token};
use punctual::{Effect, JobId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::shapes::job::holder;

/// The answer to a settlement, in the order sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettleAnswer {
    pages: Vec<SettledPage>,
    now: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct SettledPage {
    token: String,
    settlements: Vec<SettledLine>,
}

#[derive(Debug, Serialize, ToSchema)]
struct SettledLine {
    id: String,
    /// `settled`, `repeated` or `lease_lost`.
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
    /// One per effect; null for a clear.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    effects: Vec<Option<EffectVerdict>>,
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
        let page = |page: &PageReport| Self {
            token: page.token,
            jobs: (page.settlements.iter())
                .map(|one| (one.id, one.effects.iter().map(effect).collect()))
                .collect(),
        };
        settle.pages.iter().map(page).collect()
    }
}

impl SettleAnswer {
    pub(crate) fn new(asked: &[Asked], settled: &Settled) -> Self {
        let pages = asked.iter().zip(&settled.verdicts).map(|(page, verdicts)| {
            let lines = page.jobs.iter().zip(verdicts);
            SettledPage {
                token: page.token.to_string(),
                settlements: lines.map(|(job, verdict)| line(job, verdict)).collect(),
            }
        });
        Self {
            pages: pages.collect(),
            now: settled.now.to_string(),
        }
    }
}

fn line((id, effects): &(JobId, Vec<Option<JobId>>), verdict: &SettleVerdict) -> SettledLine {
    let mut line = SettledLine {
        id: id.to_string(),
        verdict: "lease_lost",
        state: None,
        due: None,
        effects: Vec::new(),
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
        }
        SettleVerdict::Repeated => line.verdict = "repeated",
        _ => {}
    }
    line
}
