//! What the functions do not know yet: named limits.

use punctual::engine::{Control, RecordValue, Settle};
use punctual::{Error, ErrorKind, NewJob, Result};

use crate::flows::of_effects;

pub(crate) fn refuse_control(control: &Control) -> Result<()> {
    match control {
        Control::BlockLimit { .. } | Control::Limits { .. } | Control::Limit { .. } => {
            Err(unsupported())
        }
        Control::Write {
            value: Some(RecordValue::Limit(_)),
            ..
        } => Err(unsupported()),
        Control::Guarded { effects, .. } => refuse_jobs(of_effects(effects)),
        _ => Ok(()),
    }
}

pub(crate) fn refuse_jobs<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Result<()> {
    match jobs.into_iter().any(|job| !job.limits.is_empty()) {
        true => Err(unsupported()),
        false => Ok(()),
    }
}

pub(crate) fn refuse_effects(settle: &Settle) -> Result<()> {
    let settlements = settle.leases.iter().flat_map(|lease| &lease.settlements);
    let mut effects = settlements.map(|one| of_effects(&one.effects));
    effects.try_for_each(refuse_jobs)
}

fn unsupported() -> Error {
    let message = "the Redis engine has no named limits yet; leave `limits` out and limit the queue, \
                   or use a `file:` engine";
    Error::new(ErrorKind::Unsupported, message)
}
