//! Runs `punctual serve` as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

pub(crate) const TOKEN: &str = "bench-token-0123456789";

/// A process that serves on a free port; it ends with this.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(punctual: &Path, engine: &str) -> Self {
        Self::start_with(punctual, engine, &[])
    }

    pub(crate) fn start_with(punctual: &Path, engine: &str, more: &[&str]) -> Self {
        let mut command = Command::new(punctual);
        command.args(["serve", "--listen", "127.0.0.1:0", "-o", "json"]);
        command
            .args(["--engine", engine])
            .args(more)
            .env("PUNCTUAL_TOKEN", TOKEN);
        Self::of(command)
    }

    /// One that prints its URL in a line of JSON.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let said = child.stdout.as_mut().expect("a pipe");
        BufReader::new(said).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let url = said["url"].as_str().expect("a URL");
        let address = url.trim_start_matches("http://").parse();
        Self {
            address: address.expect("an address"),
            child,
        }
    }

    /// Bytes of memory that it has in use.
    pub(crate) fn resident_bytes(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        kibibytes.expect("a number") * 1024.0
    }

    /// Seconds of CPU that it has used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.expect("Linux");
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
        // User and system, in hundredths.
        (ticks(11).expect("user") + ticks(12).expect("system")) / 100.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
