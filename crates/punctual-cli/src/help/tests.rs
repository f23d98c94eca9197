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
