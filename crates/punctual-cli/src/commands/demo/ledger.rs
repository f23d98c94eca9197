//! The shop's ledger: a file of its own that knows nothing of the queue, as an outside system's
//! database would be. One line per effect, (order, effect) unique, on disk before it is answered.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};

use punctual::sync::Lock;
use punctual::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::lines::Lines;

/// Something that happened to an order, or to the shop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub(super) enum Entry {
    /// A run of the demo began.
    Opened {
        #[serde(with = "instant")]
        at: Timestamp,
        /// Names engine, orders and speed: a run goes on only with the same.
        setting: String,
    },
    /// The queue acknowledged the order's cancellation.
    Placed {
        order: u64,
        #[serde(with = "instant")]
        at: Timestamp,
        #[serde(with = "instant")]
        due: Timestamp,
    },
    /// A payment was taken.
    Paid {
        order: u64,
        payment: usize,
        #[serde(with = "instant")]
        at: Timestamp,
    },
    /// A payment came too late or twice.
    Refunded {
        order: u64,
        payment: usize,
        #[serde(with = "instant")]
        at: Timestamp,
    },
    /// It was not paid in time.
    Cancelled {
        order: u64,
        #[serde(with = "instant")]
        at: Timestamp,
    },
    /// Every order has its end.
    Closed {
        #[serde(with = "instant")]
        at: Timestamp,
    },
}

mod instant {
    use super::*;
    use serde::{Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(at: &Timestamp, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(at)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Timestamp, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// What the ledger says of one order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Account {
    /// When it was placed, and when its cancellation is due.
    pub(super) placed: Option<(Timestamp, Timestamp)>,
    /// By which payment, and when.
    pub(super) paid: Option<(usize, Timestamp)>,
    pub(super) refunded: Vec<usize>,
    pub(super) cancelled: Option<Timestamp>,
}

impl Account {
    pub(super) fn is_final(&self) -> bool {
        self.paid.is_some() || self.cancelled.is_some()
    }
}

/// The ledger's content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Book {
    pub(super) accounts: HashMap<u64, Account>,
    /// When each run began.
    pub(super) runs: Vec<Timestamp>,
    pub(super) setting: Option<String>,
    pub(super) closed: bool,
}

impl Book {
    /// Reads a ledger; a torn last line is what a kill left and counts as never written.
    /// Also answers how many bytes are whole.
    pub(super) fn read(bytes: &[u8]) -> io::Result<(Self, usize)> {
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        let mut book = Self::default();
        for line in Lines::new(&bytes[..whole]) {
            let line = line?;
            let read =
                line.read(|text| serde_json::from_str(text).map_err(|error| error.to_string()));
            let entry: Entry = read.map_err(|why| {
                io::Error::other(format!("line {} of the ledger: {why}", line.number))
            })?;
            book.take(&entry);
        }
        Ok((book, whole))
    }

    fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Opened { at, setting } => {
                self.runs.push(*at);
                self.setting = Some(setting.clone());
            }
            Entry::Placed { order, at, due } => self.account(*order).placed = Some((*at, *due)),
            Entry::Paid { order, payment, at } => self.account(*order).paid = Some((*payment, *at)),
            Entry::Refunded { order, payment, .. } => self.account(*order).refunded.push(*payment),
            Entry::Cancelled { order, at } => self.account(*order).cancelled = Some(*at),
            Entry::Closed { .. } => self.closed = true,
        }
    }

    fn account(&mut self, order: u64) -> &mut Account {
        self.accounts.entry(order).or_default()
    }

    /// Whether the key of an entry, its order and effect, is taken.
    fn has(&self, entry: &Entry) -> bool {
        let account = |order| self.accounts.get(order);
        match entry {
            Entry::Placed { order, .. } => account(order).is_some_and(|a| a.placed.is_some()),
            Entry::Paid { order, .. } => account(order).is_some_and(|a| a.paid.is_some()),
            Entry::Cancelled { order, .. } => account(order).is_some_and(|a| a.cancelled.is_some()),
            Entry::Refunded { order, payment, .. } => {
                account(order).is_some_and(|a| a.refunded.contains(payment))
            }
            Entry::Opened { .. } | Entry::Closed { .. } => false,
        }
    }
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It is on disk now.
    New,
    /// It was there before, or the order was cancelled and the entry is a payment.
    Refused,
}

/// The open ledger. Cheap to clone; one thread writes for all.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    book: Arc<Mutex<Book>>,
    requests: mpsc::Sender<Request>,
}

struct Request {
    entry: Entry,
    answer: oneshot::Sender<Result<Written, String>>,
}

impl Ledger {
    /// Opens or creates the file, cuts a torn last line, and answers what it says.
    pub(super) fn open(path: &Path, follow: bool) -> io::Result<Self> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let (book, whole) = Book::read(&bytes)?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        file.set_len(whole as u64)?;
        let book = Arc::new(Mutex::new(book));
        let (requests, inbox) = mpsc::channel();
        let writer = Writer {
            file,
            book: book.clone(),
            follow,
        };
        std::thread::Builder::new()
            .name("demo-ledger".into())
            .spawn(move || writer.run(&inbox))?;
        Ok(Self { book, requests })
    }

    /// Puts an entry on disk, unless its key is there. A payment is refused, as a transaction of
    /// the shop would, if the order is cancelled; a cancellation is always taken.
    pub(super) async fn write(&self, entry: Entry) -> punctual::Result<Written> {
        let (answer, answered) = oneshot::channel();
        let stopped = || punctual::Error::new(punctual::ErrorKind::Io, "the ledger has stopped");
        self.requests
            .send(Request { entry, answer })
            .map_err(|_| stopped())?;
        answered
            .await
            .map_err(|_| stopped())?
            .map_err(|why| punctual::Error::new(punctual::ErrorKind::Io, format!("ledger: {why}")))
    }

    /// What is known of an order.
    pub(super) fn account(&self, order: u64) -> Account {
        self.book()
            .accounts
            .get(&order)
            .cloned()
            .unwrap_or_default()
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.locked()
    }
}

struct Writer {
    file: File,
    book: Arc<Mutex<Book>>,
    follow: bool,
}

impl Writer {
    /// Takes what has come in meanwhile, writes and syncs it once, then answers.
    fn run(mut self, inbox: &mpsc::Receiver<Request>) {
        while let Ok(first) = inbox.recv() {
            let requests: Vec<Request> = std::iter::once(first).chain(inbox.try_iter()).collect();
            let (lines, written) = self.accept(&requests);
            let stored = self
                .file
                .write_all(lines.as_bytes())
                .and_then(|()| self.file.sync_data());
            let failed = stored.err().map(|error| error.to_string());
            if self.follow && failed.is_none() {
                // The follower may be gone; that is no reason to stop.
                let _ = io::stdout().lock().write_all(lines.as_bytes());
            }
            for (request, written) in requests.into_iter().zip(written) {
                let answer = failed.clone().map_or(Ok(written), Err);
                let _ = request.answer.send(answer);
            }
            if failed.is_some() {
                // What a failed sync left on disk is unknown: nothing more is acknowledged.
                return;
            }
        }
    }

    fn accept(&self, requests: &[Request]) -> (String, Vec<Written>) {
        let mut lines = String::new();
        let mut book = self.book.locked();
        let written = requests
            .iter()
            .map(|Request { entry, .. }| {
                let too_late = matches!(entry, Entry::Paid { order, .. }
                    if book.accounts.get(order).is_some_and(|account| account.cancelled.is_some()));
                if too_late || book.has(entry) {
                    return Written::Refused;
                }
                book.take(entry);
                lines += &serde_json::to_string(entry).unwrap_or_default();
                lines.push('\n');
                Written::New
            })
            .collect();
        (lines, written)
    }
}

#[cfg(test)]
mod tests;
