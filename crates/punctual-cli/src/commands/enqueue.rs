//! `punctual enqueue`: one job from the command line, or many from a file.

mod file;
mod options;

pub(super) use options::{attempts_of, header_of, priority_of, retry_of};

use std::io::{self, Read};
use std::path::PathBuf;

use bytes::Bytes;
use punctual::engine::{EnqueueVerdict, Got, Reason, Receipt, Target};
use punctual::time::{Timestamp, format_local};
use punctual::{JobId, JobState, NewJob};

use crate::args::{Global, Session};
use crate::connect::Make;
use crate::failure::{Exit, Failure, Result};
use crate::output::{ago, object};

const EXAMPLES: &str = "\
Examples:
  punctual enqueue mail '{\"to\":\"ann\"}'                      due at once
  punctual enqueue orders '{\"order\":7}' --delay 30m --unique order:7
  punctual enqueue reports '{}' --at '2026-12-01 08:00' --max-attempts 3
  ./make-report | punctual enqueue reports -                payload from standard input
  punctual enqueue mail '{\"order\":7}' --after ship@order-7   once that step has completed
  punctual enqueue mail '{\"to\":\"ann\"}' --delay 5m --target https://example.com/hook
  punctual enqueue --from jobs.jsonl                        one job per line

A line of FILE.jsonl is one job; only the queue is required, unless it is an argument:
  {\"queue\":\"mail\",\"payload\":{\"to\":\"ann\"},\"delay\":\"30m\",\"unique\":\"mail:7\"}
  {\"queue\":\"mail\",\"payload_base64\":\"aGk=\",\"at\":\"2026-12-01T08:00:00Z\"}
Options are defaults for lines without that field. A line without an id gets one from the file's
content, its queue and its line number: the same file enqueues nothing twice while the jobs exist
and for two minutes after they settle. --again makes new jobs. All lines are checked first: if some
are bad, they are listed by number and none is sent, unless --skip-bad skips them. A job that the
engine refuses does not stop the others.

Exit code 4 if a job was refused: id_conflict, unique_active, parent_unknown or full.";

/// Enqueue one job, or a file of jobs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue, such as mail
    #[arg(required_unless_present = "from")]
    queue: Option<String>,

    /// The payload: JSON or text, or - for standard input; empty if omitted
    #[arg(conflicts_with = "from", allow_hyphen_values = true)]
    payload: Option<String>,

    /// Enqueue the jobs of a file, one JSON document per line; - is standard input
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["id", "payload"])]
    from: Option<PathBuf>,

    /// With --from: give lines without an id new ids, so that they are enqueued again
    #[arg(long, requires = "from")]
    again: bool,

    /// With --from: skip bad lines and enqueue the others
    #[arg(long, requires = "from")]
    skip_bad: bool,

    /// With --from: each line is a payload, not a job object
    #[arg(long, requires = "from", requires = "queue")]
    raw: bool,

    #[command(flatten)]
    options: options::Options,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let session = global.session(Make::IfMissing).await?;
        let info = session.engine.info().await?;
        let mut job = NewJob::new(self.queue.clone().unwrap_or_default(), Bytes::new());
        self.options.apply(&mut job, info.now)?;
        if let Some(path) = &self.from {
            let file = file::FromFile {
                path,
                again: self.again,
                skip_bad: self.skip_bad,
                raw: self.raw,
                defaults: job,
                content_type: self.options.content_type.clone(),
                text: self.options.text,
                guard: self.options.guard(),
            };
            return file.run(&session).await;
        }
        job.payload = payload(self.payload)?;
        if self.options.content_type.is_none() {
            let found = content_type_of(&job.payload, self.options.text);
            job.content_type = found.map_err(not_json)?.into();
        }
        // A payload beyond its limit may be beyond that of a call too, which would be no help.
        job.check(&info.limits)?;
        send_one(&session, job, &self.options.after).await
    }
}

/// The bytes of an argument, or those of standard input for `-`.
pub(super) fn payload(argument: Option<String>) -> Result<Bytes> {
    match argument.as_deref() {
        Some("-") => {
            let mut bytes = Vec::new();
            io::stdin()
                .lock()
                .read_to_end(&mut bytes)
                .map_err(|error| {
                    Failure::new(
                        Exit::Failed,
                        "io",
                        format!("cannot read standard input: {error}"),
                    )
                })?;
            Ok(bytes.into())
        }
        _ => Ok(argument.unwrap_or_default().into()),
    }
}

/// What a payload is if no option says it: JSON, text, or bytes. Text that starts as JSON does but
/// is none is refused: a shell may have taken its quotes.
pub(crate) fn content_type_of(
    payload: &[u8],
    is_text: bool,
) -> Result<&'static str, serde_json::Error> {
    let Ok(text) = std::str::from_utf8(payload) else {
        return Ok("application/octet-stream");
    };
    if is_text {
        return Ok("text/plain");
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        _ if text.is_empty() => Ok("application/json"),
        Ok(_) => Ok("application/json"),
        Err(error) if text.trim_start().starts_with(['{', '[', '"']) => Err(error),
        Err(_) => Ok("text/plain"),
    }
}

pub(crate) fn not_json(error: serde_json::Error) -> Failure {
    Failure::new(
        Exit::Usage,
        "invalid_json",
        format!("the payload is not JSON: {error}"),
    )
    .hint(
        "put names and texts in double quotes, such as '{\"a\":1}', or send it as text with --text",
    )
}

async fn send_one(session: &Session, job: NewJob, after: &[options::Awaited]) -> Result<()> {
    let (queue, expires_at) = (job.queue.clone(), job.expires_at);
    let (wait_for, limits) = (job.wait_for.clone(), job.limits.clone());
    let share = job.share.clone();
    let enqueued = session
        .engine
        .enqueue(&session.namespace, vec![job])
        .await?;
    let Some(receipt) = enqueued.receipts.first() else {
        return Err(Failure::new(
            Exit::Failed,
            "internal",
            "the engine returned no receipt",
        ));
    };
    if session.out.is_json() {
        session.out.json(&object!({
            "id": receipt.id.to_string(),
            "verdict": receipt.verdict.name(),
            "holder": holder(receipt).map(|id| id.to_string()),
            "limit": match receipt.verdict {
                EnqueueVerdict::LimitFull(nth) => limits.get(usize::from(nth)),
                _ => None,
            },
            "due": receipt.due.to_string(),
            "late": receipt.late,
            "durability": enqueued.durability.to_string(),
        }))?;
    } else {
        let sent = Waits {
            names: wait_for,
            jobs: after.len() as u32,
        };
        session.out.line(match receipt.verdict {
            EnqueueVerdict::LimitFull(nth) => limit_full(limits.get(usize::from(nth))),
            EnqueueVerdict::ShareFull(most) => share_full(&queue, share.as_deref(), most),
            EnqueueVerdict::ParentUnknown(job) => parent_unknown(job, after),
            EnqueueVerdict::Duplicate => duplicate(session, receipt, enqueued.now).await,
            EnqueueVerdict::Created | EnqueueVerdict::Replaced(_) if sent.in_words().is_some() => {
                let (state, waits) = awaited_by(session, receipt.id, sent).await;
                let text = sentence(receipt, &queue, &waits, enqueued.now);
                match state {
                    Some(JobState::Cancelled) => cancelled_at_once(receipt, &queue),
                    _ => text,
                }
            }
            _ => sentence(receipt, &queue, &Waits::default(), enqueued.now),
        })?;
        if receipt.verdict.is_accepted() {
            session.announce_durability(enqueued.durability);
        }
        if expires_at.is_some_and(|at| at <= receipt.due) && receipt.verdict.is_accepted() {
            let never =
                "warning: it expires before it is due, so it will be cancelled without a run";
            session.out.note(never);
        }
    }
    if receipt.verdict.is_accepted() {
        Ok(())
    } else {
        Err(Failure::reported(Exit::Refused))
    }
}

/// What a job waits for before it may run.
#[derive(Debug, Default)]
struct Waits {
    names: Vec<String>,
    jobs: u32,
}

impl Waits {
    /// The end of `held until ..` and `to run once ..`, if it waits for anything.
    fn in_words(&self) -> Option<String> {
        let jobs = match self.jobs {
            0 => None,
            1 => Some("1 other job has ended as asked".to_owned()),
            jobs => Some(format!("{jobs} other jobs have ended as asked")),
        };
        let be = if self.names.len() == 1 { "is" } else { "are" };
        let names = self.names.join(" and ");
        let names = (!names.is_empty()).then(|| format!("{names} {be} cleared"));
        let all: Vec<String> = jobs.into_iter().chain(names).collect();
        (!all.is_empty()).then(|| all.join(" and "))
    }
}

/// A job that was stored. A token that may only enqueue may not read it.
async fn stored(session: &Session, id: JobId) -> Option<Got> {
    let target = vec![Target::Id(id)];
    let got = session.engine.get(&session.namespace, target, true).await;
    got.ok()?.into_iter().flatten().next()
}

/// The state of a job that was just stored, and what it waits for: a clear that came before it, and
/// jobs that had ended, have taken effect.
async fn awaited_by(session: &Session, id: JobId, sent: Waits) -> (Option<JobState>, Waits) {
    let (job, explanation) = match stored(session, id).await {
        Some(Got::Job(job, explanation)) => (job, explanation),
        // It has run, and is not kept.
        Some(got) => return (Some(got.state()), Waits::default()),
        None => return (None, sent),
    };
    let mut waits = Waits::default();
    if job.state == JobState::Held {
        waits.names = job.wait_for;
        let reasons = explanation.into_iter().flat_map(|all| all.reasons);
        waits.jobs = reasons
            .filter_map(|reason| match reason {
                Reason::WaitsForJobs { waits, .. } => Some(waits),
                _ => None,
            })
            .sum();
    }
    (Some(job.state), waits)
}

/// What is said of a job that was sent before: where it stands now.
async fn duplicate(session: &Session, receipt: &Receipt, now: Timestamp) -> String {
    let id = receipt.id;
    match stored(session, id).await.map(|got| got.state()) {
        Some(JobState::Scheduled | JobState::Ready) => {
            format!(
                "duplicate {id}: it was stored before, {}",
                due(receipt, now)
            )
        }
        Some(state) => format!("duplicate {id}: it was stored before, and is {state}"),
        None => format!("duplicate {id}: it was stored before"),
    }
}

/// What is said of a job that never runs, as one that it was to run after has ended otherwise.
fn cancelled_at_once(receipt: &Receipt, queue: &str) -> String {
    format!(
        "created {} in {queue}, which is cancelled already: a job that it was to run after has ended \
         otherwise",
        receipt.id
    )
}

/// What is said of a job that waits for one that there is not, as that was written.
fn parent_unknown(job: JobId, after: &[options::Awaited]) -> String {
    let mut after = after.iter();
    let written = after.find(|one| one.after.job == job);
    let written = written.map_or_else(|| job.to_string(), |one| one.written.clone());
    format!(
        "refused (parent_unknown): {written}, which it is to run after, is not known; send that one \
         first"
    )
}

/// The job that a verdict names beside the one that was sent.
fn holder(receipt: &Receipt) -> Option<JobId> {
    match receipt.verdict {
        EnqueueVerdict::Merged(id)
        | EnqueueVerdict::Replaced(id)
        | EnqueueVerdict::Refreshed(id)
        | EnqueueVerdict::UniqueActive(id) => Some(id),
        _ => None,
    }
}

/// What is said of a job that a full limit refused.
fn limit_full(limit: Option<&String>) -> String {
    let limit = limit.map_or("", String::as_str);
    format!(
        "refused (limit_full): as many jobs with the limit {limit} are active as may be; send it \
         again when one has ended, see `punctual limits show {limit}`"
    )
}

/// What is said of a job that its full share refused.
fn share_full(queue: &str, share: Option<&str>, most: u64) -> String {
    let share = share.unwrap_or_default();
    format!(
        "refused (share_full): share {share} has the {most} pending jobs that each share of queue \
         {queue} may have; wait for workers, or raise it by `punctual queues limit {queue} \
         --share-max-pending N`"
    )
}

/// When a job is due, by its receipt.
fn due(receipt: &Receipt, now: Timestamp) -> String {
    match (receipt.late, receipt.due <= now) {
        (true, _) => "due now (that instant has passed)".into(),
        (false, true) => "due now".into(),
        (false, false) => format!(
            "due {}, {}",
            format_local(receipt.due),
            ago(receipt.due, now)
        ),
    }
}

fn sentence(receipt: &Receipt, queue: &str, waits: &Waits, now: Timestamp) -> String {
    let id = receipt.id;
    let due = due(receipt, now);
    let held = if waits.jobs > 0 {
        "to run once"
    } else {
        "held until"
    };
    let due = match waits.in_words() {
        None => due,
        Some(waits) if receipt.due <= now => format!("{held} {waits}"),
        Some(waits) => format!("{held} {waits}, then {due}"),
    };
    match receipt.verdict {
        EnqueueVerdict::Created => format!("created {id} in {queue}, {due}"),
        EnqueueVerdict::Merged(holder) => {
            format!("merged into {holder}, which holds the same unique key; nothing was added")
        }
        EnqueueVerdict::Replaced(former) => {
            format!("created {id} in {queue}, {due}; replaced {former}")
        }
        EnqueueVerdict::Refreshed(holder) => {
            format!("refreshed {holder}, which holds the same unique key, {due}")
        }
        EnqueueVerdict::IdConflict => {
            format!("refused (id_conflict): {id} is a job with other content; use another id")
        }
        EnqueueVerdict::UniqueActive(holder) => format!(
            "refused (unique_active): {holder} holds the unique key and is running; try again once it ends"
        ),
        EnqueueVerdict::Full => format!(
            "refused (full): queue {queue} has reached max_pending; see `punctual queues list`"
        ),
        verdict => format!("{} {id}", verdict.name()),
    }
}
