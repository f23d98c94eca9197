//! `punctual doctor`: is the engine well, and does anything wait for a person?

mod keys;
mod servers;

use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;

use punctual::engine::{
    Claim, Control, Durability, LeaseReport, QueueStats, Settle, SettleVerdict, Settlement, Stats,
    StatsRequest, WorkerId,
};
use punctual::lock::LockWaiter;
use punctual::push::is_amqp_queue;
use punctual::schedule::tz_database_version;
use punctual::time::{Stopwatch, format_span, seconds};
use punctual::{Engine, ErrorKind, JobState, Namespace, NewJob, Outcome};
use rustix::fs::statvfs;

use crate::args::{Global, Session};
use crate::connect::{Address, Make, Mode};
use crate::failure::{Exit, Failure, Result};
use crate::output::{Output, count, counted, object};

/// Check the engine, its queues and its workers
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual doctor
  punctual doctor --engine file:/var/lib/punctual -o json

Opens the engine and runs one job in a separate namespace. Over HTTP it uses the queue
punctual-doctor of the token's namespace and deletes it afterwards; the token needs the scope
admin. Checks disk, clock, queues and workers, and reads all rows of a directory, which takes a
while if there are many.
Exit code 1 on an error; warnings do not count.")]
pub(crate) struct Args {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Good,
    Warning,
    Wrong,
}

struct Check {
    name: &'static str,
    status: Status,
    finding: String,
    remedy: Option<String>,
}

impl Check {
    fn good(name: &'static str, finding: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Good,
            finding: finding.into(),
            remedy: None,
        }
    }

    fn warning(name: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            status: Status::Warning,
            remedy: Some(remedy.into()),
            ..Self::good(name, finding)
        }
    }

    fn wrong(name: &'static str, finding: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            status: Status::Wrong,
            ..Self::warning(name, finding, remedy)
        }
    }
}

/// A disk with less is worth a warning.
const DISK_FREE_MIN: u64 = 1 << 30;

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let address = global.address()?;
        let mut checks = servers::checks(&address).await?;
        if checks.iter().any(|check| check.status == Status::Wrong) {
            // The engine would refuse to start: what is wrong, and what to do, is said.
            return announce(global.output(), &checks);
        }
        let session = global.session(Make::Never).await?;
        checks.push(engine(&session).await?);
        checks.extend(health(&session).await?);
        // Before anything is written to what may be another server's data.
        let stats = session
            .engine
            .stats(&session.namespace, StatsRequest::default());
        if let Err(error) = stats.await
            && error.kind() == ErrorKind::DataMissing
        {
            let (what, remedy) = servers::in_two(error.message());
            checks.push(Check::wrong("data", what, remedy));
            return announce(session.out, &checks);
        }
        let engine = match &address {
            // The namespace that it runs in may be new.
            Address::Redis(_) => {
                let address = address.clone().that_may_begin();
                address.open(Make::Never, Mode::Join).await?.engine
            }
            _ => session.engine.clone(),
        };
        // A token of a gateway is for one namespace, so the job runs there.
        let place = match &address {
            Address::Gateway { .. } => (session.namespace.clone(), "punctual-doctor"),
            _ => (Namespace::new("punctual-doctor")?, "doctor"),
        };
        checks.push(probe(&*engine, &place.0, place.1).await);
        // Refused where the token lacks admin, or another doctor's job runs: then it stays.
        let queue = place.1.to_owned();
        let control = Control::DeleteQueue { queue };
        let _ = engine.control(&place.0, control).await;
        drop(engine);
        checks.push(zones());
        checks.extend(disk(&address));
        checks.extend(readers(&address));
        checks.extend(queues(&session).await?);
        checks.extend(keys::check(&address, &session).await?);
        let out = session.out;
        // The directory has one holder at a time.
        drop(session);
        checks.extend(store(&address));
        announce(out, &checks)
    }
}

async fn engine(session: &Session) -> Result<Check> {
    let info = session.engine.info().await?;
    let finding = format!(
        "{} {}, acknowledges by {}",
        info.engine, info.version, info.durability
    );
    Ok(match info.durability {
        Durability::Memory => Check::warning(
            "engine",
            finding,
            "jobs are lost when the process ends; use file:DIR, or a server with appendonly yes",
        ),
        _ => Check::good("engine", finding),
    })
}

async fn health(session: &Session) -> Result<Vec<Check>> {
    let info = session.engine.info().await?;
    let mut checks = Vec::new();
    if info.health.is_well() {
        checks.push(Check::good("health", "healthy"));
    } else {
        for problem in info.health.problem_texts() {
            let (what, remedy) = problem
                .split_once("; ")
                .unwrap_or((&problem, "check the log"));
            checks.push(Check::wrong("health", what, remedy));
        }
    }
    checks.push(match info.clock_jumps {
        0 => Check::good("clock", "no jumps since the engine started"),
        n => Check::warning(
            "clock",
            format!("jumped {n} times since the engine started"),
            "check the machine's time service, and whether the machine pauses",
        ),
    });
    Ok(checks)
}

/// One job from enqueue to settled, as an outsider would see it.
async fn probe(engine: &dyn Engine, namespace: &Namespace, queue: &str) -> Check {
    let watch = Stopwatch::start();
    match run_one(engine, namespace, queue).await {
        Ok(()) => Check::good(
            "one job",
            format!("completed in {}", format_span(watch.elapsed())),
        ),
        Err(error) => Check::wrong("one job", error.to_string(), "the engine does not run jobs"),
    }
}

async fn run_one(engine: &dyn Engine, namespace: &Namespace, queue: &str) -> punctual::Result<()> {
    let wrong = |what: &str| Err(punctual::Error::new(punctual::ErrorKind::Internal, what));
    let job = NewJob::new(queue, "{}");
    let id = job.id;
    engine.enqueue(namespace, vec![job]).await?;
    // A doctor that was killed may have left a job: take all that are there.
    let claim = Claim::new(WorkerId::random(), queue, 100);
    let claimed = engine.claim(namespace, claim).await?;
    let mut ran = false;
    for lease in claimed.leases {
        ran |= lease.jobs.iter().any(|job| job.id == id);
        let done =
            |job: &punctual::JobRecord| Settlement::new(job.id, job.attempt, Outcome::Completed);
        let report = LeaseReport::new(lease.token, lease.jobs.iter().map(done).collect());
        let settled = engine.settle(namespace, Settle::new(vec![report])).await?;
        let good = |verdict: &SettleVerdict| matches!(verdict, SettleVerdict::Settled { .. });
        if !settled.verdicts.iter().flatten().all(good) {
            return wrong("a claimed job could not be settled");
        }
    }
    if ran {
        Ok(())
    } else {
        wrong("a due job was not claimed")
    }
}

/// Two hosts with different rules compute different instants for one schedule.
fn zones() -> Check {
    let version = tz_database_version();
    Check::good(
        "zones",
        format!("tz database {version}, part of this program"),
    )
}

fn disk(address: &Address) -> Option<Check> {
    let dir = address.of_files()?;
    let status = statvfs(dir).ok()?;
    let free = status.f_bavail * status.f_frsize;
    let finding = format!("{} MiB free for {}", count(free >> 20), dir.display());
    Some(if free < DISK_FREE_MIN {
        Check::warning("disk", finding, "free space; a full disk refuses new jobs")
    } else {
        Check::good("disk", finding)
    })
}

/// A directory that was made by an older version, or by another program, may be open to all.
fn readers(address: &Address) -> Option<Check> {
    let dir = address.of_files()?;
    let mode = std::fs::metadata(dir).ok()?.permissions().mode() & 0o777;
    let name = dir.display();
    Some(match mode & 0o077 {
        0 => Check::good("readers", format!("only the owner can read {name}")),
        _ => Check::warning(
            "readers",
            format!("{name} has mode {mode:o}: other users of this machine can read payloads"),
            format!("chmod 700 {name}"),
        ),
    })
}

/// Reads every row of a directory, since a job that goes through shows nothing of the others.
fn store(address: &Address) -> Option<Check> {
    let dir = address.of_files()?;
    Some(match punctual_embedded::verify(dir) {
        Ok(()) => Check::good("store", "every row is readable"),
        Err(error) if error.kind() == ErrorKind::DataLocked => Check::good(
            "store",
            "in use, so it was not read completely; the calls above succeeded",
        ),
        Err(error) => {
            let (what, remedy) = error.message().split_once("; ").unwrap_or_default();
            let context: Vec<_> = error.context().map(|(_, value)| value).collect();
            Check::wrong("store", format!("{what}: {}", context.join(", ")), remedy)
        }
    })
}

async fn queues(session: &Session) -> Result<Vec<Check>> {
    let stats = session
        .engine
        .stats(&session.namespace, StatsRequest::default())
        .await?;
    let waiting: u64 = stats
        .queues
        .iter()
        .map(|queue| queue.counts.pending())
        .sum();
    let mut checks: Vec<Check> = stats
        .queues
        .iter()
        .flat_map(|queue| queue_checks(queue, &stats))
        .collect();
    if checks.is_empty() {
        let workers = stats
            .workers
            .iter()
            .filter(|seen| !LockWaiter::is(seen))
            .count();
        let finding = format!(
            "{}, {}, {} in the last minute",
            counted(stats.queues.len() as u64, "queue"),
            counted(waiting, "waiting job"),
            counted(workers as u64, "worker")
        );
        checks.push(Check::good("queues", finding));
    }
    Ok(checks)
}

fn queue_checks(queue: &QueueStats, stats: &Stats) -> Vec<Check> {
    let name = &queue.queue;
    let mut checks = Vec::new();
    let ready = queue.counts.of(JobState::Ready);
    let has_worker = stats
        .workers
        .iter()
        .any(|seen| seen.worker.queues.contains(name));
    let late = queue.oldest_due.filter(|due| *due > seconds(5));
    if queue.paused && ready > 0 {
        checks.push(Check::warning(
            "queues",
            format!("{name} is paused while {} due", counted(ready, "job")),
            format!("punctual queues resume {name}"),
        ));
    } else if let (Some(late), false) = (late, has_worker) {
        checks.push(Check::warning(
            "queues",
            format!(
                "{name} has jobs due since {} and no worker",
                format_span(late)
            ),
            match is_amqp_queue(name) {
                true => "start a relay: punctual relay amqp-emit".into(),
                false => format!("start one, such as punctual work {name} --exec CMD"),
            },
        ));
    } else if let Some(late) = late {
        checks.push(Check::warning(
            "queues",
            format!(
                "{name} is behind: its oldest job is due since {}",
                format_span(late)
            ),
            "add workers, or slots to those there are",
        ));
    }
    let dead = queue.counts.of(JobState::Dead);
    if dead > 0 {
        checks.push(Check::warning(
            "queues",
            format!("{name} has {}", counted(dead, "dead job")),
            format!("punctual jobs list --queue {name} --state dead"),
        ));
    }
    checks
}

/// The text behind its start; on a narrow terminal its further lines begin below its first word.
fn hanging(start: &str, text: &str) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    let indented = format!("{:1$}{text}", "", start.chars().count());
    let lines = crate::output::fitted_lines(&indented, 0, is_terminal);
    format!("{start}{}", lines.trim_start())
}

fn announce(out: Output, checks: &[Check]) -> Result<()> {
    let wrong = checks.iter().any(|check| check.status == Status::Wrong);
    let word = |status| match status {
        Status::Good => "ok",
        Status::Warning => "warning",
        Status::Wrong => "wrong",
    };
    if out.is_json() {
        let checks: Vec<_> = checks
            .iter()
            .map(|check| {
                object!({
                    "check": check.name, "status": word(check.status),
                    "finding": check.finding, "hint": check.remedy,
                })
            })
            .collect();
        out.json(&object!({"ok": !wrong, "checks": checks}))?;
    } else {
        for check in checks {
            let finding = crate::output::plain(&check.finding);
            let start = format!("{:<8} {:<8} ", word(check.status), check.name);
            out.line(hanging(&start, &finding))?;
            if let Some(remedy) = &check.remedy {
                let start = format!("{:17} -> ", "");
                out.line(hanging(&start, &crate::output::plain(remedy)))?;
            }
        }
    }
    if wrong {
        Err(Failure::reported(Exit::Failed))
    } else {
        Ok(())
    }
}
