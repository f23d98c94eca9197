//! Explain: why a job has not run yet, or what became of it, with the means to check it.

use super::Machine;
use super::jobs::Loaded;
use super::lanes::{SUSPECT_LANE, lane_of};
use super::rows::*;
use crate::engine::{Explanation, Reason, WorkerId, job_named};
use crate::error::Result;
use crate::job::{CancelReason, DeadReason, JobState};

/// How many jobs before it an explanation counts.
const AHEAD_MAX: usize = 1_000;

impl Machine {
    pub(super) fn explain(&self, job: &Loaded) -> Result<Explanation> {
        let status = &job.status;
        let state = status.state(self.now);
        let mut reasons = match state {
            JobState::Completed => vec![Reason::Completed],
            JobState::Cancelled => {
                vec![Reason::Cancelled {
                    reason: status.cancelled.unwrap_or(CancelReason::Requested),
                }]
            }
            JobState::Dead => vec![Reason::Dead {
                reason: status.dead.unwrap_or(DeadReason::Permanent),
                error: status.last_error.clone(),
            }],
            JobState::Active => vec![self.why_active(job)],
            JobState::Held => self.why_held(job)?,
            JobState::Scheduled if status.attempt > 0 => {
                vec![Reason::WaitsForRetry {
                    due: status.due,
                    failures: status.failures,
                }]
            }
            JobState::Scheduled => vec![Reason::NotDue { due: status.due }],
            JobState::Ready => self.why_ready(job)?,
        };
        if matches!(state, JobState::Held | JobState::Scheduled) && self.is_paused(job.spec.queue) {
            reasons.push(Reason::QueuePaused);
        }
        Ok(Explanation { reasons })
    }

    fn why_active(&self, job: &Loaded) -> Reason {
        let open = self.derived.leases.get(&job.status.fence);
        Reason::Active {
            worker: WorkerId(open.map_or(0, |open| open.worker)),
            since: job.status.started_at.unwrap_or(self.now),
            until: open.map_or(self.now, |open| open.deadline),
        }
    }

    /// What stands between a ready job and its claim; its turn in line if nothing else does.
    fn why_ready(&self, job: &Loaded) -> Result<Vec<Reason>> {
        let queue = self.queue_state(job.spec.queue)?;
        let mut reasons = Vec::new();
        if queue.row.paused {
            reasons.push(Reason::QueuePaused);
        }
        reasons.extend(self.why_limited(job.spec.queue)?);
        let lane = lane_of(job.status.priority, job.is_suspect());
        reasons.extend(self.why_in_share(job, lane)?);
        reasons.extend(self.why_named(job)?);
        if let Some(group) = job.group() {
            let row = self.group_row(job.spec.queue, group)?;
            if let Some(by) = row.active {
                reasons.push(Reason::GroupActive { by });
            } else if let Some(by) = row.holding.filter(|by| *by != job.key.id) {
                let holding = self.load_indexed(&JobKey {
                    namespace: job.key.namespace,
                    id: by,
                })?;
                reasons.push(Reason::GroupHeld {
                    by,
                    until: holding.status.due,
                });
            }
        }
        if job.is_suspect() {
            reasons.push(Reason::Suspect {
                crashes: job.status.crashes,
            });
        }
        let kind = &job.spec.kind;
        match self
            .history
            .takers(job.key.namespace, &queue.name, kind, self.now)
        {
            (false, _) => reasons.push(Reason::NoWorker),
            (true, false) => reasons.push(Reason::NoWorkerForKind { kind: kind.clone() }),
            (true, true) => {}
        }
        let ahead = self.ahead_of(job)?;
        if reasons.is_empty() || ahead > 0 {
            reasons.push(Reason::InLine { ahead });
        }
        Ok(reasons)
    }

    /// Jobs that would be claimed before it, counted up to a bound.
    fn ahead_of(&self, job: &Loaded) -> Result<usize> {
        let queue = job.spec.queue;
        let place = self.place_of(job)?;
        let kept = place.map(|place| self.ahead_in_limit(&place, AHEAD_MAX));
        if let Some(ahead) = kept.transpose()?.flatten() {
            return Ok((ahead + self.ahead_in_group(job)?).min(AHEAD_MAX));
        }
        let own = lane_of(job.status.priority, job.is_suspect());
        let first = if own >= SUSPECT_LANE { SUSPECT_LANE } else { 0 };
        let mut ahead = self.ahead_in_shares(job, first..own)?;
        if job.share().is_some() {
            return Ok((ahead + self.ahead_in_group(job)?).min(AHEAD_MAX));
        }
        for lane in first..=own {
            let mut after = None;
            while ahead < AHEAD_MAX {
                let places = self.places_after(queue, lane, after.as_ref(), AHEAD_MAX)?;
                let Some((last, _)) = places.last() else {
                    break;
                };
                after = Some(last.clone());
                for (_, place) in &places {
                    let own_place = match place {
                        Place::Job(id) => *id == job.key.id,
                        Place::Group(group) => lane == own && job.group() == Some(group),
                    };
                    if own_place {
                        return Ok((ahead + self.ahead_in_group(job)?).min(AHEAD_MAX));
                    }
                    ahead += 1;
                }
            }
        }
        Ok((ahead + self.ahead_in_group(job)?).min(AHEAD_MAX))
    }

    /// Of a job with a share, those before it in its share and in lanes that go first; of any
    /// other, those of shares in lanes that go first.
    fn ahead_in_shares(&self, job: &Loaded, lanes: std::ops::Range<u8>) -> Result<usize> {
        let queue = self.queue_state(job.spec.queue)?;
        let Some(share) = job.share() else {
            let places = lanes.filter_map(|lane| self.lane_shares(job.spec.queue, lane));
            return Ok(places
                .map(|lane| (lane.places - lane.parked) as usize)
                .sum());
        };
        let first: usize = lanes.map(|lane| queue.open_places(lane) as usize).sum();
        let place = self.place_of(job)?;
        let own = place.map(|place| self.ahead_in_share(&place, share, AHEAD_MAX));
        Ok(first + own.transpose()?.unwrap_or(0))
    }

    fn ahead_in_group(&self, job: &Loaded) -> Result<usize> {
        let Some(group) = job.group() else {
            return Ok(0);
        };
        let line = self.line(job.spec.queue, group, job.status.priority, None, AHEAD_MAX)?;
        Ok(line
            .iter()
            .position(|(_, entry)| entry.id == job.key.id)
            .unwrap_or(0))
    }

    fn why_held(&self, job: &Loaded) -> Result<Vec<Reason>> {
        let mut reasons = Vec::new();
        for by in job
            .status
            .wait_for
            .iter()
            .filter_map(|name| job_named(name))
        {
            let ended = self.ended_as(&JobKey {
                namespace: job.key.namespace,
                id: by,
            })?;
            reasons.extend(ended.map(|state| Reason::NeverReleased { by, state }));
        }
        if let Some(holder) = job.status.follows {
            reasons.push(Reason::WaitsForHolder { holder });
        }
        reasons.extend(self.why_linked(job)?);
        if !job.status.wait_for.is_empty() {
            reasons.push(Reason::WaitsForNames {
                names: job.status.wait_for.clone(),
            });
        }
        if job.holds() {
            reasons.push(Reason::NotDue {
                due: job.status.due,
            });
        }
        Ok(reasons)
    }

    /// How a job ended, if it has, and its record or its tombstone is left.
    fn ended_as(&self, key: &JobKey) -> Result<Option<JobState>> {
        if let Some(job) = self.load(key)? {
            let late = job.status.place.is_pending() && job.expires_by(self.now);
            let state = if late {
                JobState::Cancelled
            } else {
                job.status.place
            };
            return Ok(Some(state).filter(|state| state.is_settled()));
        }
        Ok(self
            .rows
            .tombstones
            .get(key)?
            .map(|tombstone| tombstone.state))
    }
}
