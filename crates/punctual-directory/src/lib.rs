//! One data directory for several processes: the first opens it, the others join the first.
//!
//! [`EmbeddedEngine::open`] fails in a second process with `data_locked`.
//! [`open_or_join`](OpenOrJoin::open_or_join) joins the process that holds the directory instead.
//! That process serves the others on a socket in the directory, as the command `punctual` does.
//! When it ends, one of the others opens the directory and continues.
//!
//! ```
//! # #[tokio::main] async fn main() -> punctual::Result<()> {
//! use punctual::{Engine, Namespace, NewJob};
//! use punctual_directory::OpenOrJoin;
//! use punctual_embedded::{EmbeddedEngine, Options};
//!
//! # let parent = tempfile::tempdir().unwrap();
//! # let directory = parent.path().join("data");
//! // In one process:
//! let web = EmbeddedEngine::open_or_join(&directory, Options::default()).await?;
//! // In another process, at the same time:
//! let jobs = EmbeddedEngine::open_or_join(&directory, Options::default()).await?;
//! assert!(web.is_holder() && !jobs.is_holder());
//! let stored = jobs.enqueue(&Namespace::default(), vec![NewJob::new("mail", "{}")]).await?;
//! assert_eq!(stored.durability.to_string(), "fsync");
//! jobs.close().await?;
//! web.close().await
//! # }
//! ```
//!
//! # Where to start
//! - Open or join a directory: [`OpenOrJoin::open_or_join`], with the durability in [`Options`].
//! - The engine that it returns: [`SharedDirectory`]. Choose whether to serve others: [`Mode`].
//! - A whole program: `examples/rust-directory`.

mod shared;

use std::future::Future;
use std::path::Path;

use punctual::Result;
use punctual_embedded::{EmbeddedEngine, Options};

pub use shared::{AUDIT, Mode, SharedDirectory};

/// Adds `open_or_join` to [`EmbeddedEngine`].
pub trait OpenOrJoin {
    /// Opens the directory and serves other processes of this user; or, while another process
    /// holds the directory, joins that process. The options of the process that opens it apply.
    ///
    /// The process that holds the directory must serve it: it called this method, or it is the
    /// command `punctual`. A process that called [`EmbeddedEngine::open`] does not serve it; then
    /// this fails after five seconds with `data_locked`.
    fn open_or_join(
        directory: impl AsRef<Path> + Send,
        options: Options,
    ) -> impl Future<Output = Result<SharedDirectory>> + Send;
}

impl OpenOrJoin for EmbeddedEngine {
    async fn open_or_join(
        directory: impl AsRef<Path> + Send,
        options: Options,
    ) -> Result<SharedDirectory> {
        let directory = directory.as_ref().to_path_buf();
        SharedDirectory::open(directory, options, Mode::Share).await
    }
}
