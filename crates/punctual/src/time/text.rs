//! Instants and spans as people write them: `30m`, `1h30m`, `250ms`, `2026-11-21T10:00:00Z`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::Timestamp;
use crate::error::{Error, ErrorKind, Result};

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = i64::try_from(self.as_micros()).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_microsecond(micros) {
            Ok(instant) => write!(f, "{instant}"),
            Err(_) => match last_day_of(micros) {
                Some(civil) => write!(f, "{civil}Z"),
                None => write!(f, "{micros}us"),
            },
        }
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    /// Reads RFC 3339, such as `2026-11-21T10:00:00Z`, or `2026-11-21T18:00:00+08:00`.
    fn from_str(text: &str) -> Result<Self> {
        let invalid = |why: String| {
            Error::new(ErrorKind::InvalidDelay, why).with("value", format!("{text:?}"))
        };
        let micros = match text.parse::<jiff::Timestamp>() {
            Ok(instant) => Some(instant.as_microsecond()),
            Err(_) => micros_of_last_day(text),
        };
        let micros = micros.ok_or_else(|| {
            let message =
                "not an instant; write it like 2026-11-21T10:00:00Z, until 9999-12-31T23:59:59Z";
            invalid(message.into())
        })?;
        let micros =
            u64::try_from(micros).map_err(|_| invalid("instant lies before 1970".into()))?;
        if micros > Timestamp::MAX.as_micros() {
            return Err(invalid("instant lies after the year 9999".into()));
        }
        Ok(Self::from_micros(micros))
    }
}

/// Reads an instant that names no time zone, such as `2026-12-01 08:00` or `2026-12-01T08:00:30`,
/// in the system's time zone. One with a zone is read as that.
///
/// A time that the clocks skip in spring is moved on by as much; of one that comes twice in autumn
/// the first is meant.
///
/// ```
/// use punctual::time::{Timestamp, format_local, parse_local};
///
/// let at = parse_local("2026-12-01 08:00")?;
/// assert_eq!(format_local(at)[..19], *"2026-12-01T08:00:00");
/// assert_eq!(parse_local("2026-12-01T08:00:00Z")?, "2026-12-01T08:00:00Z".parse()?);
/// # Ok::<(), punctual::Error>(())
/// ```
pub fn parse_local(text: &str) -> Result<Timestamp> {
    parse_in(text, &TimeZone::system())
}

fn parse_in(text: &str, zone: &TimeZone) -> Result<Timestamp> {
    let with_zone = text.parse();
    let Ok(civil) = text.trim().parse::<DateTime>() else {
        return with_zone;
    };
    let after_date = text.trim().get(10..).unwrap_or_default();
    if with_zone.is_ok() || after_date.contains(['Z', 'z', '+', '-', '[']) {
        return with_zone;
    }
    let micros = civil.to_zoned(zone.clone());
    let micros = micros.map(|zoned| zoned.timestamp().as_microsecond());
    match micros.map(u64::try_from) {
        Ok(Ok(micros)) if micros <= Timestamp::MAX.as_micros() => {
            Ok(Timestamp::from_micros(micros))
        }
        _ => {
            let message = "instant lies before 1970 or after the year 9999";
            Err(Error::new(ErrorKind::InvalidDelay, message).with("value", format!("{text:?}")))
        }
    }
}

/// Writes an instant in the system's time zone, with its offset and, where it has one, its name:
/// `2026-12-01T08:00:00+08:00 (Asia/Shanghai)`.
pub fn format_local(at: Timestamp) -> String {
    format_in(at, &TimeZone::system())
}

fn format_in(at: Timestamp, zone: &TimeZone) -> String {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    let Ok(instant) = jiff::Timestamp::from_microsecond(micros) else {
        return at.to_string();
    };
    let zoned = instant.to_zoned(zone.clone());
    let text = format!("{}{}", zoned.datetime(), zoned.strftime("%:z"));
    match zone.iana_name() {
        Some(name) if name != "UTC" && name != "Etc/UTC" => format!("{text} ({name})"),
        _ if zoned.offset().is_zero() => at.to_string(),
        _ => text,
    }
}

/// The instants of the library end two hours and a day before the year 9999 does, for the sake of
/// places east and west; its dates do not. So the last ones are read and written two days earlier.
const SHIFT: SignedDuration = SignedDuration::from_hours(48);

fn last_day_of(micros: i64) -> Option<DateTime> {
    let earlier = jiff::Timestamp::from_microsecond(micros - SHIFT.as_micros() as i64).ok()?;
    let earlier = earlier.to_zoned(TimeZone::UTC).datetime();
    earlier.checked_add(SHIFT).ok()
}

fn micros_of_last_day(text: &str) -> Option<i64> {
    let civil: DateTime = text.strip_suffix(['Z', 'z'])?.parse().ok()?;
    let earlier = civil
        .checked_sub(SHIFT)
        .ok()?
        .to_zoned(TimeZone::UTC)
        .ok()?;
    let micros = earlier.timestamp().as_microsecond() + SHIFT.as_micros() as i64;
    // Before that the library's word is the last one.
    (micros > jiff::Timestamp::MAX.as_microsecond()).then_some(micros)
}

const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Reads a span such as `90s`, `1h30m`, `250ms` or `1.5s`; a unit is required.
///
/// ```
/// use punctual::time::{minutes, parse_span};
///
/// assert_eq!(parse_span("1h30m")?, minutes(90));
/// assert!(parse_span("5").is_err());
/// assert!(parse_span("-5m").is_err());
/// # Ok::<(), punctual::Error>(())
/// ```
pub fn parse_span(text: &str) -> Result<Duration> {
    let invalid = || {
        let message =
            "not a span; write a number and a unit of d, h, m, s, ms or us, such as 30m or 1h30m";
        Error::new(ErrorKind::InvalidDelay, message).with("value", format!("{text:?}"))
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut micros = 0_f64;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(invalid)?;
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = UNITS
            .iter()
            .find(|(name, _)| *name == &rest[..letters])
            .ok_or_else(invalid)?
            .1;
        micros += number * unit as f64;
        rest = &rest[letters..];
    }
    if micros > Timestamp::MAX.as_micros() as f64 {
        let message = "span reaches beyond the year 9999";
        return Err(Error::new(ErrorKind::InvalidDelay, message).with("value", format!("{text:?}")));
    }
    Ok(Duration::from_micros(micros.round() as u64))
}

/// Writes a span with its two largest units: `1h30m`, `2.5ms`, `45s`.
///
/// ```
/// use punctual::time::{format_span, millis, minutes};
///
/// assert_eq!(format_span(minutes(90)), "1h30m");
/// assert_eq!(format_span(millis(2_500)), "2.5s");
/// ```
pub fn format_span(span: Duration) -> String {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    if micros < 60_000_000 {
        let (unit, size) = *UNITS[3..]
            .iter()
            .find(|(_, size)| micros >= *size)
            .unwrap_or(&("s", 1));
        let tenths = (micros as f64 / size as f64 * 10.0).floor() / 10.0;
        return format!("{tenths}{unit}");
    }
    let first = UNITS
        .iter()
        .position(|(_, size)| micros >= *size)
        .unwrap_or(0);
    let (unit, size) = UNITS[first];
    let (next_unit, next_size) = UNITS[first + 1];
    match (micros % size) / next_size {
        0 => format!("{}{unit}", micros / size),
        rest => format!("{}{unit}{rest}{next_unit}", micros / size),
    }
}

/// Writes a span so that it reads back as exactly itself, in days and its largest whole unit:
/// `30m`, `1500ms`, `1d12h`.
///
/// ```
/// use punctual::time::{exact_span, millis, minutes};
///
/// assert_eq!(exact_span(minutes(30)), "30m");
/// assert_eq!(exact_span(millis(1_500)), "1500ms");
/// assert_eq!(exact_span(minutes(36 * 60)), "1d12h");
/// ```
pub fn exact_span(span: Duration) -> String {
    let micros = span.as_micros();
    if micros == 0 {
        return "0s".into();
    }
    let (days, rest) = (micros / DAY, micros % DAY);
    if days > 0 && rest > 0 {
        return format!("{days}d{}", whole_units(rest));
    }
    whole_units(micros)
}

/// Microseconds of a day.
const DAY: u128 = UNITS[0].1 as u128;

fn whole_units(micros: u128) -> String {
    let (unit, size) = UNITS
        .into_iter()
        .find(|(_, size)| micros.is_multiple_of(u128::from(*size)))
        .unwrap_or(("us", 1));
    format!("{}{unit}", micros / u128::from(size))
}

#[cfg(test)]
mod tests;
