//! Figures of the gateway's process, for operators.

use std::fs;

use punctual::time::Stopwatch;
use serde::Serialize;
use utoipa::ToSchema;

/// The process that the gateway runs in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProcessLine {
    /// The version of the gateway.
    version: &'static str,
    /// How long it has run.
    uptime_ms: u64,
    /// Memory that the process holds, where the system says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
}

impl ProcessLine {
    pub(crate) fn new(started: &Stopwatch) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: started.elapsed().as_millis() as u64,
            memory_bytes: memory_bytes(),
        }
    }
}

/// The resident memory, as Linux reports it.
fn memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}
