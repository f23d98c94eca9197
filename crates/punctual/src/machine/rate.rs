//! What a rate lets start, and from what was counted when it opens: arithmetic in whole
//! microseconds, without a queue. Redis has the same in `gate.lua`.

use super::rows::RateRow;
use crate::engine::Rate;
use crate::injected::{Bug, is_injected};
use crate::time::Timestamp;

/// Starts of a window that are counted one by one. More are counted in as many parts of it.
const PARTS: u64 = 64;

fn micros(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Microseconds between two starts of a smooth rate.
fn interval(starts: u64, per: std::time::Duration) -> u64 {
    micros(per).div_ceil(starts.max(1)).max(1)
}

/// How long a part of a window is; starts within one count as at the last of them.
fn part(starts: u64, per: u64) -> u64 {
    if starts <= PARTS {
        0
    } else {
        per.div_ceil(PARTS)
    }
}

impl RateRow {
    pub(super) fn new() -> Self {
        Self {
            next: Timestamp::ZERO,
            since: Timestamp::ZERO,
            starts: Vec::new(),
        }
    }

    /// When nothing that was counted counts any more, if something does now.
    pub(super) fn counts_until(&self, rate: &Rate, now: Timestamp) -> Option<Timestamp> {
        let until = match rate {
            Rate::Smooth { .. } => self.next,
            Rate::Window { per, .. } => self
                .starts
                .last()
                .map_or(Timestamp::ZERO, |(at, _)| *at + *per),
        };
        Some(until).filter(|until| *until > now)
    }

    /// How many may start now.
    pub(super) fn room(&self, rate: &Rate, now: Timestamp) -> u64 {
        let now = now.as_micros();
        match rate {
            Rate::Smooth { starts, per, burst } => {
                let every = interval(*starts, *per);
                let ahead = self.ahead(every, *burst, now);
                let most = every * burst;
                if ahead > most {
                    return 0;
                }
                (most - ahead) / every + 1
            }
            Rate::Window { starts, per } => {
                let counted: u64 = self.live(micros(*per), now).map(|(_, n)| n).sum();
                starts.saturating_sub(counted)
            }
        }
    }

    /// When one may start, if none may now.
    pub(super) fn opens_at(&self, rate: &Rate, now: Timestamp) -> Option<Timestamp> {
        if self.room(rate, now) > 0 {
            return None;
        }
        let at = match rate {
            Rate::Smooth { starts, per, burst } => {
                let every = interval(*starts, *per);
                let ahead = self.ahead(every, *burst, now.as_micros());
                now.as_micros() + ahead - every * burst
            }
            Rate::Window { starts, per } => {
                let per = micros(*per);
                let mut over: u64 = self.live(per, now.as_micros()).map(|(_, n)| n).sum();
                let mut opens = now.as_micros() + per;
                for (at, n) in self.live(per, now.as_micros()) {
                    over -= n;
                    if over < *starts {
                        opens = leaves(at, per);
                        break;
                    }
                }
                opens
            }
        };
        Some(Timestamp::from_micros(at))
    }

    /// When a job may start that takes so many units; `None` if it may now. One that takes more
    /// than ever may start at once is to start while nothing counts.
    pub(super) fn opens_for(&self, rate: &Rate, now: Timestamp, units: u64) -> Option<Timestamp> {
        let us = now.as_micros();
        match rate {
            Rate::Smooth { starts, per, burst } => {
                let every = interval(*starts, *per);
                // A costly start may use it up further ahead than starts of one unit each can.
                let ahead = self.next.as_micros().saturating_sub(us);
                let allowed = every * (burst + 1 - units.min(burst + 1));
                let opens = us + ahead.saturating_sub(allowed);
                (ahead > allowed).then(|| Timestamp::from_micros(opens))
            }
            Rate::Window { starts, per } => {
                let (per, most) = (micros(*per), starts - units.min(*starts));
                let mut counted: u64 = self.live(per, us).map(|(_, n)| n).sum();
                let mut opens = None;
                for (at, n) in self.live(per, us) {
                    if counted <= most {
                        break;
                    }
                    counted -= n;
                    opens = Some(Timestamp::from_micros(leaves(at, per)));
                }
                opens
            }
        }
    }

    /// Counts a start of so many units, whatever was counted ahead of now.
    pub(super) fn take_units(&mut self, rate: &Rate, now: Timestamp, units: u64) {
        match rate {
            Rate::Smooth { starts, per, .. } => {
                let every = interval(*starts, *per);
                let from = self.next.as_micros().max(now.as_micros());
                self.next = Timestamp::from_micros(from.saturating_add(every * units));
                self.starts.clear();
            }
            Rate::Window { .. } => self.take(rate, now, units),
        }
    }

    /// What is left to count of one rate under another: nothing of another kind, and of a smooth
    /// rate no more than the new one lets be ahead.
    pub(super) fn changed_to(&mut self, before: &Rate, rate: &Rate, now: Timestamp) {
        match (before, rate) {
            (Rate::Window { .. }, Rate::Window { .. }) => {}
            (Rate::Smooth { .. }, Rate::Smooth { starts, per, burst }) => {
                let every = interval(*starts, *per);
                let most = now.as_micros().saturating_add(every * (burst + 1));
                self.next = self.next.min(Timestamp::from_micros(most));
            }
            _ => *self = Self::new(),
        }
    }

    /// Counts that many starts, and forgets those that count no more.
    pub(super) fn take(&mut self, rate: &Rate, now: Timestamp, n: u64) {
        match rate {
            Rate::Smooth { starts, per, burst } => {
                let every = interval(*starts, *per);
                let ahead = self.ahead(every, *burst, now.as_micros());
                self.next = Timestamp::from_micros(now.as_micros() + ahead + every * n);
                self.starts.clear();
            }
            Rate::Window { starts, per } => {
                let per = micros(*per);
                self.starts = self.live(per, now.as_micros()).collect();
                let in_part =
                    now - self.since < std::time::Duration::from_micros(part(*starts, per));
                match self.starts.last_mut() {
                    Some((at, count)) if in_part || *at == now => {
                        *at = now;
                        *count += n;
                    }
                    _ => {
                        self.since = now;
                        self.starts.push((now, n));
                    }
                }
            }
        }
    }

    /// By how many microseconds a smooth rate is used up ahead of now. After a change of the rate,
    /// or of the clock, it may be further ahead than starts can have brought it.
    fn ahead(&self, every: u64, burst: u64, now: u64) -> u64 {
        let ahead = self.next.as_micros().saturating_sub(now);
        ahead.min(every * (burst + 1))
    }

    /// The starts that a window still counts.
    fn live(&self, per: u64, now: u64) -> impl Iterator<Item = (Timestamp, u64)> + '_ {
        let counts = move |at: Timestamp| {
            if is_injected(Bug::WindowAligned) {
                return at.as_micros() / per == now / per;
            }
            leaves(at, per) > now
        };
        self.starts
            .iter()
            .copied()
            .skip_while(move |(at, _)| !counts(*at))
    }
}

fn leaves(at: Timestamp, per: u64) -> u64 {
    at.as_micros().saturating_add(per)
}

#[cfg(test)]
mod tests;
