//! Sends commands to the right server, over redirects, failovers and broken connections.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use futures_util::FutureExt;
use punctual::backoff::Backoff;
use punctual::engine::Durability;
use punctual::sync::Lock;
use punctual::time::{Stopwatch, millis, pause, within};
use punctual::{Error, ErrorKind, Result};
use redis::{Cmd, RedisError, Value};

use crate::library::Library;
use crate::options::Options;
use crate::policy::server_info::{self, ServerInfo};
use crate::policy::truncated_aof;
use crate::transport::address::Host;
use crate::transport::error_mapping::{
    Recovery, may_be_of_other_functions, recovery, temporary, unknown_outcome,
};
use crate::transport::link::{Deadline, Dialer, Link, Live};
use crate::transport::node::{Kind, Node, Prepared, Ready, silent};
use crate::transport::refresh::Refresh;
use crate::transport::replicas::Reached;
use crate::transport::topology::{Slot, Topology};

/// The servers of an engine: which one serves a slot, with one connection to each.
///
/// A call goes on over broken connections, redirects, failovers and a missing library until its
/// deadline: every call carries ids or a nonce that make a second sending harmless, for as long as
/// its caller waits for it; after the next call of that caller it would not be.
#[derive(Debug)]
pub(crate) struct Servers {
    dialer: Dialer,
    library: Library,
    /// Replicas that a change must be on before it is answered.
    wanted: Option<u8>,
    /// What answers name: set once the servers were found to keep that.
    promised: OnceLock<Durability>,
    /// What keeps a server from that since.
    degraded: Mutex<BTreeMap<Host, String>>,
    nodes: Mutex<BTreeMap<Host, Arc<Node>>>,
    refresh: Refresh,
    /// What calls to a slot wait for, and when that was met last.
    last_failure: Mutex<BTreeMap<Slot, (Stopwatch, String)>>,
}

/// A call that waits meets again within half a second what it waits for: an older failure is over.
const FAILURE_FRESH: std::time::Duration = millis(1_000);

/// The pauses between two tries of the same.
pub(crate) const TRIES: Backoff = Backoff::new(millis(10), TRIES_APART);
const TRIES_APART: std::time::Duration = millis(400);
/// The first call after a server is back comes within a second, and wakeups are received again by
/// then.
const _: () = assert!(TRIES_APART.as_millis() <= 500);

/// A call on its way, and what it has met so far.
struct Tries {
    slot: Slot,
    kind: Kind,
    deadline: Deadline,
    backoff: Backoff,
    loads: u32,
    moves: u32,
    broke: bool,
    /// Whether older functions were already replaced.
    renewed: bool,
    /// Whether an earlier sending may have been done.
    is_repeat: bool,
}

impl Tries {
    fn new(slot: Slot, kind: Kind, deadline: Deadline, was_sent: bool) -> Self {
        Self {
            slot,
            kind,
            deadline,
            backoff: TRIES,
            loads: 0,
            moves: 0,
            broke: false,
            renewed: false,
            is_repeat: was_sent,
        }
    }
}

/// What came of a call.
pub(crate) struct Sent {
    pub(crate) answer: Result<Value>,
    /// Whether, whatever the answer, it was sent before and may have been done.
    pub(crate) is_repeat: bool,
}

impl Servers {
    pub(crate) fn new(options: &Options, library: Library) -> Result<Self> {
        let dialer = Dialer::new(options)?;
        Ok(Self {
            refresh: Refresh::new(&options.place, &dialer),
            dialer,
            library,
            wanted: match options.durability {
                Some(Durability::Replica(wanted)) => Some(wanted),
                _ => None,
            },
            promised: OnceLock::new(),
            degraded: Mutex::default(),
            nodes: Mutex::default(),
            last_failure: Mutex::default(),
        })
    }

    /// Sends a command to the server of a slot.
    pub(crate) async fn call(
        &self,
        slot: Slot,
        command: &Cmd,
        kind: Kind,
        deadline: Deadline,
    ) -> Result<Value> {
        let wanted = || Some(Cow::Borrowed(command));
        // Boxed: callers nest deep enough without it.
        let sent = self.call_while(wanted, slot, kind, deadline, false);
        sent.boxed().await.answer
    }

    /// The same, with what is wanted before each sending, if anything is any more. `was_sent` if it
    /// was sent before this, and may have been done.
    pub(crate) async fn call_while<'a>(
        &self,
        wanted: impl FnMut() -> Option<Cow<'a, Cmd>>,
        slot: Slot,
        kind: Kind,
        deadline: Deadline,
        was_sent: bool,
    ) -> Sent {
        let mut tries = Tries::new(slot, kind, deadline, was_sent);
        let answer = self.call_until(wanted, &mut tries).await;
        let is_repeat = tries.is_repeat;
        let answer = match is_repeat && kind != Kind::Reads {
            true => answer.map_err(unknown_outcome),
            false => answer,
        };
        Sent { answer, is_repeat }
    }

    async fn call_until<'a>(
        &self,
        mut wanted: impl FnMut() -> Option<Cow<'a, Cmd>>,
        tries: &mut Tries,
    ) -> Result<Value> {
        let (kind, deadline) = (tries.kind, tries.deadline);
        loop {
            let Some((node, ready)) = self.ready_owner(tries).await? else {
                continue;
            };
            let Some(command) = wanted() else {
                let message = "no caller waits for the answer of this call any more";
                return Err(Error::new(ErrorKind::EngineUnavailable, message));
            };
            let sent = within(deadline.left(), node.send(&ready.live, &command, kind)).await;
            let Some(sent) = sent else {
                node.give_up(&ready.live, kind);
                return Err(silent(node.host()));
            };
            match sent {
                Ok(Reached::Answer(Ok(value))) => return Ok(value),
                Ok(Reached::Answer(Err(error))) => {
                    self.recover(tries, &node, &ready, &error).await?;
                }
                Ok(reached) => {
                    tries.is_repeat = true;
                    let error = too_few(&reached, node.host());
                    if kind == Kind::ChangesOnce {
                        return Err(error);
                    }
                    self.pause_after(tries, error).await?;
                }
                Err(error) => {
                    tries.is_repeat = true;
                    self.pause_after(tries, error).await?;
                }
            }
        }
    }

    /// The node that answers for a call's slot, ready for it; none after a failure and a pause.
    async fn ready_owner(&self, tries: &mut Tries) -> Result<Option<(Arc<Node>, Ready)>> {
        let (slot, deadline) = (tries.slot, tries.deadline);
        let owner = within(deadline.left(), self.owner(slot)).await;
        let error = match owner.unwrap_or_else(|| Err(self.unsaid(Some(slot)))) {
            Ok(node) => {
                let ready = within(deadline.left(), self.ready(&node)).await;
                match ready.unwrap_or_else(|| Err(silent(node.host()))) {
                    Ok(ready) => return Ok(Some((node, ready))),
                    Err(error) => {
                        self.forget(&node);
                        error
                    }
                }
            }
            Err(error) => error,
        };
        let waited = self.pause_after(tries, error).await;
        waited.map_err(|error| self.temporary_once_connected(error))?;
        Ok(None)
    }

    /// Does what an error of a server calls for, so that the call can be sent again; else returns
    /// the error.
    async fn recover(
        &self,
        tries: &mut Tries,
        node: &Node,
        ready: &Ready,
        error: &RedisError,
    ) -> Result<()> {
        let (host, deadline) = (node.host(), tries.deadline);
        match recovery(error, host) {
            Recovery::Final(error) => {
                let was_renewed = std::mem::replace(&mut tries.renewed, true);
                if was_renewed
                    || !may_be_of_other_functions(&error)
                    || within(deadline.left(), self.is_older(node, ready)).await != Some(true)
                {
                    return Err(error);
                }
                Ok(())
            }
            Recovery::Moved(to) if tries.moves < MOVES_MAX => {
                tries.moves += 1;
                self.topology().moved(tries.slot, to);
                Ok(())
            }
            Recovery::Load => {
                node.lacks_functions(ready).await;
                tries.loads += 1;
                if tries.loads <= LOADS_AT_ONCE {
                    return Ok(());
                }
                let message = "redis loses its functions as soon as they are loaded; is another \
                     program flushing them?";
                let error = Error::new(ErrorKind::EngineUnavailable, message);
                self.pause_after(tries, error).await
            }
            Recovery::Moved(_) | Recovery::Later => {
                self.forget(node);
                self.pause_after(tries, temporary(error, host)).await
            }
            Recovery::Broken => {
                tries.is_repeat = true;
                node.give_up(&ready.live, tries.kind);
                self.forget(node);
                let message = format!("the connection to redis at {host} broke: {error}");
                let error = Error::new(ErrorKind::EngineUnavailable, message);
                if tries.kind == Kind::ChangesOnce {
                    return Err(error);
                }
                match std::mem::replace(&mut tries.broke, true) {
                    true => self.pause_after(tries, error).await,
                    false => Ok(()),
                }
            }
        }
    }

    async fn pause_after(&self, tries: &mut Tries, error: Error) -> Result<()> {
        let (slot, deadline) = (tries.slot, tries.deadline);
        self.wait_for(slot, error, &mut tries.backoff, deadline)
            .await
    }

    /// What calls to a slot wait for now, if they do.
    pub(crate) fn last_failure(&self, slot: Slot) -> Option<String> {
        let last_failure = self.last_failure.locked();
        let (since, what) = last_failure.get(&slot)?;
        (since.elapsed() < FAILURE_FRESH).then(|| what.clone())
    }

    /// Whether the server of a slot has older functions than these, which may refuse what they do
    /// not know; they are replaced before the next call then. One that does not answer by the
    /// deadline is taken not to have.
    pub(crate) async fn has_older(&self, slot: Slot, deadline: Deadline) -> bool {
        let asked = async {
            let node = self.owner(slot).await.ok()?;
            let ready = self.ready(&node).await.ok()?;
            Some(self.is_older(&node, &ready).await)
        };
        within(deadline.left(), asked).await.flatten() == Some(true)
    }

    async fn is_older(&self, node: &Node, ready: &Ready) -> bool {
        let there = self.library.version_at(&ready.live, node.host()).await;
        let is_older = there.is_ok_and(|there| there.is_none_or(|it| it < self.library.version()));
        if is_older {
            node.lacks_functions(ready).await;
        }
        is_older
    }

    /// Every server that answers for slots.
    pub(crate) async fn masters(&self, deadline: Deadline) -> Result<Vec<Arc<Node>>> {
        let mut backoff = TRIES;
        loop {
            let refreshed = within(deadline.left(), self.refresh.refresh(None)).await;
            let Err(error) = refreshed.unwrap_or_else(|| Err(self.unsaid(None))) else {
                break;
            };
            self.wait(error, &mut backoff, deadline).await?;
        }
        let masters = self.topology().masters();
        Ok(masters.iter().map(|host| self.node(host)).collect())
    }

    /// The server of a slot.
    pub(crate) async fn owner(&self, slot: Slot) -> Result<Arc<Node>> {
        let known = self.topology().owner(slot);
        if let Some(host) = known {
            return Ok(self.node(&host));
        }
        self.refresh.refresh(Some(slot)).await?;
        // As it was seen just now, although it may be in doubt again by now.
        let owner = self.topology().named(slot);
        let owner = owner.ok_or_else(|| {
            let message = "no node of the redis cluster answers for a slot; is it complete?";
            Error::new(ErrorKind::EngineUnavailable, message)
        })?;
        Ok(self.node(&owner))
    }

    /// Time is over before the server was found: because of the last failure, or of the servers
    /// that were asked.
    fn unsaid(&self, slot: Option<Slot>) -> Error {
        let message = slot
            .and_then(|slot| self.last_failure(slot))
            .unwrap_or_else(|| {
                let asked = self.refresh.asked();
                format!("no redis node returned the slot map in time; do {asked} answer?")
            });
        Error::new(ErrorKind::EngineUnavailable, message)
    }

    /// A connection to a server that has the functions, and no torn end before what it writes.
    async fn ready(&self, node: &Node) -> Result<Ready> {
        let live = node.live().await?;
        let mut prepared = node.prepared.lock().await;
        if prepared.generation != live.generation {
            self.library
                .ensure(&live, node.host())
                .await
                .inspect_err(|error| {
                    if error.is_retryable() {
                        node.link.broken(live.generation);
                    }
                })?;
            let left = truncated_aof::rewrite_once(node, &live).await?;
            self.check_durability(node, &live, left).await?;
            *prepared = Prepared {
                generation: live.generation,
                times: prepared.times + 1,
            };
        }
        let times = prepared.times;
        Ok(Ready { live, times })
    }

    /// From now on nothing is answered by a server that does not keep it: another one may take the
    /// place of those that were asked.
    pub(crate) fn promise(&self, durability: Durability) {
        let _ = self.promised.set(durability);
    }

    /// What keeps a server from what was promised, if something does.
    pub(crate) fn degraded(&self) -> Option<String> {
        let masters = self.topology().masters();
        let degraded = self.degraded.locked();
        let of_masters = degraded.iter().filter(|(host, _)| masters.contains(host));
        let all: Vec<&str> = of_masters.map(|(_, message)| message.as_str()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Once the servers were good, a certificate or a password that no new connection is made with
    /// says nothing of what was to be sent: to its sender the engine is unavailable, and nothing
    /// that was sent is refused.
    fn temporary_once_connected(&self, error: Error) -> Error {
        if error.is_retryable() || self.promised.get().is_none() {
            return error;
        }
        Error::new(ErrorKind::EngineUnavailable, error.message())
    }

    /// Its failure passes: an operator grants the right or sets the server up, or there is memory
    /// for a fork again.
    async fn check_durability(&self, node: &Node, live: &Live, has_left: bool) -> Result<()> {
        let level = match self.promised.get() {
            None => return Ok(()),
            // Each call waits for its replicas.
            Some(Durability::Replica(_)) => Durability::Memory,
            Some(level) => *level,
        };
        let deadline = Deadline::within(server_info::ASK_TIMEOUT);
        let server_info = ServerInfo::of(node, live, deadline).await?;
        let message = match server_info.keeps(Some(level)) {
            Err(error) => Some(error.message().to_owned()),
            Ok(_) if level == Durability::Fsync && !has_left => Some(truncated_aof::message(node)),
            Ok(_) => None,
        };
        let mut degraded = self.degraded.locked();
        degraded.remove(node.host());
        match message {
            Some(message) => {
                degraded.insert(node.host().clone(), message.clone());
                Err(Error::new(ErrorKind::EngineUnavailable, message))
            }
            None => Ok(()),
        }
    }

    /// A connection of its own to the server of a slot, for commands that block.
    pub(crate) async fn private_link(&self, slot: Slot) -> Result<Link> {
        let owner = self.owner(slot).await?;
        Ok(Link::new(owner.host().clone(), self.dialer.clone()))
    }

    /// A node said that another one answers for a slot.
    pub(crate) fn moved(&self, slot: Slot, to: Host) {
        self.topology().moved(slot, to);
    }

    fn forget(&self, node: &Node) {
        self.doubt(node.host());
    }

    /// After a failure of a server, its slots need a topology refresh.
    pub(crate) fn doubt(&self, host: &Host) {
        self.topology().doubt(host);
    }

    /// Pauses after a failure of a call to a slot. Calls that time out behind it report that
    /// failure.
    async fn wait_for(
        &self,
        slot: Slot,
        error: Error,
        backoff: &mut Backoff,
        deadline: Deadline,
    ) -> Result<()> {
        if error.is_retryable() {
            let last_failure = (Stopwatch::start(), error.message().to_owned());
            let mut known = self.last_failure.locked();
            known.insert(slot, last_failure);
        }
        self.wait(error, backoff, deadline).await
    }

    /// Pauses after a failure that may pass; hands it back where there is no time or hope left.
    pub(crate) async fn wait(
        &self,
        error: Error,
        backoff: &mut Backoff,
        deadline: Deadline,
    ) -> Result<()> {
        let next = backoff.pause();
        if !error.is_retryable() || deadline.left() <= next {
            return Err(error);
        }
        pause(next).await;
        Ok(())
    }

    pub(crate) fn node(&self, host: &Host) -> Arc<Node> {
        let mut nodes = self.nodes();
        let new = || Arc::new(Node::new(host, &self.dialer, self.wanted));
        nodes.entry(host.clone()).or_insert_with(new).clone()
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<Host, Arc<Node>>> {
        self.nodes.locked()
    }

    fn topology(&self) -> MutexGuard<'_, Topology> {
        self.refresh.topology()
    }
}

/// After so many loads in one call each further one comes after a pause.
const LOADS_AT_ONCE: u32 = 3;

/// Nodes that point at each other are asked again after a pause.
const MOVES_MAX: u32 = 5;

fn too_few(reached: &Reached, host: &Host) -> Error {
    let message = match reached {
        Reached::TooFew(reached) => format!(
            "only {reached} replicas of redis at {host} took a change in time; whether it is kept is \
             unknown: start more replicas, and send the same ids again"
        ),
        _ => format!("a change was sent to redis at {host} by a caller that has gone"),
    };
    Error::new(ErrorKind::EngineUnavailable, message)
}

#[cfg(test)]
mod tests;
