//! One call to one shard: its instance in front, its answer's time taken in, its refusal in the
//! words of the contract.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use punctual::engine::{Maintained, NamespaceProblem};
use punctual::schedule::tz_database;
use punctual::time::{Clock, Timestamp};
use punctual::{Error, ErrorKind, Limits, Namespace, Result};
use redis::{FromRedisValue, Value, cmd};

use crate::library::Library;
use crate::options::Options;
use crate::options::SHARDS_MAX;
use crate::servers::Servers;
use crate::session::batcher::Answer;
use crate::session::claim_cache::ClaimCache;
use crate::session::dispatcher::Dispatcher;
use crate::session::outbox_acks::OutboxAcks;
use crate::session::shards::{Shard, Shards};
use crate::session::uninitialised::{self, Uninitialised};
use crate::transport::clock::ServerClock;
use crate::transport::error_mapping::temporary_if_denied;
use crate::transport::link::Deadline;
use crate::transport::node::Kind;
use crate::transport::topology::Slot;
use crate::wire::mp::{MapWriter, Mp, read_instant};
use crate::wire::{Instance, Packed, control, stats};

/// The set of the namespaces that were ever written to.
const NAMESPACES: &str = "punctual:namespaces";

/// What every verb needs to reach the shards.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) servers: Arc<Servers>,
    pub(crate) shards: Shards,
    pub(crate) library: Arc<Library>,
    pub(crate) options: Options,
    pub(crate) claim_cache: ClaimCache,
    pub(crate) outbox_acks: OutboxAcks,
    pub(crate) uninitialised: Uninitialised,
    dispatcher: Arc<Dispatcher>,
    /// The servers' clock, or one that tests move.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Calls {
    pub(crate) fn new(options: Options, library: Library) -> Result<Self> {
        let server_clock = ServerClock::default();
        let servers = Arc::new(Servers::new(&options, library.clone())?);
        let library = Arc::new(library);
        Ok(Self {
            dispatcher: Arc::new(Dispatcher {
                servers: servers.clone(),
                library: library.clone(),
                server_clock: server_clock.clone(),
            }),
            servers,
            shards: Shards::default(),
            clock: options
                .clock
                .clone()
                .unwrap_or_else(|| Arc::new(server_clock.clone())),
            claim_cache: ClaimCache::default(),
            outbox_acks: OutboxAcks::default(),
            uninitialised: Uninitialised::default(),
            library,
            options,
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.options.limits
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::within(self.options.deadline)
    }

    /// A packed call that changes something, and keeps the server about so long; `pack` receives
    /// the shard's instance.
    pub(crate) async fn write<P: Into<Packed>>(
        &self,
        shard: &Arc<Shard>,
        verb: &'static str,
        cost_us: usize,
        pack: impl FnOnce(Instance) -> P,
    ) -> Result<Vec<u8>> {
        let answer = self.write_noting(shard, verb, cost_us, pack);
        answer.await.map(|answer| answer.bytes)
    }

    /// The same; also returns whether it was sent before, and may have been done.
    pub(crate) async fn write_noting<P: Into<Packed>>(
        &self,
        shard: &Arc<Shard>,
        verb: &'static str,
        cost_us: usize,
        pack: impl FnOnce(Instance) -> P,
    ) -> Result<Answer> {
        let deadline = self.deadline();
        self.contact(shard, deadline).await?;
        self.register(shard, deadline).await;
        let body = pack(shard.instance()).into();
        // Boxed: callers nest deep enough without it.
        let delivery = self
            .dispatcher
            .deliver(shard, verb, cost_us, body, deadline);
        delivery.boxed().await
    }

    /// A call with a map that changes something.
    pub(crate) async fn change(
        &self,
        shard: &Arc<Shard>,
        verb: &'static str,
        kind: Kind,
        map: &MapWriter,
    ) -> Result<Mp> {
        let deadline = self.deadline();
        self.change_within(shard, verb, kind, map, deadline).await
    }

    pub(crate) async fn change_within(
        &self,
        shard: &Arc<Shard>,
        verb: &'static str,
        kind: Kind,
        map: &MapWriter,
        deadline: Deadline,
    ) -> Result<Mp> {
        self.contact(shard, deadline).await?;
        self.send_map(shard, verb, kind, map, deadline).await
    }

    /// A call with a map that only reads. If maintenance is due first, it runs.
    pub(crate) async fn read(
        &self,
        shard: &Arc<Shard>,
        verb: &'static str,
        map: impl Fn() -> MapWriter,
    ) -> Result<Mp> {
        let deadline = self.deadline();
        self.contact(shard, deadline).await?;
        self.read_or_touch(shard, verb, map, deadline).await
    }

    async fn read_or_touch(
        &self,
        shard: &Arc<Shard>,
        verb: &'static str,
        map: impl Fn() -> MapWriter,
        deadline: Deadline,
    ) -> Result<Mp> {
        let first = self
            .send_map(shard, verb, Kind::Reads, &map(), deadline)
            .await;
        match first {
            Err(error) if is_touch(&error) => {}
            other => return other,
        }
        let touch = MapWriter::default();
        let answer = self
            .send_map(shard, "maintain", Kind::Changes, &touch, deadline)
            .await?;
        MaintainReply::read(&answer)?.note(shard);
        let mut again = map();
        again.put("any", 1_u8);
        self.send_map(shard, verb, Kind::Reads, &again, deadline)
            .await
    }

    /// One shard's part of a `maintain`: its reply, and undelivered effects.
    pub(crate) async fn maintain(&self, shard: &Arc<Shard>) -> Result<Maintained> {
        self.maintained(shard).await.map(|reply| reply.done)
    }

    /// The same, and what only maintenance asks.
    pub(crate) async fn maintained(&self, shard: &Arc<Shard>) -> Result<MaintainReply> {
        let mut map = MapWriter::default();
        map.put_some("tz", Some(tz_database()).filter(|tz| !tz.is_empty()));
        let answer = self.change(shard, "maintain", Kind::Changes, &map).await?;
        shard.has_maintained();
        if answer.get("ob").some(Mp::number)?.unwrap_or(0) > 0 {
            self.deliver_old(shard).await;
        }
        let mut reply = MaintainReply::read(&answer)?;
        let short = answer.get("lo");
        if !short.is_nil() && self.refill_schedules(shard, short, reply.at).await? {
            // There may be more of them.
            reply.done.next = Some(reply.at);
        }
        reply.note(shard);
        if shard.index > 0 && shard.may_repair() {
            self.repair_topics(shard).await?;
        }
        Ok(reply)
    }

    /// A read of a shard that leaves no trace if the shard is new.
    pub(crate) async fn peek(&self, shard: &Arc<Shard>, verb: &'static str) -> Result<Mp> {
        self.read_or_touch(shard, verb, MapWriter::default, self.deadline())
            .await
    }

    /// A command that is no function, to the server of a shard.
    pub(crate) async fn command(&self, slot: Slot, command: &redis::Cmd) -> Result<Value> {
        let asked = self
            .servers
            .call(slot, command, Kind::Reads, self.deadline());
        let is_known = || !self.shards.contacted().is_empty();
        asked.await.map_err(|error| match is_known() {
            true => temporary_if_denied(error),
            false => error,
        })
    }

    /// The namespaces that any client ever wrote to.
    pub(crate) async fn namespaces(&self) -> Result<Vec<String>> {
        let slot = Slot::of_tag(NAMESPACES);
        let answer = self.command(slot, cmd("SMEMBERS").arg(NAMESPACES)).await?;
        Ok(Vec::from_redis_value(answer).unwrap_or_default())
    }

    /// The shards of a namespace, in order; the first contact asks how many they are.
    pub(crate) async fn shards_of(&self, namespace: &Namespace) -> Result<Arc<[Arc<Shard>]>> {
        if let Some(shards) = self.shards.known(namespace) {
            return Ok(shards);
        }
        let first = self.shards.first(namespace);
        self.contact(&first, self.deadline()).await?;
        let shards = self.shards.known(namespace);
        shards.ok_or_else(crate::wire::damaged)
    }

    /// The first contact with a shard: sends its bounds, reads its instance.
    async fn contact(&self, shard: &Arc<Shard>, deadline: Deadline) -> Result<()> {
        let contact = shard
            .contacted
            .get_or_try_init(|| self.first_contact(shard, deadline).boxed());
        contact.await.map(drop)
    }

    async fn first_contact(&self, shard: &Arc<Shard>, deadline: Deadline) -> Result<()> {
        if self.options.data_required {
            self.must_be_there(shard, deadline).await?;
        }
        if self.options.clock.is_some() {
            self.set_clock(shard, self.clock.now()).await?;
        }
        if let Some(ahead) = self.options.clock_ahead {
            let offset = format!("+{}", ahead.as_micros());
            self.write_clock(shard, &offset).await?;
        }
        if control::bounds(self.limits()) != control::bounds(&Limits::default()) {
            let map = control::limits(self.limits());
            self.send_map(shard, "control", Kind::Changes, &map, deadline)
                .await?;
        }
        // A write: the first call to a namespace makes its shards, and from then on their instance
        // is known, and their time never steps back. It also learns, or says, how many they are.
        let mut map = MapWriter::default();
        // Each shard keeps how many they are: one that is begun later, or anew, is to know what the
        // first one said.
        let known = self.shards.known(&shard.namespace);
        let known = known.and_then(|shards| u16::try_from(shards.len()).ok());
        map.put("sh", u32::from(known.or(self.options.shards).unwrap_or(1)));
        if self.options.shards.is_some() {
            map.put("ss", 1_u8);
        }
        let reply = self
            .send_map(shard, "maintain", Kind::Changes, &map, deadline)
            .await?;
        let count = u16::try_from(reply.get("sh").number()?).ok();
        let count = count.filter(|count| (1..=SHARDS_MAX).contains(count));
        self.shards
            .cut(&shard.namespace, count.ok_or_else(crate::wire::damaged)?);
        Ok(())
    }

    /// Refuses a shard that was never begun; the read leaves no trace.
    pub(crate) async fn must_be_there(&self, shard: &Arc<Shard>, deadline: Deadline) -> Result<()> {
        let mut map = MapWriter::default();
        map.put("any", 1_u8);
        let answer = self.send_map(shard, "info", Kind::Reads, &map, deadline);
        let is_lost = match answer.await {
            Err(error) if error.kind() == ErrorKind::DataMissing => true,
            answer => answer.map(|_| false)?,
        };
        let is_there = !is_lost && shard.instance() != Instance::default();
        self.uninitialised.note(shard, !is_there);
        match is_there {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::DataMissing, uninitialised::MESSAGE)
                .with("namespace", &shard.namespace)
                .with("shard", shard.index)),
        }
    }

    /// What `health` says of shards that refused calls, checked again.
    pub(crate) async fn uninitialised(&self) -> Vec<NamespaceProblem> {
        let (known, deadline) = (self.uninitialised.known(), self.deadline());
        let reads =
            known.iter().map(
                async |shard| match self.must_be_there(shard, deadline).await {
                    Err(error) if error.kind() == ErrorKind::DataMissing => {
                        Some(uninitialised::problem(shard))
                    }
                    // One that cannot be asked is reported elsewhere.
                    _ => None,
                },
            );
        let mut problems: Vec<_> = join_all(reads).await.into_iter().flatten().collect();
        problems.dedup();
        problems
    }

    /// Sets the time of a shard of a test; the functions that serve know of no such key.
    pub(crate) async fn set_clock(&self, shard: &Shard, now: Timestamp) -> Result<()> {
        self.write_clock(shard, &now.as_micros().to_string()).await
    }

    async fn write_clock(&self, shard: &Shard, offset: &str) -> Result<()> {
        let key = format!("{}:clock", shard.base);
        let mut set = cmd("SET");
        set.arg(key).arg(offset);
        self.command(shard.slot, &set).await.map(drop)
    }

    /// Full memory refuses this; then it is tried again with the next call.
    pub(crate) async fn register(&self, shard: &Arc<Shard>, deadline: Deadline) {
        let note = || async {
            let mut add = cmd("SADD");
            add.arg(NAMESPACES).arg(shard.namespace.as_str());
            let slot = Slot::of_tag(NAMESPACES);
            self.servers
                .call(slot, &add, Kind::Reads, deadline)
                .await
                .map(drop)
        };
        if let Err(error) = shard.registered.get_or_try_init(note).await {
            tracing::debug!(%error, "the namespace is not noted yet");
        }
    }

    async fn send_map(
        &self,
        shard: &Arc<Shard>,
        verb: &'static str,
        kind: Kind,
        map: &MapWriter,
        deadline: Deadline,
    ) -> Result<Mp> {
        let body = [shard.instance().as_slice(), &map.packed()].concat().into();
        let (reply, took) = self
            .dispatcher
            .send(shard, verb, kind, &body, deadline)
            .await?;
        let reply = Mp::read(&reply.bytes).map_err(|error| error.operation(verb))?;
        if let Ok(Some(now)) = reply.get("n").some(read_instant) {
            self.dispatcher.server_clock.observe(now, took);
        }
        if let Mp::Bytes(instance) = reply.get("i") {
            shard.learn(instance.as_slice().try_into().unwrap_or_default());
        }
        Ok(reply)
    }
}

/// A read found something to be done before it.
fn is_touch(error: &Error) -> bool {
    error.kind() == ErrorKind::Internal && error.message() == crate::transport::error_mapping::TOUCH
}

/// What a `maintain` of one shard has answered.
#[derive(Debug)]
pub(crate) struct MaintainReply {
    pub(crate) done: Maintained,
    /// Cold jobs that it has read, so that they can be moved when they are due.
    pub(crate) spread: u64,
    /// The shard's time.
    pub(crate) at: Timestamp,
}

impl MaintainReply {
    fn read(reply: &Mp) -> Result<Self> {
        Ok(Self {
            done: stats::maintained(reply)?,
            spread: reply.get("sp").some(Mp::number)?.unwrap_or(0),
            at: read_instant(reply.get("n"))?,
        })
    }

    fn note(&self, shard: &Shard) {
        shard.set_behind(self.done.next.is_some_and(|next| next <= self.at));
    }
}
