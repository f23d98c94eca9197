//! An engine that is the model itself, with a bug or without: it proves the comparison.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use crate::conformance::harness::{Harness, START, Subject};
use crate::conformance::model::{Choice, Entry, Holding, Model, Space};
use crate::engine::*;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Effect, JobId, JobState, Limits, NewJob, Outcome};
use crate::time::{ManualClock, SteadyClock, Timestamp, millis};

/// A bug to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    EarlyByOneMillisecond,
    FailuresCountedOnRelease,
    SettleWithoutToken,
    UniqueKeyLeftBehind,
    EffectsForgotten,
    GroupOvertaken,
    RescueForgotten,
    NewIdOnRetry,
    LastFirst,
    FenceReused,
    CountsOff,
    ListForgetsOne,
    GuardNotCompared,
    GuardedOutsideStep,
    CopyLost,
}

impl Bug {
    pub(super) const ALL: [Self; 15] = [
        Self::EarlyByOneMillisecond,
        Self::FailuresCountedOnRelease,
        Self::SettleWithoutToken,
        Self::UniqueKeyLeftBehind,
        Self::EffectsForgotten,
        Self::GroupOvertaken,
        Self::RescueForgotten,
        Self::NewIdOnRetry,
        Self::LastFirst,
        Self::FenceReused,
        Self::CountsOff,
        Self::ListForgetsOne,
        Self::GuardNotCompared,
        Self::GuardedOutsideStep,
        Self::CopyLost,
    ];

    /// Steps of the shortest history that shows it, with some to spare.
    pub(super) fn steps_needed(self) -> usize {
        match self {
            Self::CountsOff | Self::ListForgetsOne => 2,
            Self::LastFirst => 3,
            Self::EarlyByOneMillisecond | Self::RescueForgotten | Self::EffectsForgotten => 4,
            _ => 6,
        }
    }
}

/// Makes engines that are the model, all with the same bug.
pub(super) struct Standin {
    pub(super) bug: Option<Bug>,
}

#[async_trait]
impl Harness for Standin {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let clock = ManualClock::new(START);
        let engine = ModelEngine {
            model: Mutex::new(Model::new(limits, START)),
            clock: SteadyClock::new(Arc::new(clock.clone()), Timestamp::ZERO),
            bug: self.bug,
        };
        Box::new(ModelSubject {
            engine: Arc::new(engine),
            clock,
        })
    }
}

struct ModelSubject {
    engine: Arc<ModelEngine>,
    clock: ManualClock,
}

#[async_trait]
impl Subject for ModelSubject {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&self, now: Timestamp) {
        self.clock.set(now);
    }
}

#[derive(Debug)]
struct ModelEngine {
    model: Mutex<Model>,
    clock: SteadyClock,
    bug: Option<Bug>,
}

impl ModelEngine {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// One call: what it does in the namespace, at which instant.
    fn call<T>(
        &self,
        namespace: &Namespace,
        call: impl FnOnce(&mut Space, Timestamp) -> T,
    ) -> (T, Timestamp) {
        let mut model = self.model.lock().unwrap();
        let now = self.clock.now();
        if self.has(Bug::RescueForgotten) {
            let never = |space: &mut Space| {
                let (_, holdings, _) = space.inner();
                holdings
                    .iter_mut()
                    .for_each(|holding| holding.deadline = Timestamp::MAX);
            };
            model.spaces_mut().for_each(never);
        }
        (call(model.at(namespace, now), now), now)
    }

    fn claim_with_bugs(&self, space: &mut Space, now: Timestamp, claim: &Claim) -> Result<Claimed> {
        let before: Vec<Entry> = space.inner().0.clone();
        for job in space.inner().0 {
            if self.has(Bug::EarlyByOneMillisecond) && job.record.due.since(now) <= millis(1) {
                job.record.due = job.record.due.min(now);
            }
            if self.has(Bug::LastFirst) {
                job.seq = u64::MAX - job.seq;
            }
            if self.has(Bug::GroupOvertaken) {
                job.record.group = None;
            }
        }
        if self.has(Bug::FenceReused) {
            *space.inner().2 = 0;
        }
        let mut claimed = space.claim(now, claim, Choice::Own);
        let answered = claimed.iter_mut().flat_map(|claimed| &mut claimed.leases);
        for job in answered.flat_map(|lease| &mut lease.jobs) {
            let was = before.iter().find(|was| was.record.id == job.id).unwrap();
            (job.due, job.group) = (was.record.due, was.record.group.clone());
        }
        for (job, was) in space.inner().0.iter_mut().zip(before) {
            job.seq = was.seq;
            (job.record.due, job.record.group) = (was.record.due, was.record.group);
        }
        claimed
    }

    fn guarded_with_bugs(
        &self,
        space: &mut Space,
        now: Timestamp,
        mut guard: Guard,
        value: Option<RecordValue>,
        mut effects: Vec<Effect>,
    ) -> Result<Controlled> {
        let version = space.record(&guard.record).map_or(0, |it| it.version);
        if self.has(Bug::GuardNotCompared) {
            guard.version = version;
        }
        if self.has(Bug::GuardedOutsideStep) && guard.version != version {
            let jobs = effects.iter().filter_map(|effect| match effect {
                Effect::Enqueue(job) => Some((**job).clone()),
                _ => None,
            });
            space.enqueue(now, &jobs.collect::<Vec<_>>())?;
        }
        if self.has(Bug::CopyLost) && guard.record == crate::topic::TOPICS {
            effects.pop();
            let answered = space.guarded(now, &guard, value, &effects, None)?;
            return Ok(match answered {
                Controlled::Guarded {
                    version,
                    mut verdicts,
                } => {
                    verdicts.push(Some(EnqueueVerdict::Created));
                    Controlled::Guarded { version, verdicts }
                }
                other => other,
            });
        }
        space.guarded(now, &guard, value, &effects, None)
    }

    fn settle_with_bugs(
        &self,
        space: &mut Space,
        now: Timestamp,
        mut leases: Vec<LeaseReport>,
    ) -> Result<Vec<Vec<SettleVerdict>>> {
        let sent = leases.clone();
        for lease in &mut leases {
            if self.has(Bug::SettleWithoutToken) {
                let of = |holding: &&mut Holding| {
                    lease
                        .settlements
                        .iter()
                        .any(|job| holding.jobs.contains(&job.id))
                };
                if let Some(holding) = space.inner().1.iter_mut().find(of) {
                    lease.token = holding.token;
                }
            }
            if self.has(Bug::EffectsForgotten) {
                lease
                    .settlements
                    .iter_mut()
                    .for_each(|job| job.effects.clear());
            }
        }
        let mut verdicts = space.settle(now, &leases)?;
        for (lease, verdicts) in sent.iter().zip(&mut verdicts) {
            for (settlement, verdict) in lease.settlements.iter().zip(verdicts) {
                let SettleVerdict::Settled { effects, state, .. } = verdict else {
                    continue;
                };
                if self.has(Bug::EffectsForgotten) {
                    let verdict = |effect: &Effect| match effect {
                        Effect::Enqueue(_) => Some(EnqueueVerdict::Created),
                        Effect::Clear { .. } | Effect::Cancel { .. } | Effect::Signal { .. } => {
                            None
                        }
                    };
                    *effects = settlement.effects.iter().map(verdict).collect();
                }
                let jobs = &mut space.inner().0;
                let Some(job) = jobs.iter_mut().find(|job| job.record.id == settlement.id) else {
                    continue;
                };
                if self.has(Bug::FailuresCountedOnRelease)
                    && settlement.outcome == Outcome::Released
                {
                    job.record.failures += 1;
                }
                if self.has(Bug::UniqueKeyLeftBehind) && state.is_settled() {
                    job.holds_key = job.record.unique.is_some();
                }
                if self.has(Bug::NewIdOnRetry) && *state == JobState::Scheduled {
                    job.record.id = JobId::derived("another id", &settlement.id.to_string());
                }
            }
        }
        Ok(verdicts)
    }
}

#[async_trait]
impl Engine for ModelEngine {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        let (receipts, now) = self.call(namespace, |space, now| space.enqueue(now, &jobs));
        Ok(Enqueued {
            receipts: receipts?,
            durability: Durability::Memory,
            now,
        })
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        self.call(namespace, |space, now| {
            self.claim_with_bugs(space, now, &claim)
        })
        .0
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        let (verdicts, now) = self.call(namespace, |space, now| space.extend(now, &leases));
        Ok(Extended { verdicts, now })
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        let settled = |space: &mut Space, now| self.settle_with_bugs(space, now, settle.leases);
        let (verdicts, now) = self.call(namespace, settled);
        Ok(Settled {
            verdicts: verdicts?,
            now,
        })
    }

    async fn wait(&self, _: &Namespace, _: WaitFor, _: Timestamp) -> Result<Waited> {
        Ok(Waited::TimedOut)
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        let got = |space: &mut Space, now| {
            (targets.iter())
                .map(|target| match space.get(now, target)? {
                    Got::Job(job, _) => {
                        let explanation = space.explain(now, job.id).filter(|_| explain);
                        Some(Got::Job(job, explanation))
                    }
                    tombstone => Some(tombstone),
                })
                .collect()
        };
        Ok(self.call(namespace, got).0)
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        let found = |space: &mut Space, now| space.list(now, &list.by, &list.filter, list.payloads);
        let (mut jobs, now) = self.call(namespace, found);
        if self.has(Bug::ListForgetsOne) && jobs.len() > 1 {
            jobs.pop();
        }
        let from = list.cursor.map_or(0, |cursor| usize::from(cursor.0[0]));
        let jobs: Vec<_> = jobs.into_iter().skip(from).take(list.limit).collect();
        Ok(Listing {
            examined: jobs.len(),
            cursor: (jobs.len() == list.limit && list.limit < 200)
                .then(|| Cursor(vec![(from + list.limit) as u8].into())),
            jobs,
            now,
        })
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        let edited = |space: &mut Space, now| {
            let mut examined = 0;
            let mut next = None;
            let targets = match edit.select {
                Select::Targets(targets) => targets,
                Select::Filter {
                    filter,
                    cursor,
                    limit,
                } => {
                    let after = |id: &JobId| {
                        (cursor.as_ref()).is_none_or(|cursor| id.as_bytes()[..] > cursor.0[..])
                    };
                    let mut ids = space.found_by(now, &Filter::default());
                    ids.sort();
                    ids.retain(after);
                    if ids.len() > limit {
                        ids.truncate(limit);
                        next = ids.last().map(|id| Cursor(id.as_bytes().to_vec().into()));
                    }
                    examined = ids.len();
                    let found = space.found_by(now, &filter);
                    ids.retain(|id| found.contains(id));
                    ids.into_iter().map(Target::Id).collect()
                }
            };
            let verdicts = space.edit(now, &targets, &edit.action, edit.dry_run)?;
            Ok(Edited {
                examined,
                matched: verdicts.len(),
                verdicts,
                cursor: next,
                now,
            })
        };
        self.call(namespace, edited).0
    }

    async fn stats(&self, namespace: &Namespace, _: StatsRequest) -> Result<Stats> {
        let stats = |space: &mut Space, now| {
            let queue = |queue: String| {
                let mut counts = space.counts(&queue, now);
                if self.has(Bug::CountsOff) {
                    counts.0[JobState::Active as usize] += 1;
                }
                QueueStats {
                    limits: None,
                    shares: Vec::new(),
                    counts,
                    paused: space.pauses(&queue),
                    oldest_due: space.due_for(&queue, now).into_iter().max(),
                    due: Vec::new(),
                    history: Vec::new(),
                    ends: space.ends(&queue).into_iter().take(ENDS_KEPT).collect(),
                    queue,
                }
            };
            let queues = space.queues().into_iter().map(queue).collect();
            (queues, space.workers_seen(now))
        };
        let ((queues, workers), now) = self.call(namespace, stats);
        Ok(Stats {
            queues,
            workers,
            exact: true,
            overdue: Vec::new(),
            next: None,
            now,
        })
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        let done = |space: &mut Space, now| match control {
            Control::Pause { queue } => Ok(Controlled::Done(space.pause(&queue))),
            Control::Resume { queue } => Ok(Controlled::Done(space.resume(&queue))),
            Control::Purge { queue, limit, .. } => {
                let matched = space.purge(&queue, now, limit);
                Ok(Controlled::Purged {
                    examined: matched,
                    matched,
                    cursor: (matched == limit).then(|| Cursor(Default::default())),
                })
            }
            Control::DeleteQueue { queue } => match space.delete_queue(&queue) {
                true => Ok(Controlled::Done(true)),
                false => Err(Error::new(ErrorKind::Conflict, "the queue has jobs")),
            },
            Control::Read { name } => Ok(Controlled::Record(space.record(&name).cloned())),
            Control::Names { prefix, .. } => Ok(Controlled::Names {
                names: space.names(&prefix),
                cursor: None,
            }),
            Control::Write {
                name,
                expected,
                value,
            } => (space.write(&name, expected, value, None))
                .map(Controlled::Written)
                .ok_or_else(|| Error::new(ErrorKind::VersionConflict, "another version")),
            Control::Guarded {
                guard,
                value,
                effects,
            } => self.guarded_with_bugs(space, now, guard, value, effects),
            Control::Schedules { .. } | Control::Schedule { .. } => Err(Error::new(
                ErrorKind::Unsupported,
                "the stand-in has no schedules",
            )),
            Control::BlockLimit { .. } | Control::Limits { .. } | Control::Limit { .. } => Err(
                Error::new(ErrorKind::Unsupported, "the stand-in has no named limits"),
            ),
            Control::PauseShare { .. }
            | Control::BlockShare { .. }
            | Control::BlockedShares { .. } => Err(Error::new(
                ErrorKind::Unsupported,
                "the stand-in has no shares",
            )),
            Control::Flows { .. } | Control::Flow { .. } | Control::Dependants { .. } => Err(
                Error::new(ErrorKind::Unsupported, "the stand-in has no flows"),
            ),
        };
        self.call(namespace, done).0
    }

    async fn maintain(&self) -> Result<Maintained> {
        let mut model = self.model.lock().unwrap();
        let now = self.clock.now();
        let names: Vec<Namespace> = model.names();
        for name in names {
            model.at(&name, now);
        }
        Ok(Maintained::default())
    }

    async fn info(&self) -> Result<Info> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "the stand-in has no info",
        ))
    }
}
