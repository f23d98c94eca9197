//! The queues of a worker and the turns between them.

use crate::error::{Error, ErrorKind, Result};
use crate::job::{CLAIM_QUEUES_MAX, check_name};

/// A queue that a worker claims from, with the share of its claims that read that queue first.
///
/// Made from a name, or from a name and a weight of 1 to 1,000.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueShare {
    name: String,
    weight: Option<u32>,
}

impl From<&str> for QueueShare {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl From<String> for QueueShare {
    fn from(name: String) -> Self {
        Self { name, weight: None }
    }
}

impl From<(&str, u32)> for QueueShare {
    fn from((name, weight): (&str, u32)) -> Self {
        (name.to_owned(), weight).into()
    }
}

impl From<(String, u32)> for QueueShare {
    fn from((name, weight): (String, u32)) -> Self {
        Self {
            name,
            weight: Some(weight),
        }
    }
}

/// The queues of a worker: without weights always in the order given, with weights in turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Queues {
    Strict(Vec<String>),
    Weighted(Vec<Turn>),
}

/// A queue's place in a smooth weighted round robin: of weights 5, 1, 1 it makes `a a b a c a a`,
/// not `a a a a a b c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    name: String,
    weight: i64,
    credit: i64,
}

const WEIGHT_MAX: u32 = 1_000;

impl Queues {
    pub(super) fn new(shares: &[QueueShare]) -> Result<Self> {
        if shares.is_empty() || shares.len() > CLAIM_QUEUES_MAX {
            let message =
                "worker claims from no queue or too many; name 1 to 64 with `.queues(..)`";
            return Err(Error::new(ErrorKind::InvalidInput, message).with("queues", shares.len()));
        }
        for (at, share) in shares.iter().enumerate() {
            check_name("queue", &share.name)?;
            if shares[..at].iter().any(|before| before.name == share.name) {
                let message = "queue is named twice; give it one weight";
                return Err(Error::new(ErrorKind::InvalidInput, message).with("queue", &share.name));
            }
            if share.weight.is_some_and(|w| w == 0 || w > WEIGHT_MAX) {
                let message = "queue's weight is out of range; use 1 to 1000";
                return Err(Error::new(ErrorKind::InvalidInput, message).with("queue", &share.name));
            }
        }
        if shares.iter().all(|share| share.weight.is_none()) {
            let names = shares.iter().map(|share| share.name.clone());
            return Ok(Self::Strict(names.collect()));
        }
        let turns = shares.iter().map(|share| Turn {
            name: share.name.clone(),
            weight: i64::from(share.weight.unwrap_or(1)),
            credit: 0,
        });
        Ok(Self::Weighted(turns.collect()))
    }

    /// The names, in the order given.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Strict(names) => names.clone(),
            Self::Weighted(turns) => turns.iter().map(|turn| turn.name.clone()).collect(),
        }
    }

    /// The order for the next claim: its turn first, the others by how long theirs is due.
    pub(super) fn next(&mut self) -> Vec<String> {
        let turns = match self {
            Self::Strict(names) => return names.clone(),
            Self::Weighted(turns) => turns,
        };
        let total: i64 = turns.iter().map(|turn| turn.weight).sum();
        for turn in turns.iter_mut() {
            turn.credit += turn.weight;
        }
        let mut order: Vec<usize> = (0..turns.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(turns[*at].credit));
        turns[order[0]].credit -= total;
        order.iter().map(|at| turns[*at].name.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
