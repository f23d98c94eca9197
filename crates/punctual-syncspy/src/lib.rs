//! Power cuts, slow, failing and full disks, for a process that knows nothing of it.
//!
//! `kill -9` never tests a sync: what a process wrote stays in the system's memory. A library that
//! is preloaded into the process ([`SyncSpy::arm`]) notes of each file what was written and what
//! was synced; [`SyncSpy::power_cut`] kills the process and takes from its files what a disk may
//! lose.
//!
//! ```no_run
//! use punctual_syncspy::{SyncSpy, Tear};
//!
//! let spy = SyncSpy::new("spy", "data")?;
//! let mut server = std::process::Command::new("redis-server");
//! let mut server = spy.arm(server.args(["--dir", "data", "--appendonly", "yes"]))?.spawn()?;
//! // ... enqueue until something was acknowledged ...
//! let cut = spy.power_cut(7, Tear::Prefix)?;
//! server.wait()?;
//! println!("{} bytes lost", cut.lost());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What it does not model
//! Names are durable at once: a file that was made, renamed or removed stays so, whether or not its
//! directory was synced. Memory maps are not seen. Bytes that come by streams of the C library or
//! by system calls without its functions are not seen as they come; those behind the end that is
//! known count as not synced until a sync covers them. Only Linux preloads so.
//!
//! # Where to start
//! - Watch a process: [`SyncSpy::new`] and [`SyncSpy::arm`], then start it.
//! - Cut the power: [`SyncSpy::power_cut`], with a [`Tear`] for what the disk loses.
//! - Other faults: [`SyncSpy::slow_sync`], [`SyncSpy::fail_sync`] and [`SyncSpy::fill_after`].
//! - From a shell: the program `punctual-syncspy` of this package.

mod control;
mod cut;
mod layout;
mod processes;
mod shim;
mod undo;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use control::Page;
pub use cut::{Cut, CutFile, Tear};
use layout::{CONTROL_DIRECTORY, JOURNALS, WATCHED_DIRECTORY, word};

/// Watches what processes write below one directory.
///
/// What it knows lies in its control directory, not in the processes: it outlives them, and another
/// process takes hold of it with [`at`](Self::at).
#[derive(Debug)]
pub struct SyncSpy {
    directory: PathBuf,
    watched: PathBuf,
    page: Page,
}

/// What a spy saw since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Writes to watched files, refused ones too.
    pub writes: u64,
    /// Writes that found the disk full.
    pub refused_writes: u64,
    /// Syncs of watched files and directories, failed ones too.
    pub syncs: u64,
    /// Syncs that failed because the spy made them fail.
    pub failed_syncs: u64,
}

/// A sync of a watched file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncSpan {
    /// The last part of the path, 40 bytes of it at most.
    pub name: String,
    /// When it began, in microseconds of the machine's monotonic clock.
    pub began: u64,
    /// When it was over, done or failed; `None` if it is not, or its process was killed in it.
    pub ended: Option<u64>,
}

impl SyncSpy {
    /// Makes a control directory, and watches the files below another one, which must be there.
    ///
    /// # Errors
    /// If a directory cannot be made or read, or there was a spy in the control directory already.
    pub fn new(control: impl AsRef<Path>, watched: impl AsRef<Path>) -> io::Result<Self> {
        let control = control.as_ref();
        std::fs::create_dir_all(control.join(JOURNALS))?;
        let watched = watched.as_ref().canonicalize()?;
        control::make(control, &watched)?;
        Self::at(control)
    }

    /// Takes hold of a spy that was made before.
    ///
    /// # Errors
    /// If there is none in that directory.
    pub fn at(control: impl AsRef<Path>) -> io::Result<Self> {
        let directory = control.as_ref().canonicalize()?;
        let (page, watched) = control::open(&directory)?;
        Ok(Self {
            directory,
            watched,
            page,
        })
    }

    /// Sets a command up so that its process, and those that it starts, are watched.
    ///
    /// # Errors
    /// If the library that is preloaded was not built.
    pub fn arm<'command>(
        &self,
        command: &'command mut Command,
    ) -> io::Result<&'command mut Command> {
        Ok(command.envs(self.environment()?))
    }

    /// What stands in the environment of a watched process.
    ///
    /// # Errors
    /// If the library that is preloaded was not built.
    pub fn environment(&self) -> io::Result<[(&'static str, OsString); 3]> {
        Ok([
            ("LD_PRELOAD", shim::path()?.into_os_string()),
            (CONTROL_DIRECTORY, self.directory.clone().into_os_string()),
            (WATCHED_DIRECTORY, self.watched.clone().into_os_string()),
        ])
    }

    /// Makes every sync take so much longer, from now on; zero ends that.
    ///
    /// # Errors
    /// If the control directory cannot be written.
    pub fn slow_sync(&self, by: Duration) -> io::Result<()> {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.page.set(word::SLOW_MICROS, micros)
    }

    /// Lets the `k`-th sync from now on fail with an input/output error; 1 is the next, 0 none.
    ///
    /// Nothing of the file that it hits counts as synced any more, whatever later syncs answer.
    ///
    /// # Errors
    /// If the control directory cannot be written.
    pub fn fail_sync(&self, k: u64) -> io::Result<()> {
        self.page.set(word::FAIL_SYNC, k)
    }

    /// Lets the disk be full for the `k`-th write from now on and all after it; 1 is the next, 0
    /// none.
    ///
    /// # Errors
    /// If the control directory cannot be written.
    pub fn fill_after(&self, k: u64) -> io::Result<()> {
        self.page.set(word::FULL, k)
    }

    /// Lets the wall clock of every watched process read so many microseconds more, or less, from
    /// now on; 0 ends that. Monotonic clocks are left alone.
    ///
    /// # Errors
    /// If the control directory cannot be written.
    pub fn shift_clock(&self, by: i64) -> io::Result<()> {
        self.page.set(word::CLOCK_MICROS, by.cast_unsigned())
    }

    /// By how many microseconds the wall clock of watched processes is shifted.
    ///
    /// # Errors
    /// If the control directory cannot be read.
    pub fn clock_shift(&self) -> io::Result<i64> {
        Ok(self.page.get(word::CLOCK_MICROS)?.cast_signed())
    }

    /// Ends slow syncs, failing syncs and the full disk. The clock stays as it is.
    ///
    /// # Errors
    /// If the control directory cannot be written.
    pub fn heal(&self) -> io::Result<()> {
        self.slow_sync(Duration::ZERO)?;
        self.fail_sync(0)?;
        self.fill_after(0)
    }

    /// What was seen until now.
    ///
    /// # Errors
    /// If the control directory cannot be read.
    pub fn counts(&self) -> io::Result<Counts> {
        Ok(Counts {
            writes: self.page.get(word::WRITES)?,
            refused_writes: self.page.get(word::REFUSED_WRITES)?,
            syncs: self.page.get(word::SYNCS)?,
            failed_syncs: self.page.get(word::FAILED_SYNCS)?,
        })
    }

    /// The syncs since the last power cut in the order in which they began; of more than 1,024 the
    /// last ones.
    ///
    /// # Errors
    /// If the control directory cannot be read.
    pub fn syncs(&self) -> io::Result<Vec<SyncSpan>> {
        let slots = self.page.syncs()?.into_iter();
        let spans = slots.map(|slot| SyncSpan {
            name: String::from_utf8_lossy(&slot.name)
                .trim_end_matches('\0')
                .to_owned(),
            began: slot.began,
            ended: Some(slot.ended).filter(|ended| *ended > 0),
        });
        Ok(spans.collect())
    }

    /// Kills every process that runs under this spy, waits until they are dead, and takes from
    /// their files what a power cut may take. The seed decides what that is.
    ///
    /// # Errors
    /// If a process cannot be killed, or a file not read or written.
    pub fn power_cut(&self, seed: u64, tear: Tear) -> io::Result<Cut> {
        let killed = processes::kill_all(&self.directory)?;
        let mut cut = self.cut_files(seed, tear)?;
        cut.killed = killed;
        Ok(cut)
    }

    /// The second half of a [power cut](Self::power_cut), after the processes were killed.
    ///
    /// # Errors
    /// If a process still runs under this spy, or a file cannot be read or written.
    pub fn cut_files(&self, seed: u64, tear: Tear) -> io::Result<Cut> {
        if let Some(pid) = processes::running(&self.directory)?.first() {
            let message = format!("process {pid} still runs under this spy; kill it first");
            return Err(io::Error::other(message));
        }
        let cut = cut::cut(&self.directory, &self.watched, seed, tear)?;
        self.page.forget_syncs()?;
        Ok(cut)
    }
}
