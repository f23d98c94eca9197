//! What a person or a program reads: tables or JSON lines, safe for a terminal, never a panic on
//! a closed pipe.

mod object;
mod text;

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::failure::Result;

pub(crate) use object::{Object, object, raw};
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

    /// One JSON document on a line of its own; hostile characters inside are escaped.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value).map_err(io::Error::other)?;
        self.line(text::json_for_terminal(&text))
    }

    /// A table whose first row is its header; columns of numbers (named) stand right.
    pub(crate) fn table(
        self,
        header: &[&str],
        numbers: &[&str],
        rows: Vec<Vec<String>>,
    ) -> Result<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        if io::stdout().is_terminal() {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_width(width());
        } else {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        table.set_header(header.iter().map(|name| name.to_uppercase()));
        for row in rows {
            table.add_row(row.iter().map(|cell| plain(cell).into_owned()));
        }
        for (index, name) in header.iter().enumerate() {
            if let Some(column) = table.column_mut(index) {
                column.set_padding((0, 2));
                if numbers.contains(name) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        self.line(table.trim_fmt())
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
            let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
        }
    }
}

/// The width of the terminal, 80 if there is none.
pub(crate) fn width() -> u16 {
    terminal_size::terminal_size().map_or(80, |(width, _)| width.0.max(40))
}
