//! Guards and topics in histories: what is drawn, and how it is performed.

use super::action::*;
use super::differ::{Difference, same};
use super::generate::{ALIKE, Generator, KEYS, NAMES};
use super::random::Random;
use super::replay::Replay;
use super::request;
use super::verbs::{broken, refused, unrefused};
use crate::conformance::model::topics::{PATTERNS, SUBJECTS};
use crate::engine::{Control, Controlled, Guard, RecordValue};
use crate::error::Result;
use crate::job::{Effect, NewJob};
use crate::topic::{Matcher, Message, Subscription, Subscriptions, TOPICS};

/// Few records, so that guards meet.
const RECORDS: u8 = 2;
const SUBSCRIPTIONS: u8 = 4;

fn record(record: u8) -> String {
    format!("record-{record}")
}

impl Generator {
    /// Now and then a settlement is guarded.
    pub(super) fn guard(&mut self, step: &mut Step) {
        let (Some(random), Action::Settle(leases)) = (&mut self.guards, &mut step.action) else {
            return;
        };
        let settlements = leases.iter_mut().flat_map(|lease| &mut lease.settlements);
        for settlement in settlements {
            settlement.guard = random.maybe(25, guard_plan);
        }
    }

    /// A step of guards or topics, now and then.
    pub(super) fn guarded(&mut self) -> Option<Step> {
        let mut random = self.guards.take()?;
        let action = random.percent(15).then(|| match random.below(10) {
            0..=3 => self.guarded_effects(&mut random),
            4..=6 => Action::Subscribe {
                name: random.small(SUBSCRIPTIONS),
                pattern: random.small(PATTERNS.len() as u8),
                queue: random.small(ALIKE),
                gone: random.percent(25),
            },
            _ => self.publish(&mut random),
        });
        self.guards = Some(random);
        Some(Step {
            space: 0,
            action: action?,
        })
    }

    fn guarded_effects(&mut self, random: &mut Random) -> Action {
        let effects = (0..random.below(4)).map(|_| match random.below(4) {
            0 => EffectPlan::Clear {
                no: self.earlier().no,
                name: random.small(NAMES),
            },
            1 => EffectPlan::Cancel {
                queue: random.small(ALIKE),
                key: random.small(KEYS),
            },
            _ => EffectPlan::Enqueue(self.fresh_in(random.small(ALIKE), random)),
        });
        Action::Guarded {
            effects: effects.collect(),
            guard: guard_plan(random),
            writes: random.percent(60),
        }
    }

    fn publish(&mut self, random: &mut Random) -> Action {
        // The same message again makes no second copy.
        let job = match random.percent(30) {
            true => self.earlier(),
            false => self.fresh_in(0, random),
        };
        let job = JobPlan { past: None, ..job };
        Action::Publish {
            job: Box::new(job),
            subject: random.small(SUBJECTS.len() as u8),
            stale: random.percent(15),
        }
    }

    fn earlier(&mut self) -> JobPlan {
        match self.sent.is_empty() {
            true => self.fresh(),
            false => self.sent_before(),
        }
    }

    fn fresh_in(&mut self, queue: u8, random: &mut Random) -> JobPlan {
        JobPlan {
            queue,
            content: random.small(2),
            due: random.one(&[When::Now, When::Now, When::After(crate::time::seconds(3))]),
            ..self.fresh()
        }
    }
}

fn guard_plan(random: &mut Random) -> GuardPlan {
    GuardPlan {
        record: random.small(RECORDS),
        stale: random.percent(25),
    }
}

/// The guard at the version that its record has in the model.
pub(super) fn guard(replay: &Replay, space: usize, plan: GuardPlan) -> Guard {
    let record = record(plan.record);
    let version = replay.version(space, &record);
    Guard::new(record, version + u64::from(plan.stale))
}

impl Replay {
    /// The version of a record in the model; 0 if there is none.
    fn version(&self, space: usize, record: &str) -> u64 {
        let model = self.model.space(&self.name(space));
        let known = model.and_then(|model| model.record(record));
        known.map_or(0, |record| record.version)
    }

    /// What guards and topics do.
    pub(super) async fn run_guards(
        &mut self,
        space: usize,
        action: &Action,
    ) -> Result<(), Difference> {
        match action {
            Action::Guarded {
                guard: plan,
                writes,
                effects,
            } => {
                let guard = guard(self, space, *plan);
                let value = writes.then(|| RecordValue::Opaque(guard.record.clone().into()));
                let effects = effects.iter().map(|plan| self.effect(space, plan));
                let effects = effects.collect();
                self.guarded(space, guard, value, effects).await
            }
            Action::Subscribe {
                name,
                pattern,
                queue,
                gone,
            } => {
                let name = format!("subscription {name}");
                let subscription = Subscription::to(request::queue(*queue))
                    .name(&name)
                    .matching(PATTERNS[usize::from(*pattern)]);
                self.subscribe(space, &name, (!gone).then_some(subscription))
                    .await
            }
            Action::Publish {
                job,
                subject,
                stale,
            } => {
                let job = request::job(self.seed, job, self.reading);
                self.publish(space, job, SUBJECTS[usize::from(*subject)], *stale)
                    .await
            }
            other => unreachable!("not of guards: {other:?}"),
        }
    }

    async fn guarded(
        &mut self,
        space: usize,
        guard: Guard,
        value: Option<RecordValue>,
        effects: Vec<Effect>,
    ) -> Result<(), Difference> {
        let name = self.name(space);
        let control = Control::Guarded {
            guard: guard.clone(),
            value: value.clone(),
            effects: effects.clone(),
        };
        let now = self.unsaid();
        let answered = match self.engine.control(&name, control).await {
            Ok(answered) => answered,
            Err(error) => {
                let mut model = self.aside(space);
                let expected = model.guarded(now, &guard, value, &effects, None);
                return refused("guarded effects", expected, &error);
            }
        };
        let overflown = self.overflown(space).await?;
        let model = self.at(space, now)?;
        let version = match &answered {
            Controlled::Guarded { version, .. } => {
                let jobs: Vec<NewJob> = effects.iter().filter_map(job_of).collect();
                model.follow_overflow(now, &jobs, overflown);
                Some(*version)
            }
            _ => None,
        };
        let expected = model.guarded(now, &guard, value, &effects, version);
        let expected = expected.map_err(|error| unrefused("guarded effects", &error))?;
        let asked_at = self.unsaid();
        self.at(space, asked_at)?;
        same("guarded effects", &expected, &answered)
    }

    /// Writes the record of topics as the library does.
    async fn subscribe(
        &mut self,
        space: usize,
        name: &str,
        subscription: Option<Subscription>,
    ) -> Result<(), Difference> {
        let (now, expected) = (self.unsaid(), self.version(space, TOPICS));
        let mut all = self.subscriptions(space).await?;
        let read_at = now;
        self.at(space, read_at)?;
        match subscription.clone() {
            Some(subscription) => all.put(subscription),
            None => all.remove(name),
        };
        let bytes = all
            .write()
            .map_err(|error| broken("subscriptions", &error))?;
        let value = Some(RecordValue::Opaque(bytes));
        let now = self.unsaid();
        let control = Control::Write {
            name: TOPICS.into(),
            expected,
            value: value.clone(),
        };
        let answered = self.engine.control(&self.name(space), control).await;
        let answered = answered.map_err(|error| broken("write of topics", &error))?;
        let Controlled::Written(version) = answered else {
            return Err(format!("write of topics: answers {answered:?}"));
        };
        let model = self.at(space, now)?;
        let written = model.write(TOPICS, expected, value, Some(version));
        model.subscribe(name, subscription);
        same("version of topics", &written, &Some(version))
    }

    /// What the engine has of them.
    async fn subscriptions(&self, space: usize) -> Result<Subscriptions, Difference> {
        let read = Control::Read {
            name: TOPICS.into(),
        };
        let read = self.engine.control(&self.name(space), read).await;
        match read.map_err(|error| broken("read of topics", &error))? {
            Controlled::Record(None) => Ok(Subscriptions::default()),
            Controlled::Record(Some(record)) => match &record.value {
                RecordValue::Opaque(bytes) => {
                    Subscriptions::read(bytes).map_err(|error| broken("topics", &error))
                }
                other => Err(format!("read of topics: answers {other:?}")),
            },
            other => Err(format!("read of topics: answers {other:?}")),
        }
    }

    /// Copies are made by the library, and by the model from its own table.
    async fn publish(
        &mut self,
        space: usize,
        job: NewJob,
        subject: &str,
        stale: bool,
    ) -> Result<(), Difference> {
        let Ok(message) = Message::new(subject, job.clone()) else {
            return Err("a message of a history is well-formed".into());
        };
        let now = self.unsaid();
        let subscriptions = self.subscriptions(space).await?;
        self.at(space, now)?;
        let version = self.version(space, TOPICS);
        let matcher = Matcher::new(version, subscriptions);
        let effects = message.copies(&matcher, Some(self.reading));
        let effects: Vec<Effect> = effects.into_iter().map(|(_, effect)| effect).collect();
        let copies: Vec<NewJob> = effects.iter().filter_map(job_of).collect();
        let model = self.model.space(&self.name(space));
        let expected = model.map_or(Vec::new(), |model| model.copies(&job, subject));
        same("copies", &expected, &copies)?;
        let guard = Guard::new(TOPICS, version + u64::from(stale));
        self.guarded(space, guard, None, effects).await
    }
}

fn job_of(effect: &Effect) -> Option<NewJob> {
    match effect {
        Effect::Enqueue(job) => Some((**job).clone()),
        _ => None,
    }
}
