//! Fits the examples and notes of every help to the terminal. They are written for 100 columns;
//! clap would break their lines anywhere.

use clap::Command;

use crate::output::help_width;

/// The columns that the texts are written for.
const WRITTEN_FOR: usize = 100;
/// Narrower than that, lines are broken by the terminal.
const WIDTH_MIN: usize = 40;
/// A comment that starts further to the right gets a line of its own.
const COMMENT_COLUMN_MAX: usize = 33;
/// Spaces before what goes on from the line above.
const HANGING: usize = 6;

/// The same command, whose help fits the terminal.
pub(crate) fn fitted(command: Command) -> Command {
    let width = help_width().map_or(WRITTEN_FOR, usize::from);
    fitted_to(command, width.clamp(WIDTH_MIN, WRITTEN_FOR))
}

fn fitted_to(mut command: Command, width: usize) -> Command {
    if let Some(text) = command.get_after_help() {
        let text = reflow(&text.to_string(), width);
        command = command.after_help(text);
    }
    let names: Vec<_> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |sub| fitted_to(sub, width))
    })
}

/// Paragraphs are wrapped anew. An indented line stays a line: what does not fit goes below it.
fn reflow(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut paragraph = String::new();
    let mut rest = text.lines().peekable();
    while let Some(line) = rest.next() {
        if !line.is_empty() && !line.starts_with(' ') {
            paragraph = joined(paragraph, line);
            continue;
        }
        if !paragraph.is_empty() {
            lines.extend(wrapped(&std::mem::take(&mut paragraph), (0, 0), width, ""));
        }
        if line.is_empty() {
            lines.push(String::new());
            continue;
        }
        let mut whole = line.to_owned();
        while let Some(more) = rest.next_if(|next| next.starts_with("          ")) {
            whole = joined(whole, more.trim_start());
        }
        lines.extend(item(&whole, width));
    }
    if !paragraph.is_empty() {
        lines.extend(wrapped(&paragraph, (0, 0), width, ""));
    }
    lines.join("\n")
}

fn joined(text: String, more: &str) -> String {
    match text.is_empty() {
        true => more.to_owned(),
        false => text + " " + more,
    }
}

/// The lines of an indented one: an example, or a word and what it means.
fn item(line: &str, width: usize) -> Vec<String> {
    if line.chars().count() <= width {
        return vec![line.to_owned()];
    }
    let indent = line.len() - line.trim_start().len();
    let Some(gap) = line[indent..].find("  ").map(|at| at + indent) else {
        let ends = if line.contains("punctual ") {
            " \\"
        } else {
            ""
        };
        let hanging = if ends.is_empty() { indent } else { HANGING };
        return wrapped(line, (indent, hanging), width, ends);
    };
    let (head, comment) = (&line[..gap], line[gap..].trim_start());
    let column = line.len() - comment.len();
    if column <= COMMENT_COLUMN_MAX {
        let mut lines = wrapped(comment, (column, column), width, "");
        lines[0] = format!("{head:<column$}{}", lines[0].trim_start());
        return lines;
    }
    let mut lines = item(head, width);
    lines.extend(wrapped(comment, (HANGING, HANGING), width, ""));
    lines
}

/// Words in lines of that width. The first line and the others have their own indents; each but the
/// last ends so.
pub(crate) fn wrapped(
    text: &str,
    (first, others): (usize, usize),
    width: usize,
    ends: &str,
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = " ".repeat(first);
    let mut is_empty = true;
    for word in units(text, !ends.is_empty()) {
        let cells = line.chars().count() + 1 + word.chars().count() + ends.len();
        if !is_empty && cells > width {
            lines.push(std::mem::replace(&mut line, " ".repeat(others)) + ends);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// The words; those of a command with each option beside its value.
fn units(text: &str, is_command: bool) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match units.last_mut() {
            Some(last) if is_command && last.starts_with("--") && !last.contains(' ') => {
                last.push(' ');
                last.push_str(word);
            }
            _ => units.push(word.to_owned()),
        }
    }
    units
}

#[cfg(test)]
mod tests;
