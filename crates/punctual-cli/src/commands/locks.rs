//! `punctual locks`: the holders of locks, and their waiters.

use punctual::lock::{LOCK_PREFIX, LockStatus, LockWaiter};
use punctual::time::Timestamp;
use punctual::{JobId, JobRecord, JobState, Queue};

use crate::args::{Global, Session};
use crate::connect::Make;
use crate::failure::Result;
use crate::output::{Columns, Object, ago, object};

/// Show locks that are held or waited for
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual locks                          every lock that is held or waited for
  punctual locks list                     the same
  punctual locks show deploy -o json

A waiter tries once a second and is shown if it did so in the last two.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

/// What of locks to show.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show every lock that is held or waited for
    #[command(after_help = "\
Examples:
  punctual locks list
  punctual locks list -o json")]
    List,
    /// Show one lock
    #[command(after_help = "\
Examples:
  punctual locks show deploy -o json")]
    Show {
        /// The lock's name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let session = global.session(Make::Never).await?;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let locks = match &self.action {
            Some(Action::Show { name }) => vec![queue.lock(name).status().await?],
            Some(Action::List) | None => queue.locks().await?,
        };
        if session.out.is_json() {
            return locks
                .iter()
                .try_for_each(|lock| session.out.json(&as_json(lock)));
        }
        show(&session, &locks).await
    }
}

async fn show(session: &Session, locks: &[LockStatus]) -> Result<()> {
    let now = session.engine.info().await?.now;
    if locks.is_empty() {
        session.out.note("no lock is held or waited for");
        return Ok(());
    }
    let rows = locks.iter().map(|lock| {
        let holder = lock.holder.as_ref();
        let since = holder.and_then(|holder| Some(ago(holder.since?, now)));
        vec![
            lock.name.clone(),
            holder.map_or_else(
                || "nothing".to_owned(),
                |holder| by(holder.job, holder.ticket),
            ),
            since.unwrap_or_default(),
            lock.waiters.len().to_string(),
            waiting(&lock.waiters, now),
        ]
    });
    let columns = Columns {
        names: &["lock", "held by", "since", "wait", "waiters"],
        numbers: &["wait"],
        cut: "waiters",
        ..Columns::default()
    };
    session.out.table(columns, rows.collect())
}

fn by(job: Option<JobId>, ticket: JobId) -> String {
    match job {
        Some(job) => format!("job {job}"),
        None => format!("ticket {ticket}"),
    }
}

/// What locks have to do with a job: the waiters for the lock that it stands for, or that it waits
/// for one.
pub(super) fn of_job(job: &JobRecord, waiters: &[LockWaiter], now: Timestamp) -> Option<String> {
    if let Some(waiter) = waiters.iter().find(|one| one.job == Some(job.id)) {
        return Some(format!("It waits for the lock {}.", waiter.lock));
    }
    let lock = job.queue.strip_prefix(LOCK_PREFIX)?;
    let its: Vec<LockWaiter> = (waiters.iter().filter(|one| one.lock == lock))
        .cloned()
        .collect();
    match (job.state, its.len()) {
        (JobState::Active, 0) => Some(format!("It holds the lock {lock}; nothing waits for it.")),
        (JobState::Active, n) => {
            let who = waiting(&its, now);
            Some(format!("It holds the lock {lock}; {n} wait for it: {who}."))
        }
        _ => None,
    }
}

/// Waiters in words.
fn waiting(waiters: &[LockWaiter], now: Timestamp) -> String {
    let each = waiters.iter().map(|one| {
        let job = one
            .job
            .map_or_else(String::new, |job| format!(" job {job}"));
        format!("{}{job} ({})", one.host, ago(one.seen_at, now))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// A lock as `-o json` shows it.
fn as_json(lock: &LockStatus) -> Object {
    let holder = lock.holder.as_ref().map(|holder| {
        object!({
            "ticket": holder.ticket.to_string(),
            "job": holder.job.map(|job| job.to_string()),
            "since": holder.since.map(|at| at.to_string()),
            "until": holder.until.map(|at| at.to_string()),
        })
    });
    let waiters = lock.waiters.iter().map(|one| {
        object!({
            "host": one.host, "job": one.job.map(|job| job.to_string()),
            "seen_at": one.seen_at.to_string(),
        })
    });
    let waiters: Vec<Object> = waiters.collect();
    object!({"name": lock.name, "holder": holder, "waiters": waiters})
}
