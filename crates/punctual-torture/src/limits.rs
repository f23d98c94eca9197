//! Queues with limits: what producers ask for, and what the checker holds the stamps against.

use std::time::Duration;

use punctual::time::millis;

/// Its jobs run at most [`ACTIVE_MAX`] at once; some name limits besides.
pub(crate) const CAPPED: &str = "capped";
/// At most [`STARTS_MAX`] of its jobs start in a [`WINDOW`].
pub(crate) const RATED: &str = "rated";
/// Its jobs have shares, of which one floods; it has the limit of [`CAPPED`].
pub(crate) const SHARED: &str = "shared";
pub(crate) const QUEUES: [&str; 3] = [CAPPED, RATED, SHARED];

/// The concurrency of [`CAPPED`], and of [`SHARED`].
pub(crate) const ACTIVE_MAX: usize = 4;

/// The named limit that is reached, and its concurrency.
pub(crate) const NARROW: (&str, usize) = ("narrow", 2);
/// The named limit that never is: the same jobs name it.
pub(crate) const WIDE: (&str, usize) = ("wide", 50);

/// The rate of [`RATED`].
pub(crate) const STARTS_MAX: usize = 10;
pub(crate) const WINDOW: Duration = millis(400);

/// The share with many jobs.
pub(crate) const FLOOD: &str = "flood";
/// Its weight, which active jobs do not use up: turns alone decide then.
pub(crate) const FLOOD_WEIGHT: usize = ACTIVE_MAX + 1;
/// So many jobs of the flood may start while one of a small share is ready: its turns for one of
/// another, what one claim takes, and what a crash made suspects, which go out of turn.
pub(crate) const TURNS_MAX: usize = FLOOD_WEIGHT + 3 * ACTIVE_MAX;
