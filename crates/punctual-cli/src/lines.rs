//! Files of one JSON document per line: numbered, bounded, each line on its own.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::Path;

use punctual::JobId;

use crate::failure::{Failure, Result};

/// The longest line that is read: a payload at its limit in base64, with all else beside it.
const LINE_BYTES_MAX: usize = 4 << 20;

/// One line of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Counted from 1, empty lines too.
    pub(crate) number: u64,
    /// Its text, or why it has none.
    pub(crate) text: Result<String, String>,
    /// Whether a line feed ends it; only the last line of a file may lack it.
    pub(crate) ended: bool,
}

impl Line {
    /// Reads the line through a function; an error of a last line that just stops names that.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        let result = self.text.as_deref().map_err(Clone::clone).and_then(read);
        result.map_err(|error| {
            if self.ended {
                error
            } else {
                format!("truncated: the file ends inside this line ({error})")
            }
        })
    }
}

/// The lines of a reader; empty ones are counted and left out.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, number: 0 }
    }

    fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let limit = LINE_BYTES_MAX as u64 + 1;
            (&mut self.reader)
                .take(limit)
                .read_until(b'\n', &mut bytes)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            self.number += 1;
            let mut ended = bytes.last() == Some(&b'\n');
            let too_long = !ended && bytes.len() > LINE_BYTES_MAX;
            if too_long {
                ended = self.skip_rest()?;
            }
            while matches!(bytes.last(), Some(b'\n' | b'\r')) {
                bytes.pop();
            }
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let text = if too_long {
                Err(format!("is over {LINE_BYTES_MAX} bytes"))
            } else {
                String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())
            };
            return Ok(Some(Line {
                number: self.number,
                text,
                ended,
            }));
        }
    }

    /// Reads on to the end of a line that is too long; whether a line feed ended it.
    fn skip_rest(&mut self) -> io::Result<bool> {
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(false);
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let read = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(read);
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;
    fn next(&mut self) -> Option<Self::Item> {
        self.next_line().transpose()
    }
}

/// Takes a file's lines in, one after the other, for an id that is the same for the same file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileHash(JobId);

impl FileHash {
    pub(crate) fn new() -> Self {
        Self(JobId::derived("punctual", "lines of a file"))
    }

    pub(crate) fn take(&mut self, line: &Line) {
        let text = line.text.as_deref().unwrap_or_default();
        self.0 = JobId::derived(&self.0.to_string(), text);
    }

    /// The id of the job that stands in that line and goes to that queue.
    pub(crate) fn job_id(self, queue: &str, number: u64) -> JobId {
        JobId::derived(&self.0.to_string(), &format!("{queue} {number}"))
    }
}

/// A file that can be read twice. Standard input (`-`) and what is no plain file, such as a pipe,
/// are kept in a nameless file meanwhile.
pub(crate) fn open_twice(path: &Path) -> Result<File> {
    if path.as_os_str() == "-" {
        return spooled(io::stdin().lock());
    }
    let file = File::open(path).map_err(|error| Failure::file("read", path, &error))?;
    match file.metadata() {
        Ok(about) if !about.is_file() && !about.is_dir() => spooled(file),
        _ => Ok(file),
    }
}

fn spooled(mut input: impl Read) -> Result<File> {
    let mut spool = || -> io::Result<File> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut input, &mut file)?;
        file.flush()?;
        Ok(file)
    };
    spool().map_err(|error| Failure::file("keep the input in", &std::env::temp_dir(), &error))
}

/// The lines of a file from its start, whatever was read before.
pub(crate) fn lines_of(file: &File) -> io::Result<Lines<BufReader<&File>>> {
    let mut file = file;
    file.rewind()?;
    Ok(Lines::new(BufReader::with_capacity(1 << 16, file)))
}

#[cfg(test)]
mod tests;
