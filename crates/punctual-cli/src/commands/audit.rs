//! `punctual audit`: who changed what.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use punctual::time::{Clock, SystemClock, Timestamp, parse_span};
use punctual_gateway::{Audit, AuditEntry};

use crate::args::Global;
use crate::failure::{Exit, Failure, Result};
use crate::output::{Columns, Output, ago, count};

/// Show who changed what: edits of jobs, pauses, purges, settings
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual audit
  punctual audit --since 2h --who ops
  punctual audit --what purge -o json
  punctual audit --engine http://127.0.0.1:4180
  punctual audit --file /var/lib/punctual/audit.jsonl

The record has an entry before and after each change. An entry that stays `begun` was interrupted:
the change may have been made. The command prints the last thousand of the namespace, newest first.
Changes made directly on a Redis server are not recorded; the gateway records those it makes.")]
pub(crate) struct Args {
    /// Only changes since: a span such as 2h, or an instant
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,

    /// Only changes before this instant
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,

    /// Only changes by this actor: the name of a token, or local
    #[arg(long, value_name = "NAME")]
    who: Option<String>,

    /// Only if the action or its object contains this text
    #[arg(long, value_name = "TEXT")]
    what: Option<String>,

    /// At most this many entries
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,

    /// The audit file, if it is not in the data directory
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// A span before now, or an instant.
#[derive(Debug, Clone, Copy)]
enum When {
    Ago(Duration),
    At(Timestamp),
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let at = text.parse().map(Self::At);
        at.or_else(|_| parse_span(text).map(Self::Ago))
            .map_err(|_| {
                "write a span such as 2h, or an instant such as 2026-12-01T08:00:00Z".into()
            })
    }
}

impl When {
    fn instant(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(span) => {
                let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
                Timestamp::from_micros(now.as_micros().saturating_sub(micros))
            }
        }
    }
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        let namespace = match (&global.namespace, &self.file) {
            (None, None) => global.address()?.own_namespace().await?.unwrap_or_default(),
            _ => global.namespace()?,
        };
        let entries = match &self.file {
            Some(file) if !file.exists() => {
                let message = format!("there is no {}", file.display());
                return Err(Failure::new(Exit::NotFound, "not_found", message));
            }
            Some(file) => Audit::read(file)?,
            None => global.address()?.record(&namespace).await?,
        };
        let now = SystemClock.now();
        let wanted = entries
            .into_iter()
            .filter(|entry| entry.namespace == namespace.as_str() && self.wants(entry, now));
        let wanted: Vec<AuditEntry> = wanted.take(self.limit).collect();
        show(global.output(), &wanted, now)
    }

    fn wants(&self, entry: &AuditEntry, now: Timestamp) -> bool {
        let at: Timestamp = entry.at.parse().unwrap_or(Timestamp::ZERO);
        self.since.is_none_or(|since| at >= since.instant(now))
            && self.until.is_none_or(|until| at < until.instant(now))
            && self.who.as_ref().is_none_or(|who| *who == entry.who)
            && (self.what.as_ref())
                .is_none_or(|what| entry.action.contains(what) || entry.on.contains(what))
    }
}

fn show(out: Output, entries: &[AuditEntry], now: Timestamp) -> Result<()> {
    if out.is_json() {
        return entries.iter().try_for_each(|entry| out.json(entry));
    }
    if entries.is_empty() {
        out.note("no matching changes on record");
        return Ok(());
    }
    let rows = entries.iter().map(|entry| {
        let at = entry
            .at
            .parse()
            .map_or_else(|_| entry.at.clone(), |at| ago(at, now));
        let phase = match &entry.error {
            Some(error) => format!("{}: {error}", entry.phase),
            None => entry.phase.clone(),
        };
        let matched = entry.matched.map(count).unwrap_or_default();
        vec![
            at,
            entry.who.clone(),
            entry.action.clone(),
            entry.on.clone(),
            matched,
            phase,
        ]
    });
    let columns = Columns {
        names: &["when", "who", "action", "on", "matched", "phase"],
        numbers: &["matched"],
        optional: &["on", "matched"],
        ..Columns::default()
    };
    out.table(columns, rows.collect())
}
