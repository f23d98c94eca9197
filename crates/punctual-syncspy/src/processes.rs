//! The processes that run under a spy: those that have its control page in their memory. A name or
//! an environment would not do, since servers overwrite both.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::layout::CONTROL;

/// Kills all of them, and waits until none is left; answers their process ids.
pub(crate) fn kill_all(control: &Path) -> io::Result<Vec<u32>> {
    let mut killed = Vec::new();
    loop {
        // Again, for what one of them had just started.
        let running = running(control)?;
        if running.is_empty() {
            return Ok(killed);
        }
        for pid in running {
            kill(pid)?;
            if !killed.contains(&pid) {
                killed.push(pid);
            }
        }
        std::thread::yield_now();
    }
}

/// Their process ids. A dead one that no parent has waited for has no memory any more.
pub(crate) fn running(control: &Path) -> io::Result<Vec<u32>> {
    let page = format!("{}\n", control.join(CONTROL).display());
    let mut running = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // It may have ended since, or belong to another user.
        let maps = fs::read_to_string(entry.path().join("maps")).unwrap_or_default();
        if maps.contains(&page) {
            running.push(pid);
        }
    }
    Ok(running)
}

fn kill(pid: u32) -> io::Result<()> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Ok(());
    };
    match kill_process(pid, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
