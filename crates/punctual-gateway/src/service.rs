//! The service layer: calls that routes and sockets share.

mod changes;
mod claims;
mod undelivered;

pub(crate) use self::changes::{control, edit};
pub(crate) use self::claims::{claim_for, extend_for, settle_for};
pub(crate) use self::undelivered::Undelivered;
