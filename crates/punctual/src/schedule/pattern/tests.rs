//! Unit tests of `schedule::pattern`.

use super::*;

fn read(form: Form, text: &str) -> Pattern {
    Pattern::read(&PatternText::new(form, text)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(form: Form, text: &str) -> String {
    let error = Pattern::read(&PatternText::new(form, text));
    let error = error.expect_err(text);
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
    error.message().to_owned()
}

/// The next local times, at most three, as `2026-11-25 12:00:00`.
fn times(pattern: &Pattern, from: &str) -> Vec<String> {
    let first: DateTime = from.parse().expect("a local time");
    let next = |from| pattern.next(from, DateTime::MAX);
    let second = jiff::SignedDuration::from_secs(1);
    std::iter::successors(next(first), |last| next(*last + second))
        .take(3)
        .map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
        .collect()
}

/// Every line of the table in Quartz' tutorial, with a moment and the runs after it.
const QUARTZ_TUTORIAL: [(&str, &str, &[&str]); 20] = [
    (
        "0 0 12 * * ?",
        "2026-11-25 00:00",
        &["2026-11-25 12:00:00", "2026-11-26 12:00:00"],
    ),
    (
        "0 15 10 ? * *",
        "2026-11-25 00:00",
        &["2026-11-25 10:15:00", "2026-11-26 10:15:00"],
    ),
    (
        "0 15 10 * * ?",
        "2026-11-25 00:00",
        &["2026-11-25 10:15:00", "2026-11-26 10:15:00"],
    ),
    (
        "0 15 10 * * ? *",
        "2026-11-25 00:00",
        &["2026-11-25 10:15:00", "2026-11-26 10:15:00"],
    ),
    (
        "0 15 10 * * ? 2005",
        "2005-12-31 00:00",
        &["2005-12-31 10:15:00"],
    ),
    (
        "0 15 10 * * ? 2005",
        "2001-01-01 00:00",
        &["2005-01-01 10:15:00", "2005-01-02 10:15:00"],
    ),
    (
        "0 * 14 * * ?",
        "2026-11-25 14:59",
        &["2026-11-25 14:59:00", "2026-11-26 14:00:00"],
    ),
    (
        "0 0/5 14 * * ?",
        "2026-11-25 14:51",
        &["2026-11-25 14:55:00", "2026-11-26 14:00:00"],
    ),
    (
        "0 0/5 14,18 * * ?",
        "2026-11-25 14:55",
        &["2026-11-25 14:55:00", "2026-11-25 18:00:00"],
    ),
    (
        "0 0-5 14 * * ?",
        "2026-11-25 14:05",
        &["2026-11-25 14:05:00", "2026-11-26 14:00:00"],
    ),
    (
        "0 10,44 14 ? 3 WED",
        "2026-11-25 00:00",
        &["2027-03-03 14:10:00", "2027-03-03 14:44:00"],
    ),
    (
        "0 15 10 ? * MON-FRI",
        "2026-11-27 00:00",
        &["2026-11-27 10:15:00", "2026-11-30 10:15:00"],
    ),
    (
        "0 15 10 15 * ?",
        "2026-11-25 00:00",
        &["2026-12-15 10:15:00", "2027-01-15 10:15:00"],
    ),
    (
        "0 15 10 L * ?",
        "2026-11-25 00:00",
        &["2026-11-30 10:15:00", "2026-12-31 10:15:00"],
    ),
    (
        "0 15 10 L-2 * ?",
        "2026-11-25 00:00",
        &["2026-11-28 10:15:00", "2026-12-29 10:15:00"],
    ),
    (
        "0 15 10 ? * 6L",
        "2026-11-25 00:00",
        &["2026-11-27 10:15:00", "2026-12-25 10:15:00"],
    ),
    (
        "0 15 10 ? * 6L 2002-2005",
        "2005-12-01 00:00",
        &["2005-12-30 10:15:00"],
    ),
    (
        "0 15 10 ? * 6#3",
        "2026-11-25 00:00",
        &["2026-12-18 10:15:00", "2027-01-15 10:15:00"],
    ),
    (
        "0 0 12 1/5 * ?",
        "2026-11-25 00:00",
        &["2026-11-26 12:00:00", "2026-12-01 12:00:00"],
    ),
    (
        "0 11 11 11 11 ?",
        "2026-11-25 00:00",
        &["2027-11-11 11:11:00", "2028-11-11 11:11:00"],
    ),
];

#[test]
fn every_line_of_the_quartz_tutorial_runs_as_it_says() {
    for (text, from, wanted) in QUARTZ_TUTORIAL {
        let times = times(&read(Form::Quartz, text), from);
        let agree = times
            .iter()
            .zip(wanted)
            .all(|(time, wanted)| time == wanted);
        assert!(agree && times.len() >= wanted.len(), "{text}: {times:?}");
        if wanted.len() == 1 {
            assert_eq!(times.len(), 1, "{text}: {times:?}");
        }
    }
}

#[test]
fn other_quartz_lines_are_read_too() {
    for (text, from, first) in [
        (
            "0/5 * * * * ?",
            "2026-11-25 00:00:56",
            "2026-11-25 00:01:00",
        ),
        ("10 0/5 * * * ?", "2026-11-25 00:00", "2026-11-25 00:00:10"),
        (
            "0 30 10-13 ? * WED,FRI",
            "2026-11-25 13:31",
            "2026-11-27 10:30:00",
        ),
        (
            "0 0/30 8-9 5,20 * ?",
            "2026-11-25 00:00",
            "2026-12-05 08:00:00",
        ),
        ("0 0 9 LW * ?", "2027-01-25 00:00", "2027-01-29 09:00:00"),
        ("0 0 9 15W * ?", "2026-11-01 00:00", "2026-11-16 09:00:00"),
        // Saturday: the last day of a week, and the first that a step from 7 reaches.
        ("0 0 9 ? * L", "2026-11-25 00:00", "2026-11-28 09:00:00"),
        ("0 0 9 ? * 7", "2026-11-25 00:00", "2026-11-28 09:00:00"),
        ("0 0 9 ? * 1", "2026-11-25 00:00", "2026-11-29 09:00:00"),
        ("0 0 9 ? * SUN#1", "2026-11-25 00:00", "2026-12-06 09:00:00"),
        ("0 0 9 ? * friL", "2026-11-25 00:00", "2026-11-27 09:00:00"),
        // Ranges that go round.
        ("0 0 22-2 * * ?", "2026-11-25 00:30", "2026-11-25 01:00:00"),
        ("0 0 22-2 * * ?", "2026-11-25 02:30", "2026-11-25 22:00:00"),
        (
            "0 0 9 1 NOV-FEB ?",
            "2026-02-02 00:00",
            "2026-11-01 09:00:00",
        ),
        (
            "0 0 9 ? * FRI-MON",
            "2026-11-24 00:00",
            "2026-11-27 09:00:00",
        ),
        (
            "0 0 9 ? * FRI-MON",
            "2026-11-29 10:00",
            "2026-11-30 09:00:00",
        ),
        (
            "0 0 9 L-2,15 * ?",
            "2026-11-10 00:00",
            "2026-11-15 09:00:00",
        ),
    ] {
        let times = times(&read(Form::Quartz, text), from);
        assert_eq!(times.first().map(String::as_str), Some(first), "{text}");
    }
}

#[test]
fn either_day_field_suffices_unless_one_is_a_bare_star() {
    for (text, from, wanted) in [
        // Each 13th and each Friday.
        (
            "0 9 13 * FRI",
            "2026-12-01 00:00",
            ["2026-12-04", "2026-12-11", "2026-12-13"],
        ),
        (
            "0 9 * * FRI",
            "2026-12-01 00:00",
            ["2026-12-04", "2026-12-11", "2026-12-18"],
        ),
        (
            "0 9 13 * *",
            "2026-12-01 00:00",
            ["2026-12-13", "2027-01-13", "2027-02-13"],
        ),
        // A step counts as given, even where it is every day.
        (
            "0 9 */1 * FRI",
            "2026-12-01 00:00",
            ["2026-12-01", "2026-12-02", "2026-12-03"],
        ),
        (
            "0 9 */10 * FRI",
            "2026-12-01 00:00",
            ["2026-12-01", "2026-12-04", "2026-12-11"],
        ),
        (
            "0 9 L-1 * FRI",
            "2026-12-20 00:00",
            ["2026-12-25", "2026-12-30", "2027-01-01"],
        ),
    ] {
        let times = times(&read(Form::Cron, text), from);
        let days: Vec<&str> = times.iter().map(|time| &time[..10]).collect();
        assert_eq!(days, wanted, "{text}");
    }
}

#[test]
fn sunday_is_0_7_and_a_name_and_may_end_a_range() {
    for text in ["0 9 * * 0", "0 9 * * 7", "0 9 * * SUN", "0 9 * * sun"] {
        let times = times(&read(Form::Cron, text), "2026-11-25 00:00");
        assert_eq!(times[0], "2026-11-29 09:00:00", "{text}");
    }
    for text in ["0 9 * * FRI-SUN", "0 9 * * 5-7", "0 9 * * 5,6,0"] {
        let times = times(&read(Form::Cron, text), "2026-11-25 00:00");
        let days = [
            "2026-11-27 09:00:00",
            "2026-11-28 09:00:00",
            "2026-11-29 09:00:00",
        ];
        assert_eq!(times, days, "{text}");
    }
}

#[test]
fn the_29th_of_february_is_found_eight_years_on() {
    let pattern = read(Form::Cron, "0 0 29 2 *");
    let times = times(&pattern, "2096-03-01 00:00");
    assert_eq!(times[0], "2104-02-29 00:00:00");
}

#[test]
fn a_bad_field_is_refused_with_its_value_and_remedy() {
    use Form::Cron;
    for (form, text, wanted) in [
        (
            Cron,
            "60 * * * *",
            "minute \"60\" is out of range; write 0 to 59",
        ),
        (
            Cron,
            "* 24 * * *",
            "hour \"24\" is out of range; write 0 to 23",
        ),
        (
            Cron,
            "* * 0 * *",
            "day of month \"0\" is out of range; write 1 to 31",
        ),
        (
            Cron,
            "* * * 13 *",
            "month \"13\" is out of range; write 1 to 12",
        ),
        (
            Cron,
            "* * * * 8",
            "day of week \"8\" is out of range; write 0 to 7",
        ),
        (
            Cron,
            "*/0 * * * *",
            "minute \"*/0\" has a step of 0; write 1 to 59",
        ),
        (Cron, "*/90 * * * *", "use `every` for a span"),
        (
            Cron,
            "5-1 * * * *",
            "minute \"5-1\" runs backward; write 5-59,0-1",
        ),
        (Cron, "0/5 * * * *", "which is Quartz; write 0-59/5"),
        (Cron, "/5 * * * *", "has a step of nothing; write */5"),
        (Cron, "*/x * * * *", "has a step that is no number"),
        (Cron, "1,,2 * * * *", "has an empty part"),
        (Cron, "*,5 * * * *", "is in a list; write it alone"),
        (
            Cron,
            "a * * * *",
            "minute \"A\" is not understood; write * or 0 to 59",
        ),
        (
            Cron,
            "* * * FOO *",
            "month \"FOO\" is not understood; write * or 1 to 12 or JAN to DEC",
        ),
    ] {
        let message = refused(form, text);
        assert!(message.contains(wanted), "{text}: {message}");
    }
}

#[test]
fn a_bad_pattern_is_refused_with_the_remedy() {
    use Form::{Cron, CronWithSeconds, Quartz};
    for (form, text, wanted) in [
        (Cron, "* * * *", "has 4 fields; write five"),
        (Cron, "0 0 9 * * MON", "has 6 fields; write five"),
        (Cron, "* * * * * * * *", "has 8 fields; write five"),
        (Cron, "", "has 0 fields; write five"),
        (CronWithSeconds, "0 9 * * MON", "has 5 fields; write six"),
        (Quartz, "0 9 * * MON", "has 5 fields; write six or seven"),
        // Arabic-Indic and full-width digits.
        (
            Cron,
            "٥ * * * *",
            "has a digit of another script; write 0 to 9",
        ),
        (
            Cron,
            "５ * * * *",
            "has a digit of another script; write 0 to 9",
        ),
        (Cron, "@every 5m", "@every are not read"),
        (Cron, "@daily", "write five fields such as `0 0 * * *`"),
        (Cron, "0 0 30 2 *", "the pattern never runs"),
        (Cron, "0 0 31 4,6 *", "the pattern never runs"),
        (Quartz, "0 0 12 29 2 ? 2005", "the pattern never runs"),
        (Cron, "0 0 ? * *", "has a ?, which is Quartz; write *"),
        (Cron, "0 0 * * L", "write 5L for the last Friday"),
        (Cron, "0 0 * * 5#6", "write 1 to 5, such as 5#3"),
        (Cron, "0 0 L-31 * *", "write L-1 to L-30"),
        (Cron, "0 0 L,LW * *", "use two patterns"),
        (Cron, "0 0 * * +5", "is not understood"),
        (
            Quartz,
            "0 0 12 * * *",
            "write ? for day of month or for day of week",
        ),
        (Quartz, "0 0 12 ? * ?", "write * for one"),
        (
            Quartz,
            "0 0 12 ? * 0",
            "day of week \"0\" is out of range; write 1 to 7",
        ),
        (Quartz, "0 ? 12 ? * 1", "write *"),
        (
            Quartz,
            "0 0 12 * * ? 1969",
            "year \"1969\" is out of range; write 1970 to 2099",
        ),
    ] {
        let message = refused(form, text);
        assert!(message.contains(wanted), "{text}: {message}");
    }
    let long = refused(Cron, &"1,".repeat(200));
    assert!(long.contains("at most 256 bytes"), "{long}");
}

#[test]
fn a_pattern_follows_real_time_if_it_is_finer_than_an_hour() {
    for (text, wanted) in [
        ("*/15 * * * *", true),
        ("0 * * * *", true),
        ("*/15 2 * * *", true),
        ("30 2 * * *", false),
        ("30 2,14 * * *", false),
        ("0 */2 * * *", false),
    ] {
        assert_eq!(read(Form::Cron, text).follows_real_time(), wanted, "{text}");
    }
}

#[test]
fn the_shortest_span_goes_over_midnight() {
    for (text, wanted) in [
        ("* * * * *", 60),
        ("*/7 * * * *", 240),
        ("0 9 * * *", 86_400),
        ("0 9 1 * *", 86_400),
        ("0 9,17 * * *", 28_800),
        ("0 0,23 * * *", 3_600),
    ] {
        assert_eq!(read(Form::Cron, text).shortest_span(), wanted, "{text}");
    }
}
