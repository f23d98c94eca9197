//! How much a client puts into one call, so that the call keeps a server for a few milliseconds.

use crate::job::{Limits, NewJob};

/// Bytes of payload that a client puts into one call, or asks for in one claim; a single job may
/// have more.
pub const CALL_BYTES: usize = 256 << 10;
/// What the jobs of one call may cost together: 250 plain ones, 100 with a key, an expiry, a
/// retention, a flow, or names or a few jobs to wait for, or 50 of groups.
const COST_MAX: usize = 500;
/// Jobs to wait for that cost 1.
const EDGES_PER_COST: usize = 4;

/// The size of a call that is being put together, for clients that have more jobs than one call
/// should carry.
///
/// A call of [`Engine::enqueue`](crate::Engine::enqueue) is one step, however large it is, and no
/// engine cuts it. So a client that has many jobs cuts them itself; each call is a step of its own.
///
/// # Examples
///
/// ```
/// use punctual::engine::CallSize;
/// use punctual::{Limits, NewJob};
///
/// let (limits, mut size) = (Limits::default(), CallSize::default());
/// let fitting = (0..1_000).take_while(|_| size.add(&NewJob::new("mail", "{}"), &limits));
/// assert_eq!(fitting.count(), 250);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct CallSize {
    jobs: usize,
    cost: usize,
    bytes: usize,
}

impl CallSize {
    /// Adds a job, if the call should carry it too; whether it did. The first one always fits.
    pub fn add(&mut self, job: &NewJob, limits: &Limits) -> bool {
        let more = Self {
            jobs: self.jobs + 1,
            cost: self.cost + cost_of(job),
            bytes: self.bytes + job.payload.len(),
        };
        let fits = more.jobs <= limits.batch_items
            && more.cost <= COST_MAX
            && more.bytes <= CALL_BYTES.min(limits.batch_bytes);
        if fits || self.jobs == 0 {
            *self = more;
        }
        fits || more.jobs == 1
    }

    /// Cuts jobs into calls of this size, in order.
    pub fn cut(jobs: Vec<NewJob>, limits: &Limits) -> Vec<Vec<NewJob>> {
        let mut size = Self::default();
        let mut calls: Vec<Vec<NewJob>> = Vec::new();
        for job in jobs {
            if !size.add(&job, limits) {
                size = Self::default();
                size.add(&job, limits);
                calls.push(Vec::new());
            }
            match calls.last_mut() {
                Some(call) => call.push(job),
                None => calls.push(vec![job]),
            }
        }
        calls
    }
}

/// What storing a job costs beside others, a plain one being 2.
fn cost_of(job: &NewJob) -> usize {
    if job.flow.is_some() || !job.after.is_empty() {
        return 5 + job.after.len() / EDGES_PER_COST;
    }
    if job.group.is_some() {
        return 10;
    }
    if job.is_plain() { 2 } else { 5 }
}
