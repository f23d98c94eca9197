//! Reads the tree's pointer file before the tree is opened.
//!
//! Opening removes every table that the current version does not name, so a version that cannot be
//! trusted must be found out before.

use std::fs;
use std::io;
use std::path::Path;

use punctual::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_128;

/// Bytes of the pointer: version, checksum of its file, kind of checksum.
const POINTER_BYTES: usize = 25;
/// The kind that xxh3 is.
const XXH3: u8 = 0;

/// Whether a tree is there; refuses one whose version is damaged.
pub(super) fn check(path: &Path) -> Result<bool> {
    let pointer = match fs::read(path.join("current")) {
        Ok(pointer) => pointer,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => {
            let error = Error::new(ErrorKind::Io, "store could not be read").source(error);
            return Err(error.with("file", path.join("current").display()));
        }
    };
    let damaged = |name: &str| damaged(&path.join(name));
    let Ok(pointer) = <[u8; POINTER_BYTES]>::try_from(pointer) else {
        return Err(damaged("current"));
    };
    let (mut version, mut sum) = ([0; 8], [0; 16]);
    version.copy_from_slice(&pointer[..8]);
    sum.copy_from_slice(&pointer[8..24]);
    let name = format!("v{}", u64::from_le_bytes(version));
    let file = fs::read(path.join(&name)).map_err(|_| damaged("current"))?;
    if pointer[24] != XXH3 || xxh3_128(&file) != u128::from_le_bytes(sum) {
        return Err(damaged(&name));
    }
    Ok(true)
}

fn damaged(file: &Path) -> Error {
    let message = "store is damaged; restore the data directory from a backup";
    Error::new(ErrorKind::DataDamaged, message).with("file", file.display())
}
