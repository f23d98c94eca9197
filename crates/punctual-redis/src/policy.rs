//! What a server must be set up for: durability, and its append-only file. Knows nothing of calls.

pub(crate) mod server_info;
pub(crate) mod truncated_aof;
