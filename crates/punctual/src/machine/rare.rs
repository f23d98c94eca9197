//! What few jobs have, kept out of the way of all others: eight bytes in memory, none in a stored
//! row.

use std::time::Duration;

use super::codec::{Reader, Writer, damaged};
use super::fields::Field;
use super::rows::RandomBits;
use crate::error::Result;

/// Fields that few jobs have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Rare(Option<Box<Fields>>);

#[derive(Debug, Clone, Default, PartialEq)]
struct Fields {
    sent: Option<RandomBits>,
    max_crashes: Option<u32>,
    remember: Option<Duration>,
}

impl Rare {
    /// Of a new job.
    pub(crate) fn of(max_crashes: Option<u32>, remember: Option<Duration>) -> Self {
        let fields = || {
            Box::new(Fields {
                sent: None,
                max_crashes,
                remember,
            })
        };
        let has_any = max_crashes.is_some() || remember.is_some();
        Self(has_any.then(fields))
    }

    /// The hash of what was sent first, if the payload was updated since.
    pub(crate) fn sent(&self) -> Option<RandomBits> {
        self.0.as_ref()?.sent
    }

    /// Remembers the hash of what was sent, unless an earlier one is known.
    pub(crate) fn set_sent(&mut self, sent: RandomBits) {
        self.0.get_or_insert_default().sent.get_or_insert(sent);
    }

    /// Crashes after which the job is dead, if it has a limit of its own.
    pub(crate) fn max_crashes(&self) -> Option<u32> {
        self.0.as_ref()?.max_crashes
    }

    /// How long after it settled a resend is recognised, if it has a span of its own.
    pub(crate) fn remember(&self) -> Option<Duration> {
        self.0.as_ref()?.remember
    }
}

/// The bits that tell which fields follow.
const SENT: u8 = 1;
const MAX_CRASHES: u8 = 2;
const REMEMBER: u8 = 4;

impl Field for Rare {
    fn write(&self, to: &mut Writer) {
        let (sent, max_crashes) = (self.sent(), self.max_crashes());
        let bit = |has: bool, bit| if has { bit } else { 0 };
        let remember = self.remember();
        to.u8(bit(sent.is_some(), SENT)
            | bit(max_crashes.is_some(), MAX_CRASHES)
            | bit(remember.is_some(), REMEMBER));
        if let Some(sent) = sent {
            sent.write(to);
        }
        if let Some(max) = max_crashes {
            to.u32(max);
        }
        if let Some(span) = remember {
            Field::write(&span, to);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let bits = from.u8()?;
        if bits & !(SENT | MAX_CRASHES | REMEMBER) != 0 {
            return Err(damaged("rare fields"));
        }
        let has = |bit| bits & bit != 0;
        let sent = has(SENT).then(|| Field::read(from)).transpose()?;
        let max_crashes = has(MAX_CRASHES).then(|| from.u32()).transpose()?;
        let remember = has(REMEMBER).then(|| Field::read(from)).transpose()?;
        Ok(Self((bits != 0).then(|| {
            Box::new(Fields {
                sent,
                max_crashes,
                remember,
            })
        })))
    }

    fn heap(&self) -> usize {
        self.0.as_ref().map_or(0, |_| size_of::<Fields>())
    }
}
