//! Who waits for which bells: one blocking connection per shard, shared by all of this process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual::time::{pause, seconds, within};
use punctual::{Error, Namespace, Result};
use redis::{FromRedisValue, cmd};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use crate::calls::Calls;
use crate::link::Link;
use crate::node::silent;
use crate::error_mapping::{Recovery, recovery};
use crate::servers::TRIES;
use crate::shards::Shard;

/// The ears of a process: one per shard that somebody waits on.
#[derive(Debug)]
pub(crate) struct Ears {
    /// This process's own bell.
    process: [u8; 8],
    ears: Mutex<BTreeMap<(Namespace, u16), Arc<Ear>>>,
}

/// Why bells are not heard, and whether that puts in doubt who answers for the shard.
struct Unheard {
    said: String,
    is_lost: bool,
}

impl From<Error> for Unheard {
    /// No connection; one that is refused for its password says nothing of who is master.
    fn from(error: Error) -> Self {
        let (said, is_lost) = (error.to_string(), error.is_retryable());
        Self { said, is_lost }
    }
}

/// One shard's ear.
#[derive(Debug)]
pub(crate) struct Ear {
    shard: Arc<Shard>,
    own_bell: Vec<u8>,
    state: Mutex<State>,
    /// Known when something that this process watches has changed.
    own_rang: Notify,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    listeners: BTreeMap<u64, Listener>,
    watchers: usize,
    /// The queues that the blocking call under way is about.
    asked: BTreeSet<String>,
    /// Bells that were heard for nobody, until they are put back.
    spare: BTreeSet<String>,
    /// Bells that were heard since the last claim.
    heard: BTreeSet<String>,
    /// The queues whose alarm a worker of this process is: it claims next by the clock.
    alarms: BTreeSet<String>,
    running: Option<AbortHandle>,
}

#[derive(Debug)]
struct Listener {
    queues: Vec<String>,
    rings: oneshot::Sender<()>,
}

impl Drop for Ears {
    fn drop(&mut self) {
        for ear in self.ears().values() {
            if let Some(running) = ear.state().running.take() {
                running.abort();
            }
        }
    }
}

impl Ears {
    pub(crate) fn new() -> Self {
        let random = uuid::Uuid::new_v4().as_u128() as u64;
        Self {
            process: random.to_be_bytes(),
            ears: Mutex::default(),
        }
    }

    /// The eight bytes that name this process's bell.
    pub(crate) fn process(&self) -> &[u8] {
        &self.process
    }

    pub(crate) fn of(&self, shard: &Arc<Shard>) -> Arc<Ear> {
        let new = || {
            let own_bell = [format!("{}:p:", shard.base).as_bytes(), &self.process].concat();
            Arc::new(Ear {
                shard: shard.clone(),
                own_bell,
                state: Mutex::default(),
                own_rang: Notify::new(),
            })
        };
        let key = (shard.namespace.clone(), shard.index);
        self.ears().entry(key).or_insert_with(new).clone()
    }

    /// Whether a bell of these queues was heard since this was last asked.
    pub(crate) fn take_heard(&self, namespace: &Namespace, queues: &[String]) -> bool {
        let ears = self.ears();
        let of_namespace = ears.range((namespace.clone(), 0)..=(namespace.clone(), u16::MAX));
        let mut heard = false;
        for (_, ear) in of_namespace {
            let mut state = ear.state();
            for queue in queues {
                heard |= state.heard.remove(queue);
            }
        }
        heard
    }

    /// ClaimCache whether a worker of this process is to claim next by the clock, after a claim of these queues.
    pub(crate) fn note_alarm(&self, shards: &[Arc<Shard>], queues: &[String], is_here: bool) {
        for shard in shards {
            let ear = self.of(shard);
            let mut state = ear.state();
            for queue in queues {
                if !is_here {
                    state.alarms.remove(queue);
                } else if !state.alarms.contains(queue) {
                    state.alarms.insert(queue.clone());
                }
            }
        }
    }

    fn ears(&self) -> MutexGuard<'_, BTreeMap<(Namespace, u16), Arc<Ear>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_needed(&self) -> bool {
        !self.listeners.is_empty() || self.watchers > 0
    }

    /// The queues that somebody listens to.
    fn wanted(&self) -> BTreeSet<String> {
        let queues = self.listeners.values().flat_map(|one| &one.queues);
        queues.cloned().collect()
    }

    /// Wakes the one who has waited longest for that queue; whether there was one.
    fn ring(&mut self, queue: &str) -> bool {
        loop {
            let mut waiting = self.listeners.iter();
            let found = waiting.find(|(_, one)| one.queues.iter().any(|it| it == queue));
            let Some(number) = found.map(|(number, _)| *number) else {
                return false;
            };
            let Some(listener) = self.listeners.remove(&number) else {
                return false;
            };
            if listener.rings.send(()).is_ok() {
                self.heard.insert(queue.to_owned());
                return true;
            }
        }
    }
}

/// A place among those who wait for queues; dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Listening {
    ear: Arc<Ear>,
    number: u64,
    rings: oneshot::Receiver<()>,
    calls: Arc<Calls>,
    queues: Vec<String>,
    done: bool,
}

impl Listening {
    /// Ends with its time: whoever listened claims now.
    pub(crate) fn is_over(&mut self) {
        self.done = true;
    }

    /// Answers once a bell of the queues has rung for this one.
    pub(crate) async fn rung(&mut self) {
        // The sender goes only when it rings, or with this place.
        let _ = (&mut self.rings).await;
        self.done = true;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.ear.state().listeners.remove(&self.number);
        if self.done {
            return;
        }
        // It goes before its time. What rang for it, or what it would have come for, is the next one's.
        let rang = self.rings.try_recv().is_ok();
        for queue in &self.queues {
            let passed_on = {
                let mut state = self.ear.state();
                let alarm = state.alarms.remove(queue);
                (rang && state.heard.remove(queue)) || alarm
            };
            if passed_on {
                self.ear.clone().heard(&self.calls, queue);
            }
        }
    }
}

/// A place among those who watch jobs or changes.
#[derive(Debug)]
pub(crate) struct Watching(Arc<Ear>);

impl Watching {
    pub(crate) fn own_rang(&self) -> &Notify {
        &self.0.own_rang
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.state().watchers -= 1;
    }
}

impl Ear {
    pub(crate) fn listen(self: &Arc<Self>, calls: &Arc<Calls>, queues: &[String]) -> Listening {
        let (rings, hears) = oneshot::channel();
        let number = {
            let mut state = self.state();
            state.next += 1;
            let number = state.next;
            let queues = queues.to_vec();
            state.listeners.insert(number, Listener { queues, rings });
            number
        };
        let listening = Listening {
            ear: self.clone(),
            number,
            rings: hears,
            calls: calls.clone(),
            queues: queues.to_vec(),
            done: false,
        };
        for queue in queues {
            let spare = self.state().spare.remove(queue);
            if spare && self.state().ring(queue) {
                return listening;
            }
        }
        self.be_awake(calls, queues);
        listening
    }

    pub(crate) fn watch(self: &Arc<Self>, calls: &Arc<Calls>) -> Watching {
        self.state().watchers += 1;
        self.be_awake(calls, &[]);
        Watching(self.clone())
    }

    /// Takes every bell of the queues that has rung by now, without waiting; whether there was one.
    pub(crate) async fn drain(&self, calls: &Calls, queues: &[String]) -> Result<bool> {
        let mut rang = false;
        {
            let mut state = self.state();
            for queue in queues {
                if state.spare.remove(queue) {
                    state.heard.insert(queue.clone());
                    rang = true;
                }
            }
        }
        loop {
            let mut pop = cmd("ZMPOP");
            pop.arg(queues.len());
            for queue in queues {
                pop.arg(self.bell(queue));
            }
            pop.arg("MIN");
            let popped = calls.command(self.shard.slot, &pop).await?;
            let popped = Option::<(Vec<u8>, redis::Value)>::from_redis_value(popped);
            match popped.ok().flatten() {
                Some((key, _)) => {
                    rang = true;
                    if let Some(queue) = self.queue_of(&key) {
                        self.state().heard.insert(queue);
                    }
                }
                None => return Ok(rang),
            }
        }
    }

    fn bell(&self, queue: &str) -> Vec<u8> {
        format!("{}:d:{queue}", self.shard.base).into_bytes()
    }

    fn queue_of(&self, bell: &[u8]) -> Option<String> {
        let prefix = format!("{}:d:", self.shard.base);
        let queue = bell.strip_prefix(prefix.as_bytes())?;
        String::from_utf8(queue.to_vec()).ok()
    }

    /// Lets the blocking call under way end if it does not know of all queues; begins one if there
    /// is none.
    fn be_awake(self: &Arc<Self>, calls: &Arc<Calls>, queues: &[String]) {
        let mut state = self.state();
        let is_running = state
            .running
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if !is_running {
            let task = tokio::spawn(self.clone().run(calls.clone()));
            state.running = Some(task.abort_handle());
        } else if queues.iter().any(|queue| !state.asked.contains(queue)) {
            let (ear, calls) = (self.clone(), calls.clone());
            tokio::spawn(async move { ear.ring_own(&calls).await });
        }
    }

    /// Ends this process's own blocking call.
    async fn ring_own(&self, calls: &Calls) {
        let mut add = cmd("ZADD");
        add.arg(&self.own_bell).arg(0).arg("w");
        let mut expire = cmd("PEXPIRE");
        expire.arg(&self.own_bell).arg(60_000);
        for command in [add, expire] {
            if let Err(error) = calls.command(self.shard.slot, &command).await {
                tracing::debug!(%error, "a new waiter is heard late");
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
                .hear_once(&calls, &mut link, &mut missed, &queues)
                .await
            {
                Ok(()) => backoff.reset(),
                Err(Unheard { said, is_lost }) => {
                    tracing::debug!(said, "the doorbells of redis are not heard; trying again");
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

    /// One blocking call; what it answers is handed on.
    async fn hear_once(
        self: &Arc<Self>,
        calls: &Arc<Calls>,
        link: &mut Option<Link>,
        missed: &mut bool,
        queues: &BTreeSet<String>,
    ) -> std::result::Result<(), Unheard> {
        let slot = self.shard.slot;
        let link = match link {
            Some(link) => link,
            None => link.insert(calls.servers.private_link(slot).await?),
        };
        let mut live = link.live().await?;
        if std::mem::take(missed) {
            // The own bell may have rung into the connection that broke, or be known to nobody any more.
            self.own_rang.notify_waiters();
        }
        let mut pop = cmd("BZPOPMIN");
        pop.arg(&self.own_bell);
        for queue in queues {
            pop.arg(self.bell(queue));
        }
        pop.arg(BLOCKS.as_secs());
        let answer = within(BLOCKS + PATIENCE, pop.query_async(&mut live.connection)).await;
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
            let said = error.to_string();
            Unheard { said, is_lost }
        })?;
        match popped {
            Some((key, _, _)) if key == self.own_bell => self.own_rang.notify_waiters(),
            Some((key, ..)) => {
                if let Some(queue) = self.queue_of(&key) {
                    self.clone().heard(calls, &queue);
                }
            }
            None => {}
        }
        Ok(())
    }

    /// A bell rang: for somebody here, else it is put back for others.
    fn heard(self: Arc<Self>, calls: &Arc<Calls>, queue: &str) {
        {
            let mut state = self.state();
            if state.ring(queue) {
                return;
            }
            state.spare.insert(queue.to_owned());
        }
        let (calls, queue) = (calls.clone(), queue.to_owned());
        tokio::spawn(async move {
            let mut add = cmd("ZADD");
            add.arg(self.bell(&queue)).arg(0).arg("1");
            if let Err(error) = calls.command(self.shard.slot, &add).await {
                tracing::debug!(%error, "a doorbell that nobody needed is not put back");
            }
            self.state().spare.remove(&queue);
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a call blocks at most, so that a connection that is dead without a word is found out.
const BLOCKS: std::time::Duration = seconds(20);
/// How much later its answer may come.
const PATIENCE: std::time::Duration = seconds(5);
