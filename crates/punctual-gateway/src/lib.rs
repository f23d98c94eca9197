//! The gateway: HTTP and WebSocket for every language, and a dashboard, over any engine.
//!
//! ```
//! use std::sync::Arc;
//!
//! use punctual::{MemoryEngine, time::seconds};
//! use punctual_gateway::{Gateway, Tokens};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let gateway = Gateway::new(Arc::new(MemoryEngine::new()), Tokens::open());
//! let serving = gateway.serve(([127, 0, 0, 1], 0).into()).await?;
//! println!("curl http://{}/healthz", serving.address());
//! assert!(serving.drain(seconds(5)).await);
//! # Ok::<(), punctual::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Where to start
//! - Serve an engine: [`Gateway`], with [`Tokens`] for rights and [`Tls`] for certificates.
//! - Every route: `docs/http-api.md`, or [`open_api`] as a description for programs.
//! - A job as a line of JSON, in answers and in files, is a type of this crate too.
//! - Call a gateway from Rust: the crate `punctual-client`.

mod access;
mod api;
mod audit;
mod auth;
mod bodies;
mod bounded;
mod connection_limit;
mod connection_permit;
mod decode;
mod etag;
mod events;
mod follow_ups;
mod framing;
mod guard;
mod health;
mod http;
mod job_json;
mod json;
mod known_leases;
mod limits;
mod listener;
mod local;
#[cfg(test)]
mod log;
mod log_throttle;
mod metrics;
mod overload;
mod page;
mod process;
mod proxies;
mod relays;
mod request;
mod serve;
mod service;
mod shared;
mod tls;
mod trace;
mod upgrade;
mod wakeup_coalescing;
mod words;

pub use crate::metrics::Registry;
pub use access::Tokens;
pub use api::open_api;
pub use audit::{Audit, Entry as AuditEntry};
pub use decode::as_sent;
pub use http::{Scope, Token};
pub use job_json::{JobJson, LineError, base64_of, hold_of, is_hostile};
pub use json::export_row::{Block, RecordJson};
pub use json::flow::plan_of;
pub use json::flow_part::FlowPart;
pub use json::reason::in_words;
pub use limits::GatewayLimits;
pub use proxies::Proxy;
pub use relays::{RelayReport, Relays};
pub use serve::{Gateway, Serving, Sharer, Sharing};
pub use tls::Tls;
