//! A progress bar on standard error, only on a terminal.

use std::fmt;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::output::{Output, count};

pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar up to `total` things; `0` where the total is not known.
    pub(crate) fn new(out: Output, total: u64, what: &str) -> Self {
        if out.is_json() || !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let (bar, template) = match total {
            0 => (
                ProgressBar::new_spinner(),
                "{spinner} {human_pos} {msg}  {rate}",
            ),
            _ => (
                ProgressBar::new(total),
                "[{bar:16}] {human_pos} of {human_len} {msg}  {rate}, {eta} left",
            ),
        };
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("rate", rate)
            .progress_chars("##-");
        bar.set_style(style);
        bar.set_message(what.to_owned());
        Self(bar)
    }

    pub(crate) fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Whole things per second; the library's own would show four decimals.
fn rate(state: &ProgressState, to: &mut dyn fmt::Write) {
    // What cannot be written is not shown.
    let _ = write!(to, "{}/s", count(state.per_sec() as u64));
}
