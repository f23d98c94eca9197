//! The terminal while `top` runs: a screen of its own, and keys as they are pressed.

use std::io::{self, IsTerminal, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::failure::Result;

/// Another screen, without a cursor.
const OPEN: &str = "\u{1b}[?1049h\u{1b}[?25l";
/// The former screen as it was.
const CLOSE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Other,
}

/// The terminal; dropping gives it back as it was.
pub(super) struct Screen {
    before: Option<Termios>,
    keys: UnboundedReceiver<Key>,
}

impl Screen {
    pub(super) fn open() -> Result<Self> {
        let before = keys_at_once();
        let mut out = io::stdout().lock();
        out.write_all(OPEN.as_bytes())?;
        out.flush()?;
        Ok(Self {
            keys: keys(before.is_some()),
            before,
        })
    }

    /// Draws the lines over those before.
    pub(super) fn draw(&mut self, lines: &[String]) -> Result<()> {
        let mut text = String::from("\u{1b}[H");
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\u{1b}[K");
        }
        text.push_str("\u{1b}[J");
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// The next key; never, if there are no keys.
    pub(super) async fn key(&mut self) -> Key {
        match self.keys.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }

    /// Returns when the key that quits is pressed.
    pub(super) async fn quit(&mut self) -> Result<()> {
        while self.key().await != Key::Quit {}
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
        let mut out = io::stdout().lock();
        let _ = out.write_all(CLOSE.as_bytes());
        let _ = out.flush();
    }
}

/// Has the terminal pass on each key at once and unechoed; answers its settings before. Ctrl-C
/// stays a signal.
fn keys_at_once() -> Option<Termios> {
    if !io::stdin().is_terminal() {
        return None;
    }
    let before = tcgetattr(io::stdin()).ok()?;
    let mut settings = before.clone();
    settings
        .local_modes
        .remove(LocalModes::ICANON | LocalModes::ECHO);
    tcsetattr(io::stdin(), OptionalActions::Now, &settings).ok()?;
    Some(before)
}

/// Reads keys on a thread of their own, since a read of a terminal cannot be given up.
fn keys(any: bool) -> UnboundedReceiver<Key> {
    let (send, receive) = unbounded_channel();
    if any {
        std::thread::spawn(move || {
            for byte in io::stdin().lock().bytes() {
                let key = match byte {
                    Ok(b'q' | b'Q') => Key::Quit,
                    Ok(_) => Key::Other,
                    Err(_) => return,
                };
                if send.send(key).is_err() {
                    return;
                }
            }
        });
    }
    receive
}
