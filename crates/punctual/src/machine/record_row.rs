//! The row of a named record: settings of a queue, a schedule, or bytes.

use super::codec::{Reader, Writer, damaged};
use super::fields::Field;
use super::rows::NO_RARE;
use super::table::Value;
use crate::engine::{LimitSettings, OnFull, QueueSettings, RecordValue, ShareSettings, WhenFull};
use crate::error::Result;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordRow {
    pub(crate) version: u64,
    pub(crate) value: RecordValue,
}

impl Value for RecordRow {
    fn write(&self, to: &mut Writer) {
        to.u8(NO_RARE);
        to.varint(self.version);
        match &self.value {
            RecordValue::Queue(settings) => {
                let bound = settings.shares.as_ref().and_then(|one| one.max_pending);
                let form = match (settings.has_limits(), settings.shares.is_some()) {
                    (_, true) => 4 + 3 * u8::from(bound.is_some()),
                    (true, false) => 3,
                    (false, false) => 0,
                };
                to.u8(form);
                settings.max_pending.write(to);
                to.bool(settings.on_full == OnFull::DeadLetterOldest);
                if form > 0 {
                    settings.concurrency.write(to);
                    settings.rate.write(to);
                }
                if let Some(shares) = &settings.shares {
                    shares.concurrency.write(to);
                    shares.rate.write(to);
                    shares.weights.write(to);
                    if bound.is_some() {
                        bound.write(to);
                    }
                }
            }
            RecordValue::Opaque(bytes) => {
                to.u8(1);
                to.bytes(bytes);
            }
            RecordValue::Schedule(schedule) => {
                to.u8(2);
                schedule.write(to);
            }
            RecordValue::Limit(settings) => {
                let decides = settings.when_full != WhenFull::Wait;
                to.u8(if decides { 6 } else { 5 });
                settings.concurrency.write(to);
                settings.rate.write(to);
                if decides {
                    to.u8(settings.when_full as u8);
                }
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.first_byte(NO_RARE)?;
        let version = from.varint()?;
        let value = match from.u8()? {
            form @ (0 | 3 | 4 | 7) => {
                let mut settings = QueueSettings::new();
                settings.max_pending = Field::read(from)?;
                if from.bool()? {
                    settings.on_full = OnFull::DeadLetterOldest;
                }
                if form > 0 {
                    settings.concurrency = Field::read(from)?;
                    settings.rate = Field::read(from)?;
                }
                if form >= 4 {
                    let mut shares = ShareSettings::new();
                    shares.concurrency = Field::read(from)?;
                    shares.rate = Field::read(from)?;
                    shares.weights = Field::read(from)?;
                    if form == 7 {
                        shares.max_pending = Field::read(from)?;
                    }
                    settings.shares = Some(Box::new(shares));
                }
                RecordValue::Queue(settings)
            }
            1 => RecordValue::Opaque(from.bytes()?),
            2 => RecordValue::Schedule(Box::new(Field::read(from)?)),
            form @ (5 | 6) => {
                let mut settings = LimitSettings::new();
                settings.concurrency = Field::read(from)?;
                settings.rate = Field::read(from)?;
                if form == 6 {
                    let when_full = WhenFull::ALL.get(usize::from(from.u8()?));
                    settings.when_full = *when_full.ok_or_else(|| damaged("record"))?;
                }
                RecordValue::Limit(settings)
            }
            _ => return Err(damaged("record")),
        };
        Ok(Self { version, value })
    }
}
