//! Calls to shards: batching, dispatch, maintenance, and what a process remembers of its calls.

pub(crate) mod batcher;
pub(crate) mod calls;
pub(crate) mod claim_cache;
pub(crate) mod dispatcher;
pub(crate) mod examine;
pub(crate) mod maintenance;
pub(crate) mod outbox_acks;
pub(crate) mod shards;
pub(crate) mod uninitialised;
