use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

#[test]
fn without_a_token_the_name_that_it_listens_by_is_no_host() {
    let listened = || Some("jobs.example".to_owned());
    for (line, names) in [
        (&["serve"][..], &["jobs.example"][..]),
        (&["serve", "--no-auth"], &[]),
        // Who says so himself is believed.
        (
            &["serve", "--no-auth", "--host", "mine.example"],
            &["mine.example"],
        ),
        (
            &["serve", "--host", "mine.example"],
            &["mine.example", "jobs.example"],
        ),
    ] {
        let line = Line::try_parse_from(line).expect("a line");
        assert_eq!(line.args.names(&Config::default(), listened()), names);
    }
}
