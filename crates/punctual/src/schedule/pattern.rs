//! A cron pattern: which local times it names. Zones and clock changes are not its business.

use croner::CronPattern;
use croner::parser::{CronParser, Seconds, Year};
use croner::time::Weekday;
use jiff::civil::{Date, DateTime, Time};

use crate::error::{Error, ErrorKind, Result};
use crate::job::shown;

use super::field::{self, Field, Parsed};
use super::parts::{Form, PatternText};
use super::refuse;

/// The longest pattern.
const PATTERN_BYTES_MAX: usize = 256;
/// A search ends with the last day of that many more years: 29 February comes within eight.
const YEARS_MAX: i16 = 8;

/// A pattern that has been read.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// Which days match, but for `from_last`.
    cron: CronPattern,
    /// Whether `cron` names days at all.
    has_days: bool,
    /// Days before the last one of a month: bit `n` for `L-n`.
    from_last: u32,
    hours: u64,
    minutes: u64,
    seconds: u64,
    form: Form,
}

impl Pattern {
    pub(super) fn read(written: &PatternText) -> Result<Self> {
        let PatternText { form, text } = written;
        let named = |error: Error| error.with("pattern", shown(text));
        let pattern = Self::read_fields(*form, text).map_err(named)?;
        if pattern
            .next(Date::constant(2000, 1, 1).into(), DateTime::MAX)
            .is_none()
            && pattern
                .next(Date::constant(1970, 1, 1).into(), DateTime::MAX)
                .is_none()
        {
            let what = "cron: the pattern never runs: no month has that day; change day or month";
            return Err(named(refuse(what)));
        }
        Ok(pattern)
    }

    fn read_fields(form: Form, text: &str) -> Result<Self> {
        let parts = split(form, text)?;
        let parsed = |field: &Field, part: &str| field.read(part, form);
        let [second, minute, hour, day, month, weekday, year] = parts;
        let weekdays = match form {
            Form::Quartz => field::QUARTZ_WEEKDAY,
            _ => field::WEEKDAY,
        };
        let day_parsed = parsed(&field::DAY, day)?;
        let weekday_parsed = parsed(&weekdays, weekday)?;
        if form == Form::Quartz {
            check_question_marks(day, weekday)?;
        }
        let days = days_for_croner(&day_parsed);
        let fields = [
            parsed(&field::SECOND, second)?.text,
            parsed(&field::MINUTE, minute)?.text,
            parsed(&field::HOUR, hour)?.text,
            days.to_owned(),
            parsed(&field::MONTH, month)?.text,
            weekday_parsed.text.clone(),
            parsed(&field::YEAR, year)?.text,
        ];
        let parser = CronParser::builder()
            .seconds(Seconds::Required)
            .year(Year::Required)
            .build();
        // Every field was checked: what croner still refuses is a gap in the checks.
        let cron = parser.parse(&fields.join(" ")).map_err(|error| {
            Error::new(
                ErrorKind::InvalidInput,
                "cron: the pattern is not understood; write it in another way, and please report this",
            )
            .source(error)
        })?;
        let cron = cron.pattern;
        Ok(Self {
            has_days: !day_parsed.text.is_empty() || !weekday_parsed.is_open(),
            from_last: day_parsed.from_last,
            hours: mask(&cron.hours.values()),
            minutes: mask(&cron.minutes.values()),
            seconds: mask(&cron.seconds.values()),
            cron,
            form,
        })
    }

    /// Whether its runs follow real time where the clock is changed: it runs in every hour, or more
    /// than once in an hour.
    pub(super) fn follows_real_time(&self) -> bool {
        self.hours == ALL_HOURS || self.minutes.count_ones() * self.seconds.count_ones() > 1
    }

    /// The first local time from `from` on and before `until` that the pattern names.
    ///
    /// Ends after eight years; those that a year field leaves out do not count.
    pub(super) fn next(&self, from: DateTime, until: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut time = from.time();
        let mut years = 0;
        loop {
            if !self.has_year(date.year()) {
                date = self.next_year(date, until)?;
                time = Time::midnight();
                continue;
            }
            if !self.has_month(date) {
                let next = first_of_next_month(date)?;
                years += next.year() - date.year();
                date = next;
                time = Time::midnight();
            } else if let Some(found) = self.next_on(date, time) {
                return (found < until).then_some(found);
            } else {
                let next = date.tomorrow().ok()?;
                years += next.year() - date.year();
                date = next;
                time = Time::midnight();
            }
            if years > YEARS_MAX || DateTime::from(date) >= until {
                return None;
            }
        }
    }

    /// The last year that a search from that year on examines.
    pub(super) fn last_year(&self, from: i16) -> i16 {
        (from..=field::YEAR_MAX.max(from.saturating_add(YEARS_MAX)))
            .filter(|year| self.has_year(*year))
            .take(YEARS_MAX as usize + 1)
            .last()
            .unwrap_or(from)
    }

    /// Whether it names that local time; a pattern without seconds names the whole minute.
    pub(super) fn covers(&self, local: DateTime) -> bool {
        let has = |mask: u64, value: i8| mask >> value & 1 == 1;
        has(self.hours, local.hour())
            && has(self.minutes, local.minute())
            && (self.form == Form::Cron || has(self.seconds, local.second()))
            && self.has_year(local.year())
            && self.has_month(local.date())
            && self.has_day(local.date())
    }

    /// The end of the stretch around a local time that it covers in one go.
    pub(super) fn covered_until(&self, local: DateTime) -> Option<DateTime> {
        let all_seconds = self.form == Form::Cron || self.seconds == ALL_MINUTES;
        let all_minutes = all_seconds && self.minutes == ALL_MINUTES;
        let date = local.date();
        if all_minutes && self.hours == ALL_HOURS {
            return Some(date.tomorrow().ok()?.into());
        }
        let (hour, minute, second) = (local.hour(), local.minute(), local.second());
        let seconds = match (all_minutes, all_seconds) {
            (true, _) => 3_600 - i64::from(minute) * 60 - i64::from(second),
            (false, true) => 60 - i64::from(second),
            (false, false) => 1,
        };
        let whole = date.at(hour, minute, second, 0);
        whole
            .checked_add(jiff::SignedDuration::from_secs(seconds))
            .ok()
    }

    /// The shortest span between two of its times, in seconds, were it to run on every day.
    pub(super) fn shortest_span(&self) -> u64 {
        const DAY: u64 = 86_400;
        let second_of = |time: Time| {
            time.hour() as u64 * 3_600 + time.minute() as u64 * 60 + time.second() as u64
        };
        let mut times = std::iter::successors(self.next_time(Time::midnight()), |time| {
            let later = time.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
            self.next_time(later)
        })
        .map(second_of);
        let Some(first) = times.next() else {
            return DAY;
        };
        let (last, shortest) = times.fold((first, DAY), |(last, shortest), time| {
            (time, shortest.min(time - last))
        });
        shortest.min(first + DAY - last)
    }

    fn next_on(&self, date: Date, from: Time) -> Option<DateTime> {
        if !self.has_day(date) {
            return None;
        }
        Some(date.to_datetime(self.next_time(from)?))
    }

    /// The first time of a day from `from` on.
    fn next_time(&self, from: Time) -> Option<Time> {
        let (hour, minute) = (from.hour() as u32, from.minute() as u32);
        let first_second = self.seconds.trailing_zeros();
        let first_minute = self.minutes.trailing_zeros();
        let of_day =
            |hour, minute, second| Time::new(hour as i8, minute as i8, second as i8, 0).ok();
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = next_bit(self.seconds, from.second() as u32)
            {
                return of_day(hour, minute, second);
            }
            if let Some(minute) = next_bit(self.minutes, minute + 1) {
                return of_day(hour, minute, first_second);
            }
        }
        let hour = next_bit(self.hours, hour + 1)?;
        of_day(hour, first_minute, first_second)
    }

    fn has_day(&self, date: Date) -> bool {
        let days = date.days_in_month();
        let before_last = (days - date.day()) as u32;
        if self.from_last >> before_last & 1 == 1 {
            return true;
        }
        let weekday = date.weekday().to_sunday_zero_offset();
        let weekday = Weekday::from_days_from_sunday(weekday as u32);
        let (year, month, day) = (date.year().into(), date.month() as u32, date.day() as u32);
        self.has_days && matches!(self.cron.day_match(year, month, day, weekday), Ok(true))
    }

    fn has_month(&self, date: Date) -> bool {
        matches!(self.cron.month_match(date.month() as u32), Ok(true))
    }

    fn has_year(&self, year: i16) -> bool {
        matches!(self.cron.year_match(year.into()), Ok(true))
    }

    /// The first day of the next year that the pattern names.
    fn next_year(&self, date: Date, until: DateTime) -> Option<Date> {
        let last = until.year().min(field::YEAR_MAX);
        let year = (date.year().checked_add(1)?..=last).find(|year| self.has_year(*year))?;
        Date::new(year, 1, 1).ok()
    }
}

/// What `croner` is given for the days of a month: without any, the weekday alone decides.
fn days_for_croner(parsed: &Parsed) -> &str {
    match parsed.text.is_empty() {
        true => "*",
        false => &parsed.text,
    }
}

const ALL_HOURS: u64 = (1 << 24) - 1;
/// Of minutes, and of seconds.
const ALL_MINUTES: u64 = (1 << 60) - 1;

fn mask(values: &[u16]) -> u64 {
    values.iter().fold(0, |mask, value| mask | 1 << value)
}

/// The first set bit from `from` on.
fn next_bit(mask: u64, from: u32) -> Option<u32> {
    let rest = mask.checked_shr(from)?;
    (rest != 0).then(|| from + rest.trailing_zeros())
}

fn first_of_next_month(date: Date) -> Option<Date> {
    date.last_of_month().tomorrow().ok()
}

/// Second, minute, hour, day of month, month, day of week and year, filled up where the form has
/// none.
fn split(form: Form, text: &str) -> Result<[&str; 7]> {
    if text.len() > PATTERN_BYTES_MAX {
        let what = format!("cron: the pattern is too long; use at most {PATTERN_BYTES_MAX} bytes");
        return Err(refuse(what));
    }
    if text.trim_start().starts_with('@') {
        let what = "cron: names such as @daily and @every are not read; \
                    write five fields such as `0 0 * * *`, or use `every` for a span";
        return Err(refuse(what));
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    match (form, fields.as_slice()) {
        (Form::Cron, &[minute, hour, day, month, weekday]) => {
            Ok(["0", minute, hour, day, month, weekday, "*"])
        }
        (Form::CronWithSeconds, &[second, minute, hour, day, month, weekday])
        | (Form::Quartz, &[second, minute, hour, day, month, weekday]) => {
            Ok([second, minute, hour, day, month, weekday, "*"])
        }
        (Form::Quartz, &[second, minute, hour, day, month, weekday, year]) => {
            Ok([second, minute, hour, day, month, weekday, year])
        }
        (form, fields) => Err(refuse(wrong_number(form, fields.len()))),
    }
}

fn wrong_number(form: Form, fields: usize) -> String {
    let needed = match form {
        Form::Cron if fields == 6 || fields == 7 => {
            "write five: minute, hour, day of month, month, day of week; \
             a pattern with seconds or of Quartz has an option of its own"
        }
        Form::Cron => "write five: minute, hour, day of month, month, day of week",
        Form::CronWithSeconds => {
            "write six: second, minute, hour, day of month, month, day of week"
        }
        Form::Quartz => {
            "write six or seven: second, minute, hour, day of month, month, day of week, year"
        }
    };
    let fields = match fields {
        1 => "1 field".to_owned(),
        n => format!("{n} fields"),
    };
    format!("cron: the pattern has {fields}; {needed}")
}

/// A Quartz pattern must say in which of the two fields it names days.
fn check_question_marks(day: &str, weekday: &str) -> Result<()> {
    match (day, weekday) {
        ("?", "?") => {
            let what = "cron: day of month and day of week are both ?; write * for one";
            Err(refuse(what))
        }
        ("?", _) | (_, "?") => Ok(()),
        _ => {
            let what = "cron: a Quartz pattern names days in one field; \
                        write ? for day of month or for day of week";
            Err(refuse(what))
        }
    }
}

#[cfg(test)]
mod tests;
