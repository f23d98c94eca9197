//! Lines that a handler logged and that the engine does not have yet, within the bounds of a job.

use std::collections::VecDeque;

use crate::job::{LOG_BYTES_KEPT, LOG_LINES_KEPT};

/// Lines on their way to the engine: first those of a heartbeat without an answer, then the others.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    lines: VecDeque<String>,
    bytes: usize,
    /// How many of the first lines a heartbeat carries now.
    on_the_way: usize,
}

impl Unsent {
    /// Adds each line of a text; the oldest give way.
    pub(super) fn add(&mut self, text: &str) {
        for line in text.lines() {
            let line = cut(line, LOG_BYTES_KEPT);
            self.bytes += line.len();
            self.lines.push_back(line.to_owned());
            while self.lines.len() > LOG_LINES_KEPT || self.bytes > LOG_BYTES_KEPT {
                self.drop_first();
            }
        }
    }

    /// The lines that a heartbeat carries from now on; none while one is on its way.
    pub(super) fn send(&mut self) -> Vec<String> {
        if self.on_the_way > 0 {
            return Vec::new();
        }
        self.on_the_way = self.lines.len();
        self.lines.iter().cloned().collect()
    }

    /// The heartbeat has arrived: its lines are the engine's.
    pub(super) fn arrived(&mut self) {
        while self.on_the_way > 0 {
            self.drop_first();
        }
    }

    /// The heartbeat did not arrive: its lines go again.
    pub(super) fn repeat(&mut self) {
        self.on_the_way = 0;
    }

    /// All that the engine may not have; nothing is left.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(self).lines.into()
    }

    fn drop_first(&mut self) {
        if let Some(line) = self.lines.pop_front() {
            self.bytes -= line.len();
        }
        self.on_the_way = self.on_the_way.saturating_sub(1);
    }
}

/// At most that many bytes, whole characters.
fn cut(line: &str, bytes_max: usize) -> &str {
    let mut end = line.len().min(bytes_max);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

#[cfg(test)]
mod tests;
