use std::collections::BTreeMap;
use std::process::Command;

use punctual_redis::testing::TestServer;

/// A redis-server of its own, empty, that keeps nothing on disk.
pub(crate) struct Server(TestServer);

impl Server {
    pub(crate) fn start() -> Self {
        Self(TestServer::start())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    /// Microseconds of CPU so far, user and system, all threads.
    pub(crate) fn cpu_us(&self) -> f64 {
        let info = self.info("cpu");
        let seconds = number(&info, "used_cpu_user:") + number(&info, "used_cpu_sys:");
        seconds * 1e6
    }

    /// Bytes of all data and what the server itself takes.
    pub(crate) fn memory(&self) -> f64 {
        number(&self.info("memory"), "used_memory:")
    }

    /// How often clients have sent something.
    pub(crate) fn reads(&self) -> f64 {
        number(&self.info("stats"), "total_reads_processed:")
    }

    /// Calls of each command so far, those within functions and scripts included.
    pub(crate) fn commands(&self) -> BTreeMap<String, f64> {
        let info = self.info("commandstats");
        let lines = info.lines().filter_map(|line| line.split_once(":calls="));
        lines
            .map(|(name, rest)| {
                let calls = rest.split(',').next().unwrap_or_default();
                let name = name.trim_start_matches("cmdstat_").to_owned();
                (name, calls.parse().unwrap_or_default())
            })
            .collect()
    }

    fn info(&self, section: &str) -> String {
        self.0.cli(&["INFO", section])
    }
}

fn number(info: &str, name: &str) -> f64 {
    let line = info.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|value| value.trim().parse().ok());
    value.unwrap_or_else(|| panic!("INFO has no {name} in {info:?}"))
}

/// As `redis-server --version` has it.
pub(crate) fn version() -> String {
    let output = Command::new("redis-server").arg("--version").output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.split(" sha=").next().unwrap_or_default().to_owned()
}
