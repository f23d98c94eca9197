//! The service layer: calls that routes and sockets share.

mod changes;
mod claims;
mod settle;
mod undelivered;

pub(crate) use self::changes::{control, edit};
pub(crate) use self::claims::{claim_for, extend_for};
pub(crate) use self::settle::settle_for;
pub(crate) use self::undelivered::Undelivered;
