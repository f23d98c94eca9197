//! Claims, extensions and settlements.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use punctual::engine::{
    Claim, ClaimOrder, Claimed, EnqueueVerdict, Extend, ExtendVerdict, Extended, PageReport,
    Settle, SettleVerdict, Settled, Settlement, Token, WorkerId, WorkerRecord,
};
use punctual::job::Stop;
use punctual::time::seconds;
use punctual::{Effect, JobId, NewJob, Outcome, push};
use punctual_push::Guard;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::job::holder;
use super::words::{Count, Id, Name, PageToken};
use crate::job_line::{JobLine, SpanText, either, raw};
use crate::problem::{Problem, Result};
use crate::request::in_range;
use crate::unread::shown;

/// A worker as it describes itself.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = Worker)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WorkerLine {
    /// A UUID, random per process.
    #[schema(value_type = Option<Id>)]
    id: Option<String>,
    host: String,
    version: String,
    /// The kinds it has handlers for; empty if it takes any.
    kinds: Vec<String>,
    #[schema(value_type = Option<u64>, maximum = 4294967295i64)]
    slots: Option<u32>,
    #[schema(value_type = u64, maximum = 4294967295i64)]
    busy: u32,
}

impl WorkerLine {
    /// The id of all who give none and say the same of themselves: one of their own for each claim would
    /// be a crowd, which engines keep in mind for a minute.
    fn id_of_many(&self, queues: &[String]) -> WorkerId {
        let said = (&self.host, &self.version, &self.kinds, queues);
        let digest = Sha256::digest(format!("{said:?}"));
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        WorkerId(u128::from_be_bytes(id))
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OrderLine {
    #[default]
    Strict,
    Turns,
}

/// A claim; only `queues` is needed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimRequest {
    /// 1 to 64, in this order.
    #[schema(value_type = Vec<Name>, min_items = 1, max_items = 64)]
    queues: Vec<String>,
    /// 1 to 1,000, 1 by default.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// How long to wait for a job, at most 60s, not at all by default.
    pub(crate) wait: Option<String>,
    /// 10s by default.
    lease: Option<SpanText>,
    #[serde(default)]
    worker: WorkerLine,
    #[serde(default)]
    order: OrderLine,
    max_bytes: Option<usize>,
    /// Whether the worker runs nothing else.
    #[serde(default)]
    alone: bool,
    /// 16 hexadecimal digits; the same again answers the same page.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    nonce: Option<String>,
}

impl ClaimRequest {
    /// Whether the same worker can send it again under the same nonce; one without an id cannot.
    pub(crate) fn may_come_again(&self) -> bool {
        self.nonce.is_some() && self.worker.id.is_some()
    }

    pub(crate) fn claim(self) -> Result<Claim> {
        let id = match &self.worker.id {
            Some(text) => {
                let id = uuid::Uuid::try_parse(text)
                    .map_err(|_| not(text, "worker.id", "a UUID, random per process"))?;
                WorkerId(id.as_u128())
            }
            // Two of them may not mean the same claim by the same nonce.
            None if self.nonce.is_some() => WorkerId::random(),
            None => self.worker.id_of_many(&self.queues),
        };
        let limit = in_range("limit", self.limit.unwrap_or(1), 1_000)?;
        let mut claim = Claim::new(id, "", limit);
        if let Some(nonce) = &self.nonce {
            claim.nonce = hex(nonce).ok_or_else(|| not(nonce, "nonce", "16 hexadecimal digits"))?;
        }
        claim.worker = WorkerRecord {
            id,
            host: self.worker.host,
            version: self.worker.version,
            queues: self.queues.clone(),
            kinds: self.worker.kinds,
            slots: self.worker.slots.unwrap_or(1),
            busy: self.worker.busy,
        };
        claim.queues = self.queues;
        claim.order = match self.order {
            OrderLine::Strict => ClaimOrder::Strict,
            OrderLine::Turns => ClaimOrder::Turns,
        };
        claim.max_bytes = self.max_bytes.unwrap_or(claim.max_bytes);
        claim.lease = self.lease.map_or(claim.lease, |lease| lease.0);
        claim.alone = self.alone;
        claim.in_process = false;
        Ok(claim)
    }
}

fn not(text: &str, name: &str, takes: &str) -> Problem {
    Problem::invalid(format!("{name} is \"{}\"", shown(text))).hint(format!("use {takes}"))
}

fn hex(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|c| c.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok())?
}

/// Reads a token as it is written: `FENCE-NONCE`.
fn token_of(text: &str) -> Result<Token> {
    let read = || {
        let (fence, nonce) = text.split_once('-')?;
        Some(Token {
            fence: fence.parse().ok()?,
            nonce: hex(nonce)?,
        })
    };
    read().ok_or_else(|| {
        Problem::invalid(format!("token is \"{}\", which is none", shown(text)))
            .hint("send it as the claim answered it")
    })
}

/// Jobs under one lease.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Page)]
struct PageLine {
    token: String,
    /// The instant the lease ends unless it is extended.
    deadline: String,
    jobs: Vec<JobLine>,
}

/// The answer to a claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimAnswer {
    pages: Vec<PageLine>,
    now: String,
    /// The earliest instant at which a claim could answer more by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_at: Option<String>,
    /// Whether jobs wait for a claim that is `alone`.
    suspects: bool,
}

impl From<Claimed> for ClaimAnswer {
    fn from(claimed: Claimed) -> Self {
        let pages = claimed.pages.iter().map(|page| PageLine {
            token: page.token.to_string(),
            deadline: page.deadline.to_string(),
            jobs: page.jobs.iter().map(JobLine::document).collect(),
        });
        Self {
            pages: pages.collect(),
            now: claimed.now.to_string(),
            wake_at: claimed.wake_at.map(|at| at.to_string()),
            suspects: claimed.suspects,
        }
    }
}

/// One page to extend.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ExtendLine {
    #[schema(value_type = PageToken)]
    token: String,
    /// 10s by default.
    lease: Option<SpanText>,
    /// The jobs still worked on.
    #[serde(default)]
    #[schema(value_type = Vec<Id>)]
    jobs: Vec<String>,
    /// By job, any JSON.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    progress: BTreeMap<String, Box<RawValue>>,
}

/// Pages to extend.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendRequest {
    pages: Vec<ExtendLine>,
}

impl ExtendRequest {
    pub(crate) fn pages(self) -> Result<Vec<Extend>> {
        let page = |line: ExtendLine| {
            let jobs: punctual::Result<Vec<JobId>> =
                line.jobs.iter().map(|id| id.parse()).collect();
            let progress = line
                .progress
                .into_iter()
                .map(|(id, note)| Ok((id.parse()?, String::from(Box::<str>::from(note)).into())));
            Ok(Extend {
                token: token_of(&line.token)?,
                lease: line.lease.map_or(seconds(10), |lease| lease.0),
                progress: progress.collect::<punctual::Result<_>>()?,
                jobs: jobs?,
            })
        };
        let pages = self.pages.into_iter().enumerate();
        pages
            .map(|(index, line)| page(line).map_err(|problem: Problem| problem.index(index)))
            .collect()
    }
}

/// What became of one page's lease.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ExtendedLine {
    Extended {
        token: String,
        deadline: String,
        /// Jobs that are no longer of this page.
        lost: Vec<String>,
        /// Jobs that are asked to stop.
        cancel_requested: Vec<String>,
    },
    Lost {
        token: String,
        /// Always true: every job of the page is lost.
        lease_lost: bool,
    },
}

/// The answer to an extension, one per page in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExtendAnswer {
    pages: Vec<ExtendedLine>,
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
            pages: tokens.iter().zip(&extended.verdicts).map(line).collect(),
            now: extended.now.to_string(),
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeLine {
    Completed,
    Retry,
    Snooze,
    Cancelled,
    Dead,
    Released,
}

/// What an outcome brings about besides.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum EffectLine {
    /// A new job.
    Enqueue(Box<JobLine>),
    /// Clears a name that a held job waits for.
    Clear(ClearLine),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ClearLine {
    #[schema(value_type = Id)]
    job: String,
    name: String,
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
    /// For retry (else by policy) and snooze.
    after: Option<SpanText>,
    /// A small result, any JSON.
    #[serde(default, deserialize_with = "raw")]
    #[schema(value_type = serde_json::Value, required = false)]
    result: Option<Box<RawValue>>,
    result_base64: Option<String>,
    error: Option<String>,
    #[serde(default)]
    effects: Vec<EffectLine>,
    /// How a cancel was obeyed: `token`, `aborted` or `killed`.
    stopped: Option<String>,
}

impl SettlementLine {
    fn settlement(self, guard: &Guard) -> Result<Settlement> {
        let outcome = match (self.outcome, self.after) {
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
                return Err(Problem::invalid("after belongs to retry and snooze only"));
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
        let effects = self.effects.into_iter().map(|effect| {
            Ok(match effect {
                EffectLine::Enqueue(line) => Effect::Enqueue(Box::new(new_job(*line, guard)?)),
                EffectLine::Clear(clear) => Effect::Clear {
                    job: clear.job.parse()?,
                    name: clear.name,
                },
            })
        });
        Ok(Settlement {
            effects: effects.collect::<Result<_>>()?,
            result: either(&self.result, &self.result_base64, "result")
                .map_err(|why| Problem::invalid(format!("a settlement {why}")))?,
            error: self.error,
            stopped: stopped.transpose()?,
            ..Settlement::new(self.id.parse()?, self.attempt, outcome)
        })
    }
}

/// The job that a line describes, with an id of its own unless it brings one; refused if it is to
/// be posted to where the guard lets nobody.
pub(crate) fn new_job(line: JobLine, guard: &Guard) -> Result<NewJob> {
    if line.queue.is_none() && line.target.is_none() {
        let hint = "send queue, 1 to 128 of a-z A-Z 0-9 . _ - : /, or a target";
        return Err(Problem::invalid("queue is missing").hint(hint));
    }
    if line.has_history() {
        return Err(Problem::invalid("the job has a state, so it is not new")
            .hint("send only what a new job may have"));
    }
    let job = line
        .into_new_job(&NewJob::new("", ""))
        .map_err(|why| Problem::invalid(format!("the job {why}")))?;
    let target = push::target(&job.headers);
    if target.is_none() && push::is_queue(&job.queue) {
        let message = format!("queue {} is for jobs with a target", shown(&job.queue));
        return Err(Problem::invalid(message).hint("give it a target, or name another queue"));
    }
    let callback = push::header(&job.headers, push::CALLBACK);
    for url in target.into_iter().chain(callback) {
        guard.check(url).map_err(|error| refused(error.message()))?;
    }
    Ok(job)
}

fn refused(message: &str) -> Problem {
    let text = message.split_once(": ").map_or(message, |(_, text)| text);
    let (what, remedy) = text.split_once("; ").unwrap_or((text, ""));
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    let problem = Problem::new(status, "target_refused", what);
    match remedy {
        "" => problem,
        remedy => problem.hint(remedy),
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PageReport)]
#[serde(deny_unknown_fields)]
struct ReportLine {
    #[schema(value_type = PageToken)]
    token: String,
    settlements: Vec<SettlementLine>,
    /// Handler start minus due, in microseconds.
    #[serde(default)]
    #[schema(value_type = Vec<Count>)]
    lateness_us: Vec<u64>,
    /// Run times in microseconds.
    #[serde(default)]
    #[schema(value_type = Vec<Count>)]
    run_time_us: Vec<u64>,
}

/// How attempts ended, a part per page.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleRequest {
    pages: Vec<ReportLine>,
}

impl SettleRequest {
    pub(crate) fn settle(self, guard: &Guard) -> Result<Settle> {
        let mut count = 0;
        let mut pages = Vec::with_capacity(self.pages.len());
        for page in self.pages {
            let token = token_of(&page.token)?;
            let mut settlements = Vec::with_capacity(page.settlements.len());
            for line in page.settlements {
                let settlement = line
                    .settlement(guard)
                    .map_err(|problem| problem.index(count));
                settlements.push(settlement?);
                count += 1;
            }
            pages.push(PageReport {
                token,
                settlements,
                lateness_us: page.lateness_us,
                run_time_us: page.run_time_us,
            });
        }
        Ok(Settle { pages })
    }
}

#[derive(Debug, Serialize, ToSchema)]
struct EffectVerdict {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
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
struct SettledPage {
    token: String,
    settlements: Vec<SettledLine>,
}

/// The answer to a settlement, in the order sent.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettleAnswer {
    pages: Vec<SettledPage>,
    now: String,
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
