//! What few jobs have, kept out of the way of all others: eight bytes in memory, none in a stored
//! row.

use std::time::Duration;

use super::codec::{Reader, Writer, damaged};
use super::fields::Field;
use super::rows::RandomBits;
use crate::error::Result;
use crate::flow::StepOf;
use crate::job::{JobId, JobRecord, NewJob};
use crate::schedule::Occurrence;

/// Fields that few jobs have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rare(Option<Box<Fields>>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Fields {
    sent: Option<RandomBits>,
    max_crashes: Option<u32>,
    remember: Option<Duration>,
    occurrence: Option<Occurrence>,
    link: Option<StepOf>,
    refreshed: Vec<JobId>,
    share: Option<String>,
    limits: Vec<String>,
    /// Units that it takes of the rates of its limits; zero if it has none.
    cost: u32,
}

/// Jobs that refreshed one which it remembers, the last ones.
const REFRESHED_KEPT: usize = 16;

impl Rare {
    /// Of a new job.
    pub(crate) fn of(job: &mut NewJob, occurrence: Option<Occurrence>) -> Self {
        let is_usual = job.max_crashes.is_none() && job.remember.is_none() && job.share.is_none();
        if is_usual && job.limits.is_empty() && occurrence.is_none() {
            return Self(None);
        }
        Self(Some(Box::new(Fields {
            max_crashes: job.max_crashes,
            remember: job.remember,
            occurrence,
            share: job.share.take(),
            cost: if job.limits.is_empty() { 0 } else { job.cost },
            limits: std::mem::take(&mut job.limits),
            ..Fields::default()
        })))
    }

    /// The same for a job that waits for others, or belongs to a flow.
    pub(crate) fn with_link(mut self, link: Option<StepOf>) -> Self {
        if link.is_some() {
            self.0.get_or_insert_default().link = link;
        }
        self
    }

    /// What an answer says of these fields, in a record that says nothing else.
    pub(crate) fn record(&self, id: JobId) -> JobRecord {
        JobRecord {
            share: self.share().map(str::to_owned),
            limits: self.limits().to_vec(),
            cost: self.cost(),
            max_crashes: self.max_crashes(),
            remember: self.remember(),
            schedule: self.occurrence().cloned().map(Box::new),
            flow: self.step().cloned().map(Box::new),
            ..JobRecord::blank(id)
        }
    }

    /// The share of the job.
    pub(crate) fn share(&self) -> Option<&str> {
        self.0.as_ref()?.share.as_deref()
    }

    /// The named limits of the job.
    pub(crate) fn limits(&self) -> &[String] {
        self.0.as_ref().map_or(&[], |fields| &fields.limits)
    }

    /// Units that it takes of the rates of its named limits.
    pub(crate) fn cost(&self) -> u32 {
        self.0.as_ref().map_or(1, |fields| fields.cost.max(1))
    }

    /// Whether the job has a row among the links.
    pub(crate) fn is_linked(&self) -> bool {
        self.link().is_some()
    }

    /// The step of a flow that the job is; of no flow if it only waits for others.
    pub(crate) fn link(&self) -> Option<&StepOf> {
        self.0.as_ref()?.link.as_ref()
    }

    /// The step of a flow that the job is.
    pub(crate) fn step(&self) -> Option<&StepOf> {
        self.link().filter(|link| !link.flow.is_empty())
    }

    /// The run of a schedule that the job is.
    pub(crate) fn occurrence(&self) -> Option<&Occurrence> {
        self.0.as_ref()?.occurrence.as_ref()
    }

    /// The hash of what was sent first, if the payload was updated since.
    pub(crate) fn sent(&self) -> Option<RandomBits> {
        self.0.as_ref()?.sent
    }

    /// Remembers the hash of what was sent, unless an earlier one is known.
    pub(crate) fn set_sent(&mut self, sent: RandomBits) {
        self.0.get_or_insert_default().sent.get_or_insert(sent);
    }

    /// Whether that job is among the last that refreshed this one.
    pub(crate) fn was_refreshed_by(&self, id: JobId) -> bool {
        self.refreshed().contains(&id)
    }

    fn refreshed(&self) -> &[JobId] {
        self.0.as_ref().map_or(&[], |fields| &fields.refreshed)
    }

    /// Remembers which jobs refreshed the job, so that a resend changes nothing.
    pub(crate) fn add_refreshed(&mut self, id: JobId) {
        let refreshed = &mut self.0.get_or_insert_default().refreshed;
        if refreshed.len() >= REFRESHED_KEPT {
            refreshed.remove(0);
        }
        refreshed.push(id);
    }

    /// Crashes after which the job is dead, if it has a limit of its own.
    pub(crate) fn max_crashes(&self) -> Option<u32> {
        self.0.as_ref()?.max_crashes
    }

    /// How long after it settled a resend is recognised, if it has a span of its own.
    pub(crate) fn remember(&self) -> Option<Duration> {
        self.0.as_ref()?.remember
    }
}

/// The bits that say which fields follow.
const SENT: u8 = 1;
const MAX_CRASHES: u8 = 2;
const REMEMBER: u8 = 4;
const OCCURRENCE: u8 = 8;
const LINK: u8 = 16;
const REFRESHED: u8 = 32;
const SHARE: u8 = 64;
/// A second byte of bits follows.
const MORE: u8 = 128;
/// In the second byte.
const LIMITS: u8 = 1;

impl Field for Rare {
    fn write(&self, to: &mut Writer) {
        let (sent, max_crashes) = (self.sent(), self.max_crashes());
        let bit = |has: bool, bit| if has { bit } else { 0 };
        let (remember, occurrence) = (self.remember(), self.occurrence());
        to.u8(bit(sent.is_some(), SENT)
            | bit(max_crashes.is_some(), MAX_CRASHES)
            | bit(remember.is_some(), REMEMBER)
            | bit(occurrence.is_some(), OCCURRENCE)
            | bit(self.is_linked(), LINK)
            | bit(!self.refreshed().is_empty(), REFRESHED)
            | bit(self.share().is_some(), SHARE)
            | bit(!self.limits().is_empty(), MORE));
        if !self.limits().is_empty() {
            to.u8(LIMITS);
        }
        if let Some(sent) = sent {
            sent.write(to);
        }
        if let Some(max) = max_crashes {
            to.u32(max);
        }
        if let Some(span) = remember {
            Field::write(&span, to);
        }
        if let Some(Occurrence { name, at }) = occurrence {
            to.text(name);
            to.time(*at);
        }
        if let Some(StepOf { flow, step }) = self.link() {
            to.text(flow);
            to.text(step);
        }
        if !self.refreshed().is_empty() {
            to.list(self.refreshed(), |to, id| to.id(*id));
        }
        if let Some(share) = self.share() {
            to.text(share);
        }
        if !self.limits().is_empty() {
            to.list(self.limits(), |to, name| to.text(name));
            to.varint(u64::from(self.cost()));
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let bits = from.u8()?;
        let more = if bits & MORE != 0 { from.u8()? } else { 0 };
        if more & !LIMITS != 0 {
            return Err(damaged("rare fields"));
        }
        let has = |bit| bits & bit != 0;
        let sent = has(SENT).then(|| Field::read(from)).transpose()?;
        let max_crashes = has(MAX_CRASHES).then(|| from.u32()).transpose()?;
        let remember = has(REMEMBER).then(|| Field::read(from)).transpose()?;
        let run = |from: &mut Reader<'_>| -> Result<Occurrence> {
            let (name, at) = (from.text()?, from.time()?);
            Ok(Occurrence { name, at })
        };
        let occurrence = has(OCCURRENCE).then(|| run(from)).transpose()?;
        let step = |from: &mut Reader<'_>| -> Result<StepOf> {
            let (flow, step) = (from.text()?, from.text()?);
            Ok(StepOf { flow, step })
        };
        let link = has(LINK).then(|| step(from)).transpose()?;
        let refreshed = has(REFRESHED).then(|| Field::read(from)).transpose()?;
        let share = has(SHARE).then(|| from.text()).transpose()?;
        let has_limits = more & LIMITS != 0;
        let limits: Option<Vec<String>> = has_limits.then(|| Field::read(from)).transpose()?;
        let cost = has_limits.then(|| from.varint()).transpose()?;
        let cost = u32::try_from(cost.unwrap_or(0)).map_err(|_| damaged("rare fields"))?;
        let fields = || {
            Box::new(Fields {
                sent,
                max_crashes,
                remember,
                occurrence,
                link,
                refreshed: refreshed.unwrap_or_default(),
                share,
                limits: limits.unwrap_or_default(),
                cost,
            })
        };
        Ok(Self((bits != 0).then(fields)))
    }

    fn heap(&self) -> usize {
        let name = self.occurrence().map_or(0, |run| run.name.len());
        let link = self.link();
        let share = self.share().map_or(0, str::len);
        let names = name + share + link.map_or(0, |link| link.flow.len() + link.step.len());
        let ids = size_of_val(self.refreshed());
        let limits: usize = (self.limits().iter())
            .map(|name| size_of::<String>() + name.len())
            .sum();
        (self.0.as_ref()).map_or(0, |_| size_of::<Fields>() + names + ids + limits)
    }
}
