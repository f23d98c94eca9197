//! The relays of a cell: the server that they take from, and how each is started.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use punctual_redis::testing::TestServer;
use tokio::sync::Mutex;

use crate::address::TOKEN;
use crate::process::Arguments;
use crate::relayed::{Places, QUEUE, System};

/// What relays take from goes on from round to round.
pub(crate) struct Relays {
    pub(crate) server: Arc<Mutex<TestServer>>,
    address: String,
    /// The command `punctual`.
    program: PathBuf,
    has_outbox: bool,
}

/// The programs of relays, beside this one.
const PROGRAM: &str = "punctual";
const ADAPTERS: &str = "punctual-relay";

/// The command `punctual`, beside this program, or why there is none.
pub(crate) fn program() -> io::Result<PathBuf> {
    let program = beside(PROGRAM)?;
    if !program.exists() {
        let why = format!(
            "relays need {}; build it by cargo build --workspace --all-features --bins",
            program.display()
        );
        return Err(io::Error::other(why));
    }
    Ok(program)
}

/// Whether the outbox has its program, too.
pub(crate) fn has_outbox() -> io::Result<bool> {
    Ok(beside(ADAPTERS)?.exists())
}

fn beside(name: &str) -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

impl Relays {
    /// Starts a server that loses nothing by a kill: what it loses else no relay can keep.
    pub(crate) fn start() -> io::Result<Self> {
        let server = TestServer::watched(&TestServer::KEEPS_ALL, |_| Vec::new());
        Ok(Self {
            address: server.address(),
            server: Arc::new(Mutex::new(server)),
            program: program()?,
            has_outbox: has_outbox()?,
        })
    }

    /// Where the messages of a round go.
    pub(crate) fn places(&self, round: &Path) -> Places {
        let name = round.file_name().unwrap_or_default().to_string_lossy();
        let outbox = round.join("outbox.sqlite");
        Places {
            redis: self.address.clone(),
            keys: format!("torture:{name}"),
            lines: round.join("messages.lines"),
            outbox: self.has_outbox.then_some(outbox),
        }
    }

    /// Makes the tables of the outbox, as its page says.
    pub(crate) fn prepare(&self, places: &Places) -> io::Result<()> {
        let Some(file) = &places.outbox else {
            return Ok(());
        };
        let ddl = ["outbox", "ddl", "--dialect", "sqlite"];
        let said = Command::new(&self.program).args(ddl).output()?;
        if !said.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&said.stderr)));
        }
        let made = rusqlite::Connection::open(file).and_then(|connection| {
            // Readers and writers go on beside each other.
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.execute_batch(&String::from_utf8_lossy(&said.stdout))
        });
        made.map_err(io::Error::other)
    }

    /// The arguments of a relay, by the name of its process; once `ends` is set it ends when its
    /// source has no more.
    pub(crate) fn arguments(
        &self,
        system: System,
        places: &Places,
        engine: &str,
        ends: Arc<AtomicBool>,
    ) -> io::Result<Arguments> {
        let kind = match system {
            System::Lines => "exec".into(),
            System::Outbox => "outbox".into(),
            on_redis => format!("redis-{}", on_redis.name()),
        };
        let text = |text: &str| text.to_owned();
        let mut always = [
            "relay",
            &kind,
            "--name",
            system.name(),
            "--engine",
            engine,
            "--every",
            "1h",
        ]
        .map(text)
        .to_vec();
        if system.is_on_redis() {
            let key = places.key(system);
            let from = ["--redis", &places.redis, "--key", &key, "--into", QUEUE];
            always.extend(from.map(text));
        }
        match (system, &places.outbox) {
            (System::List, _) => always.extend([text("--processing"), places.processing("*")]),
            (System::Zset, _) => always.extend(["--unit", "ms"].map(text)),
            (System::Outbox, Some(file)) => {
                always.extend([text("--sql"), format!("sqlite:{}", file.display())]);
            }
            _ => {}
        }
        let (this, file) = (std::env::current_exe()?, places.lines.clone());
        Ok(Box::new(move |_| {
            let mut arguments = always.clone();
            let ends = ends.load(Relaxed);
            if system == System::Lines {
                let ends = if ends { " --ends" } else { "" };
                let (this, file) = (this.display(), file.display());
                let source = format!("exec '{this}' lines --file '{file}'{ends}");
                arguments.extend(["--source".into(), source]);
            }
            if ends {
                arguments.push("--until-idle".into());
            }
            arguments
        }))
    }

    /// The program of relays, and what it finds in its environment.
    pub(crate) fn program(&self) -> PathBuf {
        self.program.clone()
    }

    /// The token of the gateway.
    pub(crate) fn environment(&self) -> (String, std::ffi::OsString) {
        ("PUNCTUAL_TOKEN".into(), TOKEN.into())
    }
}

/// Names of rows that the outbox refused.
pub(crate) fn refused_rows(places: &Places) -> io::Result<Vec<String>> {
    let Some(file) = places
        .outbox
        .as_ref()
        .filter(|file| fs::exists(file).unwrap_or(false))
    else {
        return Ok(Vec::new());
    };
    let read = || -> rusqlite::Result<Vec<String>> {
        let connection = rusqlite::Connection::open(file)?;
        let mut rows = connection.prepare("SELECT job FROM punctual_outbox_refused")?;
        rows.query_map((), |row| row.get(0))?.collect()
    };
    read().map_err(io::Error::other)
}
