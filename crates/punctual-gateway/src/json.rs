//! The JSON of requests and answers, beside [`JobJson`](crate::JobJson).

pub(crate) mod edit;
pub(crate) mod export_row;
pub(crate) mod flow;
pub(crate) mod flow_part;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod listed;
mod minutes;
pub(crate) mod named;
pub(crate) mod new_job;
pub(crate) mod queue;
pub(crate) mod reason;
pub(crate) mod schedule;
pub(crate) mod topic;
pub(crate) mod total;
