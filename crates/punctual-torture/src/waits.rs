//! Waits of the harness itself: each has a bound and says what it waits for. One that runs out
//! leaves an account of what every process was at, and the round has failed.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use punctual::time::{pause, within};
use tokio::task::JoinHandle;

use crate::call_log::History;
use crate::event::Event;

mod account;

/// The waits of a round.
#[derive(Debug)]
pub(crate) struct Waits {
    /// The folder of the round, where accounts go.
    folder: PathBuf,
    history: Arc<History>,
}

/// The account of each wait that ran out.
const FILE: &str = "stuck.md";

impl Waits {
    pub(crate) fn new(folder: PathBuf, history: Arc<History>) -> Self {
        Self { folder, history }
    }

    /// What comes of it; nothing if the bound runs out first.
    pub(crate) async fn on<T>(
        &self,
        limit: Duration,
        what: impl Display,
        it: impl Future<Output = T>,
    ) -> Option<T> {
        let came = within(limit, it).await;
        if came.is_none() {
            self.ran_out(limit, what, "");
        }
        came
    }

    /// Notes that a wait ran out, with what is known besides.
    pub(crate) fn ran_out(&self, limit: Duration, what: impl Display, known: &str) {
        let what = format!("{what}: not within {} s", limit.as_secs());
        let text = format!("# {what}\n\n{known}\n{}\n", account::of(&self.folder));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join(FILE));
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(error) = written {
            eprintln!("punctual-torture: no account of a wait is kept: {error}");
        }
        self.history.note(Event::Stuck { what });
    }

    /// Ends the program, all folders kept, unless what this guards is over in time: a wait that
    /// keeps its thread cannot be given up.
    pub(crate) fn guard(self: &Arc<Self>, limit: Duration, what: &'static str) -> Guard {
        let waits = self.clone();
        Guard(tokio::spawn(async move {
            pause(limit).await;
            waits.ran_out(limit, what, "");
            let place = waits.folder.join(FILE);
            eprintln!("punctual-torture: {what} does not end: {}", place.display());
            std::process::exit(STUCK);
        }))
    }
}

/// How the program ends then.
const STUCK: i32 = 4;

/// What it guards is over once it is dropped.
#[derive(Debug)]
pub(crate) struct Guard(JoinHandle<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests;
