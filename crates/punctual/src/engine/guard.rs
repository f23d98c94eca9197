//! The contract: guards, which let a call take effect only while a record has a version.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::job::check_name;

/// A record and the version that it must still have, compared in the step that it guards.
///
/// ```
/// use punctual::engine::Guard;
///
/// let guard = Guard::new("topics", 7);
/// assert!(guard.check().is_ok());
/// assert!(Guard::new("queue/mail", 7).check().is_err(), "the engine owns its settings");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Guard {
    /// The record: one of bytes, neither the settings of a queue nor a schedule.
    pub record: String,
    /// The version that was read; 0 if it must not exist.
    pub version: u64,
}

impl Guard {
    /// A guard of that record at that version.
    pub fn new(record: impl Into<String>, version: u64) -> Self {
        Self {
            record: record.into(),
            version,
        }
    }

    /// Checks the record's name; every engine does.
    ///
    /// # Errors
    /// `invalid_name`, or `invalid_input` for a record that the engine obeys.
    pub fn check(&self) -> Result<()> {
        check_name("record", &self.record)?;
        let obeyed = [
            super::SETTINGS_PREFIX,
            super::LIMIT_PREFIX,
            crate::schedule::SCHEDULE_PREFIX,
        ];
        if obeyed.iter().any(|prefix| self.record.starts_with(prefix)) {
            let message = "guard: settings and schedules guard nothing; \
                           name a record of your own";
            return Err(crate::Error::new(crate::ErrorKind::InvalidInput, message)
                .with("record", &self.record));
        }
        Ok(())
    }
}
