//! Instants, spans and clocks: the only module that reads a clock or sleeps.
//!
//! Everything below the engines takes its time from a [`Clock`], so a test moves time by hand
//! and runs the code that production runs.

#![allow(clippy::disallowed_methods, reason = "the one place that reads clocks")]

mod precise_sleep;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sync::Lock;

pub use text::{exact_span, format_local, format_span, parse_local, parse_span};

/// An instant: microseconds since 1970-01-01T00:00:00Z, never after the year 9999.
///
/// ```
/// use punctual::time::{Timestamp, minutes};
///
/// let t = Timestamp::from_micros(1_790_000_000_000_000);
/// assert_eq!((t + minutes(30)) - t, minutes(30));
/// assert_eq!(t.to_string(), "2026-09-21T14:13:20Z");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last instant that a job may be due at: the end of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999_999);
    /// The first instant.
    pub const ZERO: Self = Self(0);

    /// The instant that many microseconds after 1970, at most [`Timestamp::MAX`].
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// The instant that many milliseconds after 1970, at most [`Timestamp::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_micros(millis.saturating_mul(1_000))
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Milliseconds since 1970, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// This instant plus a span, or `None` after the year 9999.
    pub fn checked_add(self, span: Duration) -> Option<Self> {
        let micros = u64::try_from(span.as_micros()).ok()?;
        self.0
            .checked_add(micros)
            .filter(|sum| *sum <= Self::MAX.0)
            .map(Self)
    }

    /// The span since an earlier instant; zero if that is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    /// Microseconds; at most [`Timestamp::MAX`], like every instant.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self::from_micros)
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;
    /// Saturates at [`Timestamp::MAX`].
    fn add(self, span: Duration) -> Self {
        self.checked_add(span).unwrap_or(Self::MAX)
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Self;
    /// Saturates at [`Timestamp::ZERO`].
    ///
    /// ```
    /// use punctual::time::{Timestamp, minutes};
    ///
    /// let ride: Timestamp = "2026-12-01T08:00:00Z".parse()?;
    /// assert_eq!((ride - minutes(10)).to_string(), "2026-12-01T07:50:00Z");
    /// # Ok::<(), punctual::Error>(())
    /// ```
    fn sub(self, span: Duration) -> Self {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Self::from_micros(self.0.saturating_sub(micros))
    }
}

impl std::ops::Sub for Timestamp {
    type Output = Duration;
    /// Saturates at zero.
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// That many milliseconds.
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}
/// That many seconds.
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}
/// That many minutes.
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}
/// That many hours.
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n * 3_600)
}
/// That many days of 24 hours.
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(n * 86_400)
}

/// A sleep until an instant of some clock.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time that an engine or worker is built with.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The clock's present reading. It may step back; engines guard against that.
    fn now(&self) -> Timestamp;
    /// Sleeps until the reading is at least `until`; never returns before that.
    fn sleep_until(&self, until: Timestamp) -> Sleep;
}

/// The machine's wall clock, with sleeps that overshoot by a tenth of a millisecond, not by a tick.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep {
        let clock = *self;
        Box::pin(async move {
            // The wall clock may be stepped while we sleep: look again, at most a second later.
            loop {
                let left = until.since(clock.now());
                if left.is_zero() {
                    return;
                }
                precise_sleep::sleep(left.min(Duration::from_secs(1))).await;
            }
        })
    }
}

/// A manual clock, for tests: it moves only by `advance` and `set`.
///
/// ```
/// use punctual::time::{Clock, ManualClock, days};
///
/// let clock = ManualClock::default();
/// let before = clock.now();
/// clock.advance(days(30));
/// assert_eq!(clock.now() - before, days(30));
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Mutex<Manual>>);

#[derive(Default)]
struct Manual {
    now: Timestamp,
    next_sleeper: u64,
    sleepers: BTreeMap<(Timestamp, u64), Option<Waker>>,
}

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        let clock = Self::default();
        clock.set(now);
        clock
    }

    /// Moves the clock forward and wakes all that slept until then.
    pub fn advance(&self, span: Duration) {
        let now = self.now() + span;
        self.set(now);
    }

    /// Sets the clock, backward too, and wakes all that slept until then.
    pub fn set(&self, now: Timestamp) {
        let mut manual = self.lock();
        manual.now = now;
        for (_, waker) in manual.sleepers.range_mut(..=(now, u64::MAX)) {
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    }

    /// The earliest instant that a task sleeps until, if one sleeps.
    pub fn next_sleeper(&self) -> Option<Timestamp> {
        self.lock().sleepers.keys().next().map(|(until, _)| *until)
    }

    fn lock(&self) -> MutexGuard<'_, Manual> {
        self.0.locked()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({})", self.now())
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn sleep_until(&self, until: Timestamp) -> Sleep {
        let key = {
            let mut manual = self.lock();
            manual.next_sleeper += 1;
            let key = (until, manual.next_sleeper);
            manual.sleepers.insert(key, None);
            key
        };
        Box::pin(ManualSleep {
            clock: self.clone(),
            key,
        })
    }
}

struct ManualSleep {
    clock: ManualClock,
    key: (Timestamp, u64),
}

impl Future for ManualSleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut manual = self.clock.lock();
        if manual.now >= self.key.0 {
            return Poll::Ready(());
        }
        manual.sleepers.insert(self.key, Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        self.clock.lock().sleepers.remove(&self.key);
    }
}

/// Engine time: a clock's reading that never steps back and never stands still behind its past.
///
/// While the clock reads less than what was already answered, each reading is one microsecond
/// later than the last, until the clock has caught up.
#[derive(Debug)]
pub struct SteadyClock {
    clock: Arc<dyn Clock>,
    state: Mutex<Steady>,
}

#[derive(Debug)]
struct Steady {
    last: Timestamp,
    behind: bool,
    steps_back: u64,
}

/// A step back of the clock below this is scheduling between threads, not a jump.
const JUMP_MIN: Duration = Duration::from_millis(1);

impl SteadyClock {
    /// Engine time over a clock, at least `floor` (the last instant that a former run answered).
    pub fn new(clock: Arc<dyn Clock>, floor: Timestamp) -> Self {
        Self {
            clock,
            state: Mutex::new(Steady {
                last: floor,
                behind: false,
                steps_back: 0,
            }),
        }
    }

    /// The present engine time.
    pub fn now(&self) -> Timestamp {
        let mut state = self.state.locked();
        let read = self.clock.now();
        if read >= state.last {
            state.behind = false;
            state.last = read;
        } else {
            if !state.behind && state.last - read >= JUMP_MIN {
                state.steps_back += 1;
                state.behind = true;
            }
            state.last = Timestamp(state.last.0 + 1);
        }
        state.last
    }

    /// How often the clock was seen to step back (`clock_jump` in the engine's info).
    pub fn steps_back(&self) -> u64 {
        self.state.locked().steps_back
    }

    /// Sleeps until engine time is at least `until`.
    pub fn sleep_until(&self, until: Timestamp) -> Sleep {
        self.clock.sleep_until(until)
    }
}

/// Measures a span on the monotonic clock, for run times and rates; never decides what is due.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// The span since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Sleeps for a span of real time: for back-off and progress displays, never for what is due.
pub async fn pause(span: Duration) {
    precise_sleep::sleep(span).await;
}

/// Ends a future after a span of real time; `None` if it was not done by then.
pub async fn within<F: Future>(span: Duration, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = precise_sleep::sleep(span) => None,
    }
}
