//! What the functions do not know yet: flows, and jobs that wait for others.

use punctual::engine::{Control, Settle};
use punctual::{Effect, Error, ErrorKind, NewJob, Result};

pub(crate) fn refuse_control(control: &Control) -> Result<()> {
    match control {
        Control::Flows { .. } | Control::Flow { .. } => Err(unsupported()),
        _ => Ok(()),
    }
}

pub(crate) fn refuse_jobs(jobs: &[NewJob]) -> Result<()> {
    match jobs.iter().any(waits) {
        true => Err(unsupported()),
        false => Ok(()),
    }
}

pub(crate) fn refuse_effects(settle: &Settle) -> Result<()> {
    let settlements = settle.leases.iter().flat_map(|lease| &lease.settlements);
    let mut effects = settlements.flat_map(|one| &one.effects);
    match effects.any(|effect| matches!(effect, Effect::Enqueue(job) if waits(job))) {
        true => Err(unsupported()),
        false => Ok(()),
    }
}

fn waits(job: &NewJob) -> bool {
    job.flow.is_some() || !job.after.is_empty()
}

fn unsupported() -> Error {
    let message = "the Redis engine has no flows yet; keep them on `file:` or `memory:`";
    Error::new(ErrorKind::Unsupported, message)
}
