//! The gateway: HTTP and WebSocket for every language, and a page, over any engine.
//!
//! `docs/http-api.md` tells every route; [`JobJson`] is a job as JSON, in answers and in files.

mod access;
mod api;
mod audit;
mod bodies;
mod connection_limit;
mod decode;
mod etag;
mod events;
mod follow_ups;
mod framing;
mod guard;
mod health;
mod job_json;
mod json;
mod limits;
mod listener;
mod local;
#[cfg(test)]
mod log;
mod log_throttle;
mod metrics;
mod overload;
mod page;
mod problem;
mod process;
mod proxies;
mod request;
mod serve;
mod state;
mod tls;
mod trace;
mod wakeup_coalescing;

pub use crate::metrics::Registry;
pub use access::{Scope, Token, Tokens};
pub use api::open_api;
pub use audit::{Audit, Entry as AuditEntry};
pub use job_json::{JobJson, LineError, base64_of, hold_of, is_hostile};
pub use json::reason::in_words;
pub use limits::GatewayLimits;
pub use proxies::Proxy;
pub use serve::{Gateway, Serving, Sharer, Sharing};
pub use tls::Tls;
