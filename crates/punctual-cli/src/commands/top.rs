//! `punctual top`: queues, lateness and workers, drawn again and again.

mod screen;

use std::io::{self, IsTerminal};
use std::time::Duration;

use punctual::JobState;
use punctual::engine::{Info, MinuteStats, QueueStats, Stats, StatsRequest, WorkerSeen};
use punctual::lock::LockWaiter;
use punctual::time::{Timestamp, format_span, pause, seconds};

use self::screen::{Key, Screen};
use crate::args::{Global, Session, span_of};
use crate::connect::Make;
use crate::failure::{Failure, Result};
use crate::output::{
    Columns, Object, ago, count, counted, cut, height, ms, object, table_lines, width,
};
use crate::signals::Signals;

/// Watch queues, lateness and workers
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual top
  punctual top mail orders --every 500ms
  punctual top --once
  punctual top --once -o json

q or Ctrl-C quits. DONE/MIN and LATE P99 cover the last full minute, or this one if the last had no
jobs; WAITS is the age of the oldest due job. Without a terminal it prints once; with -o json one
line per refresh.")]
pub(crate) struct Args {
    /// Only these queues
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,

    /// Time between two refreshes
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "2s")]
    every: Duration,

    /// Print once and exit
    #[arg(long)]
    once: bool,
}

/// Queues whose minutes are asked for; the others are counted.
const QUEUES_MAX: usize = 100;
/// No engine is asked more often.
const EVERY_MIN: Duration = Duration::from_millis(100);

/// What one refresh found.
struct Seen {
    info: Info,
    queues: Vec<QueueStats>,
    /// Queues that there was no room for.
    hidden: usize,
    workers: Vec<WorkerSeen>,
    now: Timestamp,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        if self.every < EVERY_MIN {
            return Err(Failure::usage("--every is under 100ms").hint("write 100ms or more"));
        }
        let session = global.shared_session(Make::Never).await?;
        let place = global.address()?.to_string();
        let is_live = !self.once && (session.out.is_json() || io::stdout().is_terminal());
        if !is_live {
            let seen = self.read(&session, QUEUES_MAX).await?;
            return self.print(&session, &place, &seen);
        }
        self.watch(&session, &place).await?;
        session.close().await
    }

    async fn watch(&self, session: &Session, place: &str) -> Result<()> {
        let mut signals = Signals::new()?;
        if session.out.is_json() {
            loop {
                let seen = self.read(session, QUEUES_MAX).await?;
                session.out.json(&as_json(&seen))?;
                tokio::select! {
                    () = pause(self.every) => {}
                    () = signals.next() => return Ok(()),
                }
            }
        }
        // The first answer comes before the screen is taken: an error stays readable.
        let mut last = self.read(session, rows_for_queues()).await?;
        let mut screen = Screen::open()?;
        let mut trouble = None;
        loop {
            screen.draw(&self.frame(session, place, &last, trouble.as_deref()))?;
            tokio::select! {
                () = pause(self.every) => {}
                () = signals.next() => return Ok(()),
                key = screen.key() => if key == Key::Quit { return Ok(()) },
            }
            let read = tokio::select! {
                read = self.read(session, rows_for_queues()) => read,
                () = signals.next() => return Ok(()),
                key = screen.quit() => return key,
            };
            match read {
                Ok(seen) => (last, trouble) = (seen, None),
                Err(failure) => trouble = failure.text(session.out.format),
            }
        }
    }

    /// Counts of every queue, and the minutes of those that are shown.
    async fn read(&self, session: &Session, most: usize) -> Result<Seen> {
        let info = session.engine.info().await?;
        let request = StatsRequest::default().queues(self.queues.clone());
        let stats = session.engine.stats(&session.namespace, request).await?;
        let Stats {
            mut queues,
            mut workers,
            now,
            ..
        } = stats;
        workers.retain(|seen| !LockWaiter::is(seen));
        let hidden = queues.len().saturating_sub(most);
        if hidden > 0 {
            queues.sort_by_key(|queue| std::cmp::Reverse(weight(queue)));
            queues.truncate(most);
            queues.sort_by(|one, other| one.queue.cmp(&other.queue));
        }
        if !queues.is_empty() {
            let request = StatsRequest::default()
                .queues(queues.iter().map(|queue| queue.queue.clone()).collect())
                .history(true);
            queues = session
                .engine
                .stats(&session.namespace, request)
                .await?
                .queues;
        }
        Ok(Seen {
            info,
            queues,
            hidden,
            workers,
            now,
        })
    }

    fn print(&self, session: &Session, place: &str, seen: &Seen) -> Result<()> {
        if session.out.is_json() {
            return session.out.json(&as_json(seen));
        }
        for line in body(session, place, seen) {
            session.out.line(line)?;
        }
        Ok(())
    }

    fn frame(
        &self,
        session: &Session,
        place: &str,
        seen: &Seen,
        trouble: Option<&str>,
    ) -> Vec<String> {
        let width = usize::from(width());
        let mut lines = body(session, place, seen);
        lines.truncate(usize::from(height()).saturating_sub(1));
        let keys = format!("every {}, q quits", format_span(self.every));
        lines.push(trouble.map_or(keys, |trouble| trouble.replace('\n', " ")));
        lines.iter().map(|line| cut(line, width)).collect()
    }
}

/// Lines for queues on this terminal; a third of it is left for workers.
fn rows_for_queues() -> usize {
    (usize::from(height()).saturating_sub(8) * 2 / 3).clamp(3, QUEUES_MAX)
}

/// Queues with the most to do are shown first.
fn weight(queue: &QueueStats) -> (Duration, u64, u64) {
    let of = |state| queue.counts.of(state);
    let busy = of(JobState::Ready) + of(JobState::Active);
    (
        queue.oldest_due.unwrap_or_default(),
        busy,
        queue.counts.pending(),
    )
}

fn body(session: &Session, place: &str, seen: &Seen) -> Vec<String> {
    let sum = |state| {
        let each = seen.queues.iter().map(|queue| queue.counts.of(state));
        count(each.sum::<u64>())
    };
    let mut lines = vec![
        format!("{place}  namespace {}", session.namespace),
        format!(
            "{}  durability {}",
            Timestamp::from_millis(seen.now.as_millis() / 1_000 * 1_000),
            seen.info.durability
        ),
        format!(
            "{}, {}, {} scheduled, {} ready, {} active, {} dead",
            counted(seen.queues.len() as u64, "queue"),
            counted(seen.workers.len() as u64, "worker"),
            sum(JobState::Scheduled),
            sum(JobState::Ready),
            sum(JobState::Active),
            sum(JobState::Dead),
        ),
    ];
    for problem in seen.info.health.problem_texts().take(2) {
        lines.push(format!("problem: {problem}"));
    }
    lines.push(String::new());
    lines.extend(queue_lines(seen));
    lines.push(String::new());
    lines.extend(worker_lines(seen));
    lines
}

fn queue_lines(seen: &Seen) -> Vec<String> {
    if seen.queues.is_empty() {
        return vec!["no queues yet; a queue exists once a job was enqueued".into()];
    }
    let columns = Columns {
        names: &[
            "queue", "held", "sched", "ready", "active", "dead", "done/min", "late p99", "waits",
        ],
        numbers: &[
            "held", "sched", "ready", "active", "dead", "done/min", "late p99", "waits",
        ],
        optional: &["held", "dead"],
        ..Columns::default()
    };
    let row = |queue: &QueueStats| {
        let of = |state| count(queue.counts.of(state));
        let minute = last_minute(queue, seen.now);
        let late = minute.and_then(|minute| minute.lateness_us);
        let paused = if queue.paused { " (paused)" } else { "" };
        vec![
            format!("{}{paused}", queue.queue),
            of(JobState::Held),
            of(JobState::Scheduled),
            of(JobState::Ready),
            of(JobState::Active),
            of(JobState::Dead),
            count(minute.map_or(0, |minute| minute.completed)),
            late.map_or_else(|| "-".into(), |(_, p99)| ms(p99)),
            queue.oldest_due.map_or_else(|| "-".into(), format_span),
        ]
    };
    let mut lines = table_lines(columns, seen.queues.iter().map(row).collect());
    if seen.hidden > 0 {
        lines.push(format!(
            "and {} less busy",
            counted(seen.hidden as u64, "queue")
        ));
    }
    lines
}

fn worker_lines(seen: &Seen) -> Vec<String> {
    if seen.workers.is_empty() {
        return vec!["no worker claimed in the last minute".into()];
    }
    let columns = Columns {
        names: &["worker", "host", "busy", "seen", "queues"],
        numbers: &["busy"],
        cut: "queues",
        ..Columns::default()
    };
    let row = |seen_at: &WorkerSeen| {
        let worker = &seen_at.worker;
        vec![
            worker.id.to_string()[..8].to_owned(),
            worker.host.clone(),
            format!("{}/{}", busy(seen_at), worker.slots),
            ago(seen_at.seen_at, seen.now),
            worker.queues.join(" "),
        ]
    };
    table_lines(columns, seen.workers.iter().map(row).collect())
}

/// Jobs that a worker reports to run, or holds leases of if these are more.
fn busy(seen: &WorkerSeen) -> usize {
    seen.leased.max(seen.worker.busy as usize)
}

/// The last full minute; the present one if nothing happened in that.
fn last_minute(queue: &QueueStats, now: Timestamp) -> Option<&MinuteStats> {
    let recent = |minute: &&MinuteStats| now.since(minute.minute) < seconds(120);
    let mut recent = queue.history.iter().filter(recent);
    let first = recent.next()?;
    let has_claims = first.claimed > 0 || first.completed > 0;
    Some(if has_claims {
        first
    } else {
        recent.next().unwrap_or(first)
    })
}

fn as_json(seen: &Seen) -> Object {
    let queues: Vec<_> = seen
        .queues
        .iter()
        .map(|queue| queue_json(queue, seen.now))
        .collect();
    let workers: Vec<_> = seen.workers.iter().map(worker_json).collect();
    object!({
        "now": seen.now.to_string(),
        "durability": seen.info.durability.to_string(),
        "problems": seen.info.health.problem_texts().collect::<Vec<_>>(),
        "queues": queues,
        "queues_left_out": seen.hidden,
        "workers": workers,
    })
}

fn queue_json(queue: &QueueStats, now: Timestamp) -> Object {
    let of = |state| queue.counts.of(state);
    let minute = last_minute(queue, now);
    let late = minute.and_then(|minute| minute.lateness_us);
    object!({
        "queue": queue.queue,
        "paused": queue.paused,
        "held": of(JobState::Held),
        "scheduled": of(JobState::Scheduled),
        "ready": of(JobState::Ready),
        "active": of(JobState::Active),
        "dead": of(JobState::Dead),
        "completed_per_minute": minute.map_or(0, |minute| minute.completed),
        "lateness_p99_us": late.map(|(_, p99)| p99),
        "oldest_due_ms": queue.oldest_due.map(|span| span.as_millis()),
    })
}

fn worker_json(seen: &WorkerSeen) -> Object {
    let worker = &seen.worker;
    object!({
        "id": worker.id.to_string(),
        "host": worker.host,
        "version": worker.version,
        "queues": worker.queues,
        "slots": worker.slots,
        "busy": busy(seen),
        "seen_at": seen.seen_at.to_string(),
    })
}
