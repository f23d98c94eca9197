//! `punctual bench schedules`: bytes of a schedule, and how late runs of one instant start.

use std::time::Duration;

use punctual::engine::{Claim, Control, LeaseReport, RecordValue, Settle, Settlement, WorkerId};
use punctual::schedule::{Overlap, SCHEDULE_PREFIX, Schedule, Spec, SpecBuilder, Template};
use punctual::time::{Timestamp, hours, millis, minutes, pause, seconds};
use punctual::{NewJob, Outcome};

use super::{Place, at_once, leftovers};
use crate::args::Session;
use crate::failure::{Exit, Failure, Result};
use crate::output::{count, object};

/// Bytes of a schedule, and how late the runs of many schedules start that are due at one instant
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual bench schedules --schedules 10000 --engine $REDIS
  punctual bench schedules --schedules 100000 --weekly

All schedules run at the same instant; one client claims as fast as the engine lets it, from 5 ms
before. A start is the engine's clock when a claim answers. With --weekly nothing runs: it measures the bytes of the
store per schedule of `0 9 * * MON` with its next run. null where the engine reports none.")]
pub(crate) struct Args {
    /// Schedules
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    schedules: u64,

    /// Measure bytes instead
    #[arg(long)]
    weekly: bool,
}

const QUEUE: &str = "bench";
/// The most that writing one schedule may take on average, until all are due.
const WRITE: Duration = millis(2);
/// Jobs of one claim, and how long it holds them.
const CLAIMED: usize = 1_000;
const LEASE: Duration = minutes(5);
/// Claims begin so long before the instant.
const CLAIMS_BEFORE: Duration = millis(5);

impl Args {
    pub(super) async fn run(self, place: &Place) -> Result<()> {
        let session = &place.session;
        let reported = match self.weekly {
            true => self.bytes(session).await,
            false => self.starts(session).await,
        };
        let names = 0..self.schedules;
        let removed = at_once(names.end, async |nth| write(session, nth, None).await);
        removed.await?;
        leftovers::remove(session, &[QUEUE.to_owned()]).await?;
        let (shown, measured) = reported?;
        if session.out.is_json() {
            return session.out.json(&measured);
        }
        let mut card = vec![
            ("engine", place.engine.clone()),
            ("schedules", count(self.schedules)),
        ];
        card.extend(shown);
        session.out.card(&card)
    }

    async fn bytes(&self, session: &Session) -> Result<Reported> {
        let before = session.engine.info().await?.store_bytes;
        self.fill(session, &Spec::cron("0 9 * * MON").build()?)
            .await?;
        let after = session.engine.info().await?.store_bytes;
        let each = before
            .zip(after)
            .map(|(before, after)| after.saturating_sub(before) / self.schedules);
        let text = each.map_or("not reported by the engine".into(), |bytes| {
            format!("{bytes} bytes")
        });
        let object = object!({ "schedules": self.schedules, "bytes_per_schedule": each });
        Ok((vec![("per schedule", text)], object))
    }

    async fn starts(&self, session: &Session) -> Result<Reported> {
        let now = session.engine.info().await?.now;
        let due = now + seconds(2) + WRITE * u32::try_from(self.schedules).unwrap_or(u32::MAX);
        let due = Timestamp::from_micros(due.as_micros() / 1_000 * 1_000);
        let hour = hours(1).as_micros() as u64;
        let phase = Duration::from_micros(due.as_micros() % hour);
        let spec = Spec::builder().every_with_phase(hours(1), phase).build()?;
        self.fill(session, &spec).await?;
        let now = session.engine.info().await?.now;
        if now >= due {
            let message = "writing the schedules took longer than 2 ms each";
            return Err(Failure::new(Exit::Failed, "too_slow", message).hint("use fewer schedules"));
        }
        // Claims that find nothing would count as the cost of schedules.
        pause((due - now).saturating_sub(CLAIMS_BEFORE)).await;
        let mut late = Vec::new();
        while (late.len() as u64) < self.schedules {
            late.extend(claim(session, due).await?);
        }
        late.sort_unstable();
        let last = late.last().copied().unwrap_or_default();
        let p99 = late[late.len() * 99 / 100];
        let ms = |span: Duration| (span.as_secs_f64() * 10_000.0).round() / 10.0;
        let object = object!({
            "schedules": self.schedules, "p99_ms": ms(p99), "last_ms": ms(last),
        });
        let cell = |span: Duration| format!("{} ms", ms(span));
        Ok((vec![("p99", cell(p99)), ("last start", cell(last))], object))
    }

    async fn fill(&self, session: &Session, spec: &Spec) -> Result<()> {
        let parts: &SpecBuilder = spec.parts();
        at_once(self.schedules, async |nth| {
            let template = Template::of(NewJob::new(QUEUE, r#"{"kind":"weekly"}"#))?;
            let mut schedule = Schedule::new(parts.clone(), template);
            schedule.overlap = Overlap::Allow;
            write(session, nth, Some(schedule)).await
        })
        .await
    }
}

/// The result, for people and for programs.
type Reported = (Vec<(&'static str, String)>, crate::output::Object);

async fn write(session: &Session, nth: u64, schedule: Option<Schedule>) -> punctual::Result<()> {
    let name = format!("{SCHEDULE_PREFIX}bench-{nth}");
    let expected = match schedule {
        Some(_) => 0,
        None => match read(session, &name).await? {
            Some(version) => version,
            None => return Ok(()),
        },
    };
    let value = schedule.map(Box::new).map(RecordValue::Schedule);
    let write = Control::Write {
        name,
        expected,
        value,
    };
    session
        .engine
        .control(&session.namespace, write)
        .await
        .map(drop)
}

async fn read(session: &Session, name: &str) -> punctual::Result<Option<u64>> {
    let read = Control::Read { name: name.into() };
    let reported = session.engine.control(&session.namespace, read).await?;
    Ok(match reported {
        punctual::engine::Controlled::Record(Some(record)) => Some(record.version),
        _ => None,
    })
}

/// Claims what is ready, completes it, and answers how late each started.
async fn claim(session: &Session, due: Timestamp) -> Result<Vec<Duration>> {
    let mut claim = Claim::new(WorkerId::random(), QUEUE, CLAIMED);
    claim.lease_duration = LEASE;
    let claimed = session.engine.claim(&session.namespace, claim).await?;
    let late = claimed.now - due;
    let mut all = Vec::new();
    let mut leases = Vec::new();
    for lease in claimed.leases {
        all.extend(lease.jobs.iter().map(|_| late));
        let ended =
            |job: &punctual::JobRecord| Settlement::new(job.id, job.attempt, Outcome::Completed);
        leases.push(LeaseReport::new(
            lease.token,
            lease.jobs.iter().map(ended).collect(),
        ));
    }
    if !leases.is_empty() {
        let settle = Settle::new(leases);
        session.engine.settle(&session.namespace, settle).await?;
    }
    Ok(all)
}
