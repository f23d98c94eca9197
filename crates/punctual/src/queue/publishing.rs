//! Settling attempts that publish, for callers without a worker: matched, and matched again
//! while subscriptions change.

use std::collections::BTreeMap;

use crate::Queue;
use crate::engine::{Guard, LeaseReport, Settle, SettleVerdict, Settled, Settlement};
use crate::error::Result;
use crate::queue::published;
use crate::topic::{Matcher, Message, TOPICS};

/// Times that settlements are matched anew before they answer `guard_conflict`.
const TRIES_MAX: u32 = 20;

/// What settlements publish, by the place of the lease in its call and that in the lease.
pub type Messages = BTreeMap<(usize, usize), Vec<Message>>;

/// How many subscriptions each message of a settlement matched.
pub type Matched = BTreeMap<(usize, usize), Vec<usize>>;

impl Queue {
    /// Settles attempts with what they publish: the copies are effects behind the others.
    #[doc(hidden)]
    pub async fn settle_publishing(
        &self,
        mut settle: Settle,
        messages: &Messages,
    ) -> Result<(Settled, Matched)> {
        let engine = self.engine();
        let namespace = self.own_namespace();
        if messages.is_empty() {
            return Ok((engine.settle(namespace, settle).await?, Matched::new()));
        }
        let bare = settle.clone();
        let mut matched = Matched::new();
        let matcher = self.read_matcher().await?;
        for (place, messages) in messages {
            if let Some(one) = at(&mut settle, *place) {
                matched.insert(*place, self.add_copies(one, messages, &matcher).await?);
            }
        }
        let mut settled = engine.settle(namespace, settle).await?;
        for _ in 1..TRIES_MAX {
            let conflicts = |place: &&(usize, usize)| {
                let verdict = settled.verdicts.get(place.0).and_then(|of| of.get(place.1));
                matches!(verdict, Some(SettleVerdict::GuardConflict { .. }))
            };
            let open: Vec<_> = messages.keys().filter(conflicts).copied().collect();
            if open.is_empty() {
                break;
            }
            let matcher = self.read_matcher().await?;
            let mut again = Settle::default();
            for place in &open {
                let lease = &bare.leases[place.0];
                let mut one = lease.settlements[place.1].clone();
                let counts = self.add_copies(&mut one, &messages[place], &matcher);
                matched.insert(*place, counts.await?);
                again.leases.push(LeaseReport::new(lease.token, vec![one]));
            }
            let answer = engine.settle(namespace, again).await?;
            for (place, mut verdicts) in open.into_iter().zip(answer.verdicts) {
                settled.verdicts[place.0][place.1] = verdicts.remove(0);
            }
        }
        let settles = |place: &(usize, usize)| {
            let verdict = settled.verdicts.get(place.0).and_then(|of| of.get(place.1));
            matches!(verdict, Some(SettleVerdict::Settled { .. }))
        };
        let sent = messages.iter().filter(|(place, _)| settles(place));
        published("with_outcome", sent.map(|(_, all)| all.len() as u64).sum());
        Ok((settled, matched))
    }

    /// Adds the copies of messages to a settlement, under the version that they were matched with;
    /// how many subscriptions each matched.
    async fn add_copies(
        &self,
        settlement: &mut Settlement,
        messages: &[Message],
        matcher: &Matcher,
    ) -> Result<Vec<usize>> {
        let mut counts = Vec::with_capacity(messages.len());
        for message in messages {
            let now = self.time_for(matcher, message).await?;
            let copies = message.copies(matcher, now);
            counts.push(copies.len());
            let effects = copies.into_iter().map(|(_, effect)| effect);
            settlement.effects.extend(effects);
        }
        settlement.guard = Some(Guard::new(TOPICS, matcher.version()));
        Ok(counts)
    }
}

fn at(settle: &mut Settle, place: (usize, usize)) -> Option<&mut Settlement> {
    let lease = settle.leases.get_mut(place.0)?;
    lease.settlements.get_mut(place.1)
}
