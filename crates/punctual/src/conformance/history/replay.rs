//! Replays a history on an engine and on the model.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use super::action::{Action, Step};
use super::differ::{Difference, same};
use super::{observe, request};
use crate::conformance::harness::{Harness, START, Subject};
use crate::conformance::model::{self, Model};
use crate::conformance::run::text_of;
use crate::engine::{Edit, Engine, Namespace, OnFull, QueueSettings, Select, Token};
use crate::error::Result;
use crate::job::{JobId, Limits};
use crate::time::{Timestamp, seconds, within};

/// Replays a history on a fresh engine and on the model; answers the first step after which they
/// differ, and how.
pub(super) async fn replay(
    harness: &dyn Harness,
    seed: u64,
    steps: &[Step],
) -> Option<(usize, Difference)> {
    let mut replay = Replay::fresh(harness, seed).await;
    // From the first answer on, time does not step back.
    if let Err(difference) = observe::stats(&mut replay, 0).await {
        return Some((0, difference));
    }
    for (nth, step) in steps.iter().enumerate() {
        let compared = AssertUnwindSafe(replay.compare_after(step, nth));
        let compared = within(HANGS_AFTER, compared.catch_unwind()).await;
        let difference = match compared {
            Some(Ok(Ok(()))) => continue,
            Some(Ok(Err(difference))) => difference,
            Some(Err(panic)) => format!("panic: {}", text_of(&*panic)),
            None => format!("hangs: no end after {HANGS_AFTER:?}"),
        };
        return Some((nth, difference));
    }
    None
}

/// A step moves time by hand and awaits nothing: one that takes so long never ends.
const HANGS_AFTER: Duration = seconds(20);

/// An engine and the model at the same step.
pub(super) struct Replay {
    pub(super) subject: Box<dyn Subject>,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) model: Model,
    pub(super) seed: u64,
    /// What the clock reads.
    pub(super) reading: Timestamp,
    pub(super) spaces: Vec<Space>,
}

/// What the replay knows of one namespace.
pub(super) struct Space {
    pub(super) name: Namespace,
    pub(super) used: bool,
    /// The numbers of all jobs sent or named.
    pub(super) numbers: BTreeSet<u16>,
    /// Every lease answered so far, with the attempts claimed.
    pub(super) leases: Vec<(Token, Vec<(JobId, u32)>)>,
}

/// One seed in four has bounds that its history meets.
fn limits_of(seed: u64) -> Limits {
    let mut limits = Limits::default();
    if seed % 4 == 3 {
        limits.payload_bytes = 30;
        limits.batch_bytes = 50;
        limits.result_bytes = 14;
        limits.effects = 1;
        limits.wait_for_names = 2;
    }
    limits
}

impl Replay {
    async fn fresh(harness: &dyn Harness, seed: u64) -> Self {
        let limits = limits_of(seed);
        let subject = harness.fresh(limits).await;
        let space = |name: &str| Space {
            name: Namespace::new(name).expect("the name is well-formed"),
            used: false,
            numbers: BTreeSet::new(),
            leases: Vec::new(),
        };
        Self {
            engine: subject.engine(),
            subject,
            model: Model::new(limits, START),
            seed,
            reading: START,
            spaces: vec![space("one"), space("two")],
        }
    }

    /// The model's namespace at the instant that the engine answered, if that is a right one.
    pub(super) fn at(
        &mut self,
        space: usize,
        answered: Timestamp,
    ) -> Result<&mut model::Space, Difference> {
        let last = self.model.answered_at();
        let steps_on = |now: Timestamp| now > last && now.since(last) < Duration::from_millis(1);
        if self.reading >= last {
            same("engine time", &self.reading, &answered)?;
        } else if !steps_on(answered) {
            return Err(format!(
                "engine time: expected it to go on slowly from {last:?}, as the clock is behind\n    \
                 answered {answered:?}"
            ));
        }
        Ok(self.model.at(&self.spaces[space].name, answered))
    }

    /// The engine time of a call whose answer does not name it.
    pub(super) fn unsaid(&self) -> Timestamp {
        let last = self.model.answered_at();
        if self.reading >= last {
            self.reading
        } else {
            last + Duration::from_micros(1)
        }
    }

    pub(super) fn name(&self, space: usize) -> Namespace {
        self.spaces[space].name.clone()
    }

    async fn compare_after(&mut self, step: &Step, nth: usize) -> Result<(), Difference> {
        self.step(step).await?;
        observe::compare(self, nth).await
    }

    async fn step(&mut self, step: &Step) -> Result<(), Difference> {
        let space = usize::from(step.space) % self.spaces.len();
        self.spaces[space].used = true;
        match &step.action {
            Action::Enqueue(_) | Action::Claim(_) | Action::Extend(_) | Action::Settle(_) => {
                self.run_jobs(space, &step.action).await
            }
            Action::Edit { .. } | Action::EditWhere { .. } => {
                self.edit_jobs(space, &step.action).await
            }
            Action::Pause(queue) => self.pause(space, *queue, true).await,
            Action::Resume(queue) => self.pause(space, *queue, false).await,
            Action::DeleteQueue(queue) => self.delete_queue(space, *queue).await,
            Action::Purge { queue, limit } => self.purge(space, *queue, *limit).await,
            Action::Settings {
                queue,
                max_pending,
                dead_letter,
                limits,
                stale,
            } => {
                let mut settings = QueueSettings::new();
                settings.max_pending = max_pending.map(u64::from);
                if *dead_letter {
                    settings.on_full = OnFull::DeadLetterOldest;
                }
                settings = request::limited(settings, *limits);
                self.write_settings(space, *queue, settings, *stale).await
            }
            Action::Advance { .. } | Action::Back(_) | Action::Next { .. } => {
                self.move_time(&step.action).await
            }
            Action::Guarded { .. } | Action::Subscribe { .. } | Action::Publish { .. } => {
                self.run_guards(space, &step.action).await
            }
            Action::Maintain => self.maintain().await,
            Action::List {
                by,
                filter,
                limit,
                payloads,
            } => {
                let (by, filter) = (request::list(by), request::filter(filter));
                observe::list(self, space, by, filter, *limit, *payloads).await
            }
            Action::GetKey(queue, key) => {
                observe::get(self, space, vec![request::unique(*queue, *key)], false).await
            }
            Action::Reopen => {
                self.subject.reopen().await;
                self.engine = self.subject.engine();
                self.model.reopen();
                Ok(())
            }
            Action::Crash => self.crash().await,
        }
    }

    /// What producers and workers call.
    async fn run_jobs(&mut self, space: usize, action: &Action) -> Result<(), Difference> {
        match action {
            Action::Enqueue(jobs) => {
                let numbers = jobs.iter().map(|job| job.no);
                self.spaces[space].numbers.extend(numbers);
                let reading = self.reading;
                let jobs = (jobs.iter()).map(|job| request::job(self.seed, job, reading));
                self.enqueue(space, jobs.collect()).await
            }
            Action::Claim(claim) => self.claim(space, request::claim(claim)).await,
            Action::Extend(plan) => self.extend(space, plan).await,
            Action::Settle(leases) => self.settle(space, leases).await,
            other => unreachable!("not of producers or workers: {other:?}"),
        }
    }

    /// Edits of jobs by target or by filter.
    async fn edit_jobs(&mut self, space: usize, action: &Action) -> Result<(), Difference> {
        match action {
            Action::Edit {
                targets,
                edit,
                dry_run,
            } => {
                let targets = targets.iter();
                let targets = targets.map(|target| request::target(self.seed, target));
                let edit = Edit {
                    select: Select::Targets(targets.collect()),
                    action: request::edit(*edit, self.reading),
                    dry_run: *dry_run,
                };
                self.edit(space, edit).await
            }
            Action::EditWhere {
                filter,
                edit,
                limit,
                dry_run,
            } => {
                let filter = request::filter(filter);
                let action = request::edit(*edit, self.reading);
                self.edit_where(space, filter, action, *limit, *dry_run)
                    .await
            }
            other => unreachable!("no edit: {other:?}"),
        }
    }

    /// Steps of the clock.
    async fn move_time(&mut self, action: &Action) -> Result<(), Difference> {
        let reading = self.reading;
        match action {
            Action::Advance { by, walk } => self.go_to(reading + *by, *walk).await,
            Action::Back(by) => {
                let back = reading.as_micros().saturating_sub(by.as_micros() as u64);
                self.go_to(Timestamp::from_micros(back), false).await
            }
            Action::Next { moment, off, walk } => match self.next(*moment) {
                Some(at) => {
                    let at = at.as_micros().saturating_add_signed(i64::from(*off));
                    self.go_to(Timestamp::from_micros(at), *walk).await
                }
                None => Ok(()),
            },
            other => unreachable!("no step of the clock: {other:?}"),
        }
    }

    async fn crash(&mut self) -> Result<(), Difference> {
        // What only reads were answered is not kept: a clock that is behind must catch up.
        let caught_up = self.reading.max(self.model.answered_at());
        self.go_to(caught_up, false).await?;
        self.change_something().await?;
        self.subject.crash().await;
        self.engine = self.subject.engine();
        self.model.crash(self.unsaid());
        Ok(())
    }
}
