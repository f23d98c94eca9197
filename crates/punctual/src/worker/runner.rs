//! A slot at work: one task that runs one job after the other, as long as some wait for a slot.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tracing::Instrument;

use super::layer::Next;
use super::metrics::Labels;
use super::runtime::{Phase, Runtime, WATCH_ROUND, panic_text};
use super::slots::Start;
use crate::job::Outcome;
use crate::trace;

use crate::worker::{Context, Verdict};

impl Runtime {
    /// Starts what waits for a slot.
    pub(super) fn start_next(self: &Arc<Self>) {
        if self.phase() > Phase::Claiming {
            return;
        }
        let (starts, was_idle, lapsed) = {
            let mut board = self.board();
            let (was_idle, unsettled) = (board.runs.is_empty(), board.unsettled());
            let starts = board.start(self.now());
            (starts, was_idle, board.unsettled() > unsettled)
        };
        if lapsed {
            self.settle.notify_one();
        }
        if starts.is_empty() {
            return;
        }
        if was_idle || starts.iter().any(ends_soon) {
            self.watch.notify_one();
        }
        let run = |start: Start| {
            let key = start.key;
            self.activity.started();
            (key, tokio::spawn(run(self.clone(), start)).abort_handle())
        };
        let tasks = starts.into_iter().map(run).collect();
        self.board().attach(tasks);
    }
}

/// The watch would see its timeout too late without a wakeup.
fn ends_soon(start: &Start) -> bool {
    let timeout = start.ctx.job().timeout;
    timeout.is_some_and(|timeout| timeout < WATCH_ROUND)
}

/// After that time a task lets others have its thread: its handlers may never wait for anything.
const STRETCH: Duration = Duration::from_micros(50);

/// Runs a job, then one after the other of those that wait for a slot.
async fn run(rt: Arc<Runtime>, first: Start) {
    let begun = rt.now();
    let mut let_others_at = begun + STRETCH;
    let mut next = Some((first, begun));
    while let Some((start, mut now)) = next {
        let (key, labels) = (start.key, start.labels);
        let end = End {
            rt: &rt,
            key,
            labels,
            over: false,
        };
        if now >= let_others_at {
            tokio::task::yield_now().await;
            now = rt.now();
            let_others_at = now + STRETCH;
        }
        let lateness = start.begin(now);
        let limited = start.ctx.shared().waited_at_limits();
        rt.metrics.started(labels, lateness, limited);
        let ctx = start.ctx;
        let job = ctx.job();
        let span = tracing::info_span!(
            parent: None,
            "job",
            id = %job.id,
            kind = job.kind,
            queue = job.queue,
            attempt = job.attempt,
            traceparent = trace::parent(&job.headers)
        );
        #[cfg(feature = "otel")]
        if let Some(parent) = trace::parent(&job.headers) {
            crate::otel::go_on(&span, parent);
        }
        next = async {
            tracing::debug!(?lateness, "started");
            let called = AssertUnwindSafe(call(&rt, labels, ctx)).catch_unwind();
            end.with(called.await.unwrap_or_else(|panic| {
                Verdict::retry(format!("handler panicked: {}", panic_text(&*panic)))
            }))
        }
        .instrument(span)
        .await;
    }
}

async fn call(rt: &Runtime, labels: Labels, ctx: Context) -> Verdict {
    match rt.handler(labels, &ctx.job().kind) {
        Some(handler) if rt.layers.is_empty() => handler.run(ctx).await,
        Some(handler) => {
            let next = Next::new(rt.layers.clone(), handler.clone());
            next.run(ctx).await
        }
        // What has no handler is not put in line.
        None => Verdict::new(Outcome::Released),
    }
}

/// The end of a run, however it comes: with a verdict, or with its task, which was aborted.
struct End<'a> {
    rt: &'a Arc<Runtime>,
    key: u64,
    labels: Labels,
    over: bool,
}

impl End<'_> {
    /// Answers what its slot runs next, and the local instant.
    fn with(mut self, verdict: Verdict) -> Option<(Start, Duration)> {
        self.over = true;
        let next = self.finish(Some(verdict));
        if next.is_none() {
            // Whatever waits needs another task, if this one was aborted too late.
            self.rt.start_next();
        }
        next
    }

    fn finish(&self, verdict: Option<Verdict>) -> Option<(Start, Duration)> {
        let rt = self.rt;
        let now = rt.now();
        let goes_on = verdict.is_some();
        let (over, next, is_first, is_news) = {
            let mut board = rt.board();
            let (had_ended, had_room) = (board.has_ended(), board.room().is_some());
            let mut over = board.finish(self.key, verdict, now);
            let next = match &mut over {
                Some(over) if goes_on => board.go_on(self.key, over, now),
                _ => None,
            };
            let is_first = !had_ended && board.has_ended();
            let is_news = board.is_idle() || (!had_room && board.room().is_some());
            (over, next, is_first, is_news)
        };
        rt.metrics
            .ended(self.labels, over.map(|over| over.run_time));
        if is_first {
            rt.settle.notify_one();
        }
        if is_news {
            rt.changed();
        }
        match &next {
            None => rt.activity.ended(),
            Some(next) if ends_soon(next) => rt.watch.notify_one(),
            Some(_) => {}
        }
        next.map(|next| (next, now))
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        // The watch fills the slot: a task cannot be spawned wherever this one is dropped.
        if !self.over {
            self.finish(None);
            self.rt.changed();
            self.rt.watch.notify_one();
        }
    }
}
