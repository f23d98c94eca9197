//! Named limits as they should be: a model that shares no code with the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::case::Attempt;
use crate::engine::{EnqueueVerdict, LimitSettings, WhenFull};
use crate::job::{Due, JobId, JobRecord, JobState, NewJob};
use crate::time::{Timestamp, seconds};

/// Those that jobs name; the settings of `key` hold for two of them.
pub(super) const NAMES: [&str; 4] = ["api", "mail", "key:a", "key:b"];

/// One limit of the model.
#[derive(Debug, Default)]
pub(super) struct Stand {
    pub(super) blocked_until: Option<Timestamp>,
    /// Starts that its rate counts, and their units.
    pub(super) starts: Vec<(Timestamp, u64)>,
    /// Jobs that a new one may ask to stop, in the order of their starts.
    pub(super) running: Vec<JobId>,
}

/// Limits as they should be; it shares no code with the machine.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) settings: BTreeMap<&'static str, LimitSettings>,
    pub(super) stands: BTreeMap<&'static str, Stand>,
    /// Every job, as the engine answered it after the last action.
    pub(super) jobs: BTreeMap<JobId, JobRecord>,
    pub(super) costs: bool,
}

/// The span of the rate of a name, always the same.
pub(super) fn per(name: &str) -> Duration {
    if name.starts_with("mail") {
        seconds(3)
    } else {
        seconds(10)
    }
}

pub(super) fn name_of(text: &str) -> &'static str {
    let known = NAMES.iter().find(|name| **name == text);
    known.expect("a name of these histories")
}

impl Model {
    pub(super) fn of(&self, name: &str) -> Option<&LimitSettings> {
        let family = name.split(':').next().unwrap_or(name);
        self.settings
            .get(name)
            .or_else(|| self.settings.get(family))
    }

    pub(super) fn active(&self, name: &str) -> u64 {
        let jobs = self.jobs.values();
        let with = jobs.filter(|job| job.state == JobState::Active && names(job, name));
        with.count() as u64
    }

    pub(super) fn blocked(&self, name: &str, now: Timestamp) -> bool {
        let stand = self.stands.get(name);
        stand.is_some_and(|stand| stand.blocked_until.is_some_and(|until| until > now))
    }

    /// Units that the rate of a name counts at an instant, and of how many starts.
    pub(super) fn counted(&self, name: &str, now: Timestamp) -> (u64, usize) {
        let starts = self.stands.get(name).map_or(&[][..], |stand| &stand.starts);
        let within = |(at, _): &&(Timestamp, u64)| *at + per(name) > now;
        let units = starts.iter().filter(within).map(|(_, units)| units).sum();
        (units, starts.iter().filter(within).count())
    }

    /// Instants to come at which time may open a limit.
    pub(super) fn openings(&self, now: Timestamp) -> Vec<Timestamp> {
        let of = |(name, stand): (&&str, &Stand)| {
            let starts = stand.starts.iter().map(|(at, _)| *at + per(name));
            let all: Vec<Timestamp> = starts.chain(stand.blocked_until).collect();
            all
        };
        let all = self.stands.iter().flat_map(of);
        all.filter(|at| *at > now).collect()
    }

    /// Whether a limit lets a job of one unit start.
    pub(super) fn is_open(&self, name: &str, now: Timestamp) -> bool {
        let Some(settings) = self.of(name) else {
            return !self.blocked(name, now);
        };
        let has_slot = settings
            .concurrency
            .is_none_or(|most| self.active(name) < most);
        let has_units = settings
            .rate
            .is_none_or(|rate| self.counted(name, now).0 < rate.starts());
        !self.blocked(name, now) && has_slot && has_units
    }

    /// Whether nothing but its limits keeps a job from a claim.
    pub(super) fn is_free(&self, job: &JobRecord) -> bool {
        let mate = |other: &&JobRecord| {
            other.id != job.id
                && other.queue == job.queue
                && !other.state.is_settled()
                && key(other) == key(job)
        };
        let alone = job.group.is_none() || !self.jobs.values().any(|other| mate(&other));
        job.state == JobState::Ready && alone && !job.is_suspect()
    }

    /// Notes what a claim started, all of which must have been allowed.
    pub(super) fn starts(&mut self, claimed: &[Attempt], now: Timestamp, at: &str) {
        for attempt in claimed {
            let known = self
                .jobs
                .get_mut(&attempt.id())
                .expect("a job that was sent");
            assert_eq!(
                known.state,
                JobState::Ready,
                "{at}: {} was not ready",
                known.id
            );
            known.state = JobState::Active;
            for name in attempt.job.limits.iter().map(|name| name_of(name)) {
                assert!(!self.blocked(name, now), "{at}: {name} is blocked");
                let settings = self.of(name).copied().unwrap_or_default();
                let stand = self.stands.entry(name).or_default();
                if settings.rate.is_some() {
                    stand.starts.push((now, u64::from(attempt.job.cost)));
                }
                stand.running.retain(|id| *id != attempt.id());
                match settings.when_full {
                    WhenFull::CancelRunning => stand.running.push(attempt.id()),
                    _ => stand.running.clear(),
                }
            }
        }
        for name in NAMES {
            let started = claimed.iter().any(|attempt| names(&attempt.job, name));
            let Some(settings) = self.of(name).filter(|_| started) else {
                continue;
            };
            if let Some(most) = settings.concurrency {
                assert!(self.active(name) <= most, "{at}: {name} has over {most}");
            }
            if let Some(rate) = settings.rate {
                let (units, starts) = self.counted(name, now);
                let fits = units <= rate.starts() || starts == 1;
                assert!(fits, "{at}: {units} units of {name} in one span of {rate}");
            }
        }
    }

    /// Whether a limit has this policy, and as many active jobs as may be.
    pub(super) fn is_full(&self, name: &str, when_full: WhenFull) -> bool {
        let settings = self.of(name).copied().unwrap_or_default();
        let most = settings.concurrency.unwrap_or(u64::MAX);
        settings.when_full == when_full && self.active(name) >= most
    }

    /// What is to be answered of new jobs, and which running ones they ask to stop.
    pub(super) fn decide(&self, jobs: &[NewJob]) -> (Vec<EnqueueVerdict>, BTreeSet<JobId>) {
        let (mut verdicts, mut asked) = (Vec::new(), BTreeSet::new());
        for job in jobs {
            let is_due = matches!(job.due, Due::Now | Due::After(Duration::ZERO));
            let names: Vec<&'static str> = job.limits.iter().map(|name| name_of(name)).collect();
            let refuses = |name: &&str| is_due && self.is_full(name, WhenFull::Refuse);
            if let Some(nth) = names.iter().position(refuses) {
                let nth = u8::try_from(nth).expect("a few limits");
                verdicts.push(EnqueueVerdict::LimitFull(nth));
                continue;
            }
            verdicts.push(EnqueueVerdict::Created);
            let mut served = Vec::new();
            for name in names.into_iter().filter(|_| is_due) {
                if !served.iter().any(|other: &String| other == name)
                    && self.is_full(name, WhenFull::CancelRunning)
                    && let Some(id) = self.first_running(name, &asked)
                {
                    asked.insert(id);
                    served.extend(self.jobs[&id].limits.iter().cloned());
                }
            }
        }
        (verdicts, asked)
    }

    /// The job of a limit that started first of those that were not asked to stop yet.
    pub(super) fn first_running(&self, name: &str, asked: &BTreeSet<JobId>) -> Option<JobId> {
        let running = self.stands.get(name).map_or(&[][..], |it| &it.running);
        let is_left = |id: &&JobId| {
            let job = self.jobs.get(*id);
            let is_active = |job: &&JobRecord| job.state == JobState::Active;
            job.filter(is_active)
                .is_some_and(|job| !job.cancel_requested && !asked.contains(*id))
        };
        running.iter().find(is_left).copied()
    }

    /// Active jobs that are asked to stop.
    pub(super) fn asked(&self) -> BTreeSet<JobId> {
        let jobs = self.jobs.values();
        let is = |job: &&JobRecord| job.state == JobState::Active && job.cancel_requested;
        jobs.filter(is).map(|job| job.id).collect()
    }

    /// What a limit counted is forgotten where no rate counts any more.
    pub(super) fn settings_changed(&mut self) {
        for name in NAMES {
            if self.of(name).is_none_or(|settings| settings.rate.is_none()) {
                self.stands.entry(name).or_default().starts.clear();
            }
        }
    }
}

pub(super) fn names(job: &JobRecord, name: &str) -> bool {
    job.limits.iter().any(|limit| limit == name)
}

pub(super) fn key(job: &JobRecord) -> Option<&str> {
    job.group.as_ref().map(|group| group.key.as_str())
}
