//! The work of a pattern, and what goes wrong in it.

use std::time::Duration;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// Nothing.
    None,
    /// The process of a worker dies in the middle of every so many-th message.
    Dies(u32),
    /// Every so many-th message takes that long.
    Long(u32, Duration),
    /// The network drops a reply on every so many-th message.
    Cut(u32),
}

/// Messages to work on, and by whom.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// How many there are.
    pub messages: u32,
    /// Their dues lie in that span from the start, evenly.
    pub within: Duration,
    /// Whether all are sent at the start, each with its delay; else each is sent when it is due.
    pub is_delayed: bool,
    /// How long one takes.
    pub takes: Duration,
    /// Workers that take one at a time.
    pub workers: usize,
    /// What goes wrong.
    pub mishap: Mishap,
}

impl Work {
    /// When a message is due, from the start.
    pub fn due(&self, id: u32) -> Duration {
        self.within * id / self.messages.max(1)
    }

    /// How long a message takes.
    pub fn span_of(&self, id: u32) -> Duration {
        match self.mishap {
            Mishap::Long(nth, span) if is_nth(id, nth) => span,
            _ => self.takes,
        }
    }

    /// Whether its worker dies in the middle of a message, once.
    pub fn kills(&self, id: u32) -> bool {
        matches!(self.mishap, Mishap::Dies(nth) if is_nth(id, nth))
    }

    /// Workers that die.
    pub fn deaths(&self) -> u32 {
        (0..self.messages).filter(|id| self.kills(*id)).count() as u32
    }

    /// Whether a reply is dropped when a message is sent.
    pub fn cuts(&self, id: u32) -> bool {
        matches!(self.mishap, Mishap::Cut(nth) if is_nth(id, nth))
    }
}

/// In the middle of each so many.
fn is_nth(id: u32, nth: u32) -> bool {
    id % nth == nth / 2
}
