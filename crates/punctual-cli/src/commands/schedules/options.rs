//! The parts of a calendar on the command line.

use std::time::Duration;

use clap::ValueEnum;
use punctual::schedule::{Fold, Form, Gap, Spec};
use punctual::time::Timestamp;

use crate::args::{instant_of, span_of};
use crate::failure::Result;
use crate::numbers::whole;

/// When to run; several options add up.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "When it runs")]
pub(super) struct Options {
    /// Five fields: minute, hour, day of month, month, day of week
    #[arg(long, value_name = "PATTERN")]
    cron: Vec<String>,

    /// Six fields: a second, then those of --cron
    #[arg(long, value_name = "PATTERN")]
    cron_seconds: Vec<String>,

    /// A line of Quartz: six or seven fields, Sunday is 1
    #[arg(long, value_name = "PATTERN")]
    quartz: Vec<String>,

    /// In every span, counted from 1970: 5m, or 1h+15m for a quarter past
    #[arg(long, value_name = "SPAN[+PHASE]", value_parser = every_of)]
    every: Vec<(Duration, Duration)>,

    /// At an instant: 2026-12-01T08:00:00Z, or 2026-12-01 08:00 in local time
    #[arg(long, value_name = "INSTANT", value_parser = instant_of)]
    at: Vec<Timestamp>,

    /// Leave out the minutes of a pattern of five fields; `* * 25 12 *` is a day
    #[arg(long, value_name = "PATTERN")]
    except: Vec<String>,

    /// The same with the seconds of six fields
    #[arg(long, value_name = "PATTERN")]
    except_seconds: Vec<String>,

    /// The same by a line of Quartz
    #[arg(long, value_name = "PATTERN")]
    except_quartz: Vec<String>,

    /// The time zone of all patterns, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,

    /// Run that much earlier than the patterns say, such as 30m
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    before: Option<Duration>,

    /// Where the clock skips a time: run at the gap's end, shift it by the gap, or skip it
    /// [default: end]
    #[arg(long, value_name = "end|shift|skip", hide_possible_values = true)]
    gap: Option<GapPolicy>,

    /// Where a time comes twice: run the first, the last, or both [default: first]
    #[arg(long, value_name = "first|last|both", hide_possible_values = true)]
    fold: Option<FoldPolicy>,

    /// Up to that much later, by a draw from the name and the instant
    #[arg(long, value_name = "SPAN", value_parser = span_of)]
    jitter: Option<Duration>,

    /// Not before this instant
    #[arg(long, value_name = "INSTANT", value_parser = instant_of)]
    start: Option<Timestamp>,

    /// Not after this instant
    #[arg(long, value_name = "INSTANT", value_parser = instant_of)]
    end: Option<Timestamp>,

    /// So many runs in all
    #[arg(long, value_name = "N", value_parser = |text: &str| whole::<u64>(text, 1..=u64::MAX))]
    max_runs: Option<u64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum GapPolicy {
    End,
    Shift,
    Skip,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FoldPolicy {
    First,
    Last,
    Both,
}

impl Options {
    /// The calendar, checked.
    pub(super) fn spec(self) -> Result<Spec> {
        let patterns = [
            (Form::Cron, self.cron),
            (Form::CronWithSeconds, self.cron_seconds),
            (Form::Quartz, self.quartz),
        ];
        let except = [
            (Form::Cron, self.except),
            (Form::CronWithSeconds, self.except_seconds),
            (Form::Quartz, self.except_quartz),
        ];
        let mut parts = Spec::builder().at(self.at);
        for (form, pattern) in with_forms(patterns) {
            parts = parts.pattern(form, pattern);
        }
        for (form, pattern) in with_forms(except) {
            parts = parts.except(form, pattern);
        }
        for (span, phase) in self.every {
            parts = parts.every_with_phase(span, phase);
        }
        if let Some(zone) = self.zone {
            parts = parts.zone(zone);
        }
        parts = match self.gap {
            None | Some(GapPolicy::End) => parts.gap(Gap::AtItsEnd),
            Some(GapPolicy::Shift) => parts.gap(Gap::Shift),
            Some(GapPolicy::Skip) => parts.gap(Gap::Skip),
        };
        parts = match self.fold {
            None | Some(FoldPolicy::First) => parts.fold(Fold::First),
            Some(FoldPolicy::Last) => parts.fold(Fold::Last),
            Some(FoldPolicy::Both) => parts.fold(Fold::Both),
        };
        parts = parts.before(self.before.unwrap_or_default());
        parts = parts.jitter(self.jitter.unwrap_or_default());
        parts.start = self.start;
        parts.end = self.end;
        parts.max_runs = self.max_runs;
        Ok(parts.build()?)
    }
}

fn with_forms(
    patterns: impl IntoIterator<Item = (Form, Vec<String>)>,
) -> impl Iterator<Item = (Form, String)> {
    let patterns = patterns.into_iter();
    patterns.flat_map(|(form, texts)| texts.into_iter().map(move |text| (form, text)))
}

/// Reads `5m`, or `1h+15m` with a phase.
fn every_of(text: &str) -> std::result::Result<(Duration, Duration), String> {
    match text.split_once('+') {
        Some((span, phase)) => Ok((span_of(span)?, span_of(phase)?)),
        None => Ok((span_of(text)?, Duration::ZERO)),
    }
}
