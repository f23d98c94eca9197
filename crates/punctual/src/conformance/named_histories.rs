//! Laws over random jobs with named limits: what starts, what waits and what is said of it is as a
//! model says, step by step.

use std::time::Duration;

use super::case::*;
use super::draw::Draw;
use super::named::OTHER;
use super::named_model::{Model, NAMES, per};
use crate::engine::{
    Action, Claim, Control, Controlled, EnqueueVerdict, Got, LimitSettings, NamedLimit, Rate,
    Reason, Target, WhenFull,
};
use crate::job::{Group, JobId, JobRecord, JobState, OnRetry, Outcome};
use crate::time::{millis, seconds};

const HISTORIES: u64 = 12;
const ACTIONS: usize = 60;
const JOBS_MAX: usize = 48;
const SETTINGS: [&str; 4] = ["api", "mail", "key", "key:b"];

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
        0..=4 if model.jobs.len() < JOBS_MAX => send(case, model, draw, at).await,
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
        let policies = [WhenFull::Wait, WhenFull::Refuse, WhenFull::CancelRunning];
        settings = settings.when_full(draw.one(&policies));
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

async fn send(case: &Case, model: &mut Model, draw: &mut Draw, at: &str) {
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
    // What the clock has changed since the last look.
    read_jobs(case, model).await;
    let (expected, asked) = model.decide(&jobs);
    let asked = &asked | &model.asked();
    let sent = ids(&jobs);
    let receipts = case.send_all(jobs).await;
    let verdicts: Vec<_> = receipts.iter().map(|receipt| receipt.verdict).collect();
    assert_eq!(verdicts, expected, "{at}: of new jobs by {model:#?}");
    for (id, verdict) in sent.into_iter().zip(verdicts) {
        if verdict == EnqueueVerdict::Created {
            model.jobs.insert(id, case.get(id).await);
        }
    }
    read_jobs(case, model).await;
    assert_eq!(model.asked(), asked, "{at}: asked to stop by {model:#?}");
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
