//! Laws over random jobs with named limits: what starts, what waits and what is said of it is as a
//! model says, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use super::case::*;
use super::draw::Draw;
use super::named::OTHER;
use crate::engine::{
    Action, Claim, Control, Controlled, Got, LimitSettings, NamedLimit, Rate, Reason, Target,
};
use crate::job::{Group, JobId, JobRecord, JobState, OnRetry, Outcome};
use crate::time::{Timestamp, millis, seconds};

const HISTORIES: u64 = 12;
const ACTIONS: usize = 60;
const JOBS_MAX: usize = 48;
/// Those that jobs name; the settings of `key` hold for two of them.
const NAMES: [&str; 4] = ["api", "mail", "key:a", "key:b"];
const SETTINGS: [&str; 4] = ["api", "mail", "key", "key:b"];

/// One limit of the model.
#[derive(Debug, Default)]
struct Stand {
    blocked_until: Option<Timestamp>,
    /// Starts that its rate counts, and their units.
    starts: Vec<(Timestamp, u64)>,
}

/// Limits as they should be; it shares no code with the machine.
#[derive(Debug, Default)]
struct Model {
    settings: BTreeMap<&'static str, LimitSettings>,
    stands: BTreeMap<&'static str, Stand>,
    /// Every job, as the engine answered it after the last action.
    jobs: BTreeMap<JobId, JobRecord>,
    costs: bool,
}

/// The span of the rate of a name, always the same.
fn per(name: &str) -> Duration {
    if name.starts_with("mail") {
        seconds(3)
    } else {
        seconds(10)
    }
}

fn name_of(text: &str) -> &'static str {
    let known = NAMES.iter().find(|name| **name == text);
    known.expect("a name of these histories")
}

impl Model {
    fn of(&self, name: &str) -> Option<&LimitSettings> {
        let family = name.split(':').next().unwrap_or(name);
        self.settings
            .get(name)
            .or_else(|| self.settings.get(family))
    }

    fn active(&self, name: &str) -> u64 {
        let jobs = self.jobs.values();
        let with = jobs.filter(|job| job.state == JobState::Active && names(job, name));
        with.count() as u64
    }

    fn blocked(&self, name: &str, now: Timestamp) -> bool {
        let stand = self.stands.get(name);
        stand.is_some_and(|stand| stand.blocked_until.is_some_and(|until| until > now))
    }

    /// Units that the rate of a name counts at an instant, and of how many starts.
    fn counted(&self, name: &str, now: Timestamp) -> (u64, usize) {
        let starts = self.stands.get(name).map_or(&[][..], |stand| &stand.starts);
        let within = |(at, _): &&(Timestamp, u64)| *at + per(name) > now;
        let units = starts.iter().filter(within).map(|(_, units)| units).sum();
        (units, starts.iter().filter(within).count())
    }

    /// Instants to come at which time may open a limit.
    fn openings(&self, now: Timestamp) -> Vec<Timestamp> {
        let of = |(name, stand): (&&str, &Stand)| {
            let starts = stand.starts.iter().map(|(at, _)| *at + per(name));
            let all: Vec<Timestamp> = starts.chain(stand.blocked_until).collect();
            all
        };
        let all = self.stands.iter().flat_map(of);
        all.filter(|at| *at > now).collect()
    }

    /// Whether a limit lets a job of one unit start.
    fn is_open(&self, name: &str, now: Timestamp) -> bool {
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
    fn is_free(&self, job: &JobRecord) -> bool {
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
    fn starts(&mut self, claimed: &[Attempt], now: Timestamp, at: &str) {
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
                if self
                    .of(name)
                    .is_some_and(|settings| settings.rate.is_some())
                {
                    let stand = self.stands.entry(name).or_default();
                    stand.starts.push((now, u64::from(attempt.job.cost)));
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

    /// What a limit counted is forgotten where no rate counts any more.
    fn settings_changed(&mut self) {
        for name in NAMES {
            if self.of(name).is_none_or(|settings| settings.rate.is_none()) {
                self.stands.entry(name).or_default().starts.clear();
            }
        }
    }
}

fn names(job: &JobRecord, name: &str) -> bool {
    job.limits.iter().any(|limit| limit == name)
}

fn key(job: &JobRecord) -> Option<&str> {
    job.group.as_ref().map(|group| group.key.as_str())
}

/// Random jobs with limits start as soon as their limits let them and no sooner, and what is read
/// of limits is so.
pub(super) async fn random_limits_agree_with_a_model(case: Case) {
    for seed in 0..HISTORIES {
        let case = case.another().await;
        let mut draw = Draw(seed);
        let mut model = Model {
            costs: seed % 3 == 2,
            ..Model::default()
        };
        for name in SETTINGS {
            set(&case, &mut model, &mut draw, name).await;
        }
        let mut claimed = Vec::new();
        for nth in 0..ACTIONS {
            let at = format!("history {seed}, action {nth}");
            act(&case, &mut model, &mut draw, &mut claimed, &at).await;
            read_jobs(&case, &mut model).await;
            counts_agree(&case, &model, &at).await;
        }
    }
}

/// One random action.
async fn act(
    case: &Case,
    model: &mut Model,
    draw: &mut Draw,
    claimed: &mut Vec<Attempt>,
    at: &str,
) {
    match draw.below(20) {
        0..=4 if model.jobs.len() < JOBS_MAX => send(case, model, draw).await,
        5..=7 => claim(case, model, draw, claimed, at).await,
        8 => {
            let name = draw.one(&SETTINGS);
            set(case, model, draw, name).await;
        }
        9 => {
            let name = draw.one(&NAMES);
            let span = seconds(draw.below(12));
            case.block_limit(name, span).await;
            let until = (span > Duration::ZERO).then(|| case.clock() + span);
            model.stands.entry(name).or_default().blocked_until = until;
        }
        10 => {
            let waiting: Vec<JobId> = pending(model).map(|job| job.id).collect();
            if !waiting.is_empty() {
                case.edit(draw.one(&waiting), Action::Cancel).await;
            }
        }
        11 => case.advance(millis(draw.below(12_000))).await,
        12 => {
            let openings = model.openings(case.clock());
            if !openings.is_empty() {
                case.set_time(draw.one(&openings)).await;
                drain(case, model, claimed, at).await;
            }
        }
        13 => case.advance_awake(LEASE_DURATION).await,
        14..=16 => drain(case, model, claimed, at).await,
        _ => end_some(case, draw, claimed).await,
    }
}

fn pending(model: &Model) -> impl Iterator<Item = &JobRecord> {
    let is = |job: &&JobRecord| matches!(job.state, JobState::Ready | JobState::Scheduled);
    model.jobs.values().filter(is)
}

/// Settings of one name: others, or none.
async fn set(case: &Case, model: &mut Model, draw: &mut Draw, name: &'static str) {
    let mut settings = LimitSettings::new();
    if draw.below(2) == 0 {
        settings = settings.concurrency(1 + draw.below(4));
    }
    if draw.below(2) == 0 {
        settings = settings.rate(Rate::window(1 + draw.below(6), per(name)));
    }
    let wanted = (settings != LimitSettings::new()).then_some(settings);
    case.set_limit(name, wanted).await;
    match wanted {
        Some(settings) => model.settings.insert(name, settings),
        None => model.settings.remove(name),
    };
    model.settings_changed();
}

async fn send(case: &Case, model: &mut Model, draw: &mut Draw) {
    let mut jobs = Vec::new();
    for _ in 0..=draw.below(6) {
        let mut job = match draw.below(4) {
            0 => job_in(millis(draw.below(9_000))),
            _ => job(),
        };
        job.queue = draw.one(&[QUEUE, QUEUE, OTHER]).into();
        let from = draw.below(4) as usize;
        for nth in 0..draw.one(&[0, 1, 1, 1, 2, 3]) {
            job = job.limit(NAMES[(from + nth) % NAMES.len()]);
        }
        if model.costs && !job.limits.is_empty() {
            job.cost = draw.one(&[1, 1, 2, 5]);
        }
        if draw.below(5) == 0 {
            let key = draw.one(&["g", "h"]).into();
            let on_retry = draw.one(&[OnRetry::Hold, OnRetry::Pass]);
            job.group = Some(Group { key, on_retry });
        }
        if draw.below(3) == 0 {
            job.share = Some(draw.one(&["s", "t"]).into());
        }
        jobs.push(job);
    }
    for id in case.enqueue_all(jobs).await {
        model.jobs.insert(id, case.get(id).await);
    }
}

/// One claim of some queues.
async fn claim(
    case: &Case,
    model: &mut Model,
    draw: &mut Draw,
    claimed: &mut Vec<Attempt>,
    at: &str,
) {
    let queues = match draw.below(3) {
        0 => vec![QUEUE.into()],
        1 => vec![OTHER.into()],
        _ => vec![OTHER.into(), QUEUE.into()],
    };
    let limit = 1 + draw.below(5) as usize;
    claim_of(case, model, queues, limit, claimed, at).await;
}

async fn claim_of(
    case: &Case,
    model: &mut Model,
    queues: Vec<String>,
    limit: usize,
    claimed: &mut Vec<Attempt>,
    at: &str,
) -> usize {
    // What the clock has changed since the last look.
    read_jobs(case, model).await;
    let wants = case.wants(limit);
    let answer = case.claim_as(Claim { queues, ..wants }).await;
    let started = attempts(&answer);
    model.starts(&started, answer.now, at);
    let count = started.len();
    claimed.extend(started);
    count
}

/// Claims all that may start: what is left lacks a limit, waits at one, and says so.
async fn drain(case: &Case, model: &mut Model, claimed: &mut Vec<Attempt>, at: &str) {
    let both = || vec![QUEUE.to_owned(), OTHER.to_owned()];
    while claim_of(case, model, both(), 100, claimed, at).await > 0 {}
    read_jobs(case, model).await;
    let now = case.clock();
    let free: Vec<&JobRecord> = model
        .jobs
        .values()
        .filter(|job| model.is_free(job))
        .collect();
    for job in &free {
        let closed: Vec<&String> = (job.limits.iter())
            .filter(|name| !model.is_open(name, now))
            .collect();
        if !model.costs {
            assert!(!closed.is_empty(), "{at}: {job:#?} may start by {model:#?}");
        }
        let reasons = case.reasons(job.id).await;
        for name in closed {
            let said = reasons.iter().any(|reason| names_limit(reason, name));
            assert!(said, "{at}: {name} keeps {} back, not {reasons:?}", job.id);
        }
    }
    let waiting: u64 = read_limits(case)
        .await
        .iter()
        .map(|limit| limit.waiting)
        .sum();
    assert!(
        waiting >= free.len() as u64,
        "{at}: {waiting} of {free:#?} wait"
    );
}

fn names_limit(reason: &Reason, wanted: &str) -> bool {
    match reason {
        Reason::LimitBlocked { name, .. }
        | Reason::LimitConcurrencyReached { name, .. }
        | Reason::LimitRateReached { name, .. } => name == wanted,
        _ => false,
    }
}

/// Ends some of what is active, however.
async fn end_some(case: &Case, draw: &mut Draw, claimed: &mut Vec<Attempt>) {
    for _ in 0..=draw.below(4) {
        if claimed.is_empty() {
            return;
        }
        let nth = draw.below(claimed.len() as u64) as usize;
        let attempt = claimed.swap_remove(nth);
        let outcome = draw.one(&[
            Outcome::Completed,
            Outcome::Completed,
            Outcome::Retry {
                after: Some(Duration::ZERO),
            },
            Outcome::Retry {
                after: Some(seconds(4)),
            },
            Outcome::Snooze { after: seconds(5) },
            Outcome::Released,
            Outcome::Dead,
            Outcome::Cancelled,
        ]);
        // Its lease may be over: the engine says so, and nothing changes.
        case.settle_as(attempt.token, attempt.ended(outcome)).await;
    }
}

/// Takes over how the jobs stand; that they stand so by law is what other laws say.
async fn read_jobs(case: &Case, model: &mut Model) {
    let ids: Vec<JobId> = model.jobs.keys().copied().collect();
    let targets = ids.iter().copied().map(Target::Id).collect();
    for (id, got) in ids.iter().zip(case.got_all(targets, false).await) {
        match got {
            Some(Got::Job(record, _)) => {
                model.jobs.insert(*id, *record);
            }
            _ => {
                model.jobs.remove(id);
            }
        }
    }
}

async fn read_limits(case: &Case) -> Vec<NamedLimit> {
    let all = Control::Limits {
        after: String::new(),
        limit: 100,
    };
    match case.control(all).await {
        Controlled::Limits(limits) => limits,
        other => panic!("a read answers limits, not {other:?}"),
    }
}

async fn counts_agree(case: &Case, model: &Model, at: &str) {
    let limits = read_limits(case).await;
    for name in NAMES {
        let read = limits.iter().find(|limit| limit.name == name);
        let active = read.map_or(0, |limit| limit.active);
        assert_eq!(active, model.active(name), "{at}: active jobs of {name}");
    }
}
