//! Named limits: which calls of them an engine refuses.

use punctual::engine::{Control, RecordValue};
use punctual::{Error, ErrorKind, NewJob, Result};

/// Refuses jobs with named limits where a namespace is cut into shards: each would let as many
/// start.
pub(crate) fn may_name<'a>(jobs: impl IntoIterator<Item = &'a NewJob>, count: usize) -> Result<()> {
    match count > 1 && jobs.into_iter().any(|job| !job.limits.is_empty()) {
        true => Err(unsupported(count)),
        false => Ok(()),
    }
}

/// The same of controls.
pub(crate) fn may_control(control: &Control, count: usize) -> Result<()> {
    let value = match control {
        Control::Write { value, .. } => value.as_ref(),
        _ => None,
    };
    let is_asked = matches!(
        control,
        Control::BlockLimit { .. } | Control::Limits { .. } | Control::Limit { .. }
    );
    let is_named = is_asked
        || match value {
            Some(RecordValue::Limit(_)) => true,
            Some(RecordValue::Schedule(schedule)) => !schedule.template.limits.is_empty(),
            _ => false,
        };
    match count > 1 && is_named {
        true => Err(unsupported(count)),
        false => Ok(()),
    }
}

fn unsupported(count: usize) -> Error {
    let message = "a namespace that is cut into shards has no named limits, as each shard would let \
                   that many start; use another namespace, at an address without `shards`, for jobs with `limits`";
    Error::new(ErrorKind::Unsupported, message).with("shards", count)
}
