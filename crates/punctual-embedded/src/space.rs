//! Room on the disk: foreseen, so that a full one is never met by a job that is to be settled.

use std::sync::Arc;

use punctual::{Error, ErrorKind};

use crate::disk::Disk;

/// The file that takes room until it is needed.
const RESERVE: &str = "reserve";

/// Where nothing is kept back, so much free room ends the refusal of new jobs.
const ROOM_MIN: u64 = 4 << 20;

/// Watches the free bytes of a disk and keeps some of them back.
#[derive(Debug)]
pub(crate) struct Space {
    disk: Arc<dyn Disk>,
    /// What is kept back, and what must be free besides for an enqueue to be let in.
    bytes: u64,
    is_kept: bool,
    is_short: bool,
}

impl Space {
    pub(crate) fn new(disk: Arc<dyn Disk>, bytes: u64) -> Self {
        let is_there = |names: Vec<(String, u64)>| {
            names
                .iter()
                .any(|(name, len)| name == RESERVE && *len >= bytes)
        };
        let is_kept = disk.names().is_ok_and(is_there);
        let mut space = Self {
            disk,
            bytes,
            is_kept,
            is_short: false,
        };
        space.measure();
        space
    }

    /// Whether there is no room for new jobs.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Measures how much is free; keeps the reserve back again where there is room for it.
    pub(crate) fn measure(&mut self) {
        let Ok(mut free) = self.disk.free_bytes() else {
            return;
        };
        if self.bytes == 0 {
            // A full disk is met, not foreseen.
            self.is_short &= free < ROOM_MIN;
            return;
        }
        if !self.is_kept && free >= 2 * self.bytes {
            self.is_kept = self.disk.reserve(RESERVE, self.bytes).is_ok();
            free = self.disk.free_bytes().unwrap_or(0);
        }
        let enough = if self.is_short {
            self.let_in_again()
        } else {
            self.bytes
        };
        let is_short = !self.is_kept || free < enough;
        if is_short != self.is_short {
            if is_short {
                tracing::warn!(free, "disk is nearly full: no new jobs are taken");
            } else {
                tracing::info!(free, "disk has room again");
            }
        }
        self.is_short = is_short;
    }

    /// A write found the disk full: gives the reserve back, if it was not given before.
    pub(crate) fn release(&mut self) -> bool {
        self.is_short = true;
        if !self.is_kept {
            return false;
        }
        self.is_kept = false;
        self.disk.remove(RESERVE).is_ok()
    }

    /// Why there is no room for new jobs.
    pub(crate) fn refusal(&self) -> Error {
        if self.bytes == 0 {
            let message = "disk is full: no new jobs are taken until 4 MiB are free; free some";
            return Error::new(ErrorKind::EngineFull, message);
        }
        // What was given back has to be kept back again first.
        let reserve = if self.is_kept { 0 } else { self.bytes };
        let needed = reserve + self.let_in_again();
        let free = match self.disk.free_bytes() {
            Ok(free) => format!("{} MiB are", free >> 20),
            Err(_) => "too little is".into(),
        };
        let message = format!(
            "disk is nearly full: {free} free, and new jobs are taken from {} MiB on; free some, or set less aside with file:DIR?reserve= (it is {} MiB)",
            needed.div_ceil(1 << 20),
            self.bytes.div_ceil(1 << 20),
        );
        Error::new(ErrorKind::EngineFull, message)
    }

    /// What must be free before new jobs are let in again: a little more than enough, so that
    /// there is no flutter at the edge.
    fn let_in_again(&self) -> u64 {
        self.bytes + self.bytes / 4
    }

    /// Gives the reserve of a disk back, if there is one.
    pub(crate) fn give_back(disk: &dyn Disk) -> bool {
        disk.remove(RESERVE).is_ok()
    }

    /// Whether a file of a directory is the reserve, by its name.
    pub(crate) fn is_name(name: &str) -> bool {
        name == RESERVE
    }
}
