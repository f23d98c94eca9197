//! The committer: owns the machine, runs what callers send, writes one commit for all of it.
//!
//! It never waits for more callers than there are: those that come while a commit is written and
//! synced are the next one's. Answers leave in the order of what they need: reads at once, claims
//! when the commit is written, changes when it is durable ([`Syncing`]).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use punctual::injected::{Bug, is_injected};
use punctual::machine::{Machine, Wakeups};
use punctual::time::{SteadyClock, Stopwatch, Timestamp, millis, seconds};
use punctual::{Error, ErrorKind, Result};

use crate::activity::Activity;
use crate::call_queue::{Answer, Broken, Call, Calls, Done, Kind};
use crate::checkpoint::{self, Checkpoints};
use crate::disk::is_full;
use crate::log::Log;
use crate::options::Options;
use crate::space::Space;
use crate::store::Store;
use crate::syncing::Syncing;

/// The one owner of the machine and the log's end.
pub(crate) struct Committer {
    pub(crate) machine: Machine,
    pub(crate) log: Log,
    pub(crate) space: Space,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<SteadyClock>,
    pub(crate) wakeups: Arc<Wakeups>,
    pub(crate) calls: Arc<Calls>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) syncing: Arc<Syncing>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) options: Options,
    pub(crate) pace: Pace,
}

/// What the committer remembers from one turn to the next.
pub(crate) struct Pace {
    /// A commit is prepared that the full disk did not take.
    is_unwritten: bool,
    /// A checkpoint is under way.
    is_checkpointing: bool,
    /// Since the last regular check.
    checked: Stopwatch,
    /// Since the last commit, and whether what is to be done after a while of quiet was done.
    quiet: Stopwatch,
    is_tidied: bool,
    next_maintenance: Option<Timestamp>,
    /// Bytes of the log at the last check of the disk.
    seen_bytes: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            is_unwritten: false,
            is_checkpointing: false,
            checked: Stopwatch::start(),
            quiet: Stopwatch::start(),
            is_tidied: false,
            next_maintenance: None,
            seen_bytes: 0,
        }
    }
}

/// The loop's name in the health of the engine.
pub(crate) const COMMITTER: &str = "commit";
const NAP: Duration = seconds(1);
const NAP_MIN: Duration = millis(1);
/// How long to wait before a full disk is tried again.
const RETRY: Duration = millis(100);
/// A log below this is not worth a checkpoint of its own: it is read in milliseconds.
const LOG_MIN: u64 = 4 << 20;
/// While a checkpoint is taken, recent rows may be this many times what one takes, then calls wait
/// for the store. It bounds memory, and what is replayed after a kill.
const RECENT_MAX: usize = 1;

/// Answers by what they wait for.
#[derive(Default)]
struct Answers {
    durable: Vec<Answer>,
    written: Vec<Answer>,
    at_once: Vec<Answer>,
}

impl Committer {
    /// Works until the calls are closed, then ends in good order; or until something breaks.
    pub(crate) fn run(mut self) -> Result<()> {
        self.commit(Vec::new());
        loop {
            self.activity.rest(COMMITTER);
            let work = self.calls.take(self.nap());
            self.activity.beat(COMMITTER);
            if let Some(commit) = work.applied {
                self.retire(commit);
            }
            if !work.calls.is_empty() {
                self.commit(work.calls);
            }
            self.check_regularly();
            if let Some(broken) = self.calls.broken() {
                return Err(broken.error());
            }
            if work.is_last {
                return self.close();
            }
            self.checkpoint_if_due();
        }
    }

    /// How long the committer may sleep without a call.
    fn nap(&self) -> Duration {
        if self.pace.is_unwritten {
            return RETRY;
        }
        let next = self
            .pace
            .next_maintenance
            .filter(|_| self.options.maintenance);
        let nap = next.map_or(NAP, |next| next.since(self.clock.now()));
        nap.clamp(NAP_MIN, NAP)
    }

    /// Runs calls, writes what they changed, and sends the answers on their way.
    fn commit(&mut self, calls: Vec<Call>) {
        let mut answers = Answers::default();
        if self.pace.is_unwritten {
            match self.write_staged() {
                Ok(number) => self.syncing.written(number, Vec::new()),
                Err(error) if is_full(&error) => return self.read_only(calls),
                Err(error) => return self.calls.break_down(write_failed(&error)),
            }
        }
        for call in calls {
            if call.kind == Kind::Enqueue && self.space.is_short() {
                call.refuse(self.space.refusal());
                continue;
            }
            if let Err(broken) = self.run_one(call, &mut answers) {
                return self.calls.break_down(broken);
            }
        }
        if is_injected(Bug::AckBeforeWrite) && !answers.durable.is_empty() {
            return send(answers.durable);
        }
        match self.write() {
            Ok(number) => {
                if !answers.at_once.is_empty() {
                    self.measure();
                }
                send(answers.at_once);
                send(answers.written);
                self.syncing.written(number, answers.durable);
                self.machine.deliver(&self.wakeups);
            }
            Err(error) if is_full(&error) => {
                send(answers.at_once);
                let changes = answers.written.into_iter().chain(answers.durable);
                changes.for_each(|answer| answer.send(Err(in_doubt(&error))));
            }
            Err(error) => self.calls.break_down(write_failed(&error)),
        }
    }

    /// Reports the size of the store; not the log, which is as long as it is allowed to be.
    fn measure(&self) {
        self.activity
            .takes(self.store.disk_bytes(), self.store.memory_bytes());
    }

    fn run_one(&mut self, call: Call, answers: &mut Answers) -> Result<(), Broken> {
        let (kind, before) = (call.kind, self.machine.step_bytes());
        let now = self.clock.now();
        let machine = &mut self.machine;
        let ran = catch_unwind(AssertUnwindSafe(|| call.run(machine, now)));
        let Ok(Done { broke, answer }) = ran else {
            let why = "a call panicked, which is a bug in punctual; open the directory again";
            return Err(broken(ErrorKind::Internal, why.into()));
        };
        if let Some(kind) = broke.filter(|_| self.machine.step_bytes() != before) {
            // Half a step is in memory; on disk it never will be.
            let why = "store failed in the middle of a step; see the error before, and open the directory again";
            answer.send(Ok(()));
            return Err(broken(kind, why.into()));
        }
        match kind {
            Kind::Enqueue | Kind::Change => answers.durable.push(answer),
            Kind::Claim => answers.written.push(answer),
            Kind::Read => answers.at_once.push(answer),
        }
        Ok(())
    }

    /// The disk took not even what was done before: nothing is changed until it does.
    fn read_only(&mut self, calls: Vec<Call>) {
        let mut answers = Answers::default();
        for call in calls {
            if call.kind != Kind::Read {
                call.refuse(disk_full());
            } else if let Err(broken) = self.run_one(call, &mut answers) {
                return self.calls.break_down(broken);
            }
        }
        send(answers.at_once);
    }

    /// Writes what was changed; answers the last commit.
    fn write(&mut self) -> io::Result<u64> {
        let step = self.machine.take_step().map_err(io::Error::other)?;
        if step.is_empty() {
            return Ok(self.log.number());
        }
        if self.log.is_long() {
            self.roll();
        }
        self.stage(&step);
        self.write_staged()
    }

    /// Writes the commit that is prepared, if need be into the reserve.
    fn write_staged(&mut self) -> io::Result<u64> {
        let written = loop {
            match self.log.write() {
                Err(error) if is_full(&error) && self.space.release() => self.announce_disk(),
                written => break written,
            }
        };
        self.pace.is_unwritten = written.as_ref().is_err_and(is_full);
        written
    }

    fn stage(&mut self, step: &[u8]) {
        self.log.stage(step, self.syncing.synced());
        self.pace.quiet = Stopwatch::start();
        self.pace.is_tidied = false;
    }

    /// Begins a new segment of the log; where that fails, the old one goes on.
    fn roll(&mut self) -> bool {
        if self.log.is_fresh() {
            return true;
        }
        let rolled = self.log.roll();
        let problem = rolled
            .as_ref()
            .err()
            .map(|error| format!("log cannot go on in a new file: {error}"));
        self.activity.set("log", problem);
        if rolled.is_ok() {
            self.syncing.goes_on_in(self.log.file().clone());
        }
        rolled.is_ok()
    }

    /// What time causes without a call: maintenance, room on the disk, quiet.
    fn check_regularly(&mut self) {
        if self.log.bytes().abs_diff(self.pace.seen_bytes) > self.options.reserve_bytes / 8 {
            self.check_disk();
        }
        if self.pace.checked.elapsed() < self.nap() {
            return;
        }
        self.pace.checked = Stopwatch::start();
        self.check_disk();
        self.measure();
        if self.options.maintenance {
            self.maintain();
        } else if self.pace.is_unwritten {
            self.commit(Vec::new());
        }
        let is_quiet = self.pace.quiet.elapsed() >= self.options.idle_after;
        if is_quiet && !self.pace.is_tidied && !self.pace.is_checkpointing {
            if self.log.bytes() > LOG_MIN {
                self.checkpoint();
            } else {
                self.checkpoints.shrink();
                self.pace.is_tidied = true;
            }
        }
    }

    fn check_disk(&mut self) {
        self.space.measure();
        self.announce_disk();
        self.pace.seen_bytes = self.log.bytes();
    }

    fn announce_disk(&self) {
        let problem = self
            .space
            .is_short()
            .then(|| self.space.refusal().to_string());
        self.activity.set("disk", problem);
    }

    fn maintain(&mut self) {
        let before = self.machine.step_bytes();
        match self.machine.maintain(self.clock.now()) {
            Ok(done) => self.pace.next_maintenance = done.next,
            Err(error) if self.machine.step_bytes() != before => {
                return self
                    .calls
                    .break_down(broken(error.kind(), error.to_string()));
            }
            Err(error) => return self.activity.set("maintenance", Some(error.to_string())),
        }
        self.activity.set("maintenance", None);
        self.commit(Vec::new());
    }

    fn checkpoint_if_due(&mut self) {
        let recent = self.machine.recent_bytes();
        // Where room is short, the log's is given back sooner.
        let sooner = if self.space.is_short() { 8 } else { 1 };
        let enough = self.options.checkpoint_bytes / sooner;
        if self.pace.is_checkpointing {
            if recent > RECENT_MAX * enough && !self.activity.has(checkpoint::FAILING) {
                self.calls.wait_applied();
            }
            return;
        }
        let is_long = self.log.bytes() > 2 * self.options.segment_bytes / sooner as u64;
        let is_large = recent > enough * 3 / 2;
        if is_large || ((recent > enough || is_long) && !self.store.is_behind()) {
            self.checkpoint();
        }
    }

    /// Sets everything recent aside and lets it be written to the store.
    fn checkpoint(&mut self) {
        if self.pace.is_unwritten || !self.roll() {
            return;
        }
        let (commit, file) = (self.log.number(), self.log.file().clone());
        self.checkpoints.apply(commit, self.machine.freeze(), file);
        self.pace.is_checkpointing = true;
    }

    /// The store has everything up to a commit.
    fn retire(&mut self, commit: u64) {
        self.machine.thaw();
        self.pace.is_checkpointing = false;
        self.pace.is_tidied = false;
        self.checkpoints.retire(self.log.retire(commit));
    }

    /// Ends in good order: all calls were answered, or wait for the last sync.
    fn close(mut self) -> Result<()> {
        self.write_close()?;
        self.last_checkpoint();
        Ok(())
    }

    fn write_close(&mut self) -> Result<()> {
        let failed = |error: io::Error| write_failed(&error).error();
        if self.pace.is_unwritten {
            self.write_staged().map_err(failed)?;
        }
        let step = self.machine.close(self.clock.now())?;
        self.stage(&step);
        let number = self.write_staged().map_err(failed)?;
        self.syncing.written(number, Vec::new());
        Ok(())
    }

    /// A long log would be read at the next opening; where the checkpoint fails, it is.
    fn last_checkpoint(&mut self) {
        self.checkpoints.close();
        let mut applied = self.calls.take(Duration::ZERO).applied;
        if applied.is_some() {
            self.machine.thaw();
        } else if self.pace.is_checkpointing {
            return;
        }
        if self.log.bytes() > LOG_MIN && self.roll() {
            let frozen = self.machine.freeze();
            let commit = self.log.number();
            match self
                .checkpoints
                .apply_now(commit, &frozen, &**self.log.file())
            {
                Ok(()) => applied = Some(commit),
                Err(error) => tracing::warn!(%error, "last checkpoint failed; the log has it all"),
            }
        }
        if let Some(commit) = applied {
            self.checkpoints.retire_now(&self.log.retire(commit));
        }
    }
}

fn send(answers: Vec<Answer>) {
    answers.into_iter().for_each(|answer| answer.send(Ok(())));
}

fn broken(kind: ErrorKind, why: String) -> Broken {
    Broken { kind, why }
}

fn write_failed(error: &io::Error) -> Broken {
    let why = format!(
        "log could not be written: {error}; nothing more is acknowledged, see to the disk and start again"
    );
    broken(ErrorKind::EngineUnavailable, why)
}

/// Nothing was changed.
fn disk_full() -> Error {
    let message = "disk is full, and changes done before are still to be written; free some space, then send it again";
    Error::new(ErrorKind::EngineFull, message)
}

/// It is done in memory, and will be on disk once there is room; or never, after a kill.
fn in_doubt(error: &io::Error) -> Error {
    let message = format!(
        "disk is full ({error}): whether this takes effect is open; free some space, then send the same ids again to learn it"
    );
    Error::new(ErrorKind::EngineUnavailable, message)
}
