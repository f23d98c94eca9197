//! Connections to servers: which server answers for a slot, redirects, failover and retries.

pub(crate) mod address;
pub(crate) mod clock;
pub(crate) mod error_mapping;
pub(crate) mod link;
pub(crate) mod node;
pub(crate) mod refresh;
pub(crate) mod replicas;
pub(crate) mod topology;
