//! The next instants of a calendar, for engines that keep a list of them.

use std::time::Duration;

use super::parts::SpecBuilder;
use super::series::{Next, Series};
use crate::time::{Timestamp, hours, minutes};

/// A full list has at least that many instants, and reaches at least [`LASTS`] ahead.
pub(crate) const LIST_MIN: usize = 16;
/// The most instants of a list.
pub(crate) const LIST_MAX: usize = 256;
pub(crate) const LASTS: Duration = hours(1);
/// A list is refilled once it has fewer instants, or reaches less far ahead and is half empty.
pub(crate) const LOW: usize = 8;
pub(crate) const LOW_SPAN: Duration = minutes(30);

/// What a list has already, for [`SpecBuilder::list`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Listed {
    /// Instants before this one are in the list, or past.
    pub searched: Timestamp,
    /// How many instants it has.
    pub count: usize,
    /// The last of them.
    pub last: Option<Timestamp>,
    /// So many it should have at least, whatever they span.
    pub least: usize,
}

impl Listed {
    /// A list of `count` instants that was searched up to then.
    pub fn new(searched: Timestamp, count: usize, last: Option<Timestamp>, least: usize) -> Self {
        Self {
            searched,
            count,
            last,
            least,
        }
    }
}

/// More instants for a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MoreInstants {
    /// In order.
    pub instants: Vec<Timestamp>,
    /// From where on to look up the next ones.
    pub searched: Timestamp,
    /// Whether there are none.
    pub is_complete: bool,
}

impl MoreInstants {
    /// These instants: all up to `searched`, and all that there are if it is complete.
    pub fn new(instants: Vec<Timestamp>, searched: Timestamp, is_complete: bool) -> Self {
        Self {
            instants,
            searched,
            is_complete,
        }
    }
}

impl SpecBuilder {
    /// Whether spans and fixed instants alone name the instants, so that an engine needs no list.
    pub fn is_sums(&self) -> bool {
        self.patterns.is_empty() && self.except.is_empty()
    }

    /// What fills a list, at most so many instants; `None` in a build without calendars.
    ///
    /// A full list has sixteen instants and reaches an hour ahead, but never has over 256.
    pub fn list(&self, known: Listed, now: Timestamp, most: usize) -> Option<MoreInstants> {
        let series = Series::of("", self);
        let mut more = MoreInstants {
            instants: Vec::new(),
            searched: known.searched,
            is_complete: false,
        };
        let reach = now + LASTS;
        loop {
            let count = known.count + more.instants.len();
            let last = more.instants.last().copied().or(known.last);
            let is_long = count >= LIST_MIN.max(known.least);
            let is_full = count >= LIST_MAX || is_long && last.is_some_and(|last| last >= reach);
            if is_full || more.instants.len() >= most {
                return Some(more);
            }
            match series.next(more.searched) {
                Next::At(found) => {
                    more.searched = found.at + Duration::from_micros(1);
                    more.instants.push(found.at);
                }
                Next::End => {
                    more.is_complete = true;
                    return Some(more);
                }
                Next::Unknown => return None,
            }
        }
    }
}
