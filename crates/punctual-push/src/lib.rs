//! Posts jobs by HTTP when they are due: signed, bounded, retried, and never to where they should
//! not go.
//!
//! `docs/push.md` tells what receivers see and what each answer means.

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
