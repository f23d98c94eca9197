//! `punctual limits`: named limits, which hold over the jobs of all queues.

use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use punctual::Queue;
use punctual::engine::{ClosedShare, LimitSettings, NamedLimit, WhenFull};
use punctual::queue::Limit;
use punctual::time::{Timestamp, exact_span, format_span};

use super::queues::limit::{Kind, rate_object, starts_of};
use crate::args::{Global, Session, span_of};
use crate::connect::Make;
use crate::failure::{Failure, Result};
use crate::output::{Columns, Object, ago, count, object, plain, raw};

/// Limit jobs of any queue by name: how many are active, how many start, and blocks
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set how many jobs with a limit may be active, and how many may start in a span
    #[command(after_help = "\
Examples:
  punctual limits set smtp --concurrency 4                 for smtp and each key of it, such as smtp:gmail.com
  punctual limits set smtp:gmail.com --rate 100/1m         at most 100 starts in any minute, over all queues
  punctual limits set api --rate 10/1s --kind smooth --burst 2
  punctual enqueue mail '{}' --limit smtp:gmail.com        a job with that limit
  punctual enqueue export '{}' --limit api --cost 5        it takes five units of the rate
  punctual limits set build --concurrency 1 --when-full cancel-running   a new build of a branch stops the one that runs

The settings replace those that the limit has. A job that waits at a limit counts no attempt.")]
    Set(Set),
    /// List the limits with settings, active or waiting jobs, or a block
    #[command(after_help = "\
Examples:
  punctual limits list
  punctual limits list -o json")]
    List,
    /// Show a limit and how it stands
    #[command(after_help = "\
Examples:
  punctual limits show smtp:gmail.com")]
    Show {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Take the settings of a limit off
    #[command(after_help = "\
Examples:
  punctual limits remove smtp:gmail.com    the settings of smtp hold for it now, if there are any")]
    Remove {
        #[arg(value_name = "NAME")]
        name: String,
        /// Only if its settings have this version, which `limits show` says
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
    },
    /// Start no job with a limit for a while: the other side is asked too often (429)
    #[command(after_help = "\
Examples:
  punctual limits block smtp:gmail.com 60s    its jobs wait for a minute; no attempt is counted
  punctual limits block smtp:gmail.com 0s     ends the block

Active jobs go on. A block replaces the one before. The limit needs no settings.")]
    Block {
        #[arg(value_name = "NAME")]
        name: String,
        /// How long, up to 365d; 0s ends a block
        #[arg(value_name = "SPAN", value_parser = span_of)]
        span: Duration,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    #[arg(value_name = "NAME")]
    name: String,

    /// Jobs with the limit that may be active at once
    #[arg(long, value_name = "N")]
    concurrency: Option<u64>,

    /// Units that may start in a span, such as 100/1m; a job takes as many as it costs
    #[arg(long, value_name = "N/SPAN", value_parser = starts_of)]
    rate: Option<(u64, Duration)>,

    /// How the rate lets jobs start; window by default
    #[arg(long, requires = "rate")]
    kind: Option<Kind>,

    /// Starts of a smooth rate that may come early; a tenth of the rate by default
    #[arg(long, value_name = "N", requires = "rate")]
    burst: Option<u64>,

    /// What becomes of a new job while the concurrency is fully taken; wait by default
    #[arg(long, value_enum, value_name = "WHAT", requires = "concurrency")]
    when_full: Option<Full>,

    /// Write only if its own settings have this version, which `limits show` says; 0: it has none
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

/// What becomes of a new job while the concurrency of its limit is fully taken.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Full {
    /// It waits
    Wait,
    /// It is not stored: `limit_full`
    Refuse,
    /// It waits, and the oldest running job is asked to stop; at most 64 may be active
    CancelRunning,
}

impl Command {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let make = match &self {
            Self::Set(_) | Self::Block { .. } => Make::IfMissing,
            _ => Make::Never,
        };
        let session = global.session(make).await?;
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        match self {
            Self::Set(args) => args.run(&session, &queue).await,
            Self::List => list(&session, &queue).await,
            Self::Show { name } => show(&session, &queue, &name).await,
            Self::Remove { name, if_version } => {
                let changed = at_version(queue.limit(&name), if_version).remove().await?;
                if session.out.is_json() {
                    let line = object!({ "name": name, "changed": changed });
                    return session.out.json(&line);
                }
                session.out.line(match changed {
                    true => format!("{name} has no settings any more"),
                    false => format!("{name} had no settings"),
                })
            }
            Self::Block { name, span } => block(&session, &queue, &name, span).await,
        }
    }
}

impl Set {
    async fn run(self, session: &Session, queue: &Queue) -> Result<()> {
        let mut limit = at_version(queue.limit(&self.name), self.if_version);
        if let Some(concurrency) = self.concurrency {
            limit = limit.concurrency(concurrency);
        }
        if let Some(starts) = self.rate {
            let kind = self.kind.unwrap_or(Kind::Window);
            let rate = kind.rate(starts, self.burst);
            limit = limit.rate(rate.map_err(Failure::usage)?);
        }
        limit = limit.when_full(match self.when_full {
            None | Some(Full::Wait) => WhenFull::Wait,
            Some(Full::Refuse) => WhenFull::Refuse,
            Some(Full::CancelRunning) => WhenFull::CancelRunning,
        });
        limit.set().await?;
        let durability = session.durability().await?;
        session.announce_durability(durability);
        show(session, queue, &self.name).await
    }
}

fn at_version(limit: Limit, version: Option<u64>) -> Limit {
    match version {
        Some(version) => limit.if_version(version),
        None => limit,
    }
}

async fn block(session: &Session, queue: &Queue, name: &str, span: Duration) -> Result<()> {
    let changed = queue.limit(name).block_for(span).await?;
    if session.out.is_json() {
        return session.out.json(&object!({
            "name": name,
            "span": exact_span(span),
            "changed": changed,
        }));
    }
    let durability = session.durability().await?;
    session.announce_durability(durability);
    let text = format_span(span);
    session.out.line(match (span.is_zero(), changed) {
        (false, _) => format!("no job with the limit {name} starts for {text}"),
        (true, true) => format!("{name} is not blocked any more"),
        (true, false) => format!("{name} was not blocked"),
    })
}

async fn show(session: &Session, queue: &Queue, name: &str) -> Result<()> {
    // Before the limit: a version that is older than its settings is refused.
    let version = queue.limit(name).version().await?;
    let limit = queue.limit(name).get().await?;
    if session.out.is_json() {
        let mut line = object_of(&limit);
        line.0.push(("version", raw(&version)));
        return session.out.json(&line);
    }
    let now = session.engine.info().await?.now;
    let settings = limit.settings.unwrap_or_default();
    let mut card = vec![("limit", plain(&limit.name).into_owned())];
    let active = count(limit.active);
    card.push((
        "active",
        match settings.concurrency {
            Some(most) => format!("{active} of {}", count(most)),
            None => active,
        },
    ));
    if let Some(rate) = settings.rate {
        card.push(("rate", rate.to_string()));
    }
    if let Some(when_full) = decides(&settings) {
        card.push(("when full", when_full.to_owned()));
    }
    card.push(("waiting", count(limit.waiting)));
    card.push((
        "settings",
        match &limit.set_by {
            Some(by) if *by == limit.name => "its own".into(),
            Some(by) => format!("those of {by}"),
            None => "none: it limits nothing unless it is blocked".into(),
        },
    ));
    if version > 0 {
        card.push(("version", version.to_string()));
    }
    let now = match closed(&limit, now) {
        text if text.is_empty() => "open".into(),
        text if limit.closed == Some(ClosedShare::Blocked) => text,
        text => format!("closed by its {text}"),
    };
    card.push(("now", now));
    session.out.card(&card)
}

async fn list(session: &Session, queue: &Queue) -> Result<()> {
    let limits = queue.named_limits().await?;
    if session.out.is_json() {
        for limit in &limits {
            session.out.json(&object_of(limit))?;
        }
        return Ok(());
    }
    if limits.is_empty() {
        session.out.note("no named limit is set, used or blocked");
        return Ok(());
    }
    let now = session.engine.info().await?.now;
    let header = [
        "limit",
        "concurrency",
        "rate",
        "active",
        "waiting",
        "closed",
    ];
    let row = |limit: &NamedLimit| {
        let settings = limit.settings.unwrap_or_default();
        vec![
            plain(&limit.name).into_owned(),
            settings.concurrency.map(count).unwrap_or_default(),
            settings
                .rate
                .map(|rate| rate.to_string())
                .unwrap_or_default(),
            count(limit.active),
            count(limit.waiting),
            closed(limit, now),
        ]
    };
    let columns = Columns {
        names: &header,
        numbers: &["concurrency", "active", "waiting"],
        optional: &header[5..],
        ..Columns::default()
    };
    session.out.table(columns, limits.iter().map(row).collect())
}

fn object_of(limit: &NamedLimit) -> Object {
    let settings = limit.settings.unwrap_or_default();
    object!({
        "name": limit.name,
        "concurrency": settings.concurrency,
        "rate": settings.rate.as_ref().map(rate_object),
        "when_full": decides(&settings),
        "set_by": limit.set_by,
        "active": limit.active,
        "waiting": limit.waiting,
        "closed": limit.closed.map(|closed| closed.name()),
        "opens_at": limit.opens_at.map(|at| at.to_string()),
    })
}

/// What becomes of new jobs while the limit is full, unless they wait.
fn decides(settings: &LimitSettings) -> Option<&'static str> {
    (settings.when_full != WhenFull::Wait).then(|| settings.when_full.name())
}

fn closed(limit: &NamedLimit, now: Timestamp) -> String {
    match (limit.closed, limit.opens_at) {
        (None, _) => String::new(),
        (Some(closed), Some(at)) => format!("{closed}, opens {}", ago(at, now)),
        (Some(closed), None) => closed.to_string(),
    }
}
