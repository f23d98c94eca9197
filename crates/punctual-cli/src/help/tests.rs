//! Unit tests of `help`.

use super::*;

const TEXT: &str = "\
Examples:
  punctual work mail --exec ./send-mail.sh --until-idle            run due jobs, then exit
  punctual serve --push-allow hooks.internal:9000 --alert https://example.com/alerts
  exit 0    completed; the end of its standard output is kept as the job's result

A first line of a paragraph that is written for a hundred columns and goes on in
a second one.";

#[test]
fn a_text_that_fits_is_left_as_it_is() {
    let short = "Examples:\n  punctual top\n  punctual top --once    one look\n\nA note.";
    assert_eq!(reflow(short, 60), short);
}

#[test]
fn what_does_not_fit_goes_below_its_line() {
    let expected = "\
Examples:
  punctual work mail --exec ./send-mail.sh --until-idle
      run due jobs, then exit
  punctual serve --push-allow hooks.internal:9000 \\
      --alert https://example.com/alerts
  exit 0    completed; the end of its standard output is
            kept as the job's result

A first line of a paragraph that is written for a hundred
columns and goes on in a second one.";
    assert_eq!(reflow(TEXT, 60), expected);
}

#[test]
fn lines_that_go_on_far_to_the_right_are_one() {
    let text = "  file:DIR     a directory that holds\n               all jobs of this machine";
    let expected = "  file:DIR     a directory\n               that holds all\n               jobs of this\n               machine";
    assert_eq!(reflow(text, 30), expected);
}

/// Such a line is not wrapped anew: the end of each that is too long would stand alone below it.
#[test]
fn no_prose_of_a_help_is_indented_beyond_80_columns() {
    let torn = |command: &Command| {
        let text = command.get_after_help().map(ToString::to_string);
        let of = command.get_name().to_owned();
        let lines: Vec<_> = text
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.into_iter().filter_map(move |line| {
            let words = line.trim_start();
            let is_prose = line.starts_with(' ') && !words.contains("  ");
            let is_example = words.contains("punctual ") || words.contains("{\"");
            let goes_on = line.starts_with("          ");
            let is_torn = is_prose && !is_example && !goes_on && line.chars().count() > 80;
            is_torn.then(|| format!("{of}: {line}"))
        })
    };
    let mut commands = vec![<crate::args::Cli as clap::CommandFactory>::command()];
    let mut found = Vec::new();
    while let Some(command) = commands.pop() {
        found.extend(torn(&command));
        commands.extend(command.get_subcommands().cloned());
    }
    assert!(found.is_empty(), "{found:#?}");
}
