//! The leaf of the gateway: peers, tokens, callers, request contexts and problems.

mod caller;
mod context;
mod peer;
mod problem;
mod token;

pub(crate) use self::caller::{BodyOwner, Caller};
pub(crate) use self::context::RequestContext;
pub(crate) use self::peer::Peer;
pub(crate) use self::problem::{ErrorAnswer, Problem, ProblemBody, Result};
pub use self::token::{Scope, Token};
