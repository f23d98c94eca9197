//! Claims, extensions and settlements.

mod claim;
mod extend;
mod settle;
mod settled;
mod token;

pub(crate) use self::claim::{ClaimAnswer, ClaimRequest};
pub(crate) use self::extend::{ExtendAnswer, ExtendRequest};
pub(crate) use self::settle::SettleRequest;
pub(crate) use self::settled::{Asked, PublishRefused, SettleAnswer};
pub(crate) use self::token::token_of;
