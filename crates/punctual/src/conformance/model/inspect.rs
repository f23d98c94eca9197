//! The reference model: get and list.

use bytes::Bytes;

use crate::engine::{Filter, Got, ListBy, Target};
use crate::job::{JobRecord, JobState};
use crate::time::Timestamp;

use super::{Entry, Left, Space};

impl Space {
    /// What `get` answers for a target, without explanation.
    pub(crate) fn get(&self, now: Timestamp, target: &Target) -> Option<Got> {
        self.jobs[self.target(target, now)?].got(now)
    }

    /// What `list` answers over all its pages, in an order of the model.
    pub(crate) fn list(
        &self,
        now: Timestamp,
        by: &ListBy,
        filter: &Filter,
        payloads: bool,
    ) -> Vec<JobRecord> {
        let all = *filter == Filter::default();
        let mut jobs: Vec<&Entry> = (self.jobs.iter())
            .filter(|job| job.left == Left::Whole && self.is_of(job, by, now))
            .filter(|job| all || filter.matches(&job.seen(now), now))
            .collect();
        match by {
            ListBy::State { state, .. } if state.is_settled() => {
                jobs.sort_by_key(|job| std::cmp::Reverse(job.record.finished_at));
            }
            ListBy::State { state, .. } if *state == JobState::Ready => jobs.sort_by_key(|job| {
                let group = job.group_key().map(str::to_owned);
                let apart = group.is_none() && job.record.is_suspect();
                (group, apart, job.record.priority, job.place())
            }),
            ListBy::State { .. } => jobs.sort_by_key(|job| job.place()),
            ListBy::Unique { .. } => jobs.sort_by_key(|job| job.follows.is_some()),
            ListBy::Group { .. } => jobs.sort_by_key(|job| job.place()),
            ListBy::All | ListBy::Limit { .. } => jobs.sort_by_key(|job| job.record.id),
        }
        (jobs.into_iter())
            .map(|job| {
                let mut seen = job.seen(now);
                if !payloads {
                    seen.payload = Bytes::new();
                }
                seen
            })
            .collect()
    }

    fn is_of(&self, job: &Entry, by: &ListBy, now: Timestamp) -> bool {
        match by {
            ListBy::State { queue, state } => job.is_in(queue) && job.state(now) == *state,
            ListBy::Unique { queue, key } => {
                let Some(holder) = self.holder(queue, key, now) else {
                    return false;
                };
                let holder = self.jobs[holder].record.id;
                job.record.id == holder || job.follows == Some(holder)
            }
            ListBy::Group { queue, key } => {
                job.is_in(queue) && job.group_key() == Some(key) && !job.record.state.is_settled()
            }
            ListBy::Limit { name } => {
                job.state(now) == JobState::Active && job.record.limits.contains(name)
            }
            ListBy::All => true,
        }
    }
}
