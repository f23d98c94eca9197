//! Posts jobs to URLs when they are due: signed, bounded, retried, never to a forbidden address.
//!
//! ```
//! use punctual::{Context, JobRecord, MemoryEngine, Worker};
//! use punctual_push::{Guard, Pusher};
//!
//! // The guard refuses addresses inside the own network (SSRF) unless they are allowed.
//! let guard = Guard::new();
//! assert!(guard.check("https://example.com/hook").is_ok());
//! assert!(guard.check("ftp://example.com/hook").is_err());
//!
//! let pusher = Pusher::new(guard).target("https://example.com/hook");
//! let worker = Worker::new(MemoryEngine::new())
//!     .queues(["mail"])
//!     .handle_any(move |job: JobRecord, ctx: Context| {
//!         let pusher = pusher.clone();
//!         async move { pusher.push(&job, &ctx).await }
//!     });
//! ```
//!
//! # Where to start
//! - Post the jobs of a worker: [`Pusher`], with a [`Guard`] for where they may go and a [`Secret`]
//!   that signs them.
//! - Post every job that names a target: [`Posting`].
//! - Post outcomes: [`Callbacks`]. Watch queues: [`Alerts`].
//! - What receivers see, and what each answer means: `docs/push.md`.

mod alerts;
mod breaker;
mod callbacks;
mod connect;
mod exchange;
mod guard;
mod hosts;
mod maintenance;
mod posting;
mod push_wakeup;
mod pusher;
mod range;
mod resolve;
mod secret;
mod verdict;

pub use alerts::{AlertRules, Alerts};
pub use callbacks::Callbacks;
pub use guard::{Allow, Guard, Target};
pub use maintenance::{Heartbeat, Maintenance, MaintenanceHealth};
pub use posting::Posting;
pub use push_wakeup::PushWakeup;
pub use pusher::Pusher;
pub use resolve::{Resolve, SystemResolver};
pub use secret::Secret;
