//! Unit tests of `commands::serve`.

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

#[test]
fn a_proxy_is_trusted_by_the_line_and_by_the_file() {
    let config = "trusted_proxies = [\"10.0.0.9\"]";
    let config: Config = toml::from_str(config).expect("settings");
    for (line, proxies) in [
        (&["serve"][..], &["10.0.0.9"][..]),
        (
            &["serve", "--trusted-proxy", "10.0.0.7,fd00:7::/64"],
            &["10.0.0.7", "fd00:7::/64", "10.0.0.9"],
        ),
        (
            &[
                "serve",
                "--trusted-proxy",
                "10.0.0.7",
                "--trusted-proxy",
                "10.0.0.8",
            ],
            &["10.0.0.7", "10.0.0.8", "10.0.0.9"],
        ),
    ] {
        let line = Line::try_parse_from(line).expect("a line");
        let proxies = proxies.iter().map(|proxy| proxy.parse().expect("one"));
        assert_eq!(line.args.proxies(&config), proxies.collect::<Vec<Proxy>>());
    }
    let wrong = Line::try_parse_from(["serve", "--trusted-proxy", "proxy.example"]);
    let said = wrong.expect_err("it is no address").to_string();
    assert!(said.contains("10.0.0.7"), "{said}");
}
