//! Waits for work, settled jobs and changes, and receives wakeups.

pub(crate) mod listener;
pub(crate) mod waiting;
