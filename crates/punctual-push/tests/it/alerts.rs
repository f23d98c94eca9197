//! Alerts: posted once, once more when the trouble is over, and the last message is true.

use std::sync::Arc;

use punctual::engine::{
    Action, Claim, Control, LeaseReport, QueueSettings, RecordValue, Settle, Settlement,
    StatsRequest, Token, WorkerId,
};
use punctual::schedule::{Schedule, Spec, Template};
use punctual::time::{hours, minutes, seconds};
use punctual::{
    Context, Engine, ErrorKind, JobId, JobRecord, JobState, Namespace, NewJob, Outcome, Queue,
    Worker, push,
};
use punctual_push::{AlertRules, Alerts, Guard};
use serde_json::Value;

use crate::support::{Server, Under, jobs};

/// An engine with a late queue, and one that watches it.
fn watched() -> (Under, impl Fn() -> Alerts) {
    let under = Under::new(Guard::new());
    let engine = under.engine.clone();
    let watch = move || {
        let home = Namespace::default();
        let url = "https://example.com/alerts";
        let watched = vec![home.clone()];
        Alerts::new(engine.clone(), home, watched, url, AlertRules::default())
    };
    (under, watch)
}

/// What was posted: rule, state and queue of every alert that is not held.
async fn posted(engine: &Arc<dyn Engine>) -> Vec<String> {
    let found = jobs(engine, push::ALERT_QUEUE).await;
    let mut posted: Vec<String> = (found.iter())
        .filter(|job| job.state != JobState::Held)
        .map(|job| {
            let said: Value = serde_json::from_slice(&job.payload).expect("JSON");
            let word = |name: &str| said[name].as_str().expect("text").to_owned();
            let name = said["queue"].as_str().or(said["schedule"].as_str());
            let name = name.expect("a queue or a schedule");
            format!("{} {} {name}", word("alert"), word("state"))
        })
        .collect();
    posted.sort();
    posted
}

#[tokio::test]
async fn a_schedule_without_success_is_posted_until_a_run_completes() {
    let (under, watch) = watched();
    let queue = Queue::new(under.engine.clone());
    let hourly = Spec::builder().every(hours(1));
    let template = Template::of(NewJob::new("reports", "{}")).expect("a plain job");
    let mut schedule = Schedule::new(hourly, template);
    schedule.expect_within = Some(hours(3));
    let set = queue.schedules().set("nightly", schedule).await;
    set.expect("a schedule");
    let mut watch = watch();
    under.clock.advance(hours(3));
    watch.check().await.expect("it checks");
    let about_schedules = async || {
        let posted = posted(&under.engine).await;
        let is_of_one = |line: &String| line.starts_with("schedule_overdue");
        posted.into_iter().filter(is_of_one).collect::<Vec<_>>()
    };
    assert!(about_schedules().await.is_empty());
    under.clock.advance(seconds(1));
    watch.check().await.expect("it checks");
    watch.check().await.expect("it checks");
    assert_eq!(about_schedules().await, ["schedule_overdue firing nightly"]);

    let claim = Claim::new(WorkerId(1), "reports", 1);
    let claimed = under.engine.claim(&Namespace::default(), claim).await;
    let lease = claimed.expect("a claim").leases.remove(0);
    let job = &lease.jobs[0];
    let done = Settlement::new(job.id, job.attempt, Outcome::Completed);
    let leases = vec![LeaseReport::new(lease.token, vec![done])];
    let settle = Settle::new(leases);
    let settled = under.engine.settle(&Namespace::default(), settle).await;
    settled.expect("it settles");
    watch.check().await.expect("it checks");
    let both = [
        "schedule_overdue firing nightly",
        "schedule_overdue resolved nightly",
    ];
    assert_eq!(about_schedules().await, both);
}

#[tokio::test]
async fn a_late_queue_is_posted_once_and_once_more_when_it_is_over() {
    let (under, watch) = watched();
    let id = under.send(NewJob::new("mail", "")).await;
    let mut first = watch();
    let mut second = watch();
    // Neither knows of the other: what each finds later, it finds by itself.
    first.check().await.expect("it checks");
    second.check().await.expect("it checks");
    assert!(posted(&under.engine).await.is_empty());

    under.clock.advance(minutes(2));
    for _ in 0..3 {
        first.check().await.expect("it checks");
        second.check().await.expect("it checks");
        under.clock.advance(seconds(10));
    }
    let both = ["late firing mail", "no_workers firing mail"];
    assert_eq!(posted(&under.engine).await, both);
    // One that was started again finds what was posted.
    let mut third = watch();
    third.check().await.expect("it checks");
    assert_eq!(posted(&under.engine).await, both);

    under.edit(id, Action::Cancel).await;
    for alerts in [&mut third, &mut first, &mut second] {
        alerts.check().await.expect("it checks");
    }
    let all = [
        "late firing mail",
        "late resolved mail",
        "no_workers firing mail",
        "no_workers resolved mail",
    ];
    assert_eq!(posted(&under.engine).await, all);
}

#[tokio::test]
async fn dead_letters_are_posted_and_a_paused_queue_is_not_late() {
    let (under, watch) = watched();
    let mut alerts = watch();
    let mut doomed = NewJob::new("mail", "");
    doomed.max_attempts = 1;
    under.send(doomed).await;
    let worker = Worker::new(under.engine.clone())
        .queues(["mail"])
        .handle_any(|_, _| async { Err::<(), _>("broken") });
    worker.run_until_idle().await.expect("it works");
    let pause = Control::Pause {
        queue: "reports".into(),
    };
    let space = Namespace::default();
    under.engine.control(&space, pause).await.expect("paused");
    under.send(NewJob::new("reports", "")).await;
    under.clock.advance(minutes(5));
    alerts.check().await.expect("it checks");
    assert_eq!(posted(&under.engine).await, ["dead firing mail"]);
}

#[tokio::test]
async fn an_alert_that_cannot_be_posted_brings_about_no_other() {
    let (under, watch) = watched();
    let mut alerts = watch();
    under.send(NewJob::new("mail", "")).await;
    for _ in 0..20 {
        under.clock.advance(minutes(10));
        alerts.check().await.expect("it checks");
    }
    assert_eq!(posted(&under.engine).await.len(), 2);
}

fn word(job: &JobRecord, name: &str) -> String {
    let said: Value = serde_json::from_slice(&job.payload).expect("JSON");
    said[name].as_str().expect("text").to_owned()
}

async fn claim(under: &Under, queue: &str) -> Option<(Token, JobRecord)> {
    let mut claim = Claim::new(WorkerId::random(), queue, 1);
    claim.lease_duration = hours(1);
    let space = Namespace::default();
    let claimed = under.engine.claim(&space, claim).await.expect("an answer");
    let mut lease = claimed.leases.into_iter().next()?;
    Some((lease.token, lease.jobs.pop()?))
}

async fn settle(under: &Under, (token, job): &(Token, JobRecord), outcome: Outcome) {
    let settlement = Settlement::new(job.id, job.attempt, outcome);
    let settle = Settle::new(vec![LeaseReport::new(*token, vec![settlement])]);
    let space = Namespace::default();
    under.engine.settle(&space, settle).await.expect("settled");
}

/// Has a dead letter, or none any more.
async fn dead_letter(under: &Under, before: Option<JobId>) -> Option<JobId> {
    match before {
        Some(id) => {
            under.edit(id, Action::Delete).await;
            None
        }
        None => {
            let id = under.send(NewJob::new("mail", "")).await;
            let claimed = claim(under, "mail").await.expect("it is due");
            settle(under, &claimed, Outcome::Dead).await;
            Some(id)
        }
    }
}

/// What may happen between two checks.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The trouble comes, or goes.
    Flip,
    /// A worker begins to post what is due.
    Claim,
    /// The target takes it.
    Taken,
    /// It does not.
    Refused,
    /// The target takes it, and its answer is lost.
    Unanswered,
    /// Another process watches.
    Restart,
}

const STEPS: [Step; 6] = [
    Step::Flip,
    Step::Claim,
    Step::Taken,
    Step::Refused,
    Step::Unanswered,
    Step::Restart,
];

struct Play {
    under: Under,
    alerts: Alerts,
    /// Watches all the time, if there are two of them.
    other: Option<Alerts>,
    dead: Option<JobId>,
    posting: Option<(Token, JobRecord)>,
    /// What the target took.
    taken: Vec<String>,
}

impl Play {
    /// Whether that could happen.
    async fn step(&mut self, step: Step, watch: &impl Fn() -> Alerts) -> bool {
        self.under.clock.advance(seconds(10));
        match (step, self.posting.take()) {
            (Step::Flip, posting) => {
                self.dead = dead_letter(&self.under, self.dead).await;
                self.posting = posting;
            }
            (Step::Restart, posting) => {
                self.alerts = watch();
                self.posting = posting;
            }
            (Step::Claim, None) => {
                self.posting = claim(&self.under, push::ALERT_QUEUE).await;
                let Some((_, job)) = &self.posting else {
                    return false;
                };
                let is_over = word(job, "state") == "resolved";
                assert!(!is_over || self.dead.is_none(), "it is not over");
            }
            (Step::Taken, Some(posting)) => {
                self.taken.push(word(&posting.1, "state"));
                settle(&self.under, &posting, Outcome::Completed).await;
            }
            (Step::Refused | Step::Unanswered, Some(posting)) => {
                if let Step::Unanswered = step {
                    self.taken.push(word(&posting.1, "state"));
                }
                settle(&self.under, &posting, Outcome::Retry { after: None }).await;
                self.under.clock.advance(hours(2));
            }
            _ => return false,
        }
        self.alerts.check().await.expect("it checks");
        if let Some(other) = &mut self.other {
            other.check().await.expect("it checks");
        }
        let space = Namespace::default();
        let stats = self.under.engine.stats(&space, StatsRequest::default());
        let stats = stats.await.expect("counts").queues.into_iter();
        for queue in stats.filter(|queue| queue.queue == push::ALERT_QUEUE) {
            let most = queue.counts.pending() + queue.counts.of(JobState::Active);
            assert!(most <= 4, "{most} alerts and all-clears of one trouble");
        }
        true
    }
}

/// How many of these steps could happen.
async fn plays_out_true(steps: &[Step], has_other: bool) -> usize {
    let (under, watch) = watched();
    let mut play = Play {
        under,
        alerts: watch(),
        other: has_other.then(&watch),
        dead: None,
        posting: None,
        taken: Vec::new(),
    };
    play.step(Step::Flip, &watch).await;
    for (nth, step) in steps.iter().enumerate() {
        if !play.step(*step, &watch).await {
            return nth;
        }
    }
    // At last the target takes everything.
    loop {
        if play.posting.is_none() {
            play.under.clock.advance(hours(2));
            if !play.step(Step::Claim, &watch).await {
                break;
            }
        }
        play.step(Step::Taken, &watch).await;
    }
    let expected = match play.dead {
        Some(_) => "firing",
        None => "resolved",
    };
    let last = play.taken.last().map(String::as_str);
    assert_eq!(last, Some(expected), "{:?} after {steps:?}", play.taken);
    steps.len()
}

/// Every sequence of so many steps.
#[tokio::test]
async fn whatever_fails_and_comes_back_the_last_thing_said_is_true() {
    const LENGTH: u32 = 5;
    let mut nth = 0;
    while nth < STEPS.len().pow(LENGTH) {
        let step = |at| STEPS[nth / STEPS.len().pow(LENGTH - 1 - at) % STEPS.len()];
        let steps: Vec<Step> = (0..LENGTH).map(step).collect();
        plays_out_true(&steps, true).await;
        let possible = plays_out_true(&steps, false).await as u32;
        // None that begins so could happen either.
        let alike = STEPS.len().pow((LENGTH - 1).saturating_sub(possible));
        nth += alike - nth % alike;
    }
}

#[tokio::test]
async fn a_problem_that_returns_before_its_resolved_is_posted_alerts_again() {
    for restarts in [false, true] {
        let server = Server::start(204).await;
        let under = Under::new(server.guard());
        let engine = under.engine.clone();
        let watch = || {
            let home = Namespace::default();
            let watched = vec![home.clone()];
            let rules = AlertRules::default();
            Alerts::new(engine.clone(), home, watched, server.url(), rules)
        };
        let mut alerts = watch();
        let post = async || {
            under.clock.advance(hours(2));
            let pusher = under.pusher.clone();
            let worker = Worker::new(&under.engine).queues([push::ALERT_QUEUE]);
            let worker = worker.handle_any(move |job: JobRecord, ctx: Context| {
                let pusher = pusher.clone();
                async move { pusher.push(&job, &ctx).await }
            });
            worker.run_until_idle().await.expect("it works");
        };
        let mut dead = None;
        // It comes; goes and comes, both refused; stays; goes; comes.
        let phases = [(true, 204), (true, 500), (true, 500), (false, 204)];
        for (flips, status) in phases.into_iter().chain([(true, 204); 2]) {
            server.status(status);
            if flips {
                dead = dead_letter(&under, dead).await;
            }
            if restarts {
                alerts = watch();
            }
            alerts.check().await.expect("it checks");
            post().await;
            let seen = server.seen();
            let body = &seen.last().expect("a request").body;
            let said: Value = serde_json::from_slice(body).expect("JSON");
            let expected = if dead.is_some() { "firing" } else { "resolved" };
            assert!(status != 204 || said["state"] == expected, "{said}");
        }
    }
}

/// Held all-clears count as pending: what is over must leave, or nothing is ever posted again.
#[tokio::test]
async fn a_full_queue_of_alerts_keeps_no_all_clear_back() {
    let (under, watch) = watched();
    let mut alerts = watch();
    let late = under.send(NewJob::new("mail", "")).await;
    under.clock.advance(minutes(2));
    alerts.check().await.expect("it checks");
    assert_eq!(posted(&under.engine).await.len(), 2);
    let settings = QueueSettings::new().max_pending(2);
    let full = Control::Write {
        name: format!("queue/{}", push::ALERT_QUEUE),
        expected: 0,
        value: Some(RecordValue::Queue(settings)),
    };
    let space = Namespace::default();
    under.engine.control(&space, full).await.expect("set");
    under.edit(late, Action::Cancel).await;
    under.send(NewJob::new("a", "")).await;
    under.clock.advance(minutes(2));
    let refused = alerts.check().await.expect_err("there is no room");
    assert_eq!(refused.kind(), ErrorKind::EngineFull);
    let resolved = ["late resolved mail", "no_workers resolved mail"];
    let posted = posted(&under.engine).await;
    assert!(
        resolved.iter().all(|it| posted.iter().any(|one| one == it)),
        "{posted:?}"
    );
}

#[tokio::test]
async fn an_all_clear_of_another_watcher_is_left_alone() {
    let (under, watch) = watched();
    dead_letter(&under, None).await;
    watch().check().await.expect("it checks");
    let shop = Namespace::new("shop").expect("a name");
    let (home, url) = (Namespace::default(), "https://example.com/alerts");
    let rules = AlertRules::default();
    let mut theirs = Alerts::new(under.engine.clone(), home, vec![shop], url, rules);
    theirs.check().await.expect("it checks");
    assert_eq!(posted(&under.engine).await, ["dead firing mail"]);
}

#[tokio::test]
async fn an_alert_killed_after_resolved_is_sent_by_the_next_process() {
    let (under, watch) = watched();
    dead_letter(&under, None).await;
    watch().check().await.expect("it checks");
    // As if the process had ended between the two.
    let found = jobs(&under.engine, push::ALERT_QUEUE).await;
    let alert = found.iter().find(|job| job.state == JobState::Ready);
    let id = alert.expect("an alert").id;
    under.edit(id, Action::Cancel).await;
    under.edit(id, Action::Delete).await;
    assert!(posted(&under.engine).await.is_empty());
    watch().check().await.expect("it checks");
    assert_eq!(posted(&under.engine).await, ["dead firing mail"]);
}
