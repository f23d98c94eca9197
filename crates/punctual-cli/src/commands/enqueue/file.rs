//! `punctual enqueue --from`: every line checked first, then sent in batches, never twice.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use punctual::{ErrorKind, JobId, Limits, NewJob, Queue, push};
use punctual_push::Guard;

use super::content_type_of;
use crate::args::Session;
use crate::failure::{Exit, Failure, Result};
use crate::lines::{FileHash, Line, lines_of, open_twice};
use crate::output::{count, counted, object};
use crate::progress::Progress;
use punctual_gateway::{JobJson, as_sent};

/// Bad lines that an error names; the rest are counted.
const BAD_LINES_SHOWN: usize = 10;
/// Bad lines that are named when they are left out.
const LEFT_OUT_SHOWN: usize = 1_000;
/// Refused jobs that the summary names; the rest are counted.
const REFUSED_SHOWN: usize = 100;

pub(super) struct FromFile<'a> {
    pub(super) path: &'a Path,
    pub(super) again: bool,
    pub(super) skip_bad: bool,
    pub(super) raw: bool,
    pub(super) defaults: NewJob,
    pub(super) content_type: Option<String>,
    pub(super) text: bool,
    pub(super) guard: Guard,
}

/// What the first reading found.
struct Checked {
    hash: FileHash,
    good: u64,
    last: u64,
    bad: Vec<(u64, String)>,
    bad_count: u64,
}

/// What became of the jobs.
#[derive(Default)]
struct Summary {
    sent: u64,
    verdicts: BTreeMap<&'static str, u64>,
    /// Line, id and verdict of the first ones.
    refused: Vec<(u64, JobId, &'static str)>,
    late: u64,
}

impl FromFile<'_> {
    pub(super) async fn run(&self, session: &Session) -> Result<()> {
        let info = session.engine.info().await?;
        let file = open_twice(self.path)?;
        let checked = self.check(&file, &info.limits)?;
        if checked.bad_count > 0 && !self.skip_bad {
            return Err(self.refuse(&checked));
        }
        for (number, why) in &checked.bad {
            session.out.note(format!("skipped line {number}: {why}"));
        }
        let unnamed = checked.bad_count - checked.bad.len() as u64;
        if unnamed > 0 {
            let more = counted(unnamed, "more line");
            session.out.note(format!("skipped {more}"));
        }
        let summary = self.send(session, &file, &checked, &info.limits).await?;
        self.announce(session, &checked, &summary, &info.durability.to_string())?;
        if summary.sent > 0 {
            session.announce_durability(info.durability);
        }
        if summary.refused.is_empty() {
            Ok(())
        } else {
            Err(Failure::reported(Exit::Refused))
        }
    }

    fn check(&self, file: &File, limits: &Limits) -> Result<Checked> {
        let shown = if self.skip_bad {
            LEFT_OUT_SHOWN
        } else {
            BAD_LINES_SHOWN
        };
        let mut checked = Checked {
            hash: FileHash::new(),
            good: 0,
            last: 0,
            bad: Vec::new(),
            bad_count: 0,
        };
        for line in lines_of(file).map_err(|error| self.unreadable(&error))? {
            let line = line.map_err(|error| self.unreadable(&error))?;
            checked.hash.take(&line);
            checked.last = line.number;
            match self.job(&line, None, limits) {
                Ok(_) => checked.good += 1,
                Err(why) => {
                    checked.bad_count += 1;
                    if checked.bad.len() < shown {
                        checked.bad.push((line.number, why));
                    }
                }
            }
        }
        Ok(checked)
    }

    /// The job of a line; `hash` makes its id if it brings none.
    fn job(&self, line: &Line, hash: Option<FileHash>, limits: &Limits) -> Result<NewJob, String> {
        let defaults = self.defaults.clone();
        let (mut job, has_id) = line.read(|text| {
            if self.raw {
                let payload = Bytes::copy_from_slice(text.as_bytes());
                let content_type = match &self.content_type {
                    Some(given) => given.clone(),
                    None => content_type_of(&payload, self.text)
                        .map_err(|error| format!("is not JSON: {error}; --text sends it as text"))?
                        .into(),
                };
                return Ok((defaults.payload(payload).content_type(content_type), false));
            }
            let read = JobJson::parse(text)?;
            let has_id = read.id.is_some();
            let job = read.into_new_job(&defaults)?;
            Ok((job, has_id))
        })?;
        if job.queue.is_empty() {
            return Err("has no queue, and the command line names none".into());
        }
        let said = |error: punctual::Error| error.message().to_owned();
        if let Some(target) = push::target(&job.headers) {
            self.guard.check_target(target).map_err(said)?;
        }
        if let Some(url) = push::header(&job.headers, push::CALLBACK) {
            self.guard.check(url).map_err(said)?;
        }
        job.check(limits).map_err(|error| {
            let why = error.to_string();
            let as_sent = |text: &str| Ok(as_sent(why.clone(), &error, text.as_bytes()));
            line.read(as_sent).unwrap_or(why.clone())
        })?;
        match hash {
            Some(hash) if !has_id && !self.again => job.id = hash.job_id(&job.queue, line.number),
            _ if !has_id => job.id = JobId::new(),
            _ => {}
        }
        Ok(job)
    }

    async fn send(
        &self,
        session: &Session,
        file: &File,
        checked: &Checked,
        limits: &Limits,
    ) -> Result<Summary> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let progress = Progress::new(session.out, checked.good, "jobs");
        let mut summary = Summary::default();
        let mut batch: Vec<NewJob> = Vec::new();
        let mut numbers = Vec::new();
        let mut bytes = 0;
        let lines = lines_of(file).map_err(|error| self.unreadable(&error))?;
        // Lines that were added since the check are left for the next run.
        for line in lines.take_while(|line| !matches!(line, Ok(line) if line.number > checked.last))
        {
            let line = line.map_err(|error| self.unreadable(&error))?;
            let Ok(job) = self.job(&line, Some(checked.hash), limits) else {
                continue;
            };
            let full =
                batch.len() == limits.batch_items || bytes + job.payload.len() > limits.batch_bytes;
            if full && !batch.is_empty() {
                summary.send(&queue, &mut batch, &mut numbers).await?;
                progress.set(summary.sent);
                bytes = 0;
            }
            bytes += job.payload.len();
            numbers.push(line.number);
            batch.push(job);
        }
        if !batch.is_empty() {
            summary.send(&queue, &mut batch, &mut numbers).await?;
        }
        progress.finish();
        Ok(summary)
    }

    fn announce(
        &self,
        session: &Session,
        checked: &Checked,
        summary: &Summary,
        durability: &str,
    ) -> Result<()> {
        let of = |verdict: &str| summary.verdicts.get(verdict).copied().unwrap_or(0);
        if session.out.is_json() {
            let refused: Vec<_> = summary
                .refused
                .iter()
                .map(|(line, id, verdict)| {
                    object!({
                        "line": line, "id": id.to_string(), "verdict": verdict,
                    })
                })
                .collect();
            return session.out.json(&object!({
                "lines": checked.good + checked.bad_count,
                "bad": checked.bad_count,
                "sent": summary.sent,
                "created": of("created"),
                "duplicate": of("duplicate"),
                "merged": of("merged"),
                "replaced": of("replaced"),
                "id_conflict": of("id_conflict"),
                "unique_active": of("unique_active"),
                "full": of("full"),
                "limit_full": of("limit_full"),
                "share_full": of("share_full"),
                "unsupported": of("unsupported"),
                "late": summary.late,
                "refused": refused,
                "durability": durability,
            }));
        }
        let parts: Vec<String> = summary
            .verdicts
            .iter()
            .map(|(verdict, n)| format!("{} {verdict}", count(*n)))
            .collect();
        let parts = if parts.is_empty() {
            "nothing to enqueue".into()
        } else {
            parts.join(", ")
        };
        session.out.line(format!("{}: {parts}", self.name()))?;
        if summary.late > 0 {
            session.out.line(format!(
                "{} were due in the past: they are due now",
                count(summary.late)
            ))?;
        }
        for (line, id, verdict) in summary.refused.iter().take(BAD_LINES_SHOWN) {
            session
                .out
                .line(format!("line {line}: refused ({verdict}) {id}"))?;
        }
        if of("unsupported") > 0 {
            session.out.note(
                "hint: lines name limits, which a namespace that is cut into shards does not keep; \
                 use another namespace, at an address without `shards`, for them",
            );
        }
        if of("id_conflict") > 0 {
            session
                .out
                .note("hint: a line has the id of a job with other content; --again makes new ids");
        }
        Ok(())
    }

    fn name(&self) -> String {
        if self.path.as_os_str() == "-" {
            "standard input".into()
        } else {
            self.path.display().to_string()
        }
    }

    fn refuse(&self, checked: &Checked) -> Failure {
        let total = checked.good + checked.bad_count;
        let message = format!(
            "{} of {} lines of {} are bad; nothing was sent",
            count(checked.bad_count),
            count(total),
            self.name()
        );
        Failure::new(Exit::Usage, "bad_lines", message)
            .hint("fix them and run the command again, or skip them with --skip-bad")
            .lines(checked.bad.clone())
    }

    fn unreadable(&self, error: &std::io::Error) -> Failure {
        Failure::file("read", self.path, error)
    }
}

impl Summary {
    async fn send(
        &mut self,
        queue: &Queue,
        batch: &mut Vec<NewJob>,
        numbers: &mut Vec<u64>,
    ) -> Result<()> {
        let jobs = std::mem::take(batch);
        let limited = jobs.iter().any(|job| !job.limits.is_empty());
        let again = limited.then(|| jobs.clone());
        let mut sent = queue.enqueue_many(jobs).await;
        if let (Err(error), Some(again)) = (&sent, again)
            && error.kind() == ErrorKind::Unsupported
        {
            // The engine keeps no named limits here, and has stored nothing: the others go alone.
            let mut kept = Vec::new();
            for (job, number) in again.into_iter().zip(std::mem::take(numbers)) {
                if job.limits.is_empty() {
                    numbers.push(number);
                    kept.push(job);
                } else {
                    self.sent += 1;
                    self.count("unsupported", number, job.id, false);
                }
            }
            sent = queue.enqueue_many(kept).await;
        }
        let receipts = sent.map_err(|error| {
            let sent = format!(
                "{} stored; run the command again; nothing is sent twice",
                counted(self.sent, "job")
            );
            Failure::from(error).hint(sent)
        })?;
        for (receipt, number) in receipts.into_iter().zip(numbers.drain(..)) {
            self.sent += 1;
            self.late += u64::from(receipt.late);
            let verdict = receipt.verdict;
            self.count(verdict.name(), number, receipt.id, verdict.is_accepted());
        }
        Ok(())
    }

    fn count(&mut self, verdict: &'static str, line: u64, id: JobId, is_accepted: bool) {
        *self.verdicts.entry(verdict).or_default() += 1;
        if !is_accepted && self.refused.len() < REFUSED_SHOWN {
            self.refused.push((line, id, verdict));
        }
    }
}
