//! An engine that writes down what is asked of it and what it answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use punctual::engine::*;
use punctual::time::Timestamp;
use punctual::{Engine, Error, ErrorKind, JobId, Namespace, NewJob, Outcome, Result, RetryPolicy};

use crate::call_log::History;
use crate::content;
use crate::event::{
    Claimed as ClaimedJob, End, Event, Extended as Prolonged, Granted, Received, Sent, Verdict,
};
use crate::injected;
use crate::scripted_outcome::ScriptedOutcome;
use crate::stamp::{stamp, wall};

/// Stands between a client and its engine.
#[derive(Debug)]
pub(crate) struct Recorder {
    inner: Arc<dyn Engine>,
    history: Arc<History>,
    calls: AtomicU64,
    /// Whether its process ends, to be started again, once a claim answers that the data are gone.
    begins_anew: bool,
    /// Whether no wakeup is received any more: a bug that is injected.
    is_deaf: AtomicBool,
}

impl Recorder {
    pub(crate) fn new(inner: Arc<dyn Engine>, history: Arc<History>, begins_anew: bool) -> Self {
        Self {
            inner,
            history,
            calls: AtomicU64::new(0),
            begins_anew,
            is_deaf: AtomicBool::new(false),
        }
    }

    fn call(&self) -> u64 {
        self.calls.fetch_add(1, Relaxed)
    }

    fn failed(&self, verb: &str, invoked: u64, error: &Error) {
        let what = format!("{verb}: {error}");
        self.history.note(Event::Failed { invoked, what });
    }
}

/// How a process ends then.
pub(crate) const BEGINS_ANEW: i32 = 5;

/// The header that carries a job's scripted outcome, so that the recorder need not read payloads.
pub(crate) const SCRIPTED_OUTCOME: &str = "scripted";

/// The scripted outcome of a job, by its headers.
pub(crate) fn scripted_of(headers: &[(String, String)]) -> Option<ScriptedOutcome> {
    let (_, scripted) = headers.iter().find(|(name, _)| name == SCRIPTED_OUTCOME)?;
    serde_json::from_str(scripted).ok()
}

fn sent(job: &NewJob) -> Sent {
    let after = match job.due {
        punctual::Due::After(span) => micros(span),
        _ => 0,
    };
    Sent {
        id: job.id,
        queue: job.queue.clone(),
        after,
        unique: job.unique.as_ref().map(|unique| unique.key.clone()),
        policy: job.unique.as_ref().map(|unique| unique.policy),
        group: job.group.as_ref().map(|group| group.key.clone()),
        backoff: match job.retry {
            RetryPolicy::Fixed {
                span,
                jitter: false,
            } => Some(micros(span)),
            _ => None,
        },
        content: Some(content::of_new(job)),
        scripted: scripted_of(&job.headers).unwrap_or(ScriptedOutcome::Completes),
    }
}

fn micros(span: std::time::Duration) -> u64 {
    span.as_micros() as u64
}

fn received(receipt: &Receipt) -> Received {
    let other = match receipt.verdict {
        EnqueueVerdict::Merged(id)
        | EnqueueVerdict::Replaced(id)
        | EnqueueVerdict::Refreshed(id)
        | EnqueueVerdict::UniqueActive(id) => Some(id),
        _ => None,
    };
    Received {
        verdict: receipt.verdict.name().into(),
        other,
        due: receipt.due.as_micros(),
    }
}

/// Whether a call that failed so may have taken effect: unless it is sure that it did not, it may.
fn is_unknown(error: &Error) -> bool {
    use ErrorKind::*;
    !matches!(
        error.kind(),
        EngineFull | InvalidInput | InvalidName | InvalidDelay | PayloadTooLarge | BatchTooLarge
    )
}

impl Recorder {
    /// Notes an answer that does not fit its call.
    fn expect(&self, fits: bool, what: impl FnOnce() -> String) {
        if !fits {
            self.history.note(Event::Misfit { what: what() });
        }
    }
}

/// A call that was to prolong these leases, and notes that its effect is unknown: it failed,
/// or was given up.
struct Unanswered<'a> {
    history: &'a History,
    invoked: u64,
    tokens: Vec<Token>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        let tokens = std::mem::take(&mut self.tokens);
        if !tokens.is_empty() {
            let invoked = self.invoked;
            self.history.note(Event::ExtendUnknown { invoked, tokens });
        }
    }
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Retry { .. } => "retry",
        Outcome::Snooze { .. } => "snooze",
        Outcome::Cancelled => "cancelled",
        Outcome::Dead => "dead",
        _ => "released",
    }
}

#[async_trait]
impl Engine for Recorder {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        let call = self.call();
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let jobs_sent = jobs.iter().map(sent).collect();
        self.history.note(Event::EnqueueInvoke {
            call,
            wall: wall(),
            jobs: jobs_sent,
        });
        let answer = self.inner.enqueue(namespace, jobs).await;
        let receipts = answer.iter().flat_map(|enqueued| &enqueued.receipts);
        for (id, receipt) in ids.into_iter().zip(receipts) {
            self.expect(id == receipt.id, || {
                format!("{id} was sent and {} answered", receipt.id)
            });
        }
        self.history.note(match &answer {
            Ok(enqueued) => Event::EnqueueOk {
                call,
                now: enqueued.now.as_micros(),
                receipts: enqueued.receipts.iter().map(received).collect(),
            },
            Err(error) if is_unknown(error) => Event::EnqueueUnknown {
                call,
                error: error.to_string(),
            },
            Err(error) => Event::EnqueueFail {
                call,
                error: error.to_string(),
            },
        });
        answer
    }

    async fn claim(&self, namespace: &Namespace, mut claim: Claim) -> Result<Claimed> {
        let invoked = stamp();
        let (alone, lease_duration) = (claim.mode.is_alone(), micros(claim.lease_duration));
        claim.lease_duration = injected::lease_duration(claim.lease_duration);
        let answer = self.inner.claim(namespace, claim).await;
        match &answer {
            Ok(claimed) if claimed.leases.is_empty() => {}
            Ok(claimed) => self.history.note(Event::ClaimOk {
                invoked,
                now: claimed.now.as_micros(),
                alone,
                lease_duration: Some(lease_duration),
                leases: claimed.leases.iter().map(granted).collect(),
            }),
            Err(error) => {
                self.failed("claim", invoked, error);
                if self.begins_anew && error.kind() == ErrorKind::DataMissing {
                    // As the error asks an operator to do.
                    std::process::exit(BEGINS_ANEW);
                }
            }
        }
        answer
    }

    async fn extend(&self, namespace: &Namespace, mut leases: Vec<Extend>) -> Result<Extended> {
        let invoked = stamp();
        let asked: Vec<Asked> = leases.iter().map(Asked::by).collect();
        for lease in &mut leases {
            lease.lease_duration = injected::lease_duration(lease.lease_duration);
        }
        let mut unknown = Unanswered {
            history: &self.history,
            invoked,
            tokens: asked.iter().map(|lease| lease.token).collect(),
        };
        let answer = self.inner.extend(namespace, leases).await;
        if let Ok(extended) = &answer {
            unknown.tokens.clear();
            let answered = extended.verdicts.len();
            self.expect(asked.len() == answered, || {
                format!(
                    "{} leases were to be prolonged and {answered} answered",
                    asked.len()
                )
            });
            self.history.note(Event::ExtendOk {
                invoked,
                now: extended.now.as_micros(),
                leases: asked
                    .into_iter()
                    .zip(&extended.verdicts)
                    .map(prolonged)
                    .collect(),
            });
        }
        answer
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        let call = self.call();
        self.history.note(Event::SettleInvoke {
            call,
            ends: ends(&settle),
        });
        let asked: Vec<usize> = (settle.leases.iter())
            .map(|lease| lease.settlements.len())
            .collect();
        let answer = self.inner.settle(namespace, settle).await;
        if let Ok(settled) = &answer {
            let answered: Vec<usize> = settled.verdicts.iter().map(Vec::len).collect();
            self.expect(asked == answered, || {
                format!("leases with {asked:?} ends were settled and {answered:?} answered")
            });
        }
        self.history.note(match &answer {
            Ok(settled) => Event::SettleOk {
                call,
                now: settled.now.as_micros(),
                verdicts: settled.verdicts.iter().flatten().map(verdict).collect(),
            },
            Err(error) if is_unknown(error) => Event::SettleUnknown {
                call,
                error: error.to_string(),
            },
            Err(error) => Event::SettleFail {
                call,
                error: error.to_string(),
            },
        });
        answer
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        let invoked = stamp();
        if self.is_deaf.load(Relaxed) {
            return injected::sleep_deaf(until).await;
        }
        let answer = self.inner.wait(namespace, what, until).await;
        if let Err(error) = &answer {
            self.failed("wait", invoked, error);
            self.is_deaf.fetch_or(injected::deafens(), Relaxed);
        }
        answer
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.inner.get(namespace, targets, explain).await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.inner.list(namespace, list).await
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        let Select::Targets(targets) = &edit.select else {
            return self.inner.edit(namespace, edit).await;
        };
        let call = self.call();
        let id = |target: &Target| match target {
            Target::Id(id) => Some(*id),
            Target::Unique { .. } => None,
        };
        self.history.note(Event::CancelInvoke {
            call,
            ids: targets.iter().filter_map(id).collect(),
        });
        let answer = self.inner.edit(namespace, edit).await;
        self.history.note(match &answer {
            Ok(edited) => {
                let verdicts = edited
                    .verdicts
                    .iter()
                    .map(|(_, verdict)| verdict.name().to_owned());
                Event::CancelOk {
                    call,
                    now: Some(edited.now.as_micros()),
                    verdicts: verdicts.collect(),
                }
            }
            Err(error) => Event::CancelUnknown {
                call,
                error: error.to_string(),
            },
        });
        answer
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        self.inner.stats(namespace, request).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        self.inner.control(namespace, control).await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.inner.maintain().await
    }

    async fn info(&self) -> Result<Info> {
        self.inner.info().await
    }
}

fn granted(lease: &Lease) -> Granted {
    let jobs = lease.jobs.iter().map(|job| ClaimedJob {
        id: job.id,
        attempt: job.attempt,
        failures: job.failures,
        crashes: job.crashes,
        due: job.due.as_micros(),
        started: job.started_at.map(Timestamp::as_micros),
        content: Some(content::of_record(job)),
    });
    Granted {
        token: lease.token,
        deadline: lease.deadline.as_micros(),
        jobs: jobs.collect(),
    }
}

/// What a lease is to be prolonged by, and of which jobs.
struct Asked {
    token: Token,
    lease_duration: u64,
    jobs: Vec<JobId>,
}

impl Asked {
    fn by(lease: &Extend) -> Self {
        Self {
            token: lease.token,
            lease_duration: micros(lease.lease_duration),
            jobs: lease.jobs.clone(),
        }
    }
}

fn prolonged((lease, verdict): (Asked, &ExtendVerdict)) -> Prolonged {
    let (deadline, lost) = match verdict {
        ExtendVerdict::Extended { deadline, lost, .. } => {
            (Some(deadline.as_micros()), lost.clone())
        }
        _ => (None, Vec::new()),
    };
    Prolonged {
        token: lease.token,
        lease_duration: Some(lease.lease_duration),
        deadline,
        asked: lease.jobs,
        lost,
    }
}

fn ends(settle: &Settle) -> Vec<End> {
    let of_lease = |lease: &LeaseReport| {
        let token = lease.token;
        let ends = lease.settlements.iter().map(move |end| End {
            id: end.id,
            attempt: end.attempt,
            token,
            outcome: outcome_name(&end.outcome).into(),
            after: match end.outcome {
                Outcome::Retry { after } => after.map(micros),
                Outcome::Snooze { after } => Some(micros(after)),
                _ => None,
            },
        });
        ends.collect::<Vec<_>>()
    };
    settle.leases.iter().flat_map(of_lease).collect()
}

fn verdict(verdict: &SettleVerdict) -> Verdict {
    match verdict {
        SettleVerdict::Settled { state, due, .. } => {
            Verdict::Settled(*state, due.map(Timestamp::as_micros))
        }
        SettleVerdict::Repeated => Verdict::Repeated,
        _ => Verdict::LeaseLost,
    }
}
