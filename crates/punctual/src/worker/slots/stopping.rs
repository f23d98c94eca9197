//! How runs are stopped: by request, by timeout, by a lease that ends; asked, aborted, given up.

use std::time::Duration;

use super::{Board, Run, Stopping, earliest};
use crate::time::seconds;
use crate::worker::Context;
use crate::worker::ahead::AHEAD_WAIT_MAX;
use crate::worker::ending::Cause;

/// A task that has not ended so long after its abort is blocked: its slot is given up.
const LEAK_AFTER: Duration = seconds(1);

/// What the watch did to a run, for the log.
pub(in crate::worker) enum Notice {
    Tripped(Context, Cause),
    Aborted(Context),
    Leaked(Context),
}

impl Run {
    /// Ends the task of its slot, if need be as soon as that is known.
    pub(in crate::worker) fn abort(&mut self) {
        self.aborted = true;
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Board {
    /// Stops a run: asks it now, aborts it at `abort_at`. A lost lease outweighs other causes.
    pub(in crate::worker) fn stop(&mut self, key: u64, cause: Cause, abort_at: Duration) -> bool {
        let Some(run) = self.runs.get_mut(&key) else {
            return false;
        };
        run.ctx.shared().trip(cause.interrupt());
        match &mut run.stopping {
            None => {
                run.stopping = Some(Stopping {
                    cause,
                    abort_at,
                    leak_at: None,
                });
                true
            }
            Some(stopping) => {
                stopping.abort_at = stopping.abort_at.min(abort_at);
                let worse = cause == Cause::Lost && stopping.cause != Cause::Lost;
                if worse {
                    stopping.cause = Cause::Lost;
                }
                worse
            }
        }
    }

    /// Stops every run.
    pub(in crate::worker) fn stop_all(&mut self, cause: Cause, abort_at: Duration) {
        let keys: Vec<u64> = self.runs.keys().copied().collect();
        for key in keys {
            self.stop(key, cause, abort_at);
        }
    }

    /// Does what is due by that instant: timeouts, leases that end, aborts, leaks.
    pub(in crate::worker) fn watch(&mut self, now: Duration) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut leaks = Vec::new();
        for (key, run) in &mut self.runs {
            let lease = self.leases.get(&run.lease);
            let (trip_at, abort_at) = lease.map_or((Duration::MAX, Duration::MAX), |lease| {
                (lease.trip_at, lease.abort_at)
            });
            let cause = if trip_at <= now {
                Some((Cause::Unsure, abort_at))
            } else if run.timeout_at.is_some_and(|at| at <= now) {
                Some((Cause::TimedOut, now + self.grace))
            } else {
                None
            };
            if let (None, Some((cause, abort_at))) = (&run.stopping, cause) {
                run.ctx.shared().trip(cause.interrupt());
                run.stopping = Some(Stopping {
                    cause,
                    abort_at,
                    leak_at: None,
                });
                notices.push(Notice::Tripped(run.ctx.clone(), cause));
            }
            if let Some(stopping) = &mut run.stopping {
                if trip_at <= now {
                    stopping.abort_at = stopping.abort_at.min(abort_at);
                }
                match stopping.leak_at {
                    None if stopping.abort_at <= now => {
                        stopping.leak_at = Some(now + LEAK_AFTER);
                        run.abort();
                        notices.push(Notice::Aborted(run.ctx.clone()));
                    }
                    Some(leak_at) if leak_at <= now => leaks.push(*key),
                    _ => {}
                }
            }
        }
        for key in leaks {
            if let Some(run) = self.runs.remove(&key) {
                self.leaked.insert(key);
                notices.push(Notice::Leaked(run.ctx.clone()));
                let run_time = now.saturating_sub(run.started);
                self.end_run(run, None, run_time);
            }
        }
        notices
    }

    /// Hands back what has waited for a slot much longer than estimated.
    pub(in crate::worker) fn release_stale(&mut self, now: Duration) -> usize {
        match self.stale_at() {
            Some(at) if at <= now => {
                self.estimate.reset();
                self.release_ahead()
            }
            _ => 0,
        }
    }

    fn stale_at(&self) -> Option<Duration> {
        self.ahead.front().map(|front| front.since + AHEAD_WAIT_MAX)
    }

    /// The earliest instant at which `watch` or `release_stale` has something to do.
    pub(in crate::worker) fn watch_at(&self) -> Option<Duration> {
        let runs = self.runs.values().filter_map(|run| {
            let lease_at = self.leases.get(&run.lease).map(|lease| lease.trip_at);
            match &run.stopping {
                Some(stopping) => Some(stopping.leak_at.unwrap_or(stopping.abort_at)),
                None => earliest(lease_at, run.timeout_at),
            }
        });
        earliest(runs.min(), self.stale_at())
    }
}
