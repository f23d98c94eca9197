//! Performs the calls of a history.

use std::collections::BTreeSet;
use std::fmt::Debug;

use super::action::{EffectPlan, ExtendPlan, LeasePlan, SettlePlan, id_of};
use super::differ::{Difference, same, same_claimed, same_items};
use super::replay::Replay;
use super::{guards, request};
use crate::conformance::model::Choice;
use crate::engine::{
    Action, Claim, Control, Controlled, Edit, Extend, Filter, LeaseReport, QueueSettings,
    RecordValue, Select, Settle, Settlement, Target, Token,
};
use crate::error::{ErrorKind, Result};
use crate::job::{DeadReason, Effect, JobId, JobRecord, NewJob};

/// More calls than any walk with a cursor needs here.
const CALLS_MAX: usize = 2_000;

impl Replay {
    pub(super) async fn enqueue(
        &mut self,
        space: usize,
        jobs: Vec<NewJob>,
    ) -> Result<(), Difference> {
        let name = self.name(space);
        match self.engine.enqueue(&name, jobs.clone()).await {
            Ok(answered) => {
                let overflown = self.overflown(space).await?;
                let model = self.at(space, answered.now)?;
                model.follow_overflow(answered.now, &jobs, overflown);
                let expected = model.enqueue(answered.now, &jobs);
                let expected = expected.map_err(|error| unrefused("enqueue", &error))?;
                let asked_at = self.unsaid();
                self.at(space, asked_at)?;
                same_items("receipt", &expected, &answered.receipts)
            }
            Err(error) => {
                let now = self.unsaid();
                let expected = self.aside(space).enqueue(now, &jobs);
                refused("enqueue", expected, &error)
            }
        }
    }

    /// The jobs that the engine dead-lettered for want of room: the law leaves it some choice.
    pub(super) async fn overflown(&mut self, space: usize) -> Result<Vec<JobId>, Difference> {
        let numbers = self.spaces[space].numbers.iter();
        let targets = numbers
            .map(|no| Target::Id(id_of(self.seed, *no)))
            .collect();
        let got = self.engine.get(&self.name(space), targets, false).await;
        let got = got.map_err(|error| broken("get", &error))?;
        let overflown = |job: &&JobRecord| job.dead == Some(DeadReason::Overflow);
        let jobs = got.iter().flatten().filter_map(|got| got.job());
        Ok(jobs.filter(overflown).map(|job| job.id).collect())
    }

    pub(super) async fn claim(&mut self, space: usize, claim: Claim) -> Result<(), Difference> {
        let name = self.name(space);
        let answered = self.engine.claim(&name, claim.clone()).await;
        let answered = answered.map_err(|error| broken("claim", &error))?;
        let model = self.at(space, answered.now)?;
        let expected = model.claim(answered.now, &claim, Choice::Of(&answered));
        let expected = expected.map_err(|error| unrefused("claim", &error))?;
        same_claimed(&expected, &answered)?;
        for lease in &answered.leases {
            let leases = &mut self.spaces[space].leases;
            if leases.iter().all(|(token, _)| *token != lease.token) {
                let jobs = lease.jobs.iter().map(|job| (job.id, job.attempt));
                leases.push((lease.token, jobs.collect()));
            }
        }
        Ok(())
    }

    /// A lease answered before, counted back from the last one.
    fn lease(&self, space: usize, back: u8, forged: bool) -> Option<(Token, Vec<(JobId, u32)>)> {
        let leases = &self.spaces[space].leases;
        let nth = leases.len().checked_sub(1)?;
        let (mut token, jobs) = leases[nth - usize::from(back) % leases.len()].clone();
        token.nonce ^= u64::from(forged) << 40;
        Some((token, jobs))
    }

    pub(super) async fn extend(
        &mut self,
        space: usize,
        plan: &ExtendPlan,
    ) -> Result<(), Difference> {
        let Some((token, jobs)) = self.lease(space, plan.lease, plan.forged) else {
            return Ok(());
        };
        let ids = jobs.iter().map(|(id, _)| *id);
        let others = plan.others.iter().map(|no| id_of(self.seed, *no));
        let extend = Extend {
            token,
            lease_duration: plan.lease_duration,
            log: Vec::new(),
            memos: Vec::new(),
            progress: (plan.progress.into_iter())
                .zip(ids.clone())
                .map(|(n, id)| (id, vec![n].into()))
                .collect(),
            jobs: ids.chain(others).collect(),
        };
        let name = self.name(space);
        let answered = self.engine.extend(&name, vec![extend.clone()]).await;
        let answered = answered.map_err(|error| broken("extend", &error))?;
        let model = self.at(space, answered.now)?;
        let expected = model.extend(answered.now, &[extend]);
        same_items("extend's verdict", &expected, &answered.verdicts)
    }

    pub(super) async fn settle(
        &mut self,
        space: usize,
        plans: &[LeasePlan],
    ) -> Result<(), Difference> {
        let mut settle = Settle::default();
        for plan in plans {
            let Some((token, jobs)) = self.lease(space, plan.lease, plan.forged) else {
                continue;
            };
            // Of a long row each job once, if the lease has so many.
            let row = plan.settlements.iter().take(jobs.len().max(6));
            let settlements = row
                .map(|plan| {
                    let job = jobs[usize::from(plan.nth) % jobs.len()];
                    self.settlement(space, plan, job)
                })
                .collect();
            settle.leases.push(LeaseReport::new(token, settlements));
        }
        let name = self.name(space);
        match self.engine.settle(&name, settle.clone()).await {
            Ok(answered) => {
                let model = self.at(space, answered.now)?;
                let expected = model.settle(answered.now, &settle.leases);
                let expected = expected.map_err(|error| unrefused("settle", &error))?;
                same_items("verdicts on lease", &expected, &answered.verdicts)
            }
            Err(error) => {
                let now = self.unsaid();
                let expected = self.aside(space).settle(now, &settle.leases);
                refused("settle", expected, &error)
            }
        }
    }

    fn settlement(
        &mut self,
        space: usize,
        plan: &SettlePlan,
        (id, attempt): (JobId, u32),
    ) -> Settlement {
        let effects = plan.effects.iter().map(|plan| self.effect(space, plan));
        let effects = effects.collect();
        let guard = plan.guard.map(|plan| guards::guard(self, space, plan));
        Settlement {
            effects,
            guard,
            result: plan.result.then(|| vec![plan.nth; 3].into()),
            error: plan.error.then(|| format!("error of attempt {attempt}")),
            stopped: plan.stopped,
            ..Settlement::new(
                id,
                attempt + u32::from(plan.wrong_attempt),
                plan.outcome.clone(),
            )
        }
    }

    pub(super) fn effect(&mut self, space: usize, plan: &EffectPlan) -> Effect {
        match plan {
            EffectPlan::Enqueue(job) => {
                self.spaces[space].numbers.insert(job.no);
                Effect::Enqueue(Box::new(request::job(self.seed, job, self.reading)))
            }
            EffectPlan::Clear { no, name } => Effect::Clear {
                job: id_of(self.seed, *no),
                name: request::name(*name),
            },
            EffectPlan::Cancel { queue, key } => Effect::Cancel {
                queue: request::queue(*queue),
                key: request::key(*key),
            },
        }
    }

    pub(super) async fn edit(&mut self, space: usize, edit: Edit) -> Result<(), Difference> {
        let name = self.name(space);
        let Select::Targets(targets) = &edit.select else {
            return Err("this takes edits of targets".into());
        };
        match self.engine.edit(&name, edit.clone()).await {
            Ok(answered) => {
                let model = self.at(space, answered.now)?;
                let expected = model.edit(answered.now, targets, &edit.action, edit.dry_run);
                let expected = expected.map_err(|error| unrefused("edit", &error))?;
                same_items("edit's verdict", &expected, &answered.verdicts)
            }
            Err(error) => {
                let now = self.unsaid();
                let expected = self.aside(space).edit(now, targets, &edit.action, true);
                refused("edit", expected, &error)
            }
        }
    }

    /// Walks to the end; each job that matches all the while is visited, each visited one matches.
    pub(super) async fn edit_where(
        &mut self,
        space: usize,
        filter: Filter,
        action: Action,
        limit: usize,
        dry_run: bool,
    ) -> Result<(), Difference> {
        let name = self.name(space);
        let mut cursor = None;
        let mut first: Option<BTreeSet<JobId>> = None;
        let mut visited = BTreeSet::new();
        for _ in 0..CALLS_MAX {
            let edit = Edit {
                select: Select::Filter {
                    filter: filter.clone(),
                    cursor,
                    limit,
                },
                action: action.clone(),
                dry_run,
            };
            let answered = match self.engine.edit(&name, edit).await {
                Ok(answered) => answered,
                Err(error) => {
                    let now = self.unsaid();
                    let expected = self.aside(space).edit(now, &[], &action, true);
                    return refused("edit by filter", expected, &error);
                }
            };
            let now = answered.now;
            let model = self.at(space, now)?;
            let before: BTreeSet<JobId> = model.found_by(now, &filter).into_iter().collect();
            first.get_or_insert_with(|| before.clone());
            for (id, verdict) in &answered.verdicts {
                let id = id.ok_or("edit by filter: a verdict without an id")?;
                let matches = before.contains(&id) || model.found_by(now, &filter).contains(&id);
                if !matches || !visited.insert(id) {
                    return Err(format!(
                        "edit by filter: visits {id}, which does not match now"
                    ));
                }
                let expected = model.edit(now, &[Target::Id(id)], &action, dry_run);
                let expected = expected.map_err(|error| unrefused("edit by filter", &error))?;
                same("edit's verdict", &expected[0], &(Some(id), *verdict))?;
            }
            same("matched", &answered.verdicts.len(), &answered.matched)?;
            if answered.examined > limit || answered.examined < answered.matched {
                return Err(format!("edit by filter: examined {}", answered.examined));
            }
            cursor = answered.cursor;
            if cursor.is_none() {
                let missed = (model.found_by(now, &filter).into_iter())
                    .find(|id| !visited.contains(id) && first.iter().flatten().any(|f| f == id));
                return missed.map_or(Ok(()), |id| {
                    Err(format!("edit by filter: misses {id}, which matches"))
                });
            }
        }
        Err("edit by filter: comes to no end".into())
    }

    pub(super) async fn pause(
        &mut self,
        space: usize,
        queue: u8,
        pause: bool,
    ) -> Result<(), Difference> {
        let queue = request::queue(queue);
        let control = if pause {
            Control::Pause {
                queue: queue.clone(),
            }
        } else {
            Control::Resume {
                queue: queue.clone(),
            }
        };
        let now = self.unsaid();
        let answered = self.control(space, control).await?;
        let model = self.at(space, now)?;
        let expected = Controlled::Done(if pause {
            model.pause(&queue)
        } else {
            model.resume(&queue)
        });
        same("control", &expected, &answered)
    }

    pub(super) async fn purge(
        &mut self,
        space: usize,
        queue: u8,
        limit: usize,
    ) -> Result<(), Difference> {
        let queue = request::queue(queue);
        // While the clock is behind, each call has its own instant: then one call takes all.
        let behind = self.reading < self.model.answered_at();
        let limit = if behind { 1_000 } else { limit };
        let (mut at, mut purged) = (None, 0);
        for _ in 0..CALLS_MAX {
            let now = self.unsaid();
            let control = Control::Purge {
                queue: queue.clone(),
                cursor: at,
                limit,
            };
            let Controlled::Purged {
                examined,
                matched,
                cursor,
            } = self.control(space, control).await?
            else {
                return Err("purge: answers something else".into());
            };
            if examined > limit || examined < matched {
                return Err(format!("purge: examined {examined}"));
            }
            let model = self.at(space, now)?;
            purged += matched;
            at = cursor;
            if at.is_none() {
                let expected = model.purge(&queue, now, usize::MAX);
                return same("jobs purged", &expected, &purged);
            }
        }
        Err("purge: comes to no end".into())
    }

    pub(super) async fn delete_queue(&mut self, space: usize, queue: u8) -> Result<(), Difference> {
        let queue = request::queue(queue);
        let name = self.name(space);
        let now = self.unsaid();
        let control = Control::DeleteQueue {
            queue: queue.clone(),
        };
        let deleted = match self.engine.control(&name, control).await {
            Ok(Controlled::Done(_)) => true,
            Ok(other) => return Err(format!("delete of a queue: answers {other:?}")),
            Err(error) if error.kind() == ErrorKind::Conflict => false,
            Err(error) => return Err(broken("delete of a queue", &error)),
        };
        let expected = self.at(space, now)?.delete_queue(&queue);
        same("queue deleted", &expected, &deleted)
    }

    pub(super) async fn write_settings(
        &mut self,
        space: usize,
        queue: u8,
        settings: QueueSettings,
        stale: bool,
    ) -> Result<(), Difference> {
        let record = format!("queue/{}", request::queue(queue));
        let version = (self.model.space(&self.name(space)))
            .and_then(|model| model.record(&record))
            .map_or(0, |record| record.version);
        let expected = version + u64::from(stale);
        let value = Some(RecordValue::Queue(settings.clone()));
        let write = Control::Write {
            name: record.clone(),
            expected,
            value: value.clone(),
        };
        let name = self.name(space);
        let now = self.unsaid();
        let written = match self.engine.control(&name, write).await {
            Ok(Controlled::Written(version)) => Some(version),
            Ok(other) => return Err(format!("write: answers {other:?}")),
            Err(error) if error.kind() == ErrorKind::VersionConflict => None,
            // An engine that cuts namespaces into shards keeps no limits.
            Err(error) if error.kind() == ErrorKind::Unsupported && settings.has_limits() => {
                return Ok(());
            }
            Err(error) => return Err(broken("write", &error)),
        };
        let model = if written.is_some() {
            self.at(space, now)?
        } else {
            &mut self.aside(space)
        };
        let expected = model.write(&record, expected, value, written);
        same("version written", &expected, &written)?;
        let now = self.unsaid();
        let read = Control::Read {
            name: record.clone(),
        };
        let read = self.control(space, read).await?;
        let model = self.at(space, now)?;
        let expected = Controlled::Record(model.record(&record).cloned());
        same("record", &expected, &read)?;
        let now = self.unsaid();
        let names = self.control(space, Control::names("queue/")).await?;
        let expected = Controlled::Names {
            names: self.at(space, now)?.names("queue/"),
            cursor: None,
        };
        same("names of records", &expected, &names)
    }

    /// Writes a record that decides nothing: a process that is killed before it changed anything
    /// leaves no sign that it was there.
    pub(super) async fn change_something(&mut self) -> Result<(), Difference> {
        let record = "alive";
        let known = self.model.space(&self.name(0));
        let known = known.and_then(|model| model.record(record));
        let expected = known.map_or(0, |record| record.version);
        let value = Some(RecordValue::Opaque(Default::default()));
        let write = Control::Write {
            name: record.into(),
            expected,
            value: value.clone(),
        };
        let now = self.unsaid();
        let Controlled::Written(version) = self.control(0, write).await? else {
            return Err("write: answers something else".into());
        };
        let expected = self
            .at(0, now)?
            .write(record, expected, value, Some(version));
        same("version written", &expected, &Some(version))
    }

    async fn control(&mut self, space: usize, control: Control) -> Result<Controlled, Difference> {
        let name = self.name(space);
        let answered = self.engine.control(&name, control).await;
        answered.map_err(|error| broken("control", &error))
    }

    pub(super) async fn maintain(&mut self) -> Result<(), Difference> {
        let now = self.unsaid();
        let answered = self.engine.maintain().await;
        answered.map_err(|error| broken("maintain", &error))?;
        for space in 0..self.spaces.len() {
            if self.spaces[space].used {
                self.model.at(&self.spaces[space].name, now);
            }
        }
        Ok(())
    }

    /// A copy of the model's namespace at the instant of a refused call, which leaves no trace.
    pub(super) fn aside(&self, space: usize) -> crate::conformance::model::Space {
        let mut model = self.model.clone();
        model.at(&self.spaces[space].name, self.unsaid()).clone()
    }
}

/// The engine refused a call: the model does too, for the same reason.
pub(super) fn refused<T: Debug>(
    verb: &str,
    expected: Result<T>,
    error: &crate::Error,
) -> Result<(), Difference> {
    match expected {
        Err(expected) if expected.kind() == error.kind() => Ok(()),
        expected => Err(format!(
            "{verb}\n    expected {expected:?}\n    answered {error}"
        )),
    }
}

pub(super) fn unrefused(verb: &str, expected: &crate::Error) -> Difference {
    format!("{verb}\n    expected to be refused: {expected}\n    answered a success")
}

pub(super) fn broken(verb: &str, error: &crate::Error) -> Difference {
    format!("{verb}: refused a well-formed call: {error}")
}
