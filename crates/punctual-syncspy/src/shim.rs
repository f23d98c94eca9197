//! Where the library that is preloaded lies.

use std::io;
use std::path::PathBuf;

const FILE: &str = "libpunctual_syncspy_shim.so";

/// The library, as cargo built it beside this program: the newest, for one that was built by itself
/// stays.
pub(crate) fn path() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let beside = program.ancestors().skip(1).take(3);
    let places =
        beside.flat_map(|directory| [directory.join(FILE), directory.join("deps").join(FILE)]);
    places
        .into_iter()
        .filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path)))
        .max()
        .map(|(_, path)| path)
        .ok_or_else(|| {
            let message = format!(
                "{FILE} is not beside {}; build it: cargo build -p punctual-syncspy-shim",
                program.display()
            );
            io::Error::new(io::ErrorKind::NotFound, message)
        })
}
