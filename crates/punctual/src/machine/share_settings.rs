//! Changes of shares: other limits and weights, blocks, and the end of their queue.

use std::ops::Bound;

use super::Machine;
use super::rows::*;
use super::share_rows::PAUSED;
use super::shares::{EXAMINED_MAX, catch_up, share_key};
use crate::engine::{BLOCKED_SHARES_MAX, Controlled, Namespace, ShareSettings};
use crate::error::{Error, ErrorKind, Result};

impl Machine {
    /// After a change of the limits, files some of the shares anew that were not filed since.
    pub(super) fn check_shares(&mut self, id: u32) -> Result<()> {
        let Some(all) = &self.queue_state(id)?.shares else {
            return Ok(());
        };
        let Some(after) = all.row.checked.clone() else {
            return Ok(());
        };
        let (from, end) = (share_key(id, &after), share_key(id + 1, ""));
        let bounds = (Bound::Excluded(&from), Bound::Excluded(&end));
        let found = (self.rows.shares).scan(bounds.0, bounds.1, false, EXAMINED_MAX)?;
        for (key, _) in &found {
            self.change_share(id, &key.text, catch_up)?;
        }
        if let Some(all) = &mut self.queue_mut(id)?.shares {
            let last = (found.len() == EXAMINED_MAX)
                .then(|| found.last())
                .flatten();
            all.row.checked = last.map(|(key, _)| key.text.clone());
            all.changed = true;
        }
        Ok(())
    }

    /// A queue's shares get other settings.
    pub(super) fn shares_reported(&mut self, id: u32, before: &ShareSettings) -> Result<()> {
        let after = self.queue_state(id)?.share_settings();
        if *before == after || self.queue_state(id)?.shares.is_none() {
            return Ok(());
        }
        if (before.concurrency, before.rate) != (after.concurrency, after.rate) {
            if let Some(all) = &mut self.queue_mut(id)?.shares {
                all.row.checked = Some(String::new());
                all.changed = true;
            }
            self.check_shares(id)?;
            self.signals.notify(id);
        }
        let named = before.weights.iter().chain(&after.weights);
        for (share, _) in
            named.filter(|(share, _)| before.weight_of(share) != after.weight_of(share))
        {
            if self.share_row(id, share)?.is_some() {
                self.change_share(id, share, |_, _| {})?;
            }
        }
        Ok(())
    }

    /// Blocks a share for a span, or pauses it; zero ends both, another span ends no pause. Whether
    /// that changed anything.
    pub(super) fn block_share(
        &mut self,
        namespace: &Namespace,
        queue: &str,
        share: &str,
        span: Option<std::time::Duration>,
    ) -> Result<Controlled> {
        let ends = span.is_some_and(|span| span.is_zero());
        let known = self.namespace(namespace);
        let known = known.and_then(|namespace| self.queue(namespace, queue));
        let id = match known {
            Some(id) => id,
            // Nothing is blocked there, and a queue is not made to say so.
            None if ends => return Ok(Controlled::Done(false)),
            None => {
                let namespace = self.namespace_or_new(namespace);
                self.queue_or_new(namespace, queue)
            }
        };
        let until = span.map_or(PAUSED, |span| self.now + span);
        let until = (!ends).then_some(until);
        let now = self.now;
        let before = self.share_row(id, share)?.and_then(|row| row.blocked_until);
        let before = before.filter(|until| *until > now);
        if before == Some(PAUSED) && !ends {
            return Ok(Controlled::Done(false));
        }
        let blocked = self.queue_state(id)?.shares.as_ref();
        let blocked = blocked.map_or(0, |all| all.row.blocked);
        if until.is_some() && before.is_none() && blocked >= BLOCKED_SHARES_MAX {
            let message = "too many shares of the queue are blocked; wait for some to open, or \
                           pause the queue";
            let error = Error::new(ErrorKind::EngineFull, message);
            return Err(error.with("queue", queue).with("limit", BLOCKED_SHARES_MAX));
        }
        if until != before {
            self.change_share(id, share, |row, all| {
                row.blocked_until = until;
                let opens = until.filter(|until| *until < PAUSED);
                row.open_since = row.open_since.min(now).max(opens.unwrap_or(now));
                catch_up(row, all);
            })?;
        }
        Ok(Controlled::Done(until != before))
    }

    /// The queue is deleted: it has no jobs, but its shares may be blocked, or have started some.
    pub(super) fn forget_shares(&mut self, id: u32) -> Result<()> {
        while self.queue_state(id)?.shares.is_some() {
            let (start, end) = (share_key(id, ""), share_key(id + 1, ""));
            let bounds = (Bound::Included(&start), Bound::Excluded(&end));
            let found = (self.rows.shares).scan(bounds.0, bounds.1, false, EXAMINED_MAX)?;
            debug_assert!(
                !found.is_empty(),
                "the count of shares is that of their rows"
            );
            if found.is_empty() {
                break;
            }
            for (key, _) in found {
                self.change_share(id, &key.text, |row, _| {
                    (row.blocked_until, row.rate) = (None, RateRow::new());
                })?;
            }
        }
        Ok(())
    }
}
