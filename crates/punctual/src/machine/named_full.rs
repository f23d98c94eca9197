//! What a full named limit does with a new job: it refuses the job, or asks the oldest running one
//! to stop. A limit that only makes jobs wait costs nothing here.

use super::Machine;
use super::named_rows::NamedRow;
use super::rows::JobKey;
use crate::engine::{CANCELLING_MAX, LimitSettings, WhenFull};
use crate::error::Result;
use crate::injected::{Bug, is_injected};
use crate::job::{JobId, NewJob};
use crate::time::Timestamp;

impl NamedRow {
    fn is_full(&self, limits: &LimitSettings) -> bool {
        (limits.concurrency).is_some_and(|most| self.active >= most)
    }

    /// A job has started: a limit that asks jobs to stop knows it, in the order of their starts.
    pub(super) fn note_running(&mut self, limits: &LimitSettings, id: JobId) {
        if limits.when_full != WhenFull::CancelRunning {
            self.running.clear();
            return;
        }
        if self.running.len() as u64 >= CANCELLING_MAX {
            self.running.remove(0);
        }
        self.running.push(id);
    }
}

impl Machine {
    /// Which limit refuses a new job, counted from 0, if one does.
    pub(super) fn refusing_limit(&self, namespace: u32, job: &NewJob) -> Result<Option<u8>> {
        for (nth, name) in job.limits.iter().enumerate() {
            let limits = self.limits_of(namespace, name);
            if limits.when_full == WhenFull::Refuse
                && self.named_row(namespace, name)?.is_full(&limits)
            {
                return Ok(u8::try_from(nth).ok());
            }
        }
        Ok(None)
    }

    /// A new job came: each of its limits that is full, and cancels, asks the job to stop that
    /// started first and was not asked yet. A job that was asked for one serves for all of its
    /// limits.
    pub(super) fn cancel_for(&mut self, namespace: u32, names: &[String]) -> Result<()> {
        let mut served: Vec<String> = Vec::new();
        for name in names {
            if served.contains(name) {
                continue;
            }
            let limits = self.limits_of(namespace, name);
            if limits.when_full != WhenFull::CancelRunning {
                continue;
            }
            let row = self.named_row(namespace, name)?;
            if row.is_full(&limits) {
                served.extend(self.cancel_first_of(namespace, name, row.running)?);
            }
        }
        Ok(())
    }

    /// The limits of the job that was asked. Those that others asked leave the list too.
    fn cancel_first_of(
        &mut self,
        namespace: u32,
        name: &str,
        mut running: Vec<JobId>,
    ) -> Result<Vec<String>> {
        if is_injected(Bug::NewestAsked) {
            running.reverse();
        }
        let (mut asked, mut served) = (0, Vec::new());
        for id in &running {
            asked += 1;
            let job = self.load(&JobKey { namespace, id: *id })?;
            if let Some(job) = job.filter(|job| !job.status.cancel_requested) {
                served = job.limits().to_vec();
                self.request_cancel(job);
                break;
            }
        }
        self.change_named(namespace, name, |row| {
            row.running.drain(..asked);
        })?;
        Ok(served)
    }
}

/// Whether a full limit decides on a new job: it would be in line at once, and a caller sent it.
pub(super) fn decides(job: &NewJob, due: Timestamp, now: Timestamp) -> bool {
    !job.limits.is_empty()
        && due <= now
        && job.history.is_none()
        && job.wait_for.is_empty()
        && job.after.is_empty()
        && job.flow.is_none()
        && job.expires_at.is_none_or(|at| at > now)
}
