//! One field of a cron pattern: checked, so that an error names it, and rewritten for `croner`.

use crate::error::Result;
use crate::job::shown;

use super::{Form, refuse};

/// What a field may say.
pub(super) struct Field {
    /// As errors call it.
    name: &'static str,
    least: u32,
    most: u32,
    /// Names that stand for numbers, the first for `first_name`.
    names: &'static [&'static str],
    first_name: u32,
}

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const fn numbers(name: &'static str, least: u32, most: u32) -> Field {
    Field {
        name,
        least,
        most,
        names: &[],
        first_name: 0,
    }
}

pub(super) const SECOND: Field = numbers("second", 0, 59);
pub(super) const MINUTE: Field = numbers("minute", 0, 59);
pub(super) const HOUR: Field = numbers("hour", 0, 23);
pub(super) const DAY: Field = numbers("day of month", 1, 31);
/// The last year that Quartz knows.
pub(super) const YEAR_MAX: i16 = 2099;
pub(super) const YEAR: Field = numbers("year", 1970, YEAR_MAX as u32);
pub(super) const MONTH: Field = Field {
    names: &MONTHS,
    first_name: 1,
    ..numbers("month", 1, 12)
};
/// Cron counts from Sunday, which is 0 and 7.
pub(super) const WEEKDAY: Field = Field {
    names: &WEEKDAYS,
    ..numbers("day of week", 0, 7)
};
/// Quartz counts from Sunday, which is 1.
pub(super) const QUARTZ_WEEKDAY: Field = Field {
    names: &WEEKDAYS,
    first_name: 1,
    ..numbers("day of week", 1, 7)
};

/// What a field says.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// The field as `croner` reads it, without what follows here; empty if that is all.
    pub(super) text: String,
    /// The days of `L-n` in a day of month, a bit for each `n`.
    pub(super) from_last: u32,
}

impl Parsed {
    /// Whether the field leaves every value open. Only a bare `*` or `?` does.
    pub(super) fn is_open(&self) -> bool {
        self.text == "*"
    }
}

impl Field {
    /// Reads a field of a pattern of that form.
    pub(super) fn read(&self, text: &str, form: Form) -> Result<Parsed> {
        if let Some(wrong) = text.chars().find(|c| !c.is_ascii()) {
            let what = match wrong.is_numeric() {
                true => "has a digit of another script; write 0 to 9",
                false => "has a letter that is not ASCII; write digits, names and * , - / L W #",
            };
            return self.refused(text, what);
        }
        let text = text.to_ascii_uppercase();
        if text == "*" || (text == "?" && form == Form::Quartz && self.is_day()) {
            return Ok(Parsed {
                text: "*".into(),
                from_last: 0,
            });
        }
        let mut parsed = Parsed::default();
        for part in text.split(',') {
            if let Some(days) = part.strip_prefix("L-").filter(|_| self.is_day_of_month()) {
                parsed.from_last |= 1 << self.days_from_last(part, days)?;
                continue;
            }
            if !parsed.text.is_empty() {
                parsed.text.push(',');
            }
            parsed.text.push_str(&self.part(part, form)?);
        }
        let has = |part: &str| parsed.text.split(',').any(|other| other == part);
        if has("L") && has("LW") {
            return self.refused(&text, "has both L and LW; use two patterns");
        }
        Ok(parsed)
    }

    /// One part of a list.
    fn part(&self, part: &str, form: Form) -> Result<String> {
        if part.is_empty() {
            return self.refused(part, "has an empty part; remove the comma, or write *");
        }
        if let Some((range, step)) = part.split_once('/') {
            return self.stepped(part, range, step, form);
        }
        match part {
            "*" => return self.refused(part, "is in a list; write it alone"),
            "?" if form == Form::Quartz => {
                return self.refused(part, "has no ?; only the two day fields do: write *");
            }
            "?" => {
                let what = "has a ?, which is Quartz; write *, or pass it as a Quartz pattern";
                return self.refused(part, what);
            }
            "L" | "LW" if self.is_day_of_month() => return Ok(part.into()),
            // Saturday, the last day of a week.
            "L" if form == Form::Quartz && self.is_weekday() => return Ok("6".into()),
            "L" if self.is_weekday() => {
                return self.refused(part, "has an L alone; write 5L for the last Friday");
            }
            _ => {}
        }
        if self.is_weekday() {
            if let Some(day) = part.strip_suffix('L') {
                return Ok(format!("{}L", self.weekday(day)?));
            }
            if let Some((day, nth)) = part.split_once('#') {
                let Some(nth) = number(nth).filter(|nth| (1..=5).contains(nth)) else {
                    let what = "has no week after the #; write 1 to 5, such as 5#3 for the third";
                    return self.refused(part, what);
                };
                return Ok(format!("{}#{nth}", self.weekday(day)?));
            }
        }
        if let Some(day) = part.strip_suffix('W').filter(|_| self.is_day_of_month()) {
            return Ok(format!("{}W", self.value(day)?));
        }
        match part.split_once('-') {
            Some((first, last)) => {
                let text =
                    |first, last| format!("{}-{}", self.as_croner(first), self.as_croner(last));
                let (from, until) = (self.value(first)?, self.value(last)?);
                if form == Form::Quartz && from > until && self.name != YEAR.name {
                    let (end, start) = (text(from, self.most), text(self.least, until));
                    return Ok(format!("{end},{start}"));
                }
                let (first, last) = self.range(part, first, last)?;
                Ok(text(first, last))
            }
            None => Ok(self.as_croner(self.value(part)?).to_string()),
        }
    }

    /// A range, or everything, in steps.
    fn stepped(&self, part: &str, range: &str, step: &str, form: Form) -> Result<String> {
        let reach = self.most - self.least;
        let step = match number(step) {
            Some(step) if (1..=reach).contains(&step) => step,
            Some(0) => return self.refused(part, &format!("has a step of 0; write 1 to {reach}")),
            Some(_) => {
                let what = format!(
                    "has a step longer than the field; write 1 to {reach}, or use `every` for a span"
                );
                return self.refused(part, &what);
            }
            None => {
                return self.refused(part, "has a step that is no number; write one such as */5");
            }
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => return Ok(format!("*/{step}")),
            Some((first, last)) => self.range(part, first, last)?,
            None if range.is_empty() => {
                return self.refused(part, &format!("has a step of nothing; write */{step}"));
            }
            None => {
                let first = self.value(range)?;
                if form != Form::Quartz {
                    let most = self.most;
                    let what = format!(
                        "has a start and a step, which is Quartz; write {first}-{most}/{step}"
                    );
                    return self.refused(part, &what);
                }
                (first, self.most)
            }
        };
        let (first, last) = (self.as_croner(first), self.as_croner(last));
        Ok(format!("{first}-{last}/{step}"))
    }

    fn range(&self, part: &str, first: &str, last: &str) -> Result<(u32, u32)> {
        let first = self.value(first)?;
        // The week of cron ends with the Sunday that it begins with.
        let last = match last {
            "SUN" if self.most == WEEKDAY.most && self.least == 0 => 7,
            last => self.value(last)?,
        };
        if first <= last {
            return Ok((first, last));
        }
        let (least, most) = (self.least, self.most);
        let what = format!("runs backward; write {first}-{most},{least}-{last} to go round");
        self.refused(part, &what)
    }

    /// A number, or a name for one.
    fn value(&self, text: &str) -> Result<u32> {
        let (least, most) = (self.least, self.most);
        if let Some(place) = self.names.iter().position(|name| *name == text) {
            return Ok(place as u32 + self.first_name);
        }
        match number(text) {
            Some(value) if (least..=most).contains(&value) => Ok(value),
            Some(_) => self.refused(text, &format!("is out of range; write {least} to {most}")),
            None => {
                let names = match self.names {
                    [] => String::new(),
                    [first, .., last] => format!(" or {first} to {last}"),
                    [one] => format!(" or {one}"),
                };
                let what = format!("is not understood; write * or {least} to {most}{names}");
                self.refused(text, &what)
            }
        }
    }

    /// A weekday as `croner` counts it.
    fn weekday(&self, text: &str) -> Result<u32> {
        Ok(self.as_croner(self.value(text)?) % 7)
    }

    fn as_croner(&self, value: u32) -> u32 {
        match self.is_weekday() {
            true => value - self.least,
            false => value,
        }
    }

    fn days_from_last(&self, part: &str, days: &str) -> Result<u32> {
        match number(days).filter(|days| (1..=30).contains(days)) {
            Some(days) => Ok(days),
            None => self.refused(part, "goes back from the last day; write L-1 to L-30"),
        }
    }

    fn is_day(&self) -> bool {
        self.is_day_of_month() || self.is_weekday()
    }

    fn is_day_of_month(&self) -> bool {
        self.name == DAY.name
    }

    fn is_weekday(&self) -> bool {
        self.name == WEEKDAY.name
    }

    fn refused<T>(&self, text: &str, what: &str) -> Result<T> {
        let name = self.name;
        Err(refuse(format!("cron: {name} {} {what}", shown(text))))
    }
}

/// A number of at most four digits, all of them ASCII.
fn number(text: &str) -> Option<u32> {
    let is_number =
        (1..=4).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
