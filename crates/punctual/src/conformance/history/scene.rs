//! Scenes: steps that belong together, where chance alone would hardly bring them together.

use super::action::*;
use super::generate::{Generator, QUEUES};
use crate::job::{Hold, OnRetry, Outcome, UniquePolicy};
use crate::time::{hours, minutes, seconds};

impl Generator {
    /// One job keeps another back until it ends by itself, and nothing else is left to claim.
    pub(super) fn scene(&mut self) -> Vec<Step> {
        let queue = self.random.small(QUEUES);
        let key = self.random.small(3);
        let soon = self.random.one(&[seconds(1), seconds(3), seconds(10)]);
        let mut first = self.plain(queue);
        let mut second = self.plain(queue);
        first.expires = Some(When::After(soon));
        match self.random.below(3) {
            0 => {
                first.group = Some((key, OnRetry::Hold));
                second.group = first.group;
            }
            1 => {
                first.unique = Some((key, UniquePolicy::Replace, Hold::UntilSettled));
                second.unique = Some((key, UniquePolicy::After, Hold::UntilSettled));
            }
            _ => {
                first.expires = None;
                first.unique = Some((key, UniquePolicy::Replace, Hold::For(soon)));
                second.unique = Some((key, UniquePolicy::After, Hold::UntilSettled));
            }
        }
        let fails = first.expires.is_some();
        let all = self.claim_of_all();
        let again = self.claim_of_all();
        let mut actions = vec![
            Action::Enqueue(vec![first]),
            Action::Claim(all),
            Action::Enqueue(vec![second]),
        ];
        if fails {
            actions.push(Action::Settle(vec![all_fail()]));
        }
        actions.push(Action::Claim(again));
        let step = |action| Step { space: 0, action };
        actions.into_iter().map(step).collect()
    }

    fn plain(&mut self, queue: u8) -> JobPlan {
        JobPlan {
            queue,
            ..self.fresh()
        }
    }

    /// Leaves nothing that is ready: what is to come by itself is then all that is told.
    fn claim_of_all(&mut self) -> ClaimPlan {
        ClaimPlan {
            queues: (0..QUEUES).collect(),
            limit: 1_000,
            max_bytes: 4 << 20,
            lease: minutes(1),
            nonce: self.nonce(),
            alone: false,
            worker: self.random.small(2),
            turns: false,
            remote: false,
        }
    }
}

/// The jobs of the last page wait for an hour.
fn all_fail() -> PagePlan {
    let settle = |nth| SettlePlan {
        nth,
        wrong_attempt: false,
        outcome: Outcome::Retry {
            after: Some(hours(1)),
        },
        result: false,
        error: false,
        stopped: None,
        effects: Vec::new(),
    };
    PagePlan {
        page: 0,
        forged: false,
        settlements: (0..6).map(settle).collect(),
    }
}
