//! `punctual migrate`: jobs of other queue libraries on Redis, once and safely.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::Queue;
use punctual::time::days;
use punctual_relay::migrate::{Migration, Moved, Plan, Samples};

use crate::args::{Global, span_of};
use crate::connect::Make;
use crate::failure::Result;
use crate::output::{Output, count, object};
use crate::signals::Signals;

/// Take over the jobs of BullMQ, Sidekiq, Celery or RQ
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual migrate --from bullmq://127.0.0.1:6379/mail --into mail --dry-run
  punctual migrate --from bullmq://127.0.0.1:6379/mail --into mail
  punctual migrate --from sidekiq://127.0.0.1/default --into default --watch
  punctual migrate --from celery://127.0.0.1/celery --into shop --workers-stopped
  punctual migrate --from bullmq://127.0.0.1:6379/mail --into mail --undo

--dry-run counts jobs by state and kind and says what stays and why. Stop the workers of the library
first; --watch goes on with what producers add. Kill it at any point and run it again: nothing is
lost or doubled. Taken jobs stay parked under punctual:migrated:LIBRARY:QUEUE for --keep, and --undo
puts back those that have not run. docs/migrate.md says what each library's jobs keep and lose.")]
pub(crate) struct Args {
    /// The queue, LIBRARY://HOST:PORT/QUEUE of bullmq, sidekiq, celery or rq; ?db=N&prefix=P
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "PUNCTUAL_MIGRATE",
        hide_env_values = true
    )]
    from: String,

    /// The queue of the jobs here
    #[arg(long, value_name = "QUEUE")]
    into: String,

    /// Show what would be taken, and take nothing
    #[arg(long, conflicts_with_all = ["undo", "watch"])]
    dry_run: bool,

    /// Put back what has not run
    #[arg(long, conflicts_with = "watch")]
    undo: bool,

    /// Go on with what producers add, until Ctrl-C
    #[arg(long)]
    watch: bool,

    /// Also take what workers have begun, as if they had died: all are stopped
    #[arg(long)]
    workers_stopped: bool,

    /// How long taken jobs stay parked
    #[arg(long, value_name = "SPAN", value_parser = span_of, default_value = "7d")]
    keep: Duration,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let mut migration = Migration::new(&self.from, &self.into)?;
        if self.workers_stopped {
            migration = migration.workers_stopped();
        }
        let out = global.output();
        if self.dry_run {
            return show_plan(out, &migration.plan().await?);
        }
        let mut signals = Signals::new()?;
        let session = global.shared_session(Make::IfMissing).await?;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        if self.undo {
            let returned = tokio::select! {
                returned = migration.undo(&queue, &session.namespace) => returned?,
                () = signals.next() => {
                    out.note("stopped; run it again to go on");
                    return session.close().await;
                }
            };
            match out.is_json() {
                true => out.json(&object!({
                    "returned": returned.returned, "ran": returned.ran,
                    "conflicts": returned.conflicts, "stays": returned.stays,
                }))?,
                false => {
                    out.line(format!(
                        "{} returned, {} had run, {} whose name is in use again",
                        count(returned.returned),
                        count(returned.ran),
                        count(returned.conflicts)
                    ))?;
                    for (why, jobs) in &returned.stays {
                        out.line(format!("{} stay here: {why}", count(*jobs)))?;
                    }
                }
            }
            return session.close().await;
        }
        if self.watch {
            out.note("watching; Ctrl-C stops it, and nothing is lost by that");
        }
        let mut moved = Moved::default();
        let keep = self.keep.clamp(Duration::from_secs(1), days(365));
        let into = (&queue, &session.namespace);
        let ran = migration.run(into, keep, self.watch, &mut moved, signals.next());
        let ran = ran.await;
        // One that was refused has nothing to show but why.
        if ran.is_ok() || moved != Moved::default() {
            show_moved(out, &moved)?;
        }
        ran?;
        session.close().await
    }
}

fn show_plan(out: Output, plan: &Plan) -> Result<()> {
    let counts = |of: &BTreeMap<String, Samples>| -> serde_json::Value {
        let each = of.iter().map(|(name, samples)| {
            let value = serde_json::json!({"jobs": samples.jobs, "samples": samples.shown});
            (name.clone(), value)
        });
        serde_json::Value::Object(each.collect())
    };
    if out.is_json() {
        return out.json(&object!({
            "version": plan.version,
            "paused": plan.is_paused,
            "takes": counts(&plan.takes),
            "kinds": serde_json::json!(plan.kinds),
            "stays": counts(&plan.stays),
        }));
    }
    if let Some(version) = &plan.version {
        out.line(format!("written by {version}"))?;
    }
    for (title, of) in [("takes", &plan.takes), ("leaves", &plan.stays)] {
        for (name, samples) in of {
            out.line(format!("{title} {} {name}", count(samples.jobs)))?;
            for sample in &samples.shown {
                out.line(format!("    {}", sample.escape_debug()))?;
            }
        }
    }
    for (kind, jobs) in &plan.kinds {
        out.line(format!("kind {kind}: {}", count(*jobs)))?;
    }
    if plan.is_paused {
        out.line("the queue is paused there: pause the queue here too, or resume it there")?;
    }
    if plan.takes.is_empty() {
        out.line("there is nothing to take")?;
    }
    Ok(())
}

fn show_moved(out: Output, moved: &Moved) -> Result<()> {
    if out.is_json() {
        return out.json(&object!({
            "enqueued": moved.enqueued,
            "duplicates": moved.duplicates,
            "stays": serde_json::json!(moved.stays),
        }));
    }
    out.line(format!(
        "{} enqueued, {} duplicates",
        count(moved.enqueued),
        count(moved.duplicates)
    ))?;
    for (why, jobs) in &moved.stays {
        out.line(format!("{} stay: {why}", count(*jobs)))?;
    }
    Ok(())
}
