//! A redis-server of its own for a measurement.

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

    /// Bytes of all data and what the server itself takes, at rest: a hash that has doubled keeps
    /// its old table too, and moves a few slots of it at each read, so it is read until that
    /// has come to an end.
    pub(crate) fn memory(&self) -> f64 {
        self.0.cli(&["EVAL", MOVE_SLOTS, "0"]);
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

    /// What `redis-cli` answers.
    pub(crate) fn cli(&self, words: &[&str]) -> String {
        self.0.cli(words)
    }

    fn info(&self, section: &str) -> String {
        self.cli(&["INFO", section])
    }
}

/// Random fields of every large hash: as many as move all slots of a table of 16 M.
const MOVE_SLOTS: &str = "
    for _, key in ipairs(redis.call('KEYS', '*')) do
        if redis.call('TYPE', key).ok == 'hash' and redis.call('HLEN', key) > 50000 then
            for _ = 1, 1200 do redis.call('HRANDFIELD', key, -1000) end
        end
    end
";

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
