//! A disk in memory for tests: it forgets unsynced bytes and fails on request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile};
use punctual::sync::Lock;

/// A disk in memory that knows what is synced and what is not, and fails as a test sets.
///
/// Clones are the same disk.
#[derive(Clone, Default)]
pub struct ForgetfulDisk(Arc<Mutex<State>>);

/// What happens at an operation that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails and does nothing; the next one works.
    Fails,
    /// The machine stops: it and all later ones fail. A write may have got so many of its bytes
    /// down.
    Stops {
        /// Bytes of a write that happen.
        written: usize,
    },
    /// The disk is full: for so many operations whatever needs room fails, then there is some
    /// again.
    Full {
        /// How many operations it lasts.
        operations: u64,
    },
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed: what it wrote is there.
    Kill,
    /// The machine loses power: what was synced is there, and of the rest, a write here and a name
    /// there, as the bits of `keeps` say, again and again.
    PowerCut {
        /// One bit per write or name: whether it got down all the same.
        keeps: u64,
    },
}

#[derive(Default)]
struct State {
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    files: BTreeMap<u64, Content>,
    next_file: u64,
    operations: u64,
    plan: Option<(u64, Fault)>,
    fails_syncs: bool,
    is_stopped: bool,
    capacity: Option<u64>,
    boot: u128,
}

#[derive(Default, Clone)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// What happened since the last sync.
    since: Vec<Change>,
    /// A sync has failed: later ones answer well, and make nothing durable.
    is_doubtful: bool,
}

/// What an operation needs of the disk.
#[derive(PartialEq, Eq)]
enum Needs {
    Room,
    Nothing,
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl ForgetfulDisk {
    /// How many operations that change something there were.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Lets something happen at an operation, counted from [`ForgetfulDisk::operations`].
    pub fn at_operation(&self, number: u64, fault: Fault) {
        self.lock().plan = Some((number, fault));
    }

    /// Lets every sync fail from now on, or no more.
    pub fn fail_syncs(&self, fails: bool) {
        self.lock().fails_syncs = fails;
    }

    /// Gives the disk a size, or takes the limit away.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// Ends the run: this disk answers nothing any more, the one answered has what a crash leaves.
    #[must_use]
    pub fn crash(&self, crash: Crash) -> Self {
        let mut state = self.lock();
        state.is_stopped = true;
        let mut left = State {
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            files: state.files.clone(),
            next_file: state.next_file,
            capacity: state.capacity,
            boot: state.boot,
            ..State::default()
        };
        drop(state);
        if let Crash::PowerCut { keeps } = crash {
            left.forget(keeps);
            left.boot += 1;
        }
        Self(Arc::new(Mutex::new(left)))
    }

    /// Another disk with the same content, all of it durable.
    #[must_use]
    pub fn copy(&self) -> Self {
        let state = self.lock();
        let copy = Self::default();
        for (name, id) in &state.names {
            copy.put(name, &state.files[id].now);
        }
        copy.lock().boot = state.boot;
        copy
    }

    /// Sets a file's content, durably.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut state = self.lock();
        state.next_file += 1;
        let id = state.next_file;
        let (now, durable) = (bytes.to_vec(), bytes.to_vec());
        let content = Content {
            now,
            durable,
            ..Content::default()
        };
        state.files.insert(id, content);
        state.names.insert(name.into(), id);
        state.durable_names.insert(name.into(), id);
    }

    /// Counts an operation that changes something and answers how it ends.
    pub(super) fn operation(&self) -> io::Result<()> {
        let done = self.lock().operation(Needs::Room);
        done.map_err(|(error, _)| error)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.locked()
    }
}

impl State {
    /// Fails with the error and the bytes of a write that happen all the same.
    fn operation(&mut self, needs: Needs) -> Result<(), (io::Error, usize)> {
        if self.is_stopped {
            return Err((io::Error::other("the machine has stopped"), 0));
        }
        let number = self.operations;
        self.operations += 1;
        match self.plan {
            Some((at, Fault::Fails)) if at == number => {
                self.plan = None;
                Err((io::Error::other("the disk fails as set"), 0))
            }
            Some((at, Fault::Stops { written })) if at == number => {
                self.is_stopped = true;
                Err((io::Error::other("the machine stops as set"), written))
            }
            Some((at, Fault::Full { operations })) if needs == Needs::Room => {
                if (at..at + operations).contains(&number) {
                    return Err((io::ErrorKind::StorageFull.into(), 0));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn used(&self) -> u64 {
        let named: BTreeSet<_> = self.names.values().collect();
        named
            .iter()
            .filter_map(|id| self.files.get(id))
            .map(|file| file.now.len() as u64)
            .sum()
    }

    fn forget(&mut self, mut keeps: u64) {
        let mut keep = || {
            keeps = keeps.rotate_right(1);
            keeps >> 63 == 1
        };
        let all: BTreeSet<_> = self
            .names
            .keys()
            .chain(self.durable_names.keys())
            .cloned()
            .collect();
        for name in all {
            let (now, durable) = (self.names.get(&name), self.durable_names.get(&name));
            let (now, durable) = (now.copied(), durable.copied());
            match if now == durable || keep() {
                now
            } else {
                durable
            } {
                Some(id) => self.names.insert(name, id),
                None => self.names.remove(&name),
            };
        }
        self.durable_names = self.names.clone();
        for file in self.files.values_mut() {
            let mut bytes = std::mem::take(&mut file.durable);
            for change in file.since.drain(..).filter(|_| keep()) {
                change.apply(&mut bytes);
            }
            (file.now, file.durable) = (bytes.clone(), bytes);
        }
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write(at, bytes) => {
                let end = at + bytes.len();
                to.resize(to.len().max(end), 0);
                to[*at..end].copy_from_slice(bytes);
            }
            Self::Truncate(len) => to.truncate(*len),
        }
    }
}

impl Disk for ForgetfulDisk {
    fn names(&self) -> io::Result<Vec<(String, u64)>> {
        let state = self.lock();
        let len = |id| state.files[id].now.len() as u64;
        Ok(state
            .names
            .iter()
            .map(|(name, id)| (name.clone(), len(id)))
            .collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.lock();
        let id = state.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(state.files[id].now.clone())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        state.operation(Needs::Room).map_err(|(error, _)| error)?;
        let id = match state.names.get(name) {
            Some(id) => *id,
            None => {
                state.next_file += 1;
                state.next_file
            }
        };
        state.names.insert(name.into(), id);
        let file = state.files.entry(id).or_default();
        file.now.clear();
        file.since.push(Change::Truncate(0));
        Ok(self.handle(id))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let id = *self.lock().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.handle(id))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state
            .operation(Needs::Nothing)
            .map_err(|(error, _)| error)?;
        let id = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.into(), id);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state
            .operation(Needs::Nothing)
            .map_err(|(error, _)| error)?;
        state.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.lock();
        state
            .operation(Needs::Nothing)
            .map_err(|(error, _)| error)?;
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        let done = self.create(name)?.write_at(0, &zeros);
        if done.is_err() {
            self.remove(name)?;
        }
        done
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = self.lock();
        Ok(state
            .capacity
            .map_or(u64::MAX, |bytes| bytes.saturating_sub(state.used())))
    }

    fn boot(&self) -> u128 {
        self.lock().boot + 1
    }
}

impl ForgetfulDisk {
    fn handle(&self, id: u64) -> Arc<dyn DiskFile> {
        let disk = self.clone();
        Arc::new(Handle { disk, id })
    }
}

#[derive(Debug)]
struct Handle {
    disk: ForgetfulDisk,
    id: u64,
}

impl Handle {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.disk.lock();
        let needs = match change {
            Change::Write(..) => Needs::Room,
            Change::Truncate(_) => Needs::Nothing,
        };
        let done = state.operation(needs);
        let used = state.used();
        let capacity = state.capacity;
        let file = state
            .files
            .get_mut(&self.id)
            .ok_or(io::ErrorKind::NotFound)?;
        let (change, done) = match (change, done) {
            (change, Ok(())) => (change, Ok(())),
            (Change::Write(at, mut bytes), Err((error, written))) => {
                bytes.truncate(written);
                (Change::Write(at, bytes), Err(error))
            }
            (Change::Truncate(_), Err((error, _))) => return Err(error),
        };
        if let (Change::Write(at, bytes), Some(capacity)) = (&change, capacity) {
            let growth = (at + bytes.len()).saturating_sub(file.now.len()) as u64;
            if used + growth > capacity {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        change.apply(&mut file.now);
        file.since.push(change);
        done
    }
}

impl DiskFile for Handle {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let at = usize::try_from(at).map_err(io::Error::other)?;
        self.change(Change::Write(at, bytes.to_vec()))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.change(Change::Truncate(len))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        let mut synced = state.operation(Needs::Nothing).map_err(|(error, _)| error);
        if state.fails_syncs {
            synced = Err(io::Error::other("the sync fails as set"));
        }
        let file = state
            .files
            .get_mut(&self.id)
            .ok_or(io::ErrorKind::NotFound)?;
        file.is_doubtful |= synced.is_err();
        if !file.is_doubtful {
            file.durable = file.now.clone();
            file.since.clear();
        }
        synced
    }
}

impl fmt::Debug for ForgetfulDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForgetfulDisk")
    }
}
