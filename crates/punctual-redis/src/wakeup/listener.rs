//! Receives wakeups: one blocking connection per shard, shared by every waiter of this process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use punctual::sync::Lock;
use punctual::time::{pause, seconds, within};
use punctual::{Error, Namespace, Result};
use redis::{FromRedisValue, cmd};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use crate::servers::TRIES;
use crate::session::calls::Calls;
use crate::session::shards::Shard;
use crate::transport::error_mapping::{Recovery, recovery};
use crate::transport::link::Link;
use crate::transport::node::silent;

/// The wakeup listeners of a process: one for each shard with waiters.
#[derive(Debug)]
pub(crate) struct WakeupListeners {
    /// Names this process in its own wakeup key.
    process: [u8; 8],
    by_shard: Mutex<BTreeMap<(Namespace, u16), Arc<WakeupListener>>>,
}

/// Why no wakeup can be received, and whether the topology is in doubt.
struct ReceiveError {
    message: String,
    is_lost: bool,
}

impl From<Error> for ReceiveError {
    /// There is no connection. A refused password says nothing about the topology.
    fn from(error: Error) -> Self {
        let (message, is_lost) = (error.to_string(), error.is_retryable());
        Self { message, is_lost }
    }
}

/// Listens on one shard.
#[derive(Debug)]
pub(crate) struct WakeupListener {
    shard: Arc<Shard>,
    own_key: Vec<u8>,
    state: Mutex<State>,
    /// Notified when something that this process watches has changed.
    own_notified: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiters: BTreeMap<u64, Waiter>,
    watchers: usize,
    /// The queues that the blocking call under way is about.
    asked: BTreeSet<String>,
    /// Wakeups that no waiter here needed, until they are put back.
    unclaimed: BTreeSet<String>,
    /// Queues whose wakeups were received since the last claim.
    received: BTreeSet<String>,
    /// Queues whose wakeup leader is a worker of this process: it claims next by the clock.
    leads: BTreeSet<String>,
    running: Option<AbortHandle>,
}

#[derive(Debug)]
struct Waiter {
    queues: Vec<String>,
    notify: oneshot::Sender<()>,
}

impl Drop for WakeupListeners {
    fn drop(&mut self) {
        for listener in self.by_shard().values() {
            if let Some(running) = listener.state().running.take() {
                running.abort();
            }
        }
    }
}

impl WakeupListeners {
    pub(crate) fn new() -> Self {
        let random = uuid::Uuid::new_v4().as_u128() as u64;
        Self {
            process: random.to_be_bytes(),
            by_shard: Mutex::default(),
        }
    }

    /// The eight bytes that name this process in its own wakeup key.
    pub(crate) fn process(&self) -> &[u8] {
        &self.process
    }

    pub(crate) fn of(&self, shard: &Arc<Shard>) -> Arc<WakeupListener> {
        let new = || {
            let own_key = [format!("{}:p:", shard.base).as_bytes(), &self.process].concat();
            Arc::new(WakeupListener {
                shard: shard.clone(),
                own_key,
                state: Mutex::default(),
                own_notified: Notify::new(),
            })
        };
        let key = (shard.namespace.clone(), shard.index);
        self.by_shard().entry(key).or_insert_with(new).clone()
    }

    /// Whether a wakeup of these queues was received since the last call.
    pub(crate) fn take_received(&self, namespace: &Namespace, queues: &[String]) -> bool {
        let listeners = self.by_shard();
        let of_namespace = listeners.range((namespace.clone(), 0)..=(namespace.clone(), u16::MAX));
        let mut received = false;
        for (_, listener) in of_namespace {
            let mut state = listener.state();
            for queue in queues {
                received |= state.received.remove(queue);
            }
        }
        received
    }

    /// Stores whether a worker of this process leads these queues, after a claim of them.
    pub(crate) fn note_leader(&self, shards: &[Arc<Shard>], queues: &[String], is_here: bool) {
        for shard in shards {
            let listener = self.of(shard);
            let mut state = listener.state();
            for queue in queues {
                if !is_here {
                    state.leads.remove(queue);
                } else if !state.leads.contains(queue) {
                    state.leads.insert(queue.clone());
                }
            }
        }
    }

    fn by_shard(&self) -> MutexGuard<'_, BTreeMap<(Namespace, u16), Arc<WakeupListener>>> {
        self.by_shard.locked()
    }
}

impl State {
    fn is_needed(&self) -> bool {
        !self.waiters.is_empty() || self.watchers > 0
    }

    /// The queues with waiters.
    fn wanted(&self) -> BTreeSet<String> {
        let queues = self.waiters.values().flat_map(|one| &one.queues);
        queues.cloned().collect()
    }

    /// Notifies the waiter that has waited longest for the queue; whether there was one.
    fn notify(&mut self, queue: &str) -> bool {
        loop {
            let mut waiting = self.waiters.iter();
            let found = waiting.find(|(_, one)| one.queues.iter().any(|it| it == queue));
            let Some(number) = found.map(|(number, _)| *number) else {
                return false;
            };
            let Some(waiter) = self.waiters.remove(&number) else {
                return false;
            };
            if waiter.notify.send(()).is_ok() {
                self.received.insert(queue.to_owned());
                return true;
            }
        }
    }
}

/// One wait for queues; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Waiting {
    listener: Arc<WakeupListener>,
    number: u64,
    wakeup: oneshot::Receiver<()>,
    calls: Arc<Calls>,
    queues: Vec<String>,
    done: bool,
}

impl Waiting {
    /// The wait ends regularly: its owner claims now.
    pub(crate) fn finish(&mut self) {
        self.done = true;
    }

    /// Returns once a wakeup of the queues was delivered to this waiter.
    pub(crate) async fn notified(&mut self) {
        // The sender is dropped after it notified, or with this waiter.
        let _ = (&mut self.wakeup).await;
        self.done = true;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.listener.state().waiters.remove(&self.number);
        if self.done {
            return;
        }
        // It ends early: the next waiter gets its wakeup, or the claim that it would have led.
        let notified = self.wakeup.try_recv().is_ok();
        for queue in &self.queues {
            let passed_on = {
                let mut state = self.listener.state();
                let led = state.leads.remove(queue);
                (notified && state.received.remove(queue)) || led
            };
            if passed_on {
                self.listener.clone().deliver(&self.calls, queue);
            }
        }
    }
}

/// One watch of jobs or changes; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Watching(Arc<WakeupListener>);

impl Watching {
    pub(crate) fn own_notified(&self) -> &Notify {
        &self.0.own_notified
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.state().watchers -= 1;
    }
}

impl WakeupListener {
    pub(crate) fn listen(self: &Arc<Self>, calls: &Arc<Calls>, queues: &[String]) -> Waiting {
        let (notify, wakeup) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.next += 1;
            let number = state.next;
            let queues = queues.to_vec();
            state.waiters.insert(number, Waiter { queues, notify });
            number
        };
        let waiting = Waiting {
            listener: self.clone(),
            number,
            wakeup,
            calls: calls.clone(),
            queues: queues.to_vec(),
            done: false,
        };
        for queue in queues {
            let unclaimed = self.state().unclaimed.remove(queue);
            if unclaimed && self.state().notify(queue) {
                return waiting;
            }
        }
        self.ensure_running(calls, queues);
        waiting
    }

    pub(crate) fn watch(self: &Arc<Self>, calls: &Arc<Calls>) -> Watching {
        self.state().watchers += 1;
        self.ensure_running(calls, &[]);
        Watching(self.clone())
    }

    /// Takes every pending wakeup of the queues without waiting; whether there was one.
    pub(crate) async fn drain(&self, calls: &Calls, queues: &[String]) -> Result<bool> {
        let mut notified = false;
        {
            let mut state = self.state();
            for queue in queues {
                if state.unclaimed.remove(queue) {
                    state.received.insert(queue.clone());
                    notified = true;
                }
            }
        }
        loop {
            let mut pop = cmd("ZMPOP");
            pop.arg(queues.len());
            for queue in queues {
                pop.arg(self.key_of(queue));
            }
            pop.arg("MIN");
            let popped = calls.command(self.shard.slot, &pop).await?;
            let popped = Option::<(Vec<u8>, redis::Value)>::from_redis_value(popped);
            match popped.ok().flatten() {
                Some((key, _)) => {
                    notified = true;
                    if let Some(queue) = self.queue_of(&key) {
                        self.state().received.insert(queue);
                    }
                }
                None => return Ok(notified),
            }
        }
    }

    fn key_of(&self, queue: &str) -> Vec<u8> {
        format!("{}:d:{queue}", self.shard.base).into_bytes()
    }

    fn queue_of(&self, key: &[u8]) -> Option<String> {
        let prefix = format!("{}:d:", self.shard.base);
        let queue = key.strip_prefix(prefix.as_bytes())?;
        String::from_utf8(queue.to_vec()).ok()
    }

    /// Interrupts the blocking call if it does not cover all queues; starts one if there is none.
    fn ensure_running(self: &Arc<Self>, calls: &Arc<Calls>, queues: &[String]) {
        let mut state = self.state();
        let is_running = state
            .running
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if !is_running {
            let task = tokio::spawn(self.clone().run(calls.clone()));
            state.running = Some(task.abort_handle());
        } else if queues.iter().any(|queue| !state.asked.contains(queue)) {
            let (listener, calls) = (self.clone(), calls.clone());
            tokio::spawn(async move { listener.interrupt(&calls).await });
        }
    }

    /// Ends this process's own blocking call.
    async fn interrupt(&self, calls: &Calls) {
        let mut add = cmd("ZADD");
        add.arg(&self.own_key).arg(0).arg("w");
        let mut expire = cmd("PEXPIRE");
        expire.arg(&self.own_key).arg(60_000);
        for command in [add, expire] {
            if let Err(error) = calls.command(self.shard.slot, &command).await {
                tracing::debug!(%error, "a new waiter receives its wakeups late");
            }
        }
    }

    async fn run(self: Arc<Self>, calls: Arc<Calls>) {
        let mut backoff = TRIES;
        let (mut link, mut missed) = (None, false);
        loop {
            let queues = {
                let mut state = self.state();
                if !state.is_needed() {
                    state.running = None;
                    return;
                }
                state.asked = state.wanted();
                state.asked.clone()
            };
            match self
                .receive_once(&calls, &mut link, &mut missed, &queues)
                .await
            {
                Ok(()) => backoff.reset(),
                Err(ReceiveError { message, is_lost }) => {
                    tracing::debug!(message, "no wakeups can be received from redis; retrying");
                    let link = link.take();
                    if let Some(link) = link.filter(|_| is_lost) {
                        calls.servers.doubt(link.host());
                    }
                    missed = true;
                    pause(backoff.pause()).await;
                }
            }
        }
    }

    /// Makes one blocking call and delivers its answer.
    async fn receive_once(
        self: &Arc<Self>,
        calls: &Arc<Calls>,
        link: &mut Option<Link>,
        missed: &mut bool,
        queues: &BTreeSet<String>,
    ) -> std::result::Result<(), ReceiveError> {
        let slot = self.shard.slot;
        let link = match link {
            Some(link) => link,
            None => link.insert(calls.servers.private_link(slot).await?),
        };
        let mut live = link.live().await?;
        if std::mem::take(missed) {
            // The own wakeup may be lost with the broken connection.
            self.own_notified.notify_waiters();
        }
        let mut pop = cmd("BZPOPMIN");
        pop.arg(&self.own_key);
        for queue in queues {
            pop.arg(self.key_of(queue));
        }
        pop.arg(BLOCK_TIMEOUT.as_secs());
        let answer = within(
            BLOCK_TIMEOUT + ANSWER_MARGIN,
            pop.query_async(&mut live.connection),
        )
        .await;
        let answer = answer.ok_or_else(|| silent(link.host()))?;
        let popped: Option<(Vec<u8>, Vec<u8>, redis::Value)> = answer.map_err(|error| {
            let is_lost = match recovery(&error, link.host()) {
                Recovery::Moved(host) => {
                    calls.servers.moved(slot, host);
                    false
                }
                Recovery::Later | Recovery::Broken => true,
                Recovery::Load | Recovery::Final(_) => false,
            };
            let message = error.to_string();
            ReceiveError { message, is_lost }
        })?;
        match popped {
            Some((key, _, _)) if key == self.own_key => self.own_notified.notify_waiters(),
            Some((key, ..)) => {
                if let Some(queue) = self.queue_of(&key) {
                    self.clone().deliver(calls, &queue);
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Delivers a wakeup to a waiter of this process, or puts it back for other processes.
    fn deliver(self: Arc<Self>, calls: &Arc<Calls>, queue: &str) {
        {
            let mut state = self.state();
            if state.notify(queue) {
                return;
            }
            state.unclaimed.insert(queue.to_owned());
        }
        let (calls, queue) = (calls.clone(), queue.to_owned());
        tokio::spawn(async move {
            let mut add = cmd("ZADD");
            add.arg(self.key_of(&queue)).arg(0).arg("1");
            if let Err(error) = calls.command(self.shard.slot, &add).await {
                tracing::debug!(%error, "an unneeded wakeup was not put back");
            }
            self.state().unclaimed.remove(&queue);
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }
}

/// A call blocks at most this long, so that a silently dead connection is noticed.
const BLOCK_TIMEOUT: std::time::Duration = seconds(20);
/// Its answer may come this much later.
const ANSWER_MARGIN: std::time::Duration = seconds(5);
