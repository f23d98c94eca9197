//! Effects in a MariaDB server that the run starts.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use punctual::JobId;
use punctual::time::{Stopwatch, seconds};

use super::grouped::Store;
use super::{Effect, Rows};

/// A server of a run, in a folder of its own, reached by a socket in it. It ends with the run.
#[derive(Debug)]
pub(crate) struct Server {
    server: Child,
    socket: PathBuf,
}

/// Sockets have short paths.
const SOCKET: &str = "sql.sock";
const INSTALL: &str = "the sink mariadb needs mariadbd and its client; install them \
     (Debian, Ubuntu: sudo apt-get install mariadb-server-core mariadb-client-core)";

impl Server {
    /// Starts one; answers once it takes connections.
    pub(crate) fn start() -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("torture-sql-")
            .tempdir()?
            .keep();
        let missing =
            |error: io::Error| io::Error::new(error.kind(), format!("{INSTALL}: {error}"));
        let data = folder.join("data");
        let made = Command::new("mariadb-install-db")
            .arg("--auth-root-authentication-method=normal")
            .arg("--skip-test-db")
            .arg(format!("--datadir={}", data.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(missing)?;
        if !made.success() {
            return Err(io::Error::other(
                "mariadb-install-db cannot make a data directory",
            ));
        }
        let socket = folder.join(SOCKET);
        let server = Command::new(program("mariadbd"))
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .args([
                "--skip-networking",
                "--user=root",
                // Its processes are not killed, and no power is cut under it: nothing is synced.
                "--innodb-flush-log-at-trx-commit=2",
            ])
            .args(["--innodb-buffer-pool-size=64M", "--max-connections=500"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(missing)?;
        let started = Self { server, socket };
        let watch = Stopwatch::start();
        while Client::connect(&started.socket)
            .and_then(|mut client| client.ask("SELECT 1"))
            .is_err()
        {
            if watch.elapsed() > seconds(60) {
                return Err(io::Error::other("mariadbd does not take connections"));
            }
        }
        Ok(started)
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        if let Some(folder) = self.socket.parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Debian has it on the path of administrators only.
fn program(name: &str) -> PathBuf {
    let beside = Path::new("/usr/sbin").join(name);
    if beside.exists() { beside } else { name.into() }
}

/// A database of that server, by the server's own client: one statement per line, one answer per
/// line.
pub(super) struct MariaDb(Client);

const SCHEMA: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS effect (job_id BINARY(16), step INT, fence BIGINT UNSIGNED, nonce BIGINT UNSIGNED, \
     PRIMARY KEY (job_id, step)) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS business (job_id BINARY(16), step INT) ENGINE=InnoDB",
];

impl MariaDb {
    pub(super) fn open(socket: &Path, database: &str) -> io::Result<Self> {
        let mut client = Client::connect(socket)?;
        client.send(&format!("CREATE DATABASE IF NOT EXISTS `{database}`"))?;
        client.send(&format!("USE `{database}`"))?;
        SCHEMA.iter().try_for_each(|table| client.send(table))?;
        Ok(Self(client))
    }
}

impl Store for MariaDb {
    /// A transaction for each: with several rows two of them could wait for each other.
    fn write(&mut self, effects: &[Effect]) -> io::Result<Vec<bool>> {
        effects.iter().map(|effect| self.0.insert(effect)).collect()
    }

    fn rows(&mut self) -> io::Result<BTreeMap<JobId, Rows>> {
        let client = &mut self.0;
        let mut rows: BTreeMap<JobId, Rows> = BTreeMap::new();
        for table in ["effect", "business"] {
            client.send(&format!("SELECT HEX(job_id) FROM {table}"))?;
            client.send("SELECT 'end'")?;
            loop {
                let line = client.line()?;
                if line == "end" {
                    break;
                }
                let id = line.parse::<JobId>().map_err(io::Error::other)?;
                let rows = rows.entry(id).or_default();
                let count = if table == "effect" {
                    &mut rows.effects
                } else {
                    &mut rows.business
                };
                *count += 1;
            }
        }
        Ok(rows)
    }
}

fn hex(job: JobId) -> String {
    job.as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A process of the client, which ends when it is dropped, or at the first error.
#[derive(Debug)]
struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn connect(socket: &Path) -> io::Result<Self> {
        let mut process = Command::new("mariadb")
            .arg("--no-defaults")
            .arg(format!("--socket={}", socket.display()))
            .args([
                "--user=root",
                "--batch",
                "--skip-column-names",
                "--unbuffered",
                "--quick",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or_else(|| io::Error::other("a pipe is missing"))?;
        Ok(Self {
            process,
            input,
            output: BufReader::new(output),
        })
    }

    fn insert(&mut self, effect: &Effect) -> io::Result<bool> {
        let Effect {
            step, fence, nonce, ..
        } = effect;
        let id = hex(effect.job);
        self.send("BEGIN")?;
        self.send(&format!(
            "INSERT IGNORE INTO effect VALUES (X'{id}', {step}, {fence}, {nonce})"
        ))?;
        let new = self.ask("SELECT ROW_COUNT()")? == "1";
        if new {
            self.send(&format!("INSERT INTO business VALUES (X'{id}', {step})"))?;
        }
        self.send("COMMIT")?;
        // Its answer comes after the commit's.
        self.ask("SELECT 'committed'")?;
        Ok(new)
    }

    fn send(&mut self, statement: &str) -> io::Result<()> {
        writeln!(self.input, "{statement};")?;
        self.input.flush()
    }

    fn ask(&mut self, statement: &str) -> io::Result<String> {
        self.send(statement)?;
        self.line()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(io::Error::other("the sink's client has ended"));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
