//! `punctual jobs cancel|reschedule|redrive|run-now|update|delete`: the same question, "which
//! jobs?", six verbs.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::engine::{Action, Edit, EditVerdict, Edited, Got, Select};
use punctual::time::Timestamp;
use punctual::{Due, JobId, JobState};

use super::endings::IdOrEnd;
use super::name_of;
use super::select::{Named, Where};
use crate::args::{Global, Session, instant_of, span_of, step_of};
use crate::commands::enqueue::{content_type_of, not_json, payload};
use crate::connect::Make;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Columns, count, counted, object};

/// Cancel jobs; a running one is asked to stop
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual jobs cancel ID
  punctual jobs cancel --queue orders --unique order:7
  punctual jobs cancel --queue orders --kind orders.remind        shows what it would do
  punctual jobs cancel --queue orders --kind orders.remind --yes  does it")]
pub(crate) struct Cancel {
    #[command(flatten)]
    which: Which,
}

/// Give jobs that have not started a new due
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual jobs reschedule ID --delay 10m
  punctual jobs reschedule ID --at 2026-12-01T08:00:00Z
  punctual jobs reschedule --queue reports --state scheduled --delay 1h --yes")]
pub(crate) struct Reschedule {
    #[command(flatten)]
    which: Which,

    /// The new due, a span from now
    #[arg(long, short, value_name = "SPAN", value_parser = span_of, required_unless_present = "at", conflicts_with = "at")]
    delay: Option<Duration>,

    /// The new due, an instant
    #[arg(long, value_name = "INSTANT", value_parser = instant_of)]
    at: Option<Timestamp>,
}

/// Send dead, cancelled or completed jobs back to their queues
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual jobs redrive ID
  punctual jobs redrive --queue mail          shows what it would do
  punctual jobs redrive --queue mail --yes    does it
  punctual jobs redrive --queue mail --state cancelled --yes

A dead, cancelled or completed job that is still kept becomes ready again, with failures and crashes
at zero. Without --state a filter selects dead jobs.")]
pub(crate) struct Redrive {
    #[command(flatten)]
    which: Which,
}

/// Make held and scheduled jobs due now
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual jobs run-now ID
  punctual jobs run-now --queue mail --state scheduled --yes")]
pub(crate) struct RunNow {
    #[command(flatten)]
    which: Which,
}

/// Replace the payload of jobs that have not started
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual jobs update ID --payload '{\"to\":\"bob\"}'
  punctual jobs update --queue orders --unique order:7 --payload '{\"order\":7,\"total\":12}'
  ./make-report | punctual jobs update ID --payload -

A running job is refused (job_active). A resend of the original job is still a duplicate. The job keeps
its content type, so the payload of a JSON job has to be JSON.")]
pub(crate) struct Update {
    #[command(flatten)]
    named: Named,

    /// The new payload: JSON or text, or - for standard input
    #[arg(long, value_name = "PAYLOAD", allow_hyphen_values = true)]
    payload: String,

    /// Send the payload as text, even if it is not JSON but resembles it
    #[arg(long)]
    text: bool,

    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Remove settled jobs for good
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual jobs delete ID
  punctual jobs delete --queue mail --state dead --yes
  punctual jobs delete --queue mail --state dead --older-than 7d --yes")]
pub(crate) struct Delete {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
struct Which {
    #[command(flatten)]
    named: Named,

    #[command(flatten)]
    filter: Where,

    /// Change all jobs that the filter matches; without this, only show what would change
    #[arg(long)]
    yes: bool,

    /// Only show what would be done
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl Cancel {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        self.which.edit(session, &Action::Cancel, "cancel").await
    }
}

impl Reschedule {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let due = match (self.delay, self.at) {
            (_, Some(at)) => Due::At(at),
            (Some(delay), None) => Due::After(delay),
            (None, None) => Due::Now,
        };
        self.which
            .edit(session, &Action::Reschedule(due), "reschedule")
            .await
    }
}

impl Redrive {
    pub(super) async fn run(mut self, session: &Session) -> Result<()> {
        let filter = &mut self.which.filter;
        filter.state.get_or_insert(JobState::Dead);
        self.which.edit(session, &Action::Redrive, "redrive").await
    }
}

impl RunNow {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        self.which.edit(session, &Action::RunNow, "run now").await
    }
}

/// Signal a job that waits for it, or will
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual signal approved ID
  punctual signal approved ID --payload '{\"by\":\"ann\"}'
  punctual signal approved --queue orders --unique order:7
  punctual signal approved --flow order-7 --step charge")]
pub(crate) struct Signal {
    /// What the job waits for
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    named: Named,

    /// The step of a flow, instead of an id
    #[arg(long, value_name = "FLOW", requires = "step", conflicts_with = "ids")]
    flow: Option<String>,

    /// The name of the step
    #[arg(long, value_name = "STEP", requires = "flow")]
    step: Option<String>,

    /// Any JSON that comes with the signal; - reads it from standard input
    #[arg(long, value_name = "PAYLOAD")]
    payload: Option<String>,
}

impl Signal {
    pub(crate) async fn run(mut self, global: &Global) -> Result<()> {
        let session = &global.session(Make::Never).await?;
        let mut step_named = None;
        if let (Some(flow), Some(step)) = (&self.flow, &self.step) {
            let id = step_of(flow, step)?;
            self.named.ids.push(IdOrEnd::Id(id));
            step_named = Some((id, format!("{step}@{flow}")));
        }
        let payload = match self.payload {
            Some(given) => any_json(payload(Some(given))?)?,
            None => bytes::Bytes::new(),
        };
        let which = Which {
            named: self.named,
            filter: Where::default(),
            yes: false,
            dry_run: false,
        };
        let name = self.name;
        let action = Action::Signal { name, payload };
        let mut verdicts = which.edit_named(session, &action).await?;
        for (shown, id, verdict) in &mut verdicts {
            let Some((step, name)) = &step_named else {
                continue;
            };
            if id.is_none_or(|id| id == *step) && *shown == step.to_string() {
                shown.clone_from(name);
                if *verdict == EditVerdict::NotFound {
                    session
                        .out
                        .note("hint: `punctual flows show FLOW` lists the steps that are kept");
                }
            }
        }
        which.announce(session, &action, &verdicts).await
    }
}

/// A payload that has to be JSON.
fn any_json(payload: bytes::Bytes) -> Result<bytes::Bytes> {
    match serde_json::from_slice::<serde::de::IgnoredAny>(&payload) {
        Ok(_) => Ok(payload),
        Err(error) => {
            Err(not_json(error).hint("put names and texts in double quotes, such as '\"yes\"'"))
        }
    }
}

impl Update {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let payload = payload(Some(self.payload))?;
        let found = content_type_of(&payload, self.text).map_err(not_json)?;
        if found != JSON {
            refuse_json_jobs(session, &self.named, found).await?;
        }
        let which = Which {
            named: self.named,
            filter: Where::default(),
            yes: false,
            dry_run: self.dry_run,
        };
        let action = Action::UpdatePayload(payload);
        let verdicts = which.edit_named(session, &action).await?;
        which.announce(session, &action, &verdicts).await
    }
}

const JSON: &str = "application/json";

/// Refuses what is no JSON as the payload of jobs that say that theirs is. The type of a job never
/// changes, so nothing can come between this and the edit.
async fn refuse_json_jobs(session: &Session, named: &Named, found: &str) -> Result<()> {
    let targets = named.targets(session).await?;
    for batch in targets.chunks(session.engine.info().await?.limits.batch_items) {
        let got = session
            .engine
            .get(&session.namespace, batch.to_vec(), false);
        for job in got.await?.iter().flatten().filter_map(Got::job) {
            if job.content_type == JSON {
                let message = format!(
                    "the payload is {found}, and job {} has the content type {JSON}, which it keeps",
                    job.id
                );
                let hint = "send JSON, such as '\"hello\"'; for another type cancel the job and enqueue a new one";
                return Err(Failure::new(Exit::Usage, "invalid_json", message).hint(hint));
            }
        }
    }
    Ok(())
}

impl Delete {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        self.which.edit(session, &Action::Delete, "delete").await
    }
}

type Verdicts = Vec<(String, Option<JobId>, EditVerdict)>;

impl Which {
    fn by_name(&self) -> bool {
        !self.named.ids.is_empty() || self.named.unique.is_some()
    }

    async fn edit(&self, session: &Session, action: &Action, verb: &str) -> Result<()> {
        if self.by_name() {
            let verdicts = self.edit_named(session, action).await?;
            return self.announce(session, action, &verdicts).await;
        }
        self.edit_filtered(session, action, verb).await
    }

    async fn edit_named(&self, session: &Session, action: &Action) -> Result<Verdicts> {
        let targets = self.named.targets(session).await?;
        let mut verdicts = Vec::new();
        for batch in targets.chunks(session.engine.info().await?.limits.batch_items) {
            let edited = self
                .send(session, Select::Targets(batch.to_vec()), action)
                .await?;
            let named = batch.iter().map(name_of).zip(edited.verdicts);
            verdicts.extend(named.map(|(name, (id, verdict))| (name, id, verdict)));
        }
        Ok(verdicts)
    }

    async fn edit_filtered(&self, session: &Session, action: &Action, verb: &str) -> Result<()> {
        let filter = self.filter.filter(self.named.queue.as_deref());
        if filter == Default::default() {
            return Err(Failure::usage("no job was named")
                .hint("name jobs by ID, or find them with --queue, --state, --kind, --text or --older-than"));
        }
        let mut cursor = None;
        let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut changes = 0;
        loop {
            let select = Select::Filter {
                filter: filter.clone(),
                cursor,
                limit: 1_000,
            };
            let edited = self.send(session, select, action).await?;
            for (_, verdict) in &edited.verdicts {
                *counts.entry(verdict.name()).or_default() += 1;
                changes += u64::from(verdict.is_change());
            }
            cursor = edited.cursor;
            if cursor.is_none() {
                break;
            }
        }
        let matched: u64 = counts.values().sum();
        let dry = !self.yes;
        let durability = session.durability().await?;
        if session.out.is_json() {
            return session.out.json(&object!({
                "dry_run": dry, "matched": matched, "changed": changes, "verdicts": counts,
                "durability": durability.to_string(),
            }));
        }
        let would = if dry { "would " } else { "" };
        session.out.line(format!(
            "{would}{verb} {} of {} found",
            count(changes),
            counted(matched, "job")
        ))?;
        for (verdict, n) in counts.iter().filter(|(verdict, _)| **verdict != "done") {
            session.out.line(format!("  {verdict}: {}", count(*n)))?;
        }
        if dry && !self.dry_run && changes > 0 {
            session.out.note("nothing was changed; add --yes to do it");
        }
        if !dry && changes > 0 {
            session.announce_durability(durability);
        }
        Ok(())
    }

    async fn send(&self, session: &Session, select: Select, action: &Action) -> Result<Edited> {
        // Jobs that are named are meant; jobs that are found are meant once a person says so.
        let dry_run = self.dry_run || (matches!(select, Select::Filter { .. }) && !self.yes);
        let edit = Edit::new(select, action.clone()).dry_run(dry_run);
        Ok(session.engine.edit(&session.namespace, edit).await?)
    }

    async fn announce(
        &self,
        session: &Session,
        action: &Action,
        verdicts: &Verdicts,
    ) -> Result<()> {
        let durability = session.durability().await?;
        let mut rows = Vec::new();
        for (name, id, verdict) in verdicts {
            if session.out.is_json() {
                session.out.json(&object!({
                    "target": name,
                    "id": id.map(|id| id.to_string()),
                    "verdict": verdict.name(),
                    "state": state_of(*verdict).map(JobState::name),
                    "dry_run": self.dry_run,
                    "durability": durability.to_string(),
                }))?;
            } else {
                rows.push(vec![name.clone(), in_words(*verdict)]);
            }
        }
        if !session.out.is_json() {
            let verdict = if self.dry_run { "would be" } else { "verdict" };
            let columns = Columns {
                names: &["job", verdict],
                ..Columns::default()
            };
            session.out.table(columns, rows)?;
        }
        if verdicts.iter().any(|(_, _, verdict)| verdict.is_change()) && !self.dry_run {
            session.announce_durability(durability);
        }
        let waits = |verdict: &EditVerdict| matches!(verdict, EditVerdict::WrongState(state) if state.is_pending());
        if *action == Action::Redrive && verdicts.iter().any(|(_, _, verdict)| waits(verdict)) {
            let hint = "hint: `punctual jobs run-now ID` makes a waiting job due now";
            session.out.note(hint);
        }
        let any = |matches: fn(&EditVerdict) -> bool| {
            verdicts.iter().any(|(_, _, verdict)| matches(verdict))
        };
        if any(|verdict| {
            !verdict.is_change()
                && !matches!(
                    verdict,
                    EditVerdict::NotFound | EditVerdict::AlreadyCancelled
                )
        }) {
            return Err(Failure::reported(Exit::Refused));
        }
        if any(|verdict| matches!(verdict, EditVerdict::NotFound)) {
            return Err(Failure::reported(Exit::NotFound));
        }
        Ok(())
    }
}

fn state_of(verdict: EditVerdict) -> Option<JobState> {
    match verdict {
        EditVerdict::Done(state) | EditVerdict::WrongState(state) => Some(state),
        EditVerdict::CancelRequested | EditVerdict::JobActive => Some(JobState::Active),
        EditVerdict::AlreadyCancelled => Some(JobState::Cancelled),
        _ => None,
    }
}

fn in_words(verdict: EditVerdict) -> String {
    match verdict {
        EditVerdict::Done(state) => format!("done: {state}"),
        EditVerdict::CancelRequested => "asked to stop; it is running".into(),
        EditVerdict::NotFound => "not found".into(),
        EditVerdict::JobActive => "refused: it is running; cancel it first, or wait".into(),
        EditVerdict::WrongState(state) => format!("refused: it is {state}"),
        EditVerdict::UniqueHeld(holder) => {
            format!("refused: {holder} holds its unique key; cancel that one first, or wait")
        }
        EditVerdict::AlreadyCancelled => "was cancelled before".into(),
        EditVerdict::WaitEnded => {
            "refused: a wait for that name has ended before, by a signal or its limit".into()
        }
        EditVerdict::SignalsFull => "refused: it has 64 signals, or 64 KiB of them".into(),
        other => other.name().into(),
    }
}
