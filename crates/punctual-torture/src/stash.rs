//! The folder of a run that was before, under the same seed: a finding that has not been read is
//! not thrown away.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::run::{self, Round};
use crate::setting;

/// Makes room for a run. The folder of the one before is removed; if it holds a round that was not
/// clean, or never judged, it is stashed, and where to is answered.
pub(crate) fn make_room(folder: &Path) -> io::Result<Option<PathBuf>> {
    if !folder.exists() {
        return Ok(None);
    }
    if !holds_finding(folder)? {
        fs::remove_dir_all(folder)?;
        return Ok(None);
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let stash = |number: u64| folder.with_file_name(format!("{name}.finding-{number}"));
    let free = (1..).map(stash).find(|stash| !stash.exists());
    let free = free.expect("numbers do not end");
    fs::rename(folder, &free)?;
    Ok(Some(free))
}

fn holds_finding(folder: &Path) -> io::Result<bool> {
    if folder.join(setting::FILE).exists() {
        return Ok(!is_clean(folder));
    }
    let entries = match fs::read_dir(folder) {
        // What a killed run left, and its own processes put away meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() && holds_finding(&entry.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a round was judged, and nothing promised was broken.
fn is_clean(round: &Path) -> bool {
    let text = fs::read(round.join(run::FILE)).unwrap_or_default();
    serde_json::from_slice(&text).is_ok_and(|round: Round| round.is_clean())
}

#[cfg(test)]
mod tests;
