//! An engine that claims few capabilities keeps the rest of the law: the suite asks no more of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use punctual::conformance::{Harness, LAWS, Subject, first_broken};
use punctual::engine::{
    Action, Capability, Checks, Claim, Claimed, Control, Controlled, Edit, Edited, Enqueued,
    Extend, Extended, Got, Info, List, Listing, Maintained, Namespace, QueueSettings, RecordValue,
    Select, Settle, Settled, Settlement, Stats, StatsRequest, Target, WaitFor, Waited,
};
use punctual::job::{Due, Effect, JobState, NewJob, UniquePolicy};
use punctual::sync::Lock;
use punctual::time::Timestamp;
use punctual::{Engine, Error, ErrorKind, Limits, Result};

use crate::conformance::harness::Memory;

/// The memory engine without some of its capabilities.
#[derive(Debug)]
struct Reduced {
    inner: Arc<dyn Engine>,
    lacks: Vec<Capability>,
    used: Used,
}

/// The capabilities that calls have used.
type Used = Arc<Mutex<BTreeSet<Capability>>>;

impl Reduced {
    /// Refuses what needs a capability that it lacks.
    fn needs(&self, capability: Capability, is_used: bool) -> Result<()> {
        if is_used {
            self.used.locked().insert(capability);
        }
        match is_used && self.lacks.contains(&capability) {
            true => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{capability:?}"),
            )),
            false => Ok(()),
        }
    }

    /// Refuses bad input, as every engine does before it checks its capabilities.
    async fn check(&self, check: impl FnOnce(&Checks) -> Result<()>) -> Result<()> {
        let Info { limits, now, .. } = self.inner.info().await?;
        check(&Checks::new(&limits, now))
    }

    fn check_job(&self, job: &NewJob) -> Result<()> {
        let policy = job.unique.as_ref().map(|unique| unique.policy);
        let plain = NewJob::new("plain", "");
        self.needs(Capability::Delay, job.due != Due::Now)?;
        self.needs(Capability::Priority, job.priority != plain.priority)?;
        self.needs(Capability::UniqueKeep, policy == Some(UniquePolicy::Keep))?;
        self.needs(
            Capability::UniqueReplace,
            policy == Some(UniquePolicy::Replace),
        )?;
        self.needs(Capability::UniqueAfter, policy == Some(UniquePolicy::After))?;
        let is_refresh = matches!(policy, Some(UniquePolicy::Refresh { .. }));
        self.needs(Capability::Debounce, is_refresh)?;
        self.needs(Capability::Groups, job.group.is_some())?;
        self.needs(Capability::HeldJobs, !job.wait_for.is_empty())?;
        self.needs(Capability::Expiry, job.expires_at.is_some())?;
        let is_of_flow = job.flow.is_some() || !job.after.is_empty();
        self.needs(Capability::Flows, is_of_flow)?;
        self.needs(Capability::Shares, job.share.is_some())?;
        self.needs(Capability::NamedLimits, !job.limits.is_empty())?;
        self.needs(Capability::Import, job.history.is_some())
    }
}

#[async_trait]
impl Engine for Reduced {
    async fn enqueue(&self, namespace: &Namespace, jobs: Vec<NewJob>) -> Result<Enqueued> {
        self.check(|checks| checks.jobs(&jobs)).await?;
        jobs.iter().try_for_each(|job| self.check_job(job))?;
        self.inner.enqueue(namespace, jobs).await
    }

    async fn claim(&self, namespace: &Namespace, claim: Claim) -> Result<Claimed> {
        self.inner.claim(namespace, claim).await
    }

    async fn extend(&self, namespace: &Namespace, leases: Vec<Extend>) -> Result<Extended> {
        let keeps = leases.iter().any(|lease| !lease.memos.is_empty());
        self.needs(Capability::Memos, keeps)?;
        self.inner.extend(namespace, leases).await
    }

    async fn settle(&self, namespace: &Namespace, settle: Settle) -> Result<Settled> {
        self.check(|checks| checks.settle(&settle)).await?;
        let settlements = settle.leases.iter().flat_map(|lease| &lease.settlements);
        let holds = |one: &Settlement| matches!(one.outcome, punctual::Outcome::Hold { .. });
        self.needs(Capability::Memos, settlements.clone().any(holds))?;
        let is_guarded = settlements.clone().any(|one| one.guard.is_some());
        self.needs(Capability::Guards, is_guarded)?;
        for effect in settlements.flat_map(|settlement| &settlement.effects) {
            self.needs(Capability::Effects, true)?;
            if let Effect::Enqueue(job) = effect {
                self.check_job(job)?;
            }
        }
        self.inner.settle(namespace, settle).await
    }

    async fn wait(&self, namespace: &Namespace, what: WaitFor, until: Timestamp) -> Result<Waited> {
        what.check()?;
        let is_changes = matches!(what, WaitFor::Changes(_));
        self.needs(Capability::ChangeFeed, is_changes)?;
        let is_settled = matches!(what, WaitFor::Settled(_));
        self.needs(Capability::AwaitSettled, is_settled)?;
        self.inner.wait(namespace, what, until).await
    }

    async fn get(
        &self,
        namespace: &Namespace,
        targets: Vec<Target>,
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        self.check(|checks| checks.targets(&targets)).await?;
        self.needs(Capability::Explain, explain)?;
        self.inner.get(namespace, targets, explain).await
    }

    async fn list(&self, namespace: &Namespace, list: List) -> Result<Listing> {
        self.check(|checks| checks.list(&list)).await?;
        self.needs(Capability::ListByState, true)?;
        self.inner.list(namespace, list).await
    }

    async fn edit(&self, namespace: &Namespace, edit: Edit) -> Result<Edited> {
        self.check(|checks| checks.edit(&edit)).await?;
        let by_filter = matches!(edit.select, Select::Filter { .. });
        self.needs(Capability::EditByFilter, by_filter)?;
        let is_signal = matches!(edit.action, Action::Signal { .. });
        self.needs(Capability::Memos, is_signal)?;
        if let (Action::Cancel, Select::Targets(targets)) = (&edit.action, &edit.select) {
            let jobs = self.inner.get(namespace, targets.clone(), false).await?;
            let is_active =
                |got: &Got| matches!(got, Got::Job(job, _) if job.state == JobState::Active);
            self.needs(
                Capability::CancelActive,
                jobs.iter().flatten().any(is_active),
            )?;
        }
        self.inner.edit(namespace, edit).await
    }

    async fn stats(&self, namespace: &Namespace, request: StatsRequest) -> Result<Stats> {
        self.check(|checks| checks.stats(&request)).await?;
        self.needs(Capability::History, request.history)?;
        self.needs(Capability::Ends, request.ends)?;
        self.inner.stats(namespace, request).await
    }

    async fn control(&self, namespace: &Namespace, control: Control) -> Result<Controlled> {
        use Control::{
            BlockLimit, Flow, Flows, Limit, Limits, Names, Read, Schedule, Schedules, Write,
        };
        self.check(|checks| checks.control(&control)).await?;
        let is_record = matches!(control, Read { .. } | Names { .. } | Write { .. });
        let is_schedule = matches!(control, Schedule { .. } | Schedules { .. });
        if let Write {
            value: Some(value), ..
        } = &control
        {
            let settings = match value {
                RecordValue::Queue(settings) => settings,
                _ => &QueueSettings::new(),
            };
            self.needs(Capability::QueueLimits, settings.has_limits())?;
            self.needs(Capability::Shares, settings.shares.is_some())?;
            let is_queue = matches!(value, RecordValue::Queue(_));
            self.needs(Capability::MaxPending, is_queue)?;
            let is_limit = matches!(value, RecordValue::Limit(_));
            self.needs(Capability::NamedLimits, is_limit)?;
            let is_schedule = matches!(value, RecordValue::Schedule(_));
            self.needs(Capability::Schedules, is_schedule)?;
        }
        self.needs(Capability::Records, is_record)?;
        self.needs(Capability::Schedules, is_schedule)?;
        let is_flow = matches!(control, Flow { .. } | Flows { .. });
        self.needs(Capability::Flows, is_flow)?;
        if let Control::Guarded { effects, .. } = &control {
            self.needs(Capability::Guards, true)?;
            for effect in effects {
                if let Effect::Enqueue(job) = effect {
                    self.check_job(job)?;
                }
            }
        }
        let is_named = matches!(control, BlockLimit { .. } | Limit { .. } | Limits { .. });
        self.needs(Capability::NamedLimits, is_named)?;
        let is_block = matches!(
            control,
            Control::BlockShare { .. } | Control::PauseShare { .. }
        );
        self.needs(Capability::Shares, is_block)?;
        self.inner.control(namespace, control).await
    }

    async fn maintain(&self) -> Result<Maintained> {
        self.inner.maintain().await
    }

    async fn info(&self) -> Result<Info> {
        let mut info = self.inner.info().await?;
        info.capabilities.retain(|one| !self.lacks.contains(one));
        Ok(info)
    }
}

/// Makes memory engines without those capabilities.
struct Without {
    lacks: Vec<Capability>,
    used: Used,
}

#[async_trait]
impl Harness for Without {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        Box::new(ReducedSubject {
            inner: Memory.fresh(limits).await,
            lacks: self.lacks.clone(),
            used: Arc::clone(&self.used),
        })
    }
}

struct ReducedSubject {
    inner: Box<dyn Subject>,
    lacks: Vec<Capability>,
    used: Used,
}

#[async_trait]
impl Subject for ReducedSubject {
    fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(Reduced {
            inner: self.inner.engine(),
            lacks: self.lacks.clone(),
            used: Arc::clone(&self.used),
        })
    }

    async fn set_time(&self, now: Timestamp) {
        self.inner.set_time(now).await;
    }
}

/// The names of the laws that an engine without those capabilities breaks.
fn broken_without(lacks: &[Capability]) -> Vec<String> {
    let without = || Without {
        lacks: lacks.to_vec(),
        used: Arc::default(),
    };
    let laws = LAWS.iter();
    laws.filter_map(|law| first_broken([law], without()))
        .map(|broken| broken.to_string())
        .collect()
}

#[test]
fn an_engine_without_any_optional_capability_keeps_the_law() {
    let broken = broken_without(&Capability::ALL);
    assert!(broken.is_empty(), "{} laws: {broken:#?}", broken.len());
}

/// A law names every capability that it uses, or one that rests on it: so it does not run on an
/// engine that lacks exactly that one.
#[test]
fn a_law_names_every_capability_that_it_uses() {
    let mut unnamed = Vec::new();
    for law in LAWS {
        let used = Used::default();
        let harness = Without {
            lacks: Vec::new(),
            used: Arc::clone(&used),
        };
        if let Some(broken) = first_broken([law], harness) {
            panic!("the memory engine breaks a law: {broken}");
        }
        let mut used: BTreeSet<Capability> = std::mem::take(&mut *used.locked());
        // What stores a job for a law uses priorities only where they are claimed; see below.
        used.remove(&Capability::Priority);
        for need in law.needs {
            used.remove(need);
            used.retain(|one| !need.rests_on().contains(one));
        }
        if !used.is_empty() {
            unnamed.push(format!("{} uses {used:?}", law.name));
        }
    }
    assert!(unnamed.is_empty(), "{} laws: {unnamed:#?}", unnamed.len());
}

#[test]
fn an_engine_without_priorities_keeps_the_law() {
    let broken = broken_without(&[Capability::Priority]);
    assert!(broken.is_empty(), "{} laws: {broken:#?}", broken.len());
}
