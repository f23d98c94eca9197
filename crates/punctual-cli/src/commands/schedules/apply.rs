//! `punctual schedules apply`: writes the schedules of a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{CommandFactory, Parser};
use punctual::schedule::Schedule;

use super::{schedules, set};
use crate::args::Session;
use crate::commands::keys;
use crate::failure::{Failure, Result};
use crate::output::{Columns, counted, object};

/// Write the schedules of a file: a table for each, with the options of `schedules set` as keys
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual schedules apply schedules.toml --dry-run
  punctual schedules apply schedules.toml --prune

The file is TOML, a table for each schedule:
  [weekly-report]
  cron = '0 9 * * MON'
  zone = 'Europe/Berlin'
  queue = 'reports'
  payload = { kind = 'weekly' }

All of the file is read and checked before anything is written. What is so already stays as it is, and so do
pauses. --prune removes the schedules of the namespace that the file does not have.")]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,

    /// Remove schedules that the file does not have
    #[arg(long)]
    prune: bool,

    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

/// What becomes of a schedule.
enum Change {
    Created(Schedule),
    Changed(Schedule),
    Unchanged,
    Removed,
}

impl Change {
    fn name(&self) -> &'static str {
        match self {
            Self::Created(_) => "created",
            Self::Changed(_) => "changed",
            Self::Unchanged => "unchanged",
            Self::Removed => "removed",
        }
    }
}

impl Args {
    pub(super) async fn run(self, session: &Session) -> Result<()> {
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| Failure::file("read", &self.file, &error))?;
        let shown = self.file.display().to_string();
        let wrong = |failure: Failure| failure.of(&shown);
        let wanted = read(&text).map_err(wrong)?;
        if self.prune && wanted.is_empty() {
            let message = format!("{shown} has no schedules");
            return Err(Failure::usage(message)
                .hint("leave --prune out, or remove schedules with `punctual schedules remove`"));
        }
        let limits = session.engine.info().await?.limits;
        for (name, schedule) in &wanted {
            let checked = schedule.check(name, &limits);
            checked.map_err(|error| wrong(Failure::from(error).of(name)))?;
        }
        let schedules = schedules(session);
        let changes = self.changes(wanted, &schedules.list().await?);
        if !self.dry_run {
            for (name, change) in &changes {
                match change {
                    Change::Created(schedule) | Change::Changed(schedule) => {
                        let set = schedules.set(name, schedule.clone()).await;
                        set.map_err(|error| wrong(Failure::from(error).of(name)))?;
                    }
                    Change::Removed => drop(schedules.remove(name).await?),
                    Change::Unchanged => {}
                }
            }
        }
        self.show(session, &changes)?;
        if !self.dry_run && !session.out.is_json() {
            session.announce_durability(session.durability().await?);
        }
        Ok(())
    }

    fn changes(
        &self,
        wanted: BTreeMap<String, Schedule>,
        known: &[punctual::schedule::ScheduleStatus],
    ) -> BTreeMap<String, Change> {
        let mut changes = BTreeMap::new();
        let removed = known
            .iter()
            .filter(|known| self.prune && !wanted.contains_key(&known.name));
        changes.extend(removed.map(|known| (known.name.clone(), Change::Removed)));
        for (name, mut schedule) in wanted {
            let change = match known.iter().find(|known| known.name == name) {
                None => Change::Created(schedule),
                Some(known) => {
                    schedule.paused = known.schedule.paused;
                    schedule.note.clone_from(&known.schedule.note);
                    match schedule == known.schedule {
                        true => Change::Unchanged,
                        false => Change::Changed(schedule),
                    }
                }
            };
            changes.insert(name, change);
        }
        changes
    }

    fn show(&self, session: &Session, changes: &BTreeMap<String, Change>) -> Result<()> {
        if session.out.is_json() {
            for (name, change) in changes {
                let change = change.name();
                let line = object!({ "name": name, "change": change, "dry_run": self.dry_run });
                session.out.json(&line)?;
            }
            return Ok(());
        }
        let columns = Columns {
            names: &["name", "change"],
            ..Columns::default()
        };
        let rows = changes.iter();
        let rows = rows.map(|(name, change)| vec![name.clone(), change.name().to_owned()]);
        session.out.table(columns, rows.collect())?;
        if self.dry_run {
            let all = changes.values();
            let count = all
                .filter(|change| !matches!(change, Change::Unchanged))
                .count();
            let text = format!(
                "{} would be written; leave out --dry-run",
                counted(count as u64, "schedule")
            );
            session.out.note(text);
        }
        Ok(())
    }
}

/// The schedules of a file; an error names the schedule and the key.
fn read(text: &str) -> Result<BTreeMap<String, Schedule>> {
    let hint = "`punctual schedules apply --help` shows such a file";
    let tables: BTreeMap<String, toml::Value> =
        toml::from_str(text).map_err(|error| Failure::usage(error.message()).hint(hint))?;
    let mut found = BTreeMap::new();
    for (name, table) in tables {
        let line = line_of(&name, table);
        let mut line = line.map_err(|what| Failure::usage(what).hint(hint).of(&name))?;
        // In a file `-` is a text, and not standard input.
        let payload = line.set.payload.take().unwrap_or_default();
        let schedule = line.set.schedule_with(payload.into());
        let (_, schedule) = schedule.map_err(|failure| failure.of(&name))?;
        found.insert(name, schedule);
    }
    Ok(found)
}

/// The options of `schedules set`.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    set: set::Args,
}

fn line_of(name: &str, table: toml::Value) -> std::result::Result<Line, String> {
    let toml::Value::Table(table) = table else {
        return Err("is no table; write [NAME] in front of its keys".into());
    };
    let command = Line::command();
    let mut words = vec!["set".to_owned()];
    let mut positions = vec!["--".to_owned(), name.to_owned()];
    positions.push(match table.get("queue") {
        Some(toml::Value::String(queue)) => queue.clone(),
        Some(_) => return Err("queue: write a text".into()),
        None => return Err("queue is missing; name one".into()),
    });
    for (key, value) in &table {
        match (key.as_str(), value) {
            ("queue", _) => {}
            ("payload", toml::Value::String(text)) => positions.push(text.clone()),
            ("payload", value) => {
                let json = serde_json::to_string(value);
                positions.push(json.map_err(|error| format!("payload: {error}"))?);
            }
            _ => words.extend(keys::words(&command, key, value, |one| text_of(key, one))?),
        }
    }
    words.extend(positions);
    let keys = table.keys().map(String::as_str);
    Line::try_parse_from(words).map_err(|error| keys::message(&error, keys))
}

fn text_of(key: &str, value: &toml::Value) -> std::result::Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Datetime(at) => Ok(at.to_string()),
        _ => Err(format!("{key}: write a text or a whole number")),
    }
}
