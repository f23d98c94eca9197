//! What every process below this one is at: as the system says it, and by the last lines of its
//! history.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::address;
use crate::call_log;
use crate::stamp::stamp;

/// The account, for people.
pub(super) fn of(round: &Path) -> String {
    let mut text = String::new();
    for (process, command) in below(std::process::id()) {
        let _ = writeln!(text, "process {process}: {command}");
        for line in threads(process).into_iter().chain(connections(process)) {
            let _ = writeln!(text, "  {line}");
        }
    }
    let _ = writeln!(text, "\nnow: {}", stamp());
    for (name, lines) in last_lines(round) {
        let _ = writeln!(text, "{name}:");
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// Every process that descends from one, and that one, with its command.
fn below(process: u32) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: BTreeMap<u32, u32> = numbers
        .filter_map(|number| Some((number, parent(number)?)))
        .collect();
    let descends = |mut at: u32| loop {
        match parents.get(&at) {
            _ if at == process => return true,
            Some(parent) => at = *parent,
            None => return false,
        }
    };
    let found = parents.keys().copied().filter(|number| descends(*number));
    found.map(|number| (number, command(number))).collect()
}

fn parent(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

fn command(process: u32) -> String {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&words).replace('\0', " ");
    address::hidden(&text).chars().take(COMMAND_MAX).collect()
}

const COMMAND_MAX: usize = 300;

/// Name, state and what it waits for in the kernel, of each thread.
fn threads(process: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{process}/task"));
    let of = |place: &Path, name: &str| fs::read_to_string(place.join(name)).unwrap_or_default();
    let threads = entries.into_iter().flatten().flatten().map(|entry| {
        let place = entry.path();
        let stat = of(&place, "stat");
        let state = stat.rsplit(") ").next().unwrap_or_default();
        let state = state.chars().next().unwrap_or('?');
        let (name, waits) = (of(&place, "comm"), of(&place, "wchan"));
        let call = of(&place, "syscall");
        let call = call.split(' ').next().unwrap_or_default();
        format!(
            "{} {}: {state}, in {waits}, system call {}",
            place.file_name().unwrap_or_default().to_string_lossy(),
            name.trim(),
            call.trim()
        )
    });
    threads.collect()
}

/// Ports, state, and bytes that wait to be sent and to be read, of each connection that it holds.
fn connections(process: u32) -> Vec<String> {
    let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap_or_default();
    let held = fs::read_dir(format!("/proc/{process}/fd"));
    let held = held.into_iter().flatten().flatten();
    let held: Vec<String> = held
        .filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.to_str()?.to_owned()))
        .collect();
    let connection = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, queues, _, _, _, _, number, ..] = words[..] else {
            return None;
        };
        let port = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
        let (sent, read) = queues.split_once(':')?;
        let is_held = held.contains(&format!("socket:[{number}]"));
        is_held.then_some(format!(
            "tcp {} -> {}: state {state}, {sent} to send, {read} to read, in hexadecimal",
            port(local)?,
            port(remote)?
        ))
    };
    table.lines().filter_map(connection).collect()
}

/// The ends of all histories.
fn last_lines(round: &Path) -> Vec<(String, Vec<String>)> {
    let files = fs::read_dir(round.join(call_log::FOLDER))
        .into_iter()
        .flatten();
    let mut lines: Vec<_> = files
        .flatten()
        .map(|file| {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            let cut = |line: &str| line.chars().take(LINE_MAX).collect();
            let mut last: Vec<String> = text.lines().rev().take(LINES).map(cut).collect();
            last.reverse();
            (file.file_name().to_string_lossy().into_owned(), last)
        })
        .collect();
    lines.sort();
    lines
}

const LINES: usize = 5;
const LINE_MAX: usize = 400;
