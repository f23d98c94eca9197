//! All processes below one process, also those that left its group or session.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Has the system give this process the orphans among its descendants, where it can.
pub(super) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Sends a signal once to every process below `root`, and to the group of `leader`.
pub(super) fn signal(root: Pid, leader: Pid, leader_runs: bool, signal: Signal) {
    let below = below(root);
    // The number of a group may be used again once nothing of the group is left.
    if leader_runs || below.iter().any(|process| process.group == leader) {
        let _ = kill_process_group(leader, signal);
    }
    for process in below.iter().filter(|process| process.group != leader) {
        // It may have ended since, or belong to another user.
        let _ = kill_process(process.id, signal);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    id: Pid,
    parent: Pid,
    group: Pid,
}

/// The processes below one, in no order; none where the system has no `/proc`.
fn below(root: Pid) -> Vec<Process> {
    let mut children: HashMap<Pid, Vec<Process>> = HashMap::new();
    for process in processes() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found: Vec<Process> = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let below = children.remove(&process.id);
        found.extend(below.into_iter().flatten());
        next += 1;
    }
    found
}

/// Every process that can be seen.
fn processes() -> impl Iterator<Item = Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        read(id, &String::from_utf8_lossy(&stat))
    })
}

/// Reads the line of `/proc/ID/stat`.
fn read(id: i32, stat: &str) -> Option<Process> {
    // The name before it may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(1);
    let mut number = || Pid::from_raw(fields.next()?.parse().ok()?);
    Some(Process {
        id: Pid::from_raw(id)?,
        parent: number()?,
        group: number()?,
    })
}

#[cfg(test)]
mod tests;
