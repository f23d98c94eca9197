//! `punctual schedules preview`: the next runs of a calendar, in its zone and in UTC.

use punctual::job::check_name;
use punctual::schedule::{ClockNote, Run, Spec, tz_database_version};
use punctual::time::{Clock, SystemClock, Timestamp};

use super::options::Options;
use crate::args::{Global, instant_of};
use crate::failure::Result;
use crate::output::{Columns, Object, Output, object};

/// Show the next runs of a calendar, in its zone and in UTC
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  punctual schedules preview --cron '0 9 * * MON' --zone Europe/Berlin
  punctual schedules preview --cron '30 2 * * *' --zone Europe/Berlin --from 2026-03-28T00:00:00Z
  punctual schedules preview --quartz '0 0/5 14 ? * MON-FRI' --count 20
  punctual schedules preview --cron '0 18 * * FRI' --before 30m
  punctual schedules preview --cron '0 9 * * *' --except '* * 25 12 *'
  punctual schedules preview --every 1h+15m --jitter 30s --name report -o json

It needs no engine. Where both day fields of a pattern are given, one of them suffices; a bare * counts
as not given. The zones are of the tz database in this program, whatever the host has.")]
pub(crate) struct Args {
    /// The first instant that counts [default: now]
    #[arg(long, value_name = "INSTANT", value_parser = instant_of)]
    from: Option<Timestamp>,

    /// How many runs to show
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    count: u32,

    /// The schedule's name, on which the draw of --jitter depends
    #[arg(long, value_name = "NAME", default_value = "preview")]
    name: String,

    #[command(flatten)]
    options: Options,
}

impl Args {
    pub(super) fn run(self, global: &Global) -> Result<()> {
        check_name("schedule", &self.name)?;
        let spec = self.options.spec()?;
        let from = self.from.unwrap_or_else(|| SystemClock.now());
        let runs = spec.preview(&self.name, from, self.count as usize);
        let out = global.output();
        match out.is_json() {
            true => out.json(&document(&spec, &runs)),
            false => table(out, &spec, from, runs),
        }
    }
}

fn document(spec: &Spec, runs: &[Run]) -> Object {
    let instants: Vec<String> = runs.iter().map(|run| run.at.to_string()).collect();
    let of_run = |run: &Run| {
        object!({
            "at": run.at.to_string(), "due": run.due.to_string(),
            "local": run.local, "clock": run.note.map(note_name),
        })
    };
    let runs: Vec<Object> = runs.iter().map(of_run).collect();
    object!({
        "zone": spec.parts().zone, "tz_database": tz_database_version(),
        "instants": instants, "runs": runs,
    })
}

fn table(out: Output, spec: &Spec, from: Timestamp, runs: Vec<Run>) -> Result<()> {
    let zone = &spec.parts().zone;
    if runs.is_empty() {
        return out.line(format!("no run after {}", spec.local_text(from)));
    }
    let has_jitter = !spec.parts().jitter.is_zero();
    let has_notes = runs.iter().any(|run| run.note.is_some());
    let in_zone = format!("in {zone}");
    let mut names = vec![in_zone.as_str(), "utc"];
    names.extend(has_jitter.then_some("due"));
    names.extend(has_notes.then_some("clock"));
    let row = |run: Run| {
        let mut row = vec![run.local, run.at.to_string()];
        row.extend(has_jitter.then(|| run.due.to_string()));
        row.extend(has_notes.then(|| run.note.map(note_text).unwrap_or_default().to_owned()));
        row
    };
    let columns = Columns {
        names: &names,
        ..Columns::default()
    };
    out.table(columns, runs.into_iter().map(row).collect())?;
    out.note(format!("tz database {}", tz_database_version()));
    Ok(())
}

fn note_name(note: ClockNote) -> &'static str {
    match note {
        ClockNote::MovedByGap => "moved_by_gap",
        ClockNote::FirstPass => "first_pass",
        ClockNote::SecondPass => "second_pass",
        _ => "other",
    }
}

/// At most 24 columns: a table with all of them but `due` fits 80.
fn note_text(note: ClockNote) -> &'static str {
    match note {
        ClockNote::MovedByGap => "moved: no such time",
        ClockNote::FirstPass => "first of two",
        ClockNote::SecondPass => "second of two",
        _ => "",
    }
}
