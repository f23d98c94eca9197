//! The shards of a namespace, and which shard a job belongs to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual::engine::{Namespace, Target, Token};
use punctual::schedule::SCHEDULE_PREFIX;
use punctual::sync::Lock;
use punctual::time::Stopwatch;
use punctual::{Error, ErrorKind, JobId, NewJob};
use tokio::sync::{OnceCell, watch};

use crate::session::batcher::{Batcher, CallClass};
use crate::transport::topology::Slot;
use crate::wire::Instance;

/// How often a process compares the records of a shard that are copies.
const REPAIR_EVERY: Duration = punctual::time::seconds(5);

/// A slice of a namespace that is one atomic unit: all its keys lie in one slot.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) namespace: Namespace,
    pub(crate) index: u16,
    /// What each of its keys begins with.
    pub(crate) base: String,
    pub(crate) slot: Slot,
    instance: Mutex<Option<Instance>>,
    batchers: [Batcher; 2],
    answered: Mutex<Option<Answered>>,
    maintained: Mutex<Option<Stopwatch>>,
    /// Since this process last compared its copies of records.
    repaired: Mutex<Option<Stopwatch>>,
    /// Whether maintenance that was due was left when this process last ran some.
    behind: AtomicBool,
    /// Whether its server is unavailable, and a task here polls until it is back.
    unavailable: AtomicBool,
    /// How often a call here learned that its jobs are gone.
    losses: watch::Sender<u64>,
    /// About how many workers of its namespace there are, as far as this process has asked.
    pub(crate) workers: AtomicU32,
    /// Set once the servers know its bounds and we know its instance.
    pub(crate) contacted: OnceCell<()>,
    /// Set once the servers know that there is such a namespace.
    pub(crate) registered: OnceCell<()>,
}

impl Shard {
    fn new(namespace: &Namespace, index: u16) -> Self {
        let tag = format!("{namespace}/{index}");
        Self {
            namespace: namespace.clone(),
            index,
            base: format!("punctual:{{{tag}}}"),
            slot: Slot::of_tag(&tag),
            instance: Mutex::default(),
            batchers: Default::default(),
            answered: Mutex::default(),
            maintained: Mutex::default(),
            repaired: Mutex::default(),
            behind: AtomicBool::new(false),
            unavailable: AtomicBool::new(false),
            losses: watch::Sender::default(),
            workers: AtomicU32::new(1),
            contacted: OnceCell::new(),
            registered: OnceCell::new(),
        }
    }

    /// Its calls of a class that wait for those in flight.
    pub(crate) fn batcher(&self, class: CallClass) -> &Batcher {
        match class {
            CallClass::Enqueues => &self.batchers[0],
            CallClass::Leases => &self.batchers[1],
        }
    }

    /// What it called itself first; zeros before the first contact.
    pub(crate) fn instance(&self) -> Instance {
        self.known().unwrap_or_default()
    }

    /// Remembers what it calls itself, once: from then on it must not be another.
    pub(crate) fn learn(&self, instance: Instance) {
        if instance != Instance::default() {
            self.known().get_or_insert(instance);
        }
    }

    /// Notes that it answered a call with its instance just now, and whether that was a read.
    pub(crate) fn has_answered(&self, read: bool) {
        let since = Stopwatch::start();
        *self.answered() = Some(Answered { since, read });
    }

    /// How long ago it last did.
    pub(crate) fn since_answer(&self) -> Option<Duration> {
        self.answered().as_ref().map(|last| last.since.elapsed())
    }

    /// Notes a refusal: one that reports that its jobs are gone wakes all that wait for them.
    pub(crate) fn has_refused(&self, error: &Error) {
        if error.kind() == ErrorKind::DataMissing {
            self.losses.send_modify(|times| *times += 1);
        }
    }

    /// Whether its server was unavailable just now.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.unavailable.load(Ordering::Relaxed)
    }

    /// Notes that it is, or is not; answers what was noted before.
    pub(crate) fn set_unavailable(&self, unavailable: bool) -> bool {
        self.unavailable.swap(unavailable, Ordering::Relaxed)
    }

    /// Receives a notice when a call finds its jobs gone.
    pub(crate) fn losses(&self) -> watch::Receiver<u64> {
        self.losses.subscribe()
    }

    /// Notes that this process has done its maintenance just now.
    pub(crate) fn has_maintained(&self) {
        *self.maintained.locked() = Some(Stopwatch::start());
    }

    /// Whether its copies of records are to be compared again; notes that they are.
    pub(crate) fn may_repair(&self) -> bool {
        let mut repaired = self.repaired.locked();
        let may = repaired
            .as_ref()
            .is_none_or(|last| last.elapsed() >= REPAIR_EVERY);
        if may {
            *repaired = Some(Stopwatch::start());
        }
        may
    }

    /// Notes whether maintenance that is due was left.
    pub(crate) fn set_behind(&self, some: bool) {
        self.behind.store(some, Ordering::Relaxed);
    }

    /// Whether some were left.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    /// How long ago this process last did.
    pub(crate) fn since_maintained(&self) -> Option<Duration> {
        let maintained = self.maintained.locked();
        maintained.as_ref().map(Stopwatch::elapsed)
    }

    /// Whether its last answer was to a read.
    #[cfg(feature = "testing")]
    pub(crate) fn was_read(&self) -> bool {
        self.answered().as_ref().is_some_and(|last| last.read)
    }

    fn answered(&self) -> MutexGuard<'_, Option<Answered>> {
        self.answered.locked()
    }

    fn known(&self) -> MutexGuard<'_, Option<Instance>> {
        self.instance.locked()
    }
}

#[derive(Debug)]
struct Answered {
    since: Stopwatch,
    /// Whether that was a look, whose instant no shard remembers.
    #[cfg_attr(
        not(feature = "testing"),
        allow(dead_code, reason = "only tests stop time")
    )]
    read: bool,
}

/// The shards that this process has talked to.
#[derive(Debug, Default)]
pub(crate) struct Shards(Mutex<BTreeMap<Namespace, OfNamespace>>);

/// The shards of one namespace: the first knows how many there are.
#[derive(Debug)]
struct OfNamespace {
    first: Arc<Shard>,
    all: Option<Arc<[Arc<Shard>]>>,
}

impl Shards {
    /// The shards of a namespace, in order, once the servers have said how many they are.
    pub(crate) fn known(&self, namespace: &Namespace) -> Option<Arc<[Arc<Shard>]>> {
        self.namespaces().get(namespace)?.all.clone()
    }

    /// The shard that every namespace has.
    pub(crate) fn first(&self, namespace: &Namespace) -> Arc<Shard> {
        let mut namespaces = self.namespaces();
        let new = || OfNamespace {
            first: Arc::new(Shard::new(namespace, 0)),
            all: None,
        };
        let of_namespace = namespaces.entry(namespace.clone()).or_insert_with(new);
        of_namespace.first.clone()
    }

    /// Notes how many shards the servers say that a namespace has.
    pub(crate) fn cut(&self, namespace: &Namespace, count: u16) {
        if let Some(of_namespace) = self.namespaces().get_mut(namespace) {
            let others = (1..count).map(|index| Arc::new(Shard::new(namespace, index)));
            let first = [of_namespace.first.clone()];
            of_namespace
                .all
                .get_or_insert_with(|| first.into_iter().chain(others).collect());
        }
    }

    /// Every shard that this process has talked to.
    pub(crate) fn contacted(&self) -> Vec<Arc<Shard>> {
        let namespaces = self.namespaces();
        let all = namespaces
            .values()
            .filter_map(|of_namespace| of_namespace.all.as_ref())
            .flat_map(|shards| shards.iter());
        let contacted = all.filter(|shard| shard.contacted.initialized());
        contacted.cloned().collect()
    }

    /// How many shards the most finely cut namespace has of those that this process has talked to.
    pub(crate) fn most(&self) -> u32 {
        let namespaces = self.namespaces();
        let counts = namespaces
            .values()
            .filter_map(|of_namespace| of_namespace.all.as_ref());
        let most = counts.map(|all| all.len() as u32).max();
        most.unwrap_or(1)
    }

    fn namespaces(&self) -> MutexGuard<'_, BTreeMap<Namespace, OfNamespace>> {
        self.0.locked()
    }
}

/// The shard of a job: its group decides, else its unique key, else its share, else its id.
pub(crate) fn of_job(job: &NewJob, count: usize) -> usize {
    if is_imported_run(job) {
        return of_id(job.id, count);
    }
    match (&job.group, &job.unique) {
        (Some(group), _) => of_key(&job.queue, &group.key, count),
        (None, Some(unique)) => of_key(&job.queue, &unique.key, count),
        (None, None) => match &job.share {
            Some(share) => of_key(&job.queue, share, count),
            None => of_id(job.id, count),
        },
    }
}

pub(crate) fn of_key(queue: &str, key: &str, count: usize) -> usize {
    if count == 1 {
        return 0;
    }
    of_id(JobId::derived(queue, key), count)
}

/// Whether a job is a run whose key is that of its schedule: it belongs where that is.
fn is_imported_run(job: &NewJob) -> bool {
    let run = job.history.as_ref().and_then(|past| past.schedule.as_ref());
    let key = match (&job.group, &job.unique) {
        (Some(group), _) => Some(&group.key),
        (None, Some(unique)) => Some(&unique.key),
        (None, None) => None,
    };
    let of_schedule = |name: &str| format!("{SCHEDULE_PREFIX}{name}");
    run.is_some_and(|run| key.is_some_and(|key| *key == of_schedule(&run.name)))
}

/// The instant of a run in the second half of its id. All runs of a schedule are in one shard.
const RUN_INSTANT: u64 = (1 << 54) - 1;

/// The shard of a job without keys.
pub(crate) fn of_id(id: JobId, count: usize) -> usize {
    if count == 1 {
        return 0;
    }
    let mut words = id.as_bytes().chunks_exact(8);
    let mut next = || {
        u64::from_be_bytes(
            words
                .next()
                .and_then(|word| word.try_into().ok())
                .unwrap_or_default(),
        )
    };
    let (first, mut second) = (next(), next());
    if id.is_reserved() {
        second &= !RUN_INSTANT;
    }
    let folded = [first, second].into_iter().fold(0, |hash: u64, word| {
        (hash ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(31)
    });
    (folded % count as u64) as usize
}

/// The shards where a target may be: a key may stand under a group's shard, and an id under a
/// key's.
pub(crate) fn of_target(target: &Target, count: usize) -> usize {
    match target {
        Target::Id(id) => of_id(*id, count),
        Target::Unique { queue, key } => of_key(queue, key, count),
    }
}

/// The bits of a nonce that name the shard, where there are several.
const SHARD_BITS: u64 = 0x3ff;

/// The nonce that a claim sends to one shard.
pub(crate) fn nonce_of(nonce: u64, index: u16, count: usize) -> u64 {
    match count {
        1 => nonce,
        _ => nonce & !SHARD_BITS | u64::from(index),
    }
}

/// The shard whose lease a token names.
pub(crate) fn of_token(token: Token, count: usize) -> usize {
    match count {
        1 => 0,
        _ => (token.nonce & SHARD_BITS) as usize % count,
    }
}

#[cfg(test)]
mod tests;
