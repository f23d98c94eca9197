//! Kept histories, checked again.

use std::io;
use std::path::Path;

use crate::check::{self, Findings};
use crate::{call_log, setting, snapshot};

/// Checks kept histories again; answers what they come to and their hash.
pub(crate) fn verify(round: &Path) -> io::Result<(Findings, String)> {
    Ok((check::check(round)?, call_log::hash(round, &HASHED)?))
}

/// What is written of a round.
pub(crate) const FILE: &str = "round.json";

/// What verdicts rest on besides histories.
pub(super) const HASHED: [&str; 2] = [snapshot::FILE, setting::FILE];
