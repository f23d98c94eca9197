//! Extensions of leases, and their verdicts.

use std::collections::BTreeMap;

use punctual::JobId;
use punctual::engine::{Extend, ExtendVerdict, Extended, Token};
use punctual::time::seconds;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::token::token_of;
use crate::bounded::bounded;
use crate::http::{Problem, Result};
use crate::job_json::SpanText;
use crate::words::{Id, LeaseToken};

/// Leases to extend.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendRequest {
    #[serde(deserialize_with = "bounded")]
    leases: Vec<ExtendLine>,
}

impl ExtendRequest {
    pub(crate) fn leases(self) -> Result<Vec<Extend>> {
        let lease = |line: ExtendLine| {
            let jobs: punctual::Result<Vec<JobId>> =
                line.jobs.iter().map(|id| id.parse()).collect();
            let progress = line
                .progress
                .into_iter()
                .map(|(id, note)| Ok((id.parse()?, String::from(Box::<str>::from(note)).into())));
            let mut memos = Vec::new();
            for (id, kept) in line.memos {
                let id: JobId = id.parse()?;
                for (name, value) in kept {
                    let value = String::from(Box::<str>::from(value)).into();
                    memos.push((id, name, value));
                }
            }
            let log = line.log.into_iter();
            let log = log.map(|(id, lines)| Ok((id.parse()?, lines)));
            Ok(Extend::new(
                token_of(&line.token)?,
                line.lease_duration.map_or(seconds(10), |span| span.0),
            )
            .log(log.collect::<punctual::Result<_>>()?)
            .progress(progress.collect::<punctual::Result<_>>()?)
            .memos(memos)
            .jobs(jobs?))
        };
        let leases = self.leases.into_iter().enumerate();
        leases
            .map(|(index, line)| lease(line).map_err(|problem: Problem| problem.index(index)))
            .collect()
    }
}

/// One lease to extend.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ExtendLine {
    #[schema(value_type = LeaseToken)]
    token: String,
    /// 10s by default.
    lease_duration: Option<SpanText>,
    /// The jobs still worked on.
    #[serde(default, deserialize_with = "bounded")]
    #[schema(value_type = Vec<Id>)]
    jobs: Vec<String>,
    /// By job, any JSON.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    progress: BTreeMap<String, Box<RawValue>>,
    /// By job, lines to append to its log: at most 100 lines and 16 KiB each.
    #[serde(default)]
    log: BTreeMap<String, Vec<String>>,
    /// By job and step, results that are kept once this is answered: any JSON, 8 KiB each, 64 and
    /// 64 KiB a job.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, BTreeMap<String, serde_json::Value>>)]
    memos: BTreeMap<String, BTreeMap<String, Box<RawValue>>>,
}

/// The answer to an extension, one per lease in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExtendAnswer {
    leases: Vec<ExtendedLine>,
    now: String,
}

impl ExtendAnswer {
    pub(crate) fn new(tokens: &[Token], extended: Extended) -> Self {
        let texts = |ids: &[JobId]| ids.iter().map(JobId::to_string).collect();
        let line = |(token, verdict): (&Token, &ExtendVerdict)| match verdict {
            ExtendVerdict::Extended {
                deadline,
                lost,
                cancel_requested,
            } => ExtendedLine::Extended {
                token: token.to_string(),
                deadline: deadline.to_string(),
                lost: texts(lost),
                cancel_requested: texts(cancel_requested),
            },
            _ => ExtendedLine::Lost {
                token: token.to_string(),
                lease_lost: true,
            },
        };
        Self {
            leases: tokens.iter().zip(&extended.verdicts).map(line).collect(),
            now: extended.now.to_string(),
        }
    }
}

/// What became of one lease.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ExtendedLine {
    Extended {
        token: String,
        deadline: String,
        /// Jobs that are no longer of this lease.
        lost: Vec<String>,
        /// Jobs that are asked to stop.
        cancel_requested: Vec<String>,
    },
    Lost {
        token: String,
        /// Always true: every job of the lease is lost.
        lease_lost: bool,
    },
}
