//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use punctual::time::parse_span;

/// An upload service on Punctual: files are stored, processed behind a queue, and survive kill -9.
///
/// Without options it needs no server: files, a database and the queue are in ./upload-data.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// What this process does
    #[arg(long, default_value = "all")]
    pub(crate) role: Role,

    /// Where the page and the API are; beyond this machine an upload token is needed
    #[arg(long, default_value = "127.0.0.1:4190")]
    pub(crate) listen: SocketAddr,

    /// The directory of everything that has no address of its own
    #[arg(long, default_value = "./upload-data")]
    pub(crate) data: PathBuf,

    /// The queue: redis://HOST:PORT [default: the embedded engine in DATA/jobs]
    #[arg(long, env = "UPLOAD_ENGINE", hide_env_values = true)]
    pub(crate) engine: Option<String>,

    /// The database: mysql://USER:PASSWORD@HOST/DATABASE or sqlite:FILE [default: DATA/files.db]
    #[arg(long, env = "UPLOAD_SQL", hide_env_values = true)]
    pub(crate) sql: Option<String>,

    /// The store: s3://BUCKET or a directory [default: DATA/objects]
    #[arg(long)]
    pub(crate) store: Option<String>,

    /// The address of an S3-compatible store; keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    #[arg(long, default_value = "https://s3.amazonaws.com")]
    pub(crate) s3_endpoint: String,

    /// The region of the bucket
    #[arg(long, default_value = "us-east-1", env = "AWS_REGION")]
    pub(crate) s3_region: String,

    /// The cache of results: redis://HOST:PORT [default: memory with the role all, else none]
    #[arg(long, env = "UPLOAD_CACHE", hide_env_values = true)]
    pub(crate) cache: Option<String>,

    /// The token that uploads and deletions need [default: none on this machine, else a random one]
    #[arg(long, env = "UPLOAD_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,

    /// The largest file, in bytes
    #[arg(long, default_value_t = 2 << 30, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    pub(crate) file_max: u64,

    /// All files together, in bytes
    #[arg(long, default_value_t = 20 << 30, value_parser = clap::value_parser!(u64).range(1..=1 << 60))]
    pub(crate) quota: u64,

    /// How long a record is kept
    #[arg(long, default_value = "24h", value_parser = span)]
    pub(crate) keep: Duration,

    /// How long a result is cached, 1s or more; it is renewed before that
    #[arg(long, default_value = "1h", value_parser = seconds_or_more)]
    pub(crate) cache_for: Duration,

    /// When an upload that never ended is cleaned up
    #[arg(long, default_value = "1h", value_parser = span)]
    pub(crate) abandon_after: Duration,

    /// How long a client may send nothing in the middle of an upload
    #[arg(long, default_value = "30s", value_parser = span)]
    pub(crate) idle: Duration,

    /// The lease of the worker, 50ms or more: a file of one that died is taken over after that
    #[arg(long, default_value = "5s", value_parser = span)]
    pub(crate) lease: Duration,

    /// A pause after every 500 rows, to see the progress of small files
    #[arg(long, default_value = "0s", value_parser = span)]
    pub(crate) pace: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// The page, the API and the worker
    All,
    /// The page and the API
    Web,
    /// The worker
    Worker,
}

fn span(text: &str) -> Result<Duration, String> {
    parse_span(text).map_err(|error| error.message().to_owned())
}

/// Each renewal processes a file: shorter ones would be a loop.
fn seconds_or_more(text: &str) -> Result<Duration, String> {
    match span(text)? {
        span if span >= Duration::from_secs(1) => Ok(span),
        _ => Err("use a span of 1s or more".to_owned()),
    }
}
