//! A process that enqueues jobs.

use std::collections::VecDeque;
use std::sync::Arc;

use fastrand::Rng;
use punctual::backoff::Backoff;
use punctual::engine::{Action, Edit, Enqueued, QueueStats, Select, StatsRequest, Target};
use punctual::time::{Stopwatch, millis, pause, seconds, within};
use punctual::{
    Due, Group, JobId, JobState, Namespace, NewJob, OnRetry, RetryPolicy, Unique, UniquePolicy,
};

use super::{Begun, Failed, flows, limits, relayed, schedules};
use crate::event::Event;
use crate::recorder::SCRIPTED_OUTCOME;
use crate::scripted_outcome::ScriptedOutcome;
use crate::setting::{QUEUES, Setting};

/// Sends jobs until there are enough.
pub(super) async fn run(begun: Begun, seed: u64) -> Result<(), Failed> {
    let (sends_flows, fills_limits) = (begun.setting.flows, begun.setting.limits);
    let flows = tokio::spawn({
        let begun = begun.clone();
        async move {
            if sends_flows {
                flows::produce(begun, seed).await;
            }
        }
    });
    let limits = tokio::spawn({
        let begun = begun.clone();
        async move {
            if fills_limits {
                limits::produce(begun, seed).await;
            }
        }
    });
    let messages = tokio::spawn(relayed::produce(begun.clone(), seed));
    let has_schedules = begun.setting.schedules;
    let schedules = tokio::spawn({
        let begun = begun.clone();
        async move {
            if has_schedules {
                schedules::produce(begun, seed).await;
            }
        }
    });
    let mut producer = Producer {
        begun,
        random: Rng::with_seed(seed),
        sent: VecDeque::new(),
        calls: 0,
    };
    while !producer.begun.setting.is_enough() {
        let watch = Stopwatch::start();
        producer.let_others_catch_up().await;
        producer.send().await;
        if producer.random.u32(0..10) == 0 {
            producer.cancel().await;
        }
        let setting = &producer.begun.setting;
        let turn = std::time::Duration::from_micros(1_000_000 / u64::from(setting.rate));
        let turn = turn.max(millis(setting.mix.quiet_periods));
        pause(turn.saturating_sub(watch.elapsed())).await;
    }
    flows.await?;
    messages.await?;
    schedules.await?;
    Ok(limits.await?)
}

struct Producer {
    begun: Begun,
    random: Rng,
    /// The last few that were sent, to be cancelled.
    sent: VecDeque<JobId>,
    calls: u64,
}

/// A call without an answer is repeated for so long, then it stays unknown.
const GIVES_UP_AFTER: std::time::Duration = seconds(12);
/// One call in so many is given up, if it takes that long.
const GIVEN_UP: u32 = 20;

/// How many calls are sent between two checks of what is ready, and how long one waits before
/// the next check if that is too much.
const CALLS_PER_CHECK: u64 = 10;
const CATCH_UP: std::time::Duration = millis(40);

impl Producer {
    /// Waits while more jobs are ready than workers run soon: lateness is to show faults, not
    /// of a backlog. An engine that does not answer is sent to all the same.
    async fn let_others_catch_up(&mut self) {
        self.calls += 1;
        if !self.calls.is_multiple_of(CALLS_PER_CHECK) {
            return;
        }
        let setting = self.begun.setting.clone();
        while !setting.is_enough() && self.ready().await > setting.ahead {
            pause(CATCH_UP).await;
        }
    }

    async fn ready(&self) -> u64 {
        let request = StatsRequest::default();
        let stats = (self.begun.engine.stats(&Namespace::default(), request)).await;
        stats.map_or(0, |stats| {
            let ready = |queue: &QueueStats| queue.counts.of(JobState::Ready);
            stats.queues.iter().map(ready).sum()
        })
    }

    /// Sends the same jobs until it is known whether they are stored.
    async fn send(&mut self) {
        let count = self.random.usize(1..=self.begun.setting.batch);
        let jobs: Vec<NewJob> = (0..count)
            .map(|_| job(&self.begun.setting, &mut self.random))
            .collect();
        self.sent.extend(jobs.iter().map(|job| job.id));
        while self.sent.len() > 200 {
            self.sent.pop_front();
        }
        let mut backoff = Backoff::new(millis(10), millis(300));
        let watch = Stopwatch::start();
        loop {
            match self.send_once(&jobs).await {
                Some(Ok(_)) => return,
                Some(Err(error)) if !error.is_retryable() => return,
                _ if watch.elapsed() > GIVES_UP_AFTER => return,
                _ => pause(backoff.pause()).await,
            }
        }
    }

    /// `None` if the call was given up: now and then one is, at any moment.
    async fn send_once(&mut self, jobs: &[NewJob]) -> Option<punctual::Result<Enqueued>> {
        let namespace = Namespace::default();
        let call = self.begun.engine.enqueue(&namespace, jobs.to_vec());
        if self.random.u32(0..GIVEN_UP) > 0 {
            return Some(call.await);
        }
        let time_limit = std::time::Duration::from_micros(self.random.u64(0..4_000));
        let answer = within(time_limit, call).await;
        if answer.is_none() {
            self.begun.history.note(Event::Dropped);
        }
        answer
    }

    async fn cancel(&mut self) {
        let some = self.random.usize(0..self.sent.len().max(1));
        let Some(id) = self.sent.remove(some) else {
            return;
        };
        let edit = Edit::new(Select::Targets(vec![Target::Id(id)]), Action::Cancel);
        // Written down by the recorder, whatever the answer.
        let _ = self.begun.engine.edit(&Namespace::default(), edit).await;
    }
}

/// A job of one of the queues, with a scripted outcome.
fn job(setting: &Arc<Setting>, random: &mut Rng) -> NewJob {
    let mix = &setting.mix;
    let scripted = mix.scripted(random);
    let queue = QUEUES[random.usize(0..QUEUES.len())];
    let mut payload = vec![b'x'; mix.payload_bytes(random)];
    let at = random.usize(0..payload.len());
    payload[at] = random.u8(..);
    let mut job = NewJob::new(queue, payload);
    job.content_type = "application/octet-stream".into();
    job.headers = vec![(
        SCRIPTED_OUTCOME.into(),
        serde_json::to_string(&scripted).expect("a scripted outcome is JSON"),
    )];
    job.due = match random.u32(0..4) {
        0 => Due::Now,
        _ => Due::After(millis(random.u64(0..=mix.delay_max))),
    };
    job.max_attempts = 20;
    job.retry = RetryPolicy::fixed(millis(random.u64(10..400)));
    if random.u32(0..20) == 0 {
        job.unique = Some(unique(random));
    } else if random.u32(0..20) == 0 && scripted != ScriptedOutcome::AbortsAlways {
        let key = format!("group-{}", random.u32(0..8));
        job.group = Some(Group::new(key).on_retry(OnRetry::Pass));
    }
    job
}

fn unique(random: &mut Rng) -> Unique {
    let policy = match random.u32(0..4) {
        0 => UniquePolicy::Replace,
        1 => UniquePolicy::After,
        _ => UniquePolicy::Keep,
    };
    Unique::new(format!("key-{}", random.u32(0..50))).policy(policy)
}
