//! Where effects go: a row per job and step, written in the transaction of the business row.

mod grouped;
pub(crate) mod mariadb;
mod sqlite;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use punctual::JobId;
use serde::{Deserialize, Serialize};

use grouped::Grouped;
use mariadb::MariaDb;
use sqlite::Sqlite;

/// Which sink.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SinkAddress {
    /// A file.
    Sqlite(PathBuf),
    /// A database of a server that listens on a socket.
    Mariadb {
        /// The socket.
        socket: PathBuf,
        /// The database.
        database: String,
    },
}

/// What a job's rows say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rows {
    /// Effects of the job: rows of (job, step).
    pub(crate) effects: u64,
    /// Business rows, of which nothing but the effects' key keeps a second one away.
    pub(crate) business: u64,
}

/// An effect of a job, under the lease it was caused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effect {
    pub(crate) job: JobId,
    pub(crate) step: u32,
    pub(crate) fence: u64,
    pub(crate) nonce: u64,
}

/// An open sink; calls block for as long as a commit takes.
pub(crate) trait Sink: Send + Sync {
    /// Writes the effect and the business row of a job, both or neither; `false` if the effect was
    /// there before.
    fn write(&self, effect: Effect) -> io::Result<bool>;
    /// What is there of every job.
    fn rows(&self) -> io::Result<BTreeMap<JobId, Rows>>;
}

impl SinkAddress {
    pub(crate) fn open(&self) -> io::Result<Box<dyn Sink>> {
        match self {
            Self::Sqlite(path) => Ok(Box::new(Grouped::new(Sqlite::open(path)?))),
            Self::Mariadb { socket, database } => {
                Ok(Box::new(Grouped::new(MariaDb::open(socket, database)?)))
            }
        }
    }
}
