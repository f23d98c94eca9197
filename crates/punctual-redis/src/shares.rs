//! What the functions do not know yet: shares.

use punctual::engine::{Control, RecordValue, Settle};
use punctual::{Effect, Error, ErrorKind, NewJob, Result};

pub(crate) fn refuse_control(control: &Control) -> Result<()> {
    match control {
        Control::BlockShare { .. } => Err(unsupported()),
        Control::Write {
            value: Some(RecordValue::Queue(settings)),
            ..
        } if settings.shares.is_some() => Err(unsupported()),
        _ => Ok(()),
    }
}

pub(crate) fn refuse_jobs(jobs: &[NewJob]) -> Result<()> {
    match jobs.iter().any(|job| job.share.is_some()) {
        true => Err(unsupported()),
        false => Ok(()),
    }
}

pub(crate) fn refuse_effects(settle: &Settle) -> Result<()> {
    let settlements = settle.leases.iter().flat_map(|lease| &lease.settlements);
    let mut effects = settlements.flat_map(|one| &one.effects);
    match effects.any(|effect| matches!(effect, Effect::Enqueue(job) if job.share.is_some())) {
        true => Err(unsupported()),
        false => Ok(()),
    }
}

fn unsupported() -> Error {
    let message = "the Redis engine has no shares yet; leave `share` out, or use a `file:` engine";
    Error::new(ErrorKind::Unsupported, message)
}
