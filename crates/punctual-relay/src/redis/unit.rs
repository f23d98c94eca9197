//! In what unit the scores of a sorted set count time.

use std::fmt;

use punctual::time::Timestamp;

use crate::injected::is_injected;

/// The unit of scores that are instants since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
}

/// The years 2001 to 5138 in seconds: the ranges of the three units do not touch.
const FIRST: f64 = 1e9;
const LAST: f64 = 1e11;

impl Unit {
    /// Every unit.
    pub const ALL: [Self; 3] = [Self::Seconds, Self::Millis, Self::Micros];

    /// Its name: `s`, `ms` or `us`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Millis => "ms",
            Self::Micros => "us",
        }
    }

    const fn per_second(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Millis => 1e3,
            Self::Micros => 1e6,
        }
    }

    /// The unit in which a score is an instant of the years 2001 to 5138, if it is one.
    ///
    /// ```
    /// use punctual_relay::redis::Unit;
    ///
    /// assert_eq!(Unit::guess(1_795_454_266.5), Some(Unit::Seconds));
    /// assert_eq!(Unit::guess(1_795_454_266_026.0), Some(Unit::Millis));
    /// assert_eq!(Unit::guess(1_795_454_266_026_123.0), Some(Unit::Micros));
    /// // A delay, or a rank: no instant.
    /// assert_eq!(Unit::guess(3.0), None);
    /// ```
    pub fn guess(score: f64) -> Option<Self> {
        let is_instant = |unit: &Self| unit.instant(score).is_some();
        Self::ALL.into_iter().find(is_instant)
    }

    /// The instant of a score, if it is one of the years 2001 to 5138. Another score is no instant
    /// of this unit: a delay, a rank, or an instant of another unit.
    ///
    /// ```
    /// use punctual_relay::redis::Unit;
    ///
    /// assert!(Unit::Seconds.instant(1_795_454_266.5).is_some());
    /// assert!(Unit::Seconds.instant(3.0).is_none());
    /// assert!(Unit::Millis.instant(1_795_454_266.5).is_none());
    /// ```
    pub fn instant(self, score: f64) -> Option<Timestamp> {
        let mut micros = score * (1e6 / self.per_second());
        if is_injected("DueCutToSeconds") {
            micros -= micros % 1e6;
        }
        (FIRST..LAST)
            .contains(&(score / self.per_second()))
            .then(|| Timestamp::from_micros(micros.round() as u64))
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
