//! The watch: ends what runs too long, whose lease ends, or that ignores the request to stop; and
//! the tick of the other loops.

use std::sync::Arc;

use super::ending::Cause;
use super::health::Loop;
use super::runtime::{Phase, Runtime, TICK, WATCH_ROUND};
use super::slots::Notice;
use crate::time::{format_span, within};

pub(super) async fn run(rt: Arc<Runtime>) {
    let mut tick_at = rt.now();
    while rt.phase() < Phase::Over {
        rt.activity.beat(Loop::Watch);
        let now = rt.now();
        if now >= tick_at {
            rt.tick();
            tick_at = now + TICK;
        }
        let (notices, stale, next, leaked, busy) = {
            let mut board = rt.board();
            let notices = board.watch(now);
            // The task that winds the worker down hands back what is ahead.
            let stale = match rt.phase() {
                Phase::Claiming => board.release_stale(now),
                _ => 0,
            };
            let busy = !board.is_idle();
            (notices, stale, board.watch_at(), board.leaked(), busy)
        };
        if stale > 0 {
            tracing::debug!(jobs = stale, "handed back what waited for a slot too long");
        }
        notices.iter().for_each(log);
        rt.activity.leaked(leaked);
        // A slot may be free whose task could not go on: it was aborted, or given up.
        rt.start_next();
        if stale > 0 || !notices.is_empty() {
            rt.settle.notify_one();
            rt.changed();
        }
        let round = if busy { now + WATCH_ROUND } else { tick_at };
        let until = next.map_or(round, |next| next.min(round)).min(tick_at);
        within(until.saturating_sub(rt.now()), rt.watch.notified()).await;
    }
}

fn log(notice: &Notice) {
    match notice {
        Notice::Tripped(ctx, Cause::TimedOut) => {
            let timeout = ctx.job().timeout.map(format_span);
            tracing::warn!(id = %ctx.id(), kind = ctx.job().kind, timeout, "handler timed out");
        }
        Notice::Tripped(ctx, _) => {
            tracing::warn!(
                id = %ctx.id(),
                kind = ctx.job().kind,
                "handler is stopped: its lease could not be extended"
            );
        }
        Notice::Aborted(ctx) => {
            tracing::warn!(
                id = %ctx.id(),
                kind = ctx.job().kind,
                "handler did not stop in time and is aborted"
            );
        }
        Notice::Leaked(ctx) => {
            tracing::error!(
                id = %ctx.id(),
                kind = ctx.job().kind,
                "handler blocks its thread and cannot be aborted; its slot is given up. \
                 Run blocking code in `tokio::task::spawn_blocking`"
            );
        }
    }
}
