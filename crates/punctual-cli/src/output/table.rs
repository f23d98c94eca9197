//! Tables that fit a terminal: no id, name or header is ever broken inside a word.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns of a table.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Columns<'a> {
    /// Their names, from left to right.
    pub(crate) names: &'a [&'a str],
    /// Those that are aligned to the right.
    pub(crate) numbers: &'a [&'a str],
    /// One whose text may be cut to fit.
    pub(crate) cut: &'a str,
    /// Those that are left out of a narrow terminal if no row says anything there: each cell is
    /// empty, 0, or the same as the cell before it.
    pub(crate) optional: &'a [&'a str],
}

/// Spaces between two columns.
const GAP: usize = 2;
/// Spaces before the further lines of a row.
const INDENT: usize = 2;
/// A column that may be cut keeps at least that many cells of a terminal, or goes to the next line.
const CUT_MIN: usize = 12;

/// A column with its header in upper case and one cell per row.
struct Column {
    cells: Vec<String>,
    is_number: bool,
    may_be_cut: bool,
    is_silent: bool,
    width: usize,
}

impl Columns<'_> {
    /// The lines of the table; `width` is that of the terminal, if there is one.
    pub(super) fn lines(&self, rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
        let mut columns = self.columns(rows);
        let Some(width) = width else {
            return drawn(&[(0, columns)]);
        };
        if columns.iter().map(Column::least).sum::<usize>() > width + GAP {
            columns.retain(|column| !column.is_silent);
        }
        let mut lines = stacked(columns, width);
        for (indent, columns) in &mut lines {
            let least: usize = columns.iter().map(Column::least).sum();
            let spare = (width + GAP).saturating_sub(least + *indent);
            for column in columns.iter_mut().filter(|column| column.may_be_cut) {
                column.shorten(column.width.min(CUT_MIN) + spare);
            }
        }
        drawn(&lines)
    }

    fn columns(&self, rows: &[Vec<String>]) -> Vec<Column> {
        let column = |(index, name): (usize, &&str)| {
            let mut cells = vec![name.to_uppercase()];
            cells.extend(rows.iter().map(|row| row[index].clone()));
            let says_nothing = |row: &Vec<String>| {
                let cell = &row[index];
                cell.is_empty() || cell == "0" || (index > 0 && *cell == row[index - 1])
            };
            Column {
                width: cells.iter().map(|cell| cell.width()).max().unwrap_or(0),
                cells,
                is_number: self.numbers.contains(name),
                may_be_cut: self.cut == *name,
                is_silent: self.optional.contains(name) && rows.iter().all(says_nothing),
            }
        };
        self.names.iter().enumerate().map(column).collect()
    }
}

impl Column {
    /// The cells of a terminal that it needs, with the gap behind it.
    fn least(&self) -> usize {
        let width = match self.may_be_cut {
            true => self.width.min(CUT_MIN),
            false => self.width,
        };
        width + GAP
    }

    fn shorten(&mut self, width: usize) {
        for cell in &mut self.cells {
            *cell = cut_to(cell, width);
        }
        self.width = self.width.min(width);
    }
}

/// The columns of each line of a row, with the indent of that line. A column that is wider than the
/// terminal has a line of its own.
fn stacked(columns: Vec<Column>, width: usize) -> Vec<(usize, Vec<Column>)> {
    let mut lines: Vec<(usize, Vec<Column>)> = Vec::new();
    let mut left = 0;
    for column in columns {
        let least = column.least();
        match lines.last_mut() {
            Some((_, line)) if least <= left => line.push(column),
            _ => {
                let indent = if lines.is_empty() { 0 } else { INDENT };
                left = (width + GAP).saturating_sub(indent);
                lines.push((indent, vec![column]));
            }
        }
        left = left.saturating_sub(least);
    }
    lines
}

fn drawn(lines: &[(usize, Vec<Column>)]) -> Vec<String> {
    let rows = lines.first().and_then(|(_, columns)| columns.first());
    let rows = rows.map_or(0, |column| column.cells.len());
    let mut drawn = Vec::with_capacity(rows * lines.len());
    for row in 0..rows {
        for (indent, columns) in lines {
            let mut text = " ".repeat(*indent);
            for column in columns {
                let cell = &column.cells[row];
                let fill = " ".repeat(column.width.saturating_sub(cell.width()));
                // Below another line, numbers are in no column to be compared.
                match column.is_number && *indent == 0 {
                    true => text.extend([&*fill, cell]),
                    false => text.extend([cell, &*fill]),
                }
                text.push_str(&" ".repeat(GAP));
            }
            drawn.push(text.trim_end().to_owned());
        }
    }
    drawn
}

/// At most that many cells of a terminal, with `…` where it was cut.
fn cut_to(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let cells = c.width().unwrap_or(0);
        let fits = cells <= left;
        left = left.saturating_sub(cells);
        fits
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests;
