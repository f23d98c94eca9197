//! Unit tests of `schedule::zone`.

use super::*;

#[test]
fn places_and_utc_are_zones_however_they_are_spelled() {
    for (text, wanted) in [
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("UTC", "UTC"),
        ("Etc/UTC", "UTC"),
        ("Etc/GMT-3", "Etc/GMT-3"),
        // A link in the database, but a place of its own.
        ("Europe/Amsterdam", "Europe/Amsterdam"),
        ("Asia/Kolkata", "Asia/Kolkata"),
    ] {
        let (_, name) = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(name, wanted, "{text}");
    }
}

#[test]
fn a_zone_that_is_none_is_refused_with_the_remedy() {
    for (text, wanted) in [
        (
            "EST5EDT",
            "zone \"EST5EDT\" is an older name; write America/New_York",
        ),
        ("US/Eastern", "write America/New_York"),
        ("Asia/Calcutta", "write Asia/Kolkata"),
        ("Europe/Kiev", "write Europe/Kyiv"),
        ("CET", "write Europe/Brussels"),
        ("GMT", "write UTC"),
        (
            "UTC+3",
            "is an offset, and the clocks of a place are changed",
        ),
        ("+03:00", "is an offset"),
        ("GMT-5", "is an offset"),
        ("../etc/passwd", "is not in the tz database"),
        ("/etc/passwd", "is not in the tz database"),
        ("", "is empty; write a place"),
        ("Berlin", "is unknown; is it Europe/Berlin?"),
        ("Europe/Brelin", "is unknown; is it Europe/Berlin?"),
        ("America/New York", "is it America/New_York?"),
        ("Mars/Olympus_Mons", "is not in the tz database"),
        ("Factory", "is not in the tz database"),
        ("local", "is not in the tz database"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.message().contains(wanted), "{text}: {error}");
    }
}

#[test]
fn each_present_name_of_an_older_one_is_a_zone() {
    let mut present = 0;
    for name in TimeZoneDatabase::bundled().available() {
        let Some(name) = present_name(name.as_str()) else {
            continue;
        };
        present += 1;
        assert!(read(name).is_ok(), "{name}");
    }
    assert!(present > 100, "{present}");
}

#[test]
fn each_zone_of_the_database_is_read_or_has_a_present_name() {
    for name in TimeZoneDatabase::bundled().available() {
        let name = name.as_str();
        let is_left_out = matches!(name, "Factory");
        let is_known = read(name).is_ok() || present_name(name).is_some();
        assert!(is_known != is_left_out, "{name}");
    }
}

#[test]
fn the_version_of_the_database_is_a_year_and_a_letter() {
    let version = tz_database_version();
    let (year, letter) = version.split_at(4);
    assert!(
        year.parse::<u32>().is_ok_and(|year| year >= 2025),
        "{version}"
    );
    assert!(letter.chars().all(|c| c.is_ascii_lowercase()), "{version}");
}
