//! How time passes in a history.

use std::time::Duration;

use super::action::Moment;
use super::differ::Difference;
use super::observe;
use super::replay::Replay;
use crate::error::Result;
use crate::job::JobState;
use crate::time::Timestamp;

/// Steps of one walk; a longer way is gone at once from there.
const WALK_MAX: usize = 24;

impl Replay {
    /// Sets the clock: at once, or in steps so short that no lease is extended for a silence.
    pub(super) async fn go_to(&mut self, to: Timestamp, walk: bool) -> Result<(), Difference> {
        let steps = if walk { WALK_MAX } else { 0 };
        for _ in 0..steps {
            let Some(stride) = self.stride().filter(|stride| self.reading + *stride < to) else {
                break;
            };
            self.set(self.reading + stride).await?;
        }
        self.set(to).await
    }

    async fn set(&mut self, to: Timestamp) -> Result<(), Difference> {
        self.reading = to;
        self.subject.set_time(to).await;
        for space in 0..self.spaces.len() {
            if self.spaces[space].used {
                observe::stats(self, space).await?;
            }
        }
        Ok(())
    }

    /// Half of the shortest lease, if there is any.
    fn stride(&self) -> Option<Duration> {
        let spaces = self
            .spaces
            .iter()
            .filter_map(|space| self.model.space(&space.name));
        let spans = spaces.flat_map(|space| space.holdings().iter().map(|holding| holding.span));
        spans.min().map(|span| span / 2)
    }

    /// The next moment of a kind that engine time has not reached.
    pub(super) fn next(&self, moment: Moment) -> Option<Timestamp> {
        let spaces = self
            .spaces
            .iter()
            .filter_map(|space| self.model.space(&space.name));
        let jobs = spaces.flat_map(|space| space.known());
        let moments = jobs.filter_map(|job| match moment {
            Moment::Due => (job.record.state == JobState::Scheduled).then_some(job.record.due),
            Moment::LeaseEnd => job.record.lease_until,
            Moment::Expiry => (job.record.expires_at).filter(|_| job.record.finished_at.is_none()),
            Moment::KeyPeriodEnd => job.key_period_end(),
            Moment::Forgetting => job.kept_until(),
        });
        moments.filter(|at| *at > self.model.answered_at()).min()
    }
}
