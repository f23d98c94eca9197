//! Starts a server for a test.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use punctual::time::millis;
use tempfile::TempDir;

use super::cli::ask_as;

/// Where a machine gets its `redis-server` from.
const INSTALL: &str = "tests start a redis-server 7.0 or later of their own and found none; \
     install one (Debian, Ubuntu: sudo apt-get install redis-server; macOS: brew install redis)";

/// A redis-server of one test: on a free port of the loopback, in a directory of its own.
///
/// It ends when it is dropped, and when the process of the test ends, however that ends.
pub struct TestServer {
    role: Role,
    port: u16,
    settings: Vec<String>,
    password: Option<String>,
    directory: TempDir,
    environment: Environment,
    running: Option<Running>,
}

/// Variables that a server is started with, besides those of the test.
type Environment = Vec<(String, OsString)>;

fn new_directory() -> TempDir {
    tempfile::Builder::new()
        .prefix("punctual-redis-")
        .tempdir()
        .expect("the system refuses to make a directory")
}

impl TestServer {
    /// Settings of a server that has everything it acknowledged after a kill.
    pub const KEEPS_ALL: [&str; 6] = [
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ];

    /// A server that keeps nothing on disk.
    pub fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// A server with settings as on the command line of redis-server. One whose settings name its
    /// certificate (`--tls-cert-file`) takes encrypted connections only.
    pub fn with(settings: &[&str]) -> Self {
        Self::on(Role::Server, settings)
    }

    /// A sentinel with these lines as its file, and the password that they ask for.
    pub(super) fn sentinel(lines: &str, password: Option<&str>) -> Self {
        let mut sentinel = Self::on(Role::Sentinel, &[lines]);
        sentinel.password = password.map(Into::into);
        sentinel
    }

    /// A server whose directory is made before it starts, so that a test can watch it: `watch` is
    /// given the directory, and answers variables for the environment of the server.
    pub fn watched<W>(settings: &[&str], watch: W) -> Self
    where
        W: FnOnce(&Path) -> Vec<(String, OsString)>,
    {
        let directory = new_directory();
        let environment = watch(directory.path());
        Self::within(Role::Server, settings, directory, environment)
    }

    fn on(role: Role, settings: &[&str]) -> Self {
        Self::within(role, settings, new_directory(), Vec::new())
    }

    fn within(role: Role, settings: &[&str], directory: TempDir, environment: Environment) -> Self {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        for _ in 0..50 {
            let port = free_port();
            match Running::start(role, port, directory.path(), &settings, &environment) {
                Ok(running) => {
                    return Self {
                        role,
                        port,
                        settings,
                        password: None,
                        directory,
                        environment,
                        running: Some(running),
                    };
                }
                Err(said) if said.contains("Address already in use") => {}
                Err(said) => panic!("redis-server does not start: {said}"),
            }
        }
        panic!("no port is free");
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, without options.
    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Ends it as a kill does.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Whether it was started and not killed since.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Stops it from running without ending it, until [`go_on`](Self::go_on).
    pub fn stop(&mut self) {
        self.signal("STOP");
        while !self.is_stopped() {
            std::thread::yield_now();
        }
    }

    /// Lets a stopped one run again.
    pub fn go_on(&mut self) {
        self.signal("CONT");
    }

    fn start_again(&mut self) -> Result<Running, String> {
        self.running = None;
        let (directory, environment) = (self.directory.path(), &self.environment);
        Running::start(self.role, self.port, directory, &self.settings, environment)
    }

    /// Starts it again on the same port and directory, after a kill.
    pub fn restart(&mut self) {
        let running = self.start_again();
        self.running = Some(running.unwrap_or_else(|said| panic!("no restart: {said}")));
    }

    /// The same, where it may refuse: whether it runs.
    pub fn starts_again(&mut self) -> bool {
        self.running = self.start_again().ok();
        self.running.is_some()
    }

    /// Cuts torn ends off its append-only files, after a kill: to before a transaction that was
    /// torn.
    ///
    /// # Panics
    /// If there is no redis-check-aof, or it refuses a file.
    pub fn repair_append_only_files(&self) {
        let files = std::fs::read_dir(self.directory.path().join("appendonlydir"));
        for file in files.into_iter().flatten().map_while(Result::ok) {
            if file.path().extension().is_some_and(|end| end == "aof") {
                self.repair(&file.path());
            }
        }
    }

    fn repair(&self, file: &Path) {
        let mut repair = Command::new("redis-check-aof")
            .arg("--fix")
            .arg(file)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|_| panic!("{INSTALL}"));
        // It asks; a file that is whole is not asked about, and its end is not read.
        let _ = repair
            .stdin
            .take()
            .expect("the input is piped")
            .write_all(b"y\n");
        let repaired = repair.wait_with_output().expect("it was started");
        assert!(repaired.status.success(), "{repaired:?}");
    }

    /// Starts it again with other settings, after a kill.
    pub fn restart_with(&mut self, settings: &[&str]) {
        self.settings = settings.iter().map(ToString::to_string).collect();
        self.restart();
    }

    /// Whether it has in its append-only file what it got from its master as a whole, if it has
    /// such a file: until then it starts without all that came since.
    pub fn has_written_down(&self) -> bool {
        let said = self.cli(&["INFO", "persistence"]);
        let is_over = |sign: &str| said.lines().any(|line| line.trim() == sign);
        is_over("aof_rewrite_in_progress:0") && is_over("aof_rewrite_scheduled:0")
    }

    /// A replica gets no more of its master, and keeps what it has; answers once it is cut off.
    pub fn cut_off_from_master(&self) {
        self.name_itself("unknown");
        self.cli(&["CLIENT", "KILL", "TYPE", "master"]);
        let is_down = || {
            self.cli(&["INFO", "replication"])
                .contains("master_link_status:down")
        };
        await_fact(is_down);
    }

    /// Its master, or who is master then, takes it as a replica again.
    pub(super) fn follow_master_again(&self) {
        self.name_itself("");
    }

    /// As whom a replica comes to its master.
    fn name_itself(&self, name: &str) {
        for set in ["masteruser", "masterauth"] {
            assert_eq!(self.cli(&["CONFIG", "SET", set, name]), "OK");
        }
    }

    /// Sends one command; answers what redis-cli prints of its reply: text as it is, an array line
    /// by line, nothing for no value. `-n DB` before the command selects a database.
    ///
    /// Over a connection, if the server takes one in the clear, as [`ask`](super::ask) does.
    ///
    /// # Panics
    /// If redis-cli is needed and there is none.
    pub fn cli(&self, arguments: &[&str]) -> String {
        let (database, words) = match arguments {
            ["-n", database, words @ ..] => (Some(*database), words),
            ["--raw", words @ ..] => (None, words),
            words => (None, words),
        };
        let has_options = words.first().is_some_and(|word| word.starts_with('-'));
        if has_options || is_encrypted(&self.settings) {
            return said(self.command().args(arguments));
        }
        ask_as(self.port, self.password.as_deref(), database, words)
    }

    /// Removes every key.
    pub fn clear(&self) {
        self.cli(&["FLUSHALL"]);
    }

    fn command(&self) -> Command {
        let mut command = Command::new("redis-cli");
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        if let Some(password) = &self.password {
            command.env("REDISCLI_AUTH", password);
        }
        if is_encrypted(&self.settings) {
            command.args(["--tls", "--insecure"]);
        }
        command
    }

    /// Whether the system says so; where it has no `/proc`, no system is asked.
    fn is_stopped(&self) -> bool {
        let running = self.running.as_ref().expect("the server runs");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.server.id()));
        stat.map_or(true, |stat| stat.contains(") T "))
    }

    fn signal(&mut self, name: &str) {
        let running = self.running.as_mut().expect("the server runs");
        let sent = writeln!(running.watcher, "{name}");
        sent.expect("the watcher listens");
    }
}

/// Servers have the machine to themselves between two calls.
const BETWEEN_POLLS: Duration = millis(20);

/// Blocks until a fact holds.
pub(super) fn await_fact(fact: impl Fn() -> bool) {
    while !fact() {
        std::thread::park_timeout(BETWEEN_POLLS);
    }
}

fn said(command: &mut Command) -> String {
    let output = command.output().expect("redis-cli runs");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestServer({})", self.port)
    }
}

/// Cluster nodes listen at their port plus 10,000 too.
pub(super) const PORT_MAX: u16 = 55_000;

/// A port that was free a moment ago. Another process may take it in between: then redis-server
/// says so, and another one is tried.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("the loopback has a free port");
        let port = listener.local_addr().expect("it is bound").port();
        if port < PORT_MAX {
            return port;
        }
    }
}

/// What a process of redis-server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Server,
    Sentinel,
}

/// On the command line, or in the file of a sentinel.
fn is_encrypted(settings: &[String]) -> bool {
    settings.iter().any(|one| one.contains("tls-cert-file"))
}

impl Role {
    fn arguments(self, command: &mut Command, port: u16, directory: &Path, settings: &[String]) {
        if self == Self::Sentinel {
            let file = directory.join("sentinel.conf");
            let lines = settings.join("\n");
            std::fs::write(&file, lines).expect("the directory takes a file");
            command.arg(file).arg("--sentinel");
        }
        match is_encrypted(settings) {
            true => command.args(["--port", "0", "--tls-port", &port.to_string()]),
            false => command.args(["--port", &port.to_string()]),
        };
        command.args(["--bind", "127.0.0.1", "--loglevel", "notice", "--dir"]);
        command.arg(directory);
        if self != Self::Sentinel {
            command.args(["--enable-debug-command", "yes"]);
            command.args(settings);
        }
    }

    /// What it says once it takes connections.
    fn ready(self) -> &'static str {
        match self {
            Self::Sentinel => "+monitor master",
            _ => "Ready to accept connections",
        }
    }
}

/// A process of redis-server, and a shell beside it that passes signals on and ends the server as
/// soon as no process holds the other end of its input any more.
struct Running {
    server: Child,
    watcher: ChildStdin,
}

const WITH_WATCHER: &str = r#"exec 3<&0
( while read -r name; do kill -s "$name" $$; done; kill -s KILL $$ ) <&3 >/dev/null 2>&1 &
exec redis-server "$@" </dev/null 3<&-"#;

/// What a shell ends with that finds no such program.
const NOT_FOUND: i32 = 127;

impl Running {
    /// Answers once the server takes connections; else what it said before it ended.
    fn start(
        role: Role,
        port: u16,
        directory: &Path,
        settings: &[String],
        environment: &Environment,
    ) -> Result<Self, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WITH_WATCHER, "redis-server"]);
        role.arguments(&mut command, port, directory, settings);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut server = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the system refuses to start a process");
        let watcher = server.stdin.take().expect("the input is piped");
        let mut lines = BufReader::new(server.stdout.take().expect("the output is piped")).lines();
        let mut running = Self { server, watcher };
        let mut said = String::new();
        for line in lines.by_ref().map_while(Result::ok) {
            if line.contains(role.ready()) {
                // The pipe is read on, or the server would stop at a full one.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(running);
            }
            said.push_str(&line);
            said.push('\n');
        }
        let ended = running.server.wait();
        let is_missing = ended.is_ok_and(|status| status.code() == Some(NOT_FOUND));
        assert!(!is_missing, "{INSTALL}");
        Err(said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Killed and waited for before the watcher's input closes: its pid is no one else's.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
