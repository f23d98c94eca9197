//! The options of an engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual::Limits;
use punctual::engine::{Durability, StatedDurability};
use punctual::time::{Clock, seconds};

use crate::transport::address::{Place, Secret};

/// Where the servers are, and how an engine uses them.
///
/// ```
/// use punctual::engine::Durability;
/// use punctual_redis::Options;
///
/// let options: Options = "redis://127.0.0.1/0".parse()?;
/// let options = options.durability(Durability::Fsync);
/// # Ok::<(), punctual::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    /// What sentinels ask for, which have users of their own.
    pub(crate) sentinel_user: Option<String>,
    pub(crate) sentinel_password: Option<Secret>,
    pub(crate) database: i64,
    pub(crate) tls: Tls,
    /// Whether other machines may be talked to without TLS.
    pub(crate) plaintext: bool,
    pub(crate) durability: Option<Durability>,
    pub(crate) shards: Option<u16>,
    /// Whether a namespace must be there already.
    pub(crate) data_required: bool,
    pub(crate) limits: Limits,
    pub(crate) deadline: Duration,
    /// A clock that tests move; the server's is used without one.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// How far the servers' clocks are ahead, in a test.
    pub(crate) clock_ahead: Option<Duration>,
}

/// The most shards that one namespace is cut into.
pub(crate) const SHARDS_MAX: u16 = 1_024;

/// Whether and how the connections are encrypted; the server's certificate is always checked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tls {
    pub(crate) on: bool,
    pub(crate) authority: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl Options {
    pub(crate) fn of(place: Place) -> Self {
        Self {
            place,
            user: None,
            password: None,
            sentinel_user: None,
            sentinel_password: None,
            database: 0,
            tls: Tls::default(),
            plaintext: false,
            durability: None,
            shards: None,
            data_required: false,
            limits: Limits::default(),
            deadline: seconds(5),
            clock: None,
            clock_ahead: None,
        }
    }

    pub(crate) fn database(self, database: i64) -> Self {
        Self { database, ..self }
    }

    /// What an acknowledged change has survived. Without it, the most that the server is set up
    /// for.
    ///
    /// An engine whose servers cannot keep it refuses to start and says what to change.
    pub fn durability(self, durability: Durability) -> Self {
        let durability = Some(durability);
        Self { durability, ..self }
    }

    /// What the operator of a managed server states that it keeps, for a user who may neither read
    /// its settings nor start a rewrite of its append-only file. Answers then name
    /// [`Durability::Stated`]. A server that can be checked is, as with
    /// [`durability`](Self::durability).
    pub fn stated_durability(self, stated: StatedDurability) -> Self {
        self.durability(Durability::Stated(stated))
    }

    /// The durability asked for, if one is.
    pub fn asked_durability(&self) -> Option<Durability> {
        self.durability
    }

    /// Into how many shards a namespace is cut, 1 to 1,024. The first process that uses a namespace
    /// decides, for one if it says nothing. A later one that says nothing follows, one that says
    /// another number is refused.
    pub fn shards(self, shards: u16) -> Self {
        let shards = Some(shards.clamp(1, SHARDS_MAX));
        Self { shards, ..self }
    }

    /// Whether the data must be there: where a namespace or a shard of it was never begun, calls
    /// then answer [`DataMissing`](punctual::ErrorKind::DataMissing) and begin nothing. Without it
    /// a process that starts after the data were lost begins with an empty queue, as it has nothing
    /// to compare. A call of [`stats`](punctual::Engine::stats) without it begins all shards of a
    /// namespace.
    pub fn data_required(self, data_required: bool) -> Self {
        Self {
            data_required,
            ..self
        }
    }

    /// The bounds of calls and of what is kept.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// How long a call may take, reconnecting and following redirects included; 5 s by default.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}
