//! What a person or a program reads: tables or JSON lines, safe for a terminal, never a panic on
//! a closed pipe.

mod object;
mod table;
mod text;

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Result;
use crate::help::wrapped;

pub(crate) use object::{Object, object, raw};
pub(crate) use table::Columns;
pub(crate) use text::{Histogram, ago, count, counted, cut, ms, plain};

/// How to write what a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Columns for a person.
    #[default]
    Table,
    /// One JSON document per line for a program.
    Json,
}

/// Writes to standard output in the chosen format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    pub(crate) format: Format,
}

impl Output {
    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// One line of text.
    pub(crate) fn line(self, text: impl AsRef<str>) -> Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{}", text.as_ref())?;
        Ok(())
    }

    /// Indented text; on a terminal its words are kept whole.
    pub(crate) fn paragraph(self, text: &str) -> Result<()> {
        let text = plain(text);
        if !io::stdout().is_terminal() {
            return self.line(format!("  {text}"));
        }
        let lines = wrapped(&text, (2, 2), usize::from(width()), "");
        lines.into_iter().try_for_each(|line| self.line(line))
    }

    /// One JSON document on a line of its own; hostile characters inside are escaped.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value).map_err(io::Error::other)?;
        self.line(text::json_for_terminal(&text))
    }

    /// A table whose first row is its header. On a terminal no word is broken to make it fit.
    pub(crate) fn table(self, columns: Columns<'_>, rows: Vec<Vec<String>>) -> Result<()> {
        for line in table_lines(columns, rows) {
            self.line(line)?;
        }
        Ok(())
    }

    /// Names and values, one per line, the values in one column.
    pub(crate) fn card(self, fields: &[(&str, String)]) -> Result<()> {
        let longest = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in fields {
            let mut lines = value.lines();
            let first = lines.next().unwrap_or_default();
            self.line(format!("{name:<longest$}  {}", plain(first)))?;
            for more in lines {
                self.line(format!("{:<longest$}  {}", "", plain(more)))?;
            }
        }
        Ok(())
    }

    /// A remark for a person, on standard error; programs do not get it.
    pub(crate) fn note(self, text: impl AsRef<str>) {
        if !self.is_json() {
            let text = fitted_lines(text.as_ref(), 2, io::stderr().is_terminal());
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }
}

/// The text with its lines wrapped between words, if it goes to a terminal that is too narrow for
/// them.
pub(crate) fn fitted_lines(text: &str, hanging: usize, is_terminal: bool) -> String {
    let width = usize::from(width());
    let fit = |line: &str| {
        if !is_terminal || line.chars().count() <= width {
            return vec![line.to_owned()];
        }
        let first = line.len() - line.trim_start().len();
        wrapped(line, (first, first + hanging), width, "")
    };
    text.lines().flat_map(fit).collect::<Vec<_>>().join("\n")
}

/// The lines of a table, as wide as the terminal if the output is one.
pub(crate) fn table_lines(columns: Columns<'_>, rows: Vec<Vec<String>>) -> Vec<String> {
    let safe = |row: Vec<String>| row.iter().map(|cell| plain(cell).into_owned()).collect();
    let rows: Vec<_> = rows.into_iter().map(safe).collect();
    columns.lines(&rows, fits(&io::stdout()).then(|| usize::from(width())))
}

/// Whether lines to that stream fit a width: it is a terminal, or COLUMNS names one.
pub(crate) fn fits(stream: &impl IsTerminal) -> bool {
    chosen_width().is_some() || stream.is_terminal()
}

/// The columns of the terminal, 80 if there is none; the variable COLUMNS chooses others.
pub(crate) fn width() -> u16 {
    let found = || terminal_size::terminal_size().map(|(width, _)| width.0);
    chosen_width()
        .or_else(found)
        .map_or(80, |width| width.max(40))
}

/// The columns that clap writes help for: those of the terminal if any stream is one, else COLUMNS.
pub(crate) fn help_width() -> Option<u16> {
    let found = terminal_size::terminal_size().map(|(width, _)| width.0);
    found.or_else(chosen_width)
}

/// The lines of the terminal, 24 if there is none.
pub(crate) fn height() -> u16 {
    terminal_size::terminal_size().map_or(24, |(_, height)| height.0.max(8))
}

fn chosen_width() -> Option<u16> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}
