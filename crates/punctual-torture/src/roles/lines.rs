//! A source of lines for `punctual relay exec`: it sends each line of a file until it is answered.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use punctual::time::{Stopwatch, millis, pause, seconds};
use serde_json::Value;

use super::Failed;
use crate::relayed::answered;

/// Which lines.
#[derive(Debug, clap::Args)]
pub(crate) struct LinesArgs {
    /// The file to which producers append
    #[arg(long)]
    file: PathBuf,

    /// End once every line is answered: no more come
    #[arg(long)]
    ends: bool,
}

/// Between two reads of the file.
const TURN: Duration = millis(10);
/// A line without an answer is sent again after that.
const AGAIN_AFTER: Duration = seconds(1);

/// Sends lines until its input ends, or until none is left.
pub(super) async fn run(args: LinesArgs) -> Result<(), Failed> {
    let mut source = Lines::open(args)?;
    let answers = answers();
    loop {
        loop {
            match answers.try_recv() {
                Ok(answer) => source.answered(&answer)?,
                Err(TryRecvError::Empty) => break,
                // The relay is gone: what was not answered is sent by the next source.
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        source.read()?;
        source.send()?;
        if source.ends && source.open.is_empty() {
            return Ok(());
        }
        pause(TURN).await;
    }
}

struct Lines {
    file: File,
    /// What was read and does not end with a line yet.
    rest: Vec<u8>,
    /// The names of lines that were answered, in a file that outlives this process.
    answered: File,
    done: HashSet<String>,
    /// Lines without an answer, by name, and since when.
    open: BTreeMap<String, (String, Option<Stopwatch>)>,
    ends: bool,
}

impl Lines {
    fn open(args: LinesArgs) -> io::Result<Self> {
        let append = |path: &PathBuf| OpenOptions::new().append(true).create(true).open(path);
        append(&args.file)?;
        let names = answered(&args.file);
        let answered = append(&names)?;
        let done = fs::read_to_string(names)?;
        Ok(Self {
            file: File::open(args.file)?,
            rest: Vec::new(),
            answered,
            done: done.lines().map(str::to_owned).collect(),
            open: BTreeMap::new(),
            ends: args.ends,
        })
    }

    /// Reads what was appended.
    fn read(&mut self) -> io::Result<()> {
        self.file.read_to_end(&mut self.rest)?;
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line).into_owned();
            let name = name(&line)?;
            if !self.done.contains(&name) {
                self.open.insert(name, (line, None));
            }
        }
        Ok(())
    }

    /// Sends what has no answer, for the first time or again.
    fn send(&mut self) -> io::Result<()> {
        let mut output = io::stdout().lock();
        for (line, since) in self.open.values_mut() {
            if since.is_none_or(|since| since.elapsed() > AGAIN_AFTER) {
                output.write_all(line.as_bytes())?;
                *since = Some(Stopwatch::start());
            }
        }
        output.flush()
    }

    fn answered(&mut self, answer: &str) -> io::Result<()> {
        let name = name(answer)?;
        if self.open.remove(&name).is_some() {
            writeln!(self.answered, "{name}")?;
            self.done.insert(name);
        }
        Ok(())
    }
}

fn name(line: &str) -> io::Result<String> {
    let line: Value = serde_json::from_str(line)?;
    let name = line["name"].as_str();
    Ok(name
        .ok_or_else(|| io::Error::other("a line has no name"))?
        .to_owned())
}

/// Answers of the relay, read by a thread; the channel ends with them.
fn answers() -> Receiver<String> {
    let (sender, answers) = channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    answers
}
