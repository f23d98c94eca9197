//! Unit tests of `schedule::spec`.

use std::time::Duration;

use super::*;
use crate::schedule::{Fold, Form, Gap};
use crate::time::{days, hours, millis, minutes, seconds};

fn at(text: &str) -> Timestamp {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn built(parts: SpecBuilder) -> Spec {
    parts.build().unwrap_or_else(|error| panic!("{error}"))
}

/// The next runs, as `03-29 01:00` in UTC.
fn runs(parts: SpecBuilder, from: &str, count: usize) -> Vec<String> {
    let spec = built(parts);
    let instants = spec.instants(at(from)).take(count);
    instants
        .map(|at| at.to_string()[5..16].replace('T', " "))
        .collect()
}

fn berlin(pattern: &str) -> SpecBuilder {
    Spec::cron(pattern).zone("Europe/Berlin")
}

const SPRING: &str = "2026-03-28T12:00:00Z";
const AUTUMN: &str = "2026-10-24T12:00:00Z";

#[test]
fn a_local_time_in_a_gap_runs_by_the_policy() {
    let run = |gap| runs(berlin("30 2 * * *").gap(gap), SPRING, 2);
    assert_eq!(run(Gap::AtItsEnd), ["03-29 01:00", "03-30 00:30"]);
    assert_eq!(run(Gap::Shift), ["03-29 01:30", "03-30 00:30"]);
    assert_eq!(run(Gap::Skip), ["03-30 00:30", "03-31 00:30"]);
    // Two a day are no less fixed than one.
    assert_eq!(
        runs(berlin("30 2,14 * * *"), SPRING, 3)[1..],
        ["03-29 01:00", "03-29 12:30"]
    );
}

#[test]
fn a_local_time_in_a_fold_runs_by_the_policy() {
    let run = |fold| runs(berlin("30 2 * * *").fold(fold), AUTUMN, 3);
    assert_eq!(
        run(Fold::First),
        ["10-25 00:30", "10-26 01:30", "10-27 01:30"]
    );
    assert_eq!(
        run(Fold::Last),
        ["10-25 01:30", "10-26 01:30", "10-27 01:30"]
    );
    assert_eq!(
        run(Fold::Both),
        ["10-25 00:30", "10-25 01:30", "10-26 01:30"]
    );
}

#[test]
fn a_pattern_finer_than_an_hour_runs_through_gap_and_fold() {
    let quarters = |start| runs(berlin("*/15 * * * *"), start, 400);
    for start in [SPRING, AUTUMN] {
        let first = at(start);
        let wanted = (0..400).map(|n| first + minutes(15 * n));
        let wanted: Vec<String> = wanted
            .map(|at| at.to_string()[5..16].replace('T', " "))
            .collect();
        assert_eq!(quarters(start), wanted, "{start}");
    }
    let hourly = runs(berlin("10 * * * *"), "2026-10-24T23:30:00Z", 3);
    assert_eq!(hourly, ["10-25 00:10", "10-25 01:10", "10-25 02:10"]);
}

#[test]
fn a_day_is_not_lost_when_all_its_fine_runs_are_in_the_gap() {
    let quarters = runs(berlin("*/15 2 * * *"), SPRING, 2);
    assert_eq!(quarters, ["03-29 01:00", "03-30 00:00"]);
    // Those go on after the gap by themselves.
    assert_eq!(
        runs(berlin("10,40 0-5 * * *"), "2026-03-29T00:15:00Z", 2)[1],
        "03-29 01:10"
    );
}

#[test]
fn a_gap_of_a_whole_day_ends_on_the_next() {
    // Samoa had no 30 December 2011.
    let noon = Spec::cron("0 12 * * *").zone("Pacific/Apia");
    let noons = runs(noon, "2011-12-29T00:00:00Z", 3);
    assert_eq!(noons, ["12-29 22:00", "12-30 10:00", "12-30 22:00"]);
    let of_that_day = Spec::cron("0 12 30 12 *").zone("Pacific/Apia");
    assert_eq!(
        runs(of_that_day, "2011-01-01T00:00:00Z", 1),
        ["12-30 10:00"]
    );
}

#[test]
fn half_an_hour_before_friday_evening_is_a_pattern_with_an_offset() {
    let parts = berlin("0 18 * * FRI").before(minutes(30));
    assert_eq!(
        runs(parts, "2026-11-25T00:00:00Z", 2),
        ["11-27 16:30", "12-04 16:30"]
    );
    // By real time: 03:00 on the day of the gap is an hour after 01:00.
    let early = berlin("0 3 * * *").before(hours(1));
    assert_eq!(runs(early, SPRING, 1), ["03-29 00:00"]);
}

#[test]
fn a_union_runs_at_an_instant_once() {
    let parts = Spec::cron("0 9 * * *")
        .cron("0 9,10 * * *")
        .every(hours(5))
        .at([at("2026-11-25T09:00:00Z"), at("2026-11-25T09:00:01Z")]);
    let wanted = ["11-25 09:00", "11-25 09:00", "11-25 10:00", "11-25 12:00"];
    let first = "2026-11-25T08:00:00Z";
    assert_eq!(runs(parts.clone(), first, 4), wanted);
    let spec = built(parts);
    let instants: Vec<_> = spec.instants(at(first)).take(50).collect();
    assert!(instants.is_sorted_by(|one, next| one < next));
    assert_eq!(instants[1], at("2026-11-25T09:00:01Z"));
}

#[test]
fn a_span_counts_from_1970_and_its_phase() {
    let every = |parts: SpecBuilder| runs(parts, "2026-11-25T09:01:00Z", 2);
    assert_eq!(
        every(Spec::every(minutes(5))),
        ["11-25 09:05", "11-25 09:10"]
    );
    let quarter_past = SpecBuilder::default().every_with_phase(hours(1), minutes(15));
    assert_eq!(every(quarter_past), ["11-25 09:15", "11-25 10:15"]);
    let spec = built(Spec::every(millis(250)));
    let next = spec.next_after(at("2026-11-25T09:00:00Z"));
    assert_eq!(next, Some(at("2026-11-25T09:00:00.25Z")));
    assert_eq!(spec.instants(Timestamp::ZERO).next(), Some(Timestamp::ZERO));
}

#[test]
fn instants_begin_with_the_first_itself_and_next_is_after() {
    let spec = built(Spec::cron("0 9 * * *"));
    let nine = at("2026-11-25T09:00:00Z");
    assert_eq!(spec.instants(nine).next(), Some(nine));
    assert_eq!(spec.next_after(nine), Some(nine + days(1)));
    assert_eq!(
        spec.next_after(Timestamp::from_micros(nine.as_micros() - 1)),
        Some(nine)
    );
}

#[test]
fn exclusions_leave_out_minutes_hours_days_and_what_a_gap_moved() {
    let from = "2026-12-24T00:00:00Z";
    let parts = Spec::cron("0 9 * * *").except_cron("* * 25,26 12 *");
    assert_eq!(runs(parts, from, 2), ["12-24 09:00", "12-27 09:00"]);
    // A pattern without seconds leaves out its whole minute.
    let parts = Spec::every(seconds(20)).except_cron("0-58 * * * *");
    assert_eq!(
        runs(parts, from, 4),
        ["12-24 00:59", "12-24 00:59", "12-24 00:59", "12-24 01:59"]
    );
    let parts = Spec::every(seconds(1)).except(Form::CronWithSeconds, "1-59 * * * * *");
    assert_eq!(runs(parts, from, 2), ["12-24 00:00", "12-24 00:01"]);
    let parts = Spec::every(millis(500)).except(Form::CronWithSeconds, "* 0-58 * * * *");
    let spec = built(parts);
    assert_eq!(spec.next_after(at(from)), Some(at("2026-12-24T00:59:00Z")));
    // In the zone of the schedule, and where the gap has moved the run.
    let parts = berlin("30 2 * * *").except_cron("30 2 29 3 *");
    assert_eq!(
        runs(parts, "2026-03-28T00:00:00Z", 2),
        ["03-28 01:30", "03-30 00:30"]
    );
}

#[test]
fn weeks_of_excluded_seconds_are_passed_over_at_once() {
    let parts = Spec::every(seconds(1)).except_cron("* * * 1-11 *");
    assert_eq!(runs(parts, "2026-01-01T00:00:00Z", 1), ["12-01 00:00"]);
}

#[test]
fn nothing_is_before_the_start_or_after_the_end() {
    let parts = Spec::cron("0 9 * * *")
        .start(at("2026-12-01T09:00:00Z"))
        .end(at("2026-12-03T09:00:00Z"));
    let all = runs(parts.clone(), "2026-11-01T00:00:00Z", 9);
    assert_eq!(all, ["12-01 09:00", "12-02 09:00", "12-03 09:00"]);
    assert_eq!(
        built(parts.clone()).next_after(at("2026-12-03T09:00:00Z")),
        None
    );
    let two = runs(parts.max_runs(2), "2026-11-01T00:00:00Z", 9);
    assert_eq!(two, ["12-01 09:00", "12-02 09:00"]);
}

#[test]
fn years_that_are_named_are_found_however_far() {
    let parts = SpecBuilder::default().quartz("0 0 12 1 1 ? 2090");
    let spec = built(parts);
    let new_year = at("2090-01-01T12:00:00Z");
    assert_eq!(spec.next_after(at("2026-11-25T00:00:00Z")), Some(new_year));
    assert_eq!(spec.next_after(new_year), None);
    // Beyond what the calendar library knows.
    let daily = built(Spec::cron("0 9 * * *").zone("Europe/Berlin"));
    assert_eq!(daily.next_after(Timestamp::MAX), None);
}

#[test]
fn jitter_is_even_bounded_and_only_adds() {
    let spec = built(Spec::every(minutes(5)).jitter(minutes(1)));
    let first = at("2026-11-25T00:00:00Z");
    let late: Vec<Duration> = (0..1_000)
        .map(|n| first + minutes(5 * n))
        .map(|at| spec.due("report", at) - at)
        .collect();
    assert!(late.iter().all(|late| *late <= minutes(1)));
    let early_half = late.iter().filter(|late| **late < seconds(30)).count();
    assert!((400..600).contains(&early_half), "{early_half}");
    // Known values, which every other implementation has to repeat.
    let known: Vec<u128> = late[..3].iter().map(Duration::as_millis).collect();
    assert_eq!(known, [8_305, 53_564, 59_535]);
    let plain = built(Spec::every(minutes(5)));
    assert_eq!(plain.due("report", first), first);
}

#[test]
fn parts_that_cannot_be_are_refused_with_the_remedy() {
    let daily = || Spec::cron("0 9 * * *");
    let (one, two) = (at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
    for (parts, wanted) in [
        (
            Spec::builder(),
            "it names no time; give a cron pattern, a span or an instant",
        ),
        (
            Spec::every(seconds(0)),
            "every is out of range; use 1ms to 2922d",
        ),
        (Spec::every(days(3_000)), "every is out of range"),
        (
            Spec::builder().every_with_phase(minutes(5), minutes(5)),
            "phase 5m is not shorter than the span 5m",
        ),
        (
            Spec::every(minutes(5)).jitter(minutes(6)),
            "jitter is over 5m, its span; use at most 5m",
        ),
        (
            Spec::cron("*/5 * * * *").jitter(minutes(6)),
            "jitter is over 5m, the shortest span between two runs of a pattern",
        ),
        (daily().jitter(days(2)), "jitter is over 1d"),
        (
            daily().start(two).end(one),
            "is before the start 2026-01-02T00:00:00Z",
        ),
        (
            daily().except_cron("* * * * *"),
            "its exclusions cover every run; leave one out",
        ),
        (
            Spec::every(seconds(1)).except_cron("* * * * *"),
            "its exclusions cover every run",
        ),
        (
            Spec::cron("0 0 1 1 *")
                .start(one + days(1))
                .end(two + days(1)),
            "it has no run between start and end",
        ),
        (
            daily().before(days(400)),
            "before is out of range; use at most 366d",
        ),
        (
            Spec::every(minutes(5)).before(minutes(1)),
            "there is no cron pattern to be before",
        ),
        (
            daily().max_runs(0),
            "max_runs: 0 is out of range; use at least 1",
        ),
        (daily().zone("UTC+3"), "zone \"UTC+3\" is an offset"),
        (
            daily().except_cron("61 * * * *"),
            "minute \"61\" is out of range",
        ),
        (
            (0..65).fold(Spec::builder(), |parts, _| parts.cron("0 9 * * *")),
            "65 patterns are too many; use at most 64",
        ),
        (
            Spec::builder().at((0..1_001).map(|n| one + seconds(n))),
            "1001 instants are too many; use at most 1000",
        ),
    ] {
        let error = parts.build().expect_err(wanted);
        assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
        assert!(error.message().contains(wanted), "{error}");
    }
}

#[test]
fn a_spec_is_serialised_as_its_parts_and_checked_when_read() {
    let spec = built(
        berlin("0 9 * * MON")
            .jitter(seconds(5))
            .end(at("2027-01-01T00:00:00Z")),
    );
    let text = serde_json::to_string(&spec).expect("it can be written");
    let wanted = r#"{"patterns":[{"form":"cron","text":"0 9 * * MON"}],"zone":"Europe/Berlin","gap":"at_its_end","fold":"first","jitter":5000000,"end":1798761600000000}"#;
    assert_eq!(text, wanted);
    let read: Spec = serde_json::from_str(&text).expect("it can be read");
    assert_eq!(read, spec);
    for (bad, wanted) in [
        (text.replace("0 9", "0 99"), "hour"),
        (text.replace("\"gap\"", "\"leap\""), "unknown field `leap`"),
        (
            text.replace("at_its_end", "later"),
            "unknown variant `later`",
        ),
    ] {
        let error = serde_json::from_str::<Spec>(&bad).expect_err(wanted);
        assert!(error.to_string().contains(wanted), "{error}");
    }
}

#[test]
fn a_preview_says_what_the_clock_did() {
    use crate::schedule::ClockNote::{FirstPass, MovedByGap, SecondPass};
    let notes = |parts: SpecBuilder, from| {
        let runs = built(parts).preview("it", at(from), 3);
        runs.iter().map(|run| run.note).collect::<Vec<_>>()
    };
    assert_eq!(
        notes(berlin("30 2 * * *"), SPRING),
        [Some(MovedByGap), None, None]
    );
    let both = berlin("30 2 * * *").fold(Fold::Both);
    assert_eq!(
        notes(both, AUTUMN),
        [Some(FirstPass), Some(SecondPass), None]
    );
    let before = berlin("30 2 * * *").before(hours(3));
    assert_eq!(notes(before, SPRING), [Some(MovedByGap), None, None]);
    assert_eq!(notes(berlin("0 3 * * *"), SPRING), [None, None, None]);
    let runs = built(Spec::every(millis(500))).preview("it", at(SPRING), 2);
    assert_eq!(runs[1].local, "Sat 2026-03-28 12:00:00.5 +00:00");
}
