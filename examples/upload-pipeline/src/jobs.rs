//! The jobs of the pipeline: what a producer sends and a worker handles.

use punctual::time::{minutes, seconds};
use punctual::{Job, NewJob, Result, RetryPolicy};
use serde::{Deserialize, Serialize};

/// Every job of the pipeline goes to this queue.
pub(crate) const QUEUE: &str = "uploads";

/// A failed attempt counts, up to this; then the file is `failed`.
pub(crate) const ATTEMPTS_MAX: u32 = 5;
/// A worker that dies is not the file's fault, up to this.
const CRASHES_MAX: u32 = 20;

/// Reads a file and stores its result.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) file: String,
    pub(crate) generation: i64,
}

impl Job for Process {
    const KIND: &str = "files.process";
    const QUEUE: &str = QUEUE;
}

/// Asks for the result again, shortly before its cache entry expires.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refresh {
    pub(crate) file: String,
    pub(crate) generation: i64,
}

impl Job for Refresh {
    const KIND: &str = "files.refresh";
    const QUEUE: &str = QUEUE;
}

/// Ends the record of a file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Expire {
    pub(crate) file: String,
}

impl Job for Expire {
    const KIND: &str = "files.expire";
    const QUEUE: &str = QUEUE;
}

/// Removes what an upload left in the store that never ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CleanUp {
    pub(crate) upload: String,
}

impl Job for CleanUp {
    const KIND: &str = "uploads.clean";
    const QUEUE: &str = QUEUE;
}

/// The job that processes a file. Two generations of one file never run at once: one group.
pub(crate) fn process(file: &str, generation: i64) -> Result<NewJob> {
    let job = Process {
        file: file.to_owned(),
        generation,
    };
    let retry = RetryPolicy::Exponential {
        base: seconds(1),
        factor: 2.0,
        cap: minutes(1),
        jitter: true,
    };
    Ok(NewJob::of(&job)?
        .group(format!("file:{file}"))
        .max_attempts(ATTEMPTS_MAX)
        .max_crashes(CRASHES_MAX)
        .retry(retry)
        .retention(minutes(10)))
}

/// The name by which a finished upload cancels its clean-up.
pub(crate) fn upload_key(upload: &str) -> String {
    format!("upload:{upload}")
}
