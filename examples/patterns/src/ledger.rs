//! What was sent, when each message was first worked on, and how often it was done.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::sync::Lock;
use punctual::time::{Stopwatch, pause};

use crate::QUIET;
use crate::mishap::Work;

/// What became of some work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Messages that were never done.
    pub lost: u32,
    /// Messages that were done more than once.
    pub doubled: u32,
    /// Milliseconds from a message's due to its first start, that 99 of 100 were not over.
    pub late_p99_ms: u64,
}

/// What is seen of each message.
pub(crate) struct Ledger {
    pub(crate) work: Arc<Work>,
    clock: Stopwatch,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    messages: Vec<Message>,
    last: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
struct Message {
    due: Option<Duration>,
    started: Option<Duration>,
    has_killed: bool,
    done: u32,
}

impl Ledger {
    pub(crate) fn new(work: Arc<Work>) -> Arc<Self> {
        let messages = vec![Message::default(); work.messages as usize];
        Arc::new(Self {
            work,
            clock: Stopwatch::start(),
            seen: Mutex::new(Seen {
                messages,
                last: Duration::ZERO,
            }),
        })
    }

    /// A message is sent; it is due after that span.
    pub(crate) fn sends(&self, id: u32, delay: Duration) {
        let due = self.clock.elapsed() + delay;
        self.see(id, |message| message.due = Some(due));
    }

    /// Works on a message; whether its worker lives on.
    pub(crate) async fn works(&self, id: u32) -> bool {
        let now = self.clock.elapsed();
        let dies = self.see(id, |message| {
            message.started.get_or_insert(now);
            let dies = self.work.kills(id) && !message.has_killed;
            message.has_killed |= dies;
            dies
        });
        pause(self.work.span_of(id)).await;
        if dies != Some(true) {
            self.see(id, |message| message.done += 1);
        }
        dies != Some(true)
    }

    fn see<T>(&self, id: u32, change: impl FnOnce(&mut Message) -> T) -> Option<T> {
        let mut seen = self.seen.locked();
        seen.last = self.clock.elapsed();
        seen.messages.get_mut(id as usize).map(change)
    }

    /// Waits until every message is done and no second run can be on its way, or nothing has
    /// happened for a while.
    pub(crate) async fn is_over(&self) {
        let end = self.work.within;
        loop {
            pause(Duration::from_millis(20)).await;
            let seen = self.seen.locked();
            let quiet = self.clock.elapsed().saturating_sub(seen.last.max(end));
            let all = seen.messages.iter().all(|message| message.done > 0);
            let enough = if all { QUIET / 5 } else { QUIET };
            // What Redis reports half a minute late comes too late.
            if quiet >= enough || self.clock.elapsed() >= end + 5 * QUIET {
                return;
            }
        }
    }

    pub(crate) fn figures(&self) -> Figures {
        let seen = self.seen.locked();
        let count =
            |of: fn(&Message) -> bool| seen.messages.iter().filter(|one| of(one)).count() as u32;
        let mut late: Vec<Duration> = seen
            .messages
            .iter()
            .filter_map(|one| Some(one.started?.saturating_sub(one.due?)))
            .collect();
        late.sort();
        let p99 = late.len() * 99 / 100;
        Figures {
            lost: count(|message| message.done == 0),
            doubled: count(|message| message.done > 1),
            late_p99_ms: late.get(p99).map_or(0, |late| late.as_millis() as u64),
        }
    }
}
