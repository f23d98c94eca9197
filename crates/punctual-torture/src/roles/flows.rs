//! Sends random flows, and runs their steps. The recorder knows nothing of them: they have words of
//! their own in the history.

use std::sync::Arc;

use fastrand::Rng;
use punctual::flow::FlowState;
use punctual::queue::Flows;
use punctual::time::{Stopwatch, millis, pause, seconds};
use punctual::worker::Verdict;
use punctual::{Context, JobRecord, Queue, Worker, backoff::Backoff};

use super::Begun;
use crate::call_log::History;
use crate::event::Event;
use crate::flows::{Does, FlowPlan, Place, QUEUES};

/// A call without an answer is repeated for so long.
const GIVES_UP_AFTER: std::time::Duration = seconds(12);
/// Between two flows of a producer, at least.
const TURN: std::time::Duration = millis(80);

/// Sends flows until there are enough; cancels a step now and then.
pub(super) async fn produce(begun: Begun, seed: u64) {
    let mut random = Rng::with_seed(seed ^ 0xf10);
    let queue = Queue::new(&begun.direct);
    let round = begun.setting.round.file_name().unwrap_or_default();
    let round = round.to_string_lossy().into_owned();
    // Each producer of a process has names of its own; so has a process that comes after another.
    let own = format!("{round}/{}/{seed:x}/", begun.name);
    // What is left by one that was killed: the producers beside it have its name.
    if begun.solo {
        cancel_open(&queue, &format!("{round}/"), &begun.name).await;
    }
    let mut sent = 0;
    while !begun.setting.is_enough() {
        let name = format!("{own}{sent}");
        sent += 1;
        let plan = FlowPlan::random(name.clone(), &mut random);
        begun.history.note(Event::FlowInvoke { plan: plan.clone() });
        let flow = plan.flow(&queue);
        if until_answered(|| flow.send()).await {
            begun.history.note(Event::FlowOk { flow: name.clone() });
        }
        if random.u32(0..3) == 0 {
            let step = Some(random.usize(0..plan.steps.len()));
            let place = Place { flow: name, step };
            begun.history.note(Event::StepCancel {
                place: place.clone(),
            });
            let _ = queue.cancel(place.id()).await;
        }
        pause(TURN + millis(random.u64(0..80))).await;
    }
    cancel_open(&queue, &own, "").await;
}

/// Cancels flows that were sent in part and whose names begin so, but those of one process: they
/// would be held for an hour.
async fn cancel_open(queue: &Queue, begin: &str, but_of: &str) {
    until_answered(|| cancel_all(queue.flows(), begin, but_of)).await;
}

async fn cancel_all(flows: Flows, begin: &str, but_of: &str) -> punctual::Result<()> {
    let spared = format!("{begin}{but_of}/");
    for flow in flows.list().await? {
        let is_own = flow.name.starts_with(begin) && !flow.name.starts_with(&spared);
        if flow.state == FlowState::Open && is_own {
            flows.cancel(&flow.name).await?;
        }
    }
    Ok(())
}

/// Whether a call was answered in time, and not refused.
async fn until_answered<T, F>(call: impl Fn() -> F) -> bool
where
    F: Future<Output = punctual::Result<T>>,
{
    let mut backoff = Backoff::new(millis(10), millis(300));
    let watch = Stopwatch::start();
    loop {
        match call().await {
            Ok(_) => return true,
            Err(error) if !error.is_retryable() => return false,
            Err(_) if watch.elapsed() > GIVES_UP_AFTER => return false,
            Err(_) => pause(backoff.pause()).await,
        }
    }
}

/// A worker for steps and callbacks.
pub(super) fn worker(begun: &Begun) -> Worker {
    let history = begun.history.clone();
    let run = move |job: JobRecord, context: Context| run(history.clone(), job, context);
    let worker = Worker::new(&begun.direct)
        .queues(QUEUES)
        .handle_any(run)
        .concurrency(8);
    super::hasty(worker)
}

async fn run(history: Arc<History>, job: JobRecord, _: Context) -> Verdict {
    let (place, does): (Place, Does) = match serde_json::from_slice(&job.payload) {
        Ok(read) => read,
        Err(error) => return Verdict::dead(error),
    };
    let attempt = job.attempt;
    history.note(Event::StepStart {
        place: place.clone(),
        attempt,
    });
    if does == Does::IsSlow {
        pause(millis(1_500)).await;
    }
    let fails = does == Does::FailsOnce && job.failures == 0;
    let completes = !fails && does != Does::Dies;
    history.note(Event::StepFinish {
        place,
        attempt,
        completes,
    });
    match does {
        _ if fails => Verdict::retry("fails once, as planned"),
        Does::Dies => Verdict::dead("cannot be mended, as planned"),
        _ => Verdict::completed(),
    }
}
