//! Instants of schedules beside a walk over the minutes, which shares no code with them.
//!
//! The walk knows the offsets of a zone as a list, and each pattern as a condition in Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use punctual::schedule::{Fold, Gap, Spec};
use punctual::time::Timestamp;

/// A minute of a local clock.
#[derive(Debug, Clone, Copy)]
struct Local {
    month: u32,
    day: u32,
    month_days: u32,
    /// From Sunday, which is 0.
    weekday: u32,
    hour: u32,
    minute: u32,
}

impl Local {
    /// Of minutes since 1970.
    fn of(minutes: i64) -> Self {
        let days = minutes.div_euclid(1_440);
        let of_day = minutes.rem_euclid(1_440) as u32;
        let (month, day, month_days) = dates()[days as usize];
        Self {
            month,
            day,
            month_days,
            weekday: (days + 4).rem_euclid(7) as u32,
            hour: of_day / 60,
            minute: of_day % 60,
        }
    }
}

/// Month, day and length of the month of each day from 1970 to 2039, by the Gregorian rule.
fn dates() -> &'static [(u32, u32, u32)] {
    static DATES: OnceLock<Vec<(u32, u32, u32)>> = OnceLock::new();
    DATES.get_or_init(|| {
        let months = (1970..2040).flat_map(|year| (1..=12).map(move |month| (year, month)));
        let days = months.flat_map(|(year, month)| {
            let most = month_days(year, month) as u32;
            (1..=most).map(move |day| (month, day, most))
        });
        days.collect()
    })
}

fn year_days(year: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if is_leap { 366 } else { 365 }
}

fn month_days(year: i64, month: u32) -> i64 {
    match month {
        2 => year_days(year) - 337,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A pattern, whether it goes through changes by real time, and what it says.
type Row = (&'static str, bool, fn(Local) -> bool);

const PATTERNS: [Row; 20] = [
    ("30 2 * * *", false, |t| t.hour == 2 && t.minute == 30),
    ("0 0 * * *", false, |t| t.hour == 0 && t.minute == 0),
    ("30 0 * * *", false, |t| t.hour == 0 && t.minute == 30),
    ("30 1 * * *", false, |t| t.hour == 1 && t.minute == 30),
    ("0 3 * * *", false, |t| t.hour == 3 && t.minute == 0),
    ("45 23 * * *", false, |t| t.hour == 23 && t.minute == 45),
    ("0 12 * * *", false, |t| t.hour == 12 && t.minute == 0),
    ("15 1,2,14 * * *", false, |t| {
        matches!(t.hour, 1 | 2 | 14) && t.minute == 15
    }),
    ("0 */2 * * *", false, |t| t.hour % 2 == 0 && t.minute == 0),
    ("5 0-3 * * MON-FRI", false, |t| {
        t.hour <= 3 && t.minute == 5 && (1..=5).contains(&t.weekday)
    }),
    ("30 2 * * SUN", false, |t| {
        t.hour == 2 && t.minute == 30 && t.weekday == 0
    }),
    ("0 2 L * *", false, |t| {
        t.hour == 2 && t.minute == 0 && t.day == t.month_days
    }),
    ("30 2 25-31 3,10 7", false, |t| {
        let is_month = matches!(t.month, 3 | 10);
        t.hour == 2 && t.minute == 30 && is_month && (t.day >= 25 || t.weekday == 0)
    }),
    ("30 1 * * SUN#1", false, |t| {
        t.hour == 1 && t.minute == 30 && t.weekday == 0 && t.day <= 7
    }),
    ("30 2 * * SUNL", false, |t| {
        t.hour == 2 && t.minute == 30 && t.weekday == 0 && t.day + 7 > t.month_days
    }),
    ("*/15 * * * *", true, |t| t.minute % 15 == 0),
    ("0 * * * *", true, |t| t.minute == 0),
    ("10,40 0-5 * * *", true, |t| {
        t.hour <= 5 && matches!(t.minute, 10 | 40)
    }),
    ("*/20 2 * * *", true, |t| t.hour == 2 && t.minute % 20 == 0),
    ("7-59/13 * * * *", true, |t| {
        t.minute >= 7 && (t.minute - 7) % 13 == 0
    }),
];

/// A change of a zone's offset: minutes since 1970, and the offset before and after in minutes.
type Change = (i64, i64, i64);

/// The zones of the database, one for each table of changes from 2000 to 2037.
fn tables() -> BTreeMap<Vec<Change>, String> {
    let database = TimeZoneDatabase::bundled();
    let mut tables = BTreeMap::new();
    for name in database.available() {
        let name = name.as_str().to_owned();
        // Other names are links or no places.
        if Spec::cron("0 0 * * *").zone(&*name).build().is_err() {
            continue;
        }
        let zone = database.get(&name).expect("a zone of the database");
        tables.entry(changes(&zone)).or_insert_with(|| {
            check_daily(&zone, &changes(&zone));
            name
        });
    }
    tables
}

/// The years 2000 to 2037.
const FIRST_MINUTE: i64 = 10_957 * 1_440;
const LAST_MINUTE: i64 = 24_837 * 1_440;

/// The changes of a zone, after an entry for the offset that it begins with.
fn changes(zone: &TimeZone) -> Vec<Change> {
    let minutes = |seconds: i64| {
        assert_eq!(seconds % 60, 0, "offsets and changes are at whole minutes");
        seconds / 60
    };
    let first = jiff::Timestamp::from_second(FIRST_MINUTE * 60).expect("an instant");
    let mut before = minutes(zone.to_offset(first).seconds().into());
    let mut changes = vec![(FIRST_MINUTE, before, before)];
    for change in zone.following(first) {
        let at = minutes(change.timestamp().as_second());
        if at >= LAST_MINUTE {
            break;
        }
        let after = minutes(change.offset().seconds().into());
        if after != before {
            changes.push((at, before, after));
        }
        before = after;
    }
    changes
}

/// The list has every change: on each day the zone has the offset that the list says.
fn check_daily(zone: &TimeZone, changes: &[Change]) {
    let mut passed = 0;
    for minute in (FIRST_MINUTE..LAST_MINUTE).step_by(1_440) {
        while changes
            .get(passed + 1)
            .is_some_and(|(at, ..)| *at <= minute)
        {
            passed += 1;
        }
        let instant = jiff::Timestamp::from_second(minute * 60).expect("an instant");
        let offset = i64::from(zone.to_offset(instant).seconds()) / 60;
        assert_eq!(offset, changes[passed].2, "minute {minute}");
    }
}

/// The walk: the runs of a pattern in a zone between two minutes.
struct Walk<'a> {
    changes: &'a [Change],
    gap: Gap,
    fold: Fold,
}

impl Walk<'_> {
    fn offset(&self, minute: i64) -> i64 {
        let index = self.changes.partition_point(|(at, ..)| *at <= minute);
        match index.checked_sub(1) {
            Some(index) => self.changes[index].2,
            None => self.changes[0].1,
        }
    }

    /// Whether the clock shows what it shows at `minute` at another time as well, and before it.
    fn twin(&self, minute: i64) -> Option<bool> {
        let local = minute + self.offset(minute);
        let near = self
            .changes
            .iter()
            .filter(|(at, ..)| (at - minute).abs() < 2_880);
        let offsets = near.flat_map(|(_, before, after)| [before, after]);
        let mut twins = offsets
            .map(|offset| local - offset)
            .filter(|twin| *twin != minute && *twin + self.offset(*twin) == local);
        twins.next().map(|twin| twin < minute)
    }

    /// What the clock shows in each minute, and whether it shows the same before or after that.
    fn minutes(&self, first: i64, last: i64) -> Vec<(i64, Local, Option<bool>)> {
        (first..=last)
            .map(|minute| {
                let local = Local::of(minute + self.offset(minute));
                (minute, local, self.twin(minute))
            })
            .collect()
    }

    fn runs(&self, row: &Row, minutes: &[(i64, Local, Option<bool>)]) -> BTreeSet<i64> {
        let (_, is_fine, says) = *row;
        let mut runs = BTreeSet::new();
        for (minute, local, twin) in minutes {
            let is_run = match (is_fine, self.fold, twin) {
                (true, ..) | (_, Fold::Both, _) | (_, _, None) => true,
                (_, Fold::First, Some(twin_is_before)) => !twin_is_before,
                (_, _, Some(twin_is_before)) => *twin_is_before,
            };
            if is_run && says(*local) {
                runs.insert(*minute);
            }
        }
        let edges = minutes.first().zip(minutes.last());
        let (first, last) = edges.map_or((0, 0), |(first, last)| (first.0, last.0));
        for (at, before, after) in self
            .changes
            .iter()
            .filter(|(_, before, after)| before < after)
        {
            let gap = at + before..at + after;
            let mut hour_after = at + after..at + after + 60;
            if is_fine && hour_after.any(|local| says(Local::of(local))) {
                continue;
            }
            let missed = gap.filter(|local| says(Local::of(*local)));
            match self.gap {
                Gap::AtItsEnd => runs.extend(missed.map(|_| *at)),
                Gap::Shift => runs.extend(missed.map(|local| local - before)),
                _ => {}
            }
        }
        runs.retain(|minute| (first..=last).contains(minute));
        runs
    }
}

/// The same by the library.
fn runs_of(spec: &Spec, first: i64, last: i64) -> BTreeSet<i64> {
    let from = Timestamp::from_micros(first as u64 * 60_000_000);
    let minutes = spec.instants(from).map(|at| {
        assert_eq!(at.as_micros() % 60_000_000, 0, "{at}");
        (at.as_micros() / 60_000_000) as i64
    });
    minutes.take_while(|minute| *minute <= last).collect()
}

/// Compares 20 patterns around each change of a table; every `step`th change alone counts.
fn compare(zone: &str, changes: &[Change], gap: Gap, fold: Fold, step: usize) -> usize {
    let specs: Vec<Spec> = PATTERNS
        .iter()
        .map(|(pattern, ..)| Spec::cron(*pattern).zone(zone).gap(gap).fold(fold))
        .map(|parts| parts.build().expect("a pattern of the table"))
        .collect();
    let mut compared = 0;
    for index in (1..changes.len()).step_by(step) {
        let (at, before, after) = changes[index];
        let near = &changes[index - 1..changes.len().min(index + 2)];
        let walk = Walk {
            changes: near,
            gap,
            fold,
        };
        let reach = 150 + (after - before).abs();
        let minutes = walk.minutes(at - reach, at + reach);
        for (row, spec) in PATTERNS.iter().zip(&specs) {
            let wanted = walk.runs(row, &minutes);
            let found = runs_of(spec, at - reach, at + reach);
            assert_eq!(
                found, wanted,
                "{zone}: {:?} around minute {at}, {gap:?} {fold:?}",
                row.0
            );
        }
        compared += 1;
    }
    compared
}

#[test]
fn twenty_patterns_agree_with_a_walk_at_every_change_of_every_zone() {
    let tables = tables();
    let mut compared = 0;
    for (changes, zone) in &tables {
        compared += compare(zone, changes, Gap::AtItsEnd, Fold::First, 1);
    }
    println!("{} tables, {compared} changes", tables.len());
    assert!(tables.len() >= 150, "{} tables", tables.len());
    assert!(compared >= 5_500, "{compared} changes");
}

#[test]
fn other_policies_agree_with_a_walk_at_every_seventh_change() {
    for (changes, zone) in &tables() {
        compare(zone, changes, Gap::Shift, Fold::Last, 7);
        compare(zone, changes, Gap::Skip, Fold::Both, 7);
    }
}

/// Plain numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(most)) as u32
    }

    /// A field of a pattern, and the values that it names.
    fn field(&mut self, least: u32, most: u32) -> (String, BTreeSet<u32>) {
        if self.below(3) == 0 {
            return ("*".into(), (least..=most).collect());
        }
        let parts: Vec<_> = (0..=self.below(3))
            .map(|_| self.part(least, most))
            .collect();
        let texts: Vec<&str> = parts.iter().map(|(text, _)| text.as_str()).collect();
        (
            texts.join(","),
            parts
                .iter()
                .flat_map(|(_, values)| values.clone())
                .collect(),
        )
    }

    fn part(&mut self, least: u32, most: u32) -> (String, BTreeSet<u32>) {
        let first = least + self.below(most - least + 1);
        let last = first + self.below(most - first + 1);
        let step = 1 + self.below(most - least);
        match self.below(4) {
            0 => (format!("{first}"), [first].into()),
            1 => (format!("{first}-{last}"), (first..=last).collect()),
            2 => {
                let values = (first..=last).step_by(step as usize).collect();
                (format!("{first}-{last}/{step}"), values)
            }
            _ => (
                format!("*/{step}"),
                (least..=most).step_by(step as usize).collect(),
            ),
        }
    }
}

#[test]
fn random_patterns_agree_with_a_walk_on_days_without_a_change() {
    const DAYS: i64 = 40;
    let seed = std::env::var("PUNCTUAL_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut draw = Draw(seed.unwrap_or(20_261_125));
    // From 1 May 2027: no change in these before the middle of June, and a month's end within.
    let first = 20_939 * 1_440;
    let zones = [
        "UTC",
        "America/New_York",
        "Asia/Kolkata",
        "Australia/Eucla",
        "Pacific/Kiritimati",
    ];
    let mut instants = 0;
    for round in 0..80 {
        let (minute, minutes) = draw.field(0, 59);
        let (hour, hours) = draw.field(0, 23);
        let (day, days) = draw.field(1, 31);
        let (month, months) = draw.field(1, 12);
        let (weekday, weekdays) = draw.field(0, 6);
        let text = format!("{minute} {hour} {day} {month} {weekday}");
        let zone = zones[round % zones.len()];
        let Ok(spec) = Spec::cron(&*text).zone(zone).build() else {
            // Such as the 31st of February.
            continue;
        };
        let has_day = |local: Local| {
            let (by_day, by_weekday) =
                (days.contains(&local.day), weekdays.contains(&local.weekday));
            match (day == "*", weekday == "*") {
                (false, false) => by_day || by_weekday,
                _ => by_day && by_weekday,
            }
        };
        let database = TimeZoneDatabase::bundled();
        let rules = if zone == "UTC" {
            TimeZone::UTC
        } else {
            database.get(zone).expect("a zone")
        };
        let instant = jiff::Timestamp::from_second(first * 60).expect("an instant");
        let offset = i64::from(rules.to_offset(instant).seconds()) / 60;
        let last = first + DAYS * 1_440;
        let wanted: BTreeSet<i64> = (first..=last)
            .filter(|at| {
                let local = Local::of(at + offset);
                minutes.contains(&local.minute)
                    && hours.contains(&local.hour)
                    && months.contains(&local.month)
                    && has_day(local)
            })
            .collect();
        assert_eq!(runs_of(&spec, first, last), wanted, "{text:?} in {zone}");
        instants += wanted.len();
    }
    assert!(instants > 10_000, "{instants}");
}
