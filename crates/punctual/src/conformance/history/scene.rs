//! Scenes: steps that belong together, where chance alone would hardly bring them together.

use super::action::*;
use super::generate::{ALIKE, Generator, QUEUES};
use crate::job::{Hold, OnRetry, Outcome, UniquePolicy};
use crate::time::{hours, minutes, seconds};

impl Generator {
    /// One job keeps another back until it ends by itself, and nothing else is left to claim.
    pub(super) fn scene(&mut self) -> Vec<Step> {
        let queue = self.random.small(ALIKE);
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

    /// Jobs that are alike in a queue where nothing stands before them, claimed and settled
    /// together or in parts.
    pub(super) fn together(&mut self) -> Vec<Step> {
        let all = ClaimPlan {
            limit: 1_000,
            ..self.claim_alike()
        };
        let mut actions = vec![
            Action::Claim(all),
            Action::Enqueue(self.alike()),
            Action::Claim(self.claim_alike()),
        ];
        for _ in 0..self.random.below(3) {
            actions.push(Action::Settle(vec![self.all_done()]));
        }
        if self.random.percent(50) {
            actions.push(Action::Claim(self.claim_alike()));
            actions.push(Action::Settle(vec![self.all_done()]));
        }
        let step = |action| Step { space: 0, action };
        actions.into_iter().map(step).collect()
    }

    /// A call's jobs that differ in nothing but id and payload, which an engine may store together;
    /// now and then one was sent before.
    pub(super) fn alike(&mut self) -> Vec<JobPlan> {
        let queue = self.random.weighted(&[(10, ALIKE), (1, 0), (1, 1)]);
        let due = self
            .random
            .weighted(&[(9, When::Now), (1, When::After(seconds(1)))]);
        let kind = self.random.small(2);
        let like = JobPlan {
            queue,
            due,
            kind,
            ..JobPlan::plain(0)
        };
        let jobs = 2 + self.random.below(u64::from(self.alike) - 1);
        let mut alike: Vec<JobPlan> = (0..jobs).map(|_| self.fresh_like(&like)).collect();
        if self.random.percent(15) {
            alike.push(self.sent_before());
        }
        alike
    }

    /// Some of the jobs that are alike, and nothing else.
    pub(super) fn claim_alike(&mut self) -> ClaimPlan {
        let lease_duration = self.random.one(&[seconds(1), seconds(10), minutes(1)]);
        ClaimPlan {
            queues: vec![ALIKE],
            limit: self.random.one(&[2, 4, 8, 64]),
            lease_duration,
            remote: self.random.percent(40),
            ..self.claim_of_all()
        }
    }

    /// Jobs of a lease in a row, completed with nothing else to say.
    pub(super) fn all_done(&mut self) -> LeasePlan {
        let first = self.random.weighted(&[(3, 0), (1, 1), (1, 3)]);
        let jobs = self.random.one(&[2, 4, 10, 64]);
        let settle = |nth| SettlePlan {
            nth,
            wrong_attempt: false,
            outcome: Outcome::Completed,
            result: false,
            error: false,
            stopped: None,
            effects: Vec::new(),
            guard: None,
        };
        LeasePlan {
            lease: self.lease_back(),
            forged: false,
            settlements: (first..first + jobs).map(settle).collect(),
        }
    }

    fn plain(&mut self, queue: u8) -> JobPlan {
        JobPlan {
            queue,
            ..self.fresh()
        }
    }

    /// Leaves nothing that is ready: what is to come by itself is then all that is reported.
    fn claim_of_all(&mut self) -> ClaimPlan {
        ClaimPlan {
            queues: (0..QUEUES).collect(),
            limit: 1_000,
            max_bytes: 4 << 20,
            lease_duration: minutes(1),
            nonce: self.nonce(),
            alone: false,
            worker: self.random.small(2),
            turns: false,
            remote: false,
        }
    }
}

/// The jobs of the last lease wait for an hour.
fn all_fail() -> LeasePlan {
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
        guard: None,
    };
    LeasePlan {
        lease: 0,
        forged: false,
        settlements: (0..6).map(settle).collect(),
    }
}
