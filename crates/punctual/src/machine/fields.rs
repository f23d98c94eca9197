//! How each type of field is written in keys and values, and the macros that make rows of them.

use std::time::Duration;

use bytes::Bytes;

use super::codec::{Reader, Writer, damaged};
use super::rows::{EndRun, RateRow};
use super::share_rows::LaneShares;
use super::table::Value;
use crate::engine::Rate;
use crate::error::Result;
use crate::job::{
    CancelReason, DeadReason, Group, Hold, JobId, JobState, LogLine, Memo, MemoSource, OnRetry,
    PastAttempt, PastOutcome, Stop, Unique, UniquePolicy,
};
use crate::retry::RetryPolicy;
use crate::time::Timestamp;

/// A field of a key: its bytes sort as it does.
pub(crate) trait KeyField: Sized {
    fn write(&self, to: &mut Writer);
    fn read(from: &mut Reader<'_>) -> Result<Self>;
    fn heap(&self) -> usize {
        0
    }
}

/// A field of a value.
pub(crate) trait Field: Sized {
    fn write(&self, to: &mut Writer);
    fn read(from: &mut Reader<'_>) -> Result<Self>;
    fn heap(&self) -> usize {
        0
    }
}

macro_rules! plain_fields {
    ($($type:ty => $method:ident),*) => {$(
        impl KeyField for $type {
            fn write(&self, to: &mut Writer) { to.$method(*self) }
            fn read(from: &mut Reader<'_>) -> Result<Self> { from.$method() }
        }
        impl Field for $type {
            fn write(&self, to: &mut Writer) { to.$method(*self) }
            fn read(from: &mut Reader<'_>) -> Result<Self> { from.$method() }
        }
    )*};
}
plain_fields!(u8 => u8, u32 => u32, u128 => u128, Timestamp => time, JobId => id);

impl KeyField for u64 {
    fn write(&self, to: &mut Writer) {
        to.u64(*self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.u64()
    }
}

impl Field for u64 {
    fn write(&self, to: &mut Writer) {
        to.varint(*self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.varint()
    }
}

impl Field for bool {
    fn write(&self, to: &mut Writer) {
        to.bool(*self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.bool()
    }
}

impl KeyField for String {
    fn write(&self, to: &mut Writer) {
        to.key_text(self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.key_text()
    }
    fn heap(&self) -> usize {
        self.len()
    }
}

impl Field for String {
    fn write(&self, to: &mut Writer) {
        to.text(self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.text()
    }
    fn heap(&self) -> usize {
        self.len()
    }
}

impl Field for Bytes {
    fn write(&self, to: &mut Writer) {
        to.bytes(self);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.bytes()
    }
    fn heap(&self) -> usize {
        self.len()
    }
}

/// Whole microseconds.
impl Field for Duration {
    fn write(&self, to: &mut Writer) {
        to.varint(u64::try_from(self.as_micros()).unwrap_or(u64::MAX));
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self::from_micros(from.varint()?))
    }
}

impl<T: Field> Field for Option<T> {
    fn write(&self, to: &mut Writer) {
        to.option(self.as_ref(), |to, value| value.write(to));
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.option(T::read)
    }
    fn heap(&self) -> usize {
        self.as_ref().map_or(0, T::heap)
    }
}

impl<T: Field> Field for Vec<T> {
    fn write(&self, to: &mut Writer) {
        to.list(self, |to, value| value.write(to));
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        from.list(T::read)
    }
    fn heap(&self) -> usize {
        self.iter().map(|value| size_of::<T>() + value.heap()).sum()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
        self.1.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok((A::read(from)?, B::read(from)?))
    }
    fn heap(&self) -> usize {
        self.0.heap() + self.1.heap()
    }
}

macro_rules! numbered_fields {
    ($($type:ident: $what:literal),*) => {$(
        impl Field for $type {
            fn write(&self, to: &mut Writer) { to.u8(*self as u8) }
            fn read(from: &mut Reader<'_>) -> Result<Self> {
                let number = from.u8()?;
                Self::ALL.into_iter().find(|one| *one as u8 == number).ok_or_else(|| damaged($what))
            }
        }
    )*};
}
numbered_fields!(JobState: "state", CancelReason: "cancel reason", DeadReason: "dead reason", Stop: "stop", PastOutcome: "outcome", MemoSource: "source of a memo");

impl Field for PastAttempt {
    fn write(&self, to: &mut Writer) {
        to.u32(self.attempt);
        to.time(self.started_at);
        to.time(self.ended_at);
        self.outcome.write(to);
        self.worker.write(to);
        self.error.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            attempt: from.u32()?,
            started_at: from.time()?,
            ended_at: from.time()?,
            outcome: Field::read(from)?,
            worker: Field::read(from)?,
            error: Field::read(from)?,
        })
    }
    fn heap(&self) -> usize {
        self.error.heap()
    }
}

impl Field for LogLine {
    fn write(&self, to: &mut Writer) {
        to.time(self.at);
        to.u32(self.attempt);
        to.text(&self.text);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            at: from.time()?,
            attempt: from.u32()?,
            text: from.text()?,
        })
    }
    fn heap(&self) -> usize {
        self.text.len()
    }
}

impl Field for Memo {
    fn write(&self, to: &mut Writer) {
        self.source.write(to);
        to.time(self.at);
        to.text(&self.name);
        to.bytes(&self.value);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            source: Field::read(from)?,
            at: from.time()?,
            name: from.text()?,
            value: from.bytes()?,
        })
    }
    fn heap(&self) -> usize {
        self.name.len() + self.value.len()
    }
}

/// A row within a row.
impl Field for RateRow {
    fn write(&self, to: &mut Writer) {
        Value::write(self, to);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Value::read(from)
    }
    fn heap(&self) -> usize {
        self.starts.heap()
    }
}

/// Of few shares of a lane.
impl Field for LaneShares {
    fn write(&self, to: &mut Writer) {
        to.varint(self.turn);
        self.others.write(to);
        to.varint(self.places);
        to.varint(self.parked);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            turn: from.varint()?,
            others: Field::read(from)?,
            places: from.varint()?,
            parked: from.varint()?,
        })
    }
}

impl Field for EndRun {
    fn write(&self, to: &mut Writer) {
        self.state.write(to);
        to.text(&self.kind);
        self.ids.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            state: Field::read(from)?,
            kind: from.text()?,
            ids: Field::read(from)?,
        })
    }
    fn heap(&self) -> usize {
        self.kind.len() + self.ids.heap()
    }
}

impl Field for Unique {
    fn write(&self, to: &mut Writer) {
        to.text(&self.key);
        to.u8(match self.policy {
            UniquePolicy::Keep => 0,
            UniquePolicy::Replace => 1,
            UniquePolicy::After => 2,
            UniquePolicy::Refresh { .. } => 3,
        });
        if let UniquePolicy::Refresh { max_wait } = &self.policy {
            max_wait.write(to);
        }
        match self.hold {
            Hold::UntilSettled => to.u8(0),
            Hold::UntilStarted => to.u8(1),
            Hold::For(span) => {
                to.u8(2);
                span.write(to);
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let key = from.text()?;
        let policy = match from.u8()? {
            0 => UniquePolicy::Keep,
            1 => UniquePolicy::Replace,
            2 => UniquePolicy::After,
            3 => UniquePolicy::Refresh {
                max_wait: Duration::read(from)?,
            },
            _ => return Err(damaged("unique policy")),
        };
        let hold = match from.u8()? {
            0 => Hold::UntilSettled,
            1 => Hold::UntilStarted,
            2 => Hold::For(Duration::read(from)?),
            _ => return Err(damaged("unique hold")),
        };
        Ok(Self { key, policy, hold })
    }
    fn heap(&self) -> usize {
        self.key.len()
    }
}

impl Field for Rate {
    fn write(&self, to: &mut Writer) {
        to.u8(u8::from(matches!(self, Self::Window { .. })));
        to.varint(self.starts());
        self.per().write(to);
        if let Self::Smooth { burst, .. } = self {
            to.varint(*burst);
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let kind = from.u8()?;
        let (starts, per) = (Field::read(from)?, Field::read(from)?);
        match kind {
            0 => Ok(Self::smooth(starts, per).burst(Field::read(from)?)),
            1 => Ok(Self::window(starts, per)),
            _ => Err(damaged("rate")),
        }
    }
}

impl Field for Group {
    fn write(&self, to: &mut Writer) {
        to.text(&self.key);
        to.bool(self.on_retry == OnRetry::Pass);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let key = from.text()?;
        let on_retry = if from.bool()? {
            OnRetry::Pass
        } else {
            OnRetry::Hold
        };
        Ok(Self { key, on_retry })
    }
    fn heap(&self) -> usize {
        self.key.len()
    }
}

impl Field for RetryPolicy {
    fn write(&self, to: &mut Writer) {
        if *self == Self::default() {
            return to.u8(0);
        }
        match self {
            Self::Exponential {
                base,
                factor,
                cap,
                jitter,
            } => {
                to.u8(1);
                base.write(to);
                to.u64(factor.to_bits());
                cap.write(to);
                to.bool(*jitter);
            }
            Self::Fixed { span, jitter } => {
                to.u8(2);
                span.write(to);
                to.bool(*jitter);
            }
            Self::Linear { base, cap, jitter } => {
                to.u8(3);
                base.write(to);
                cap.write(to);
                to.bool(*jitter);
            }
            Self::List(spans) => {
                to.u8(4);
                spans.write(to);
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(match from.u8()? {
            0 => Self::default(),
            1 => Self::Exponential {
                base: Field::read(from)?,
                factor: f64::from_bits(from.u64()?),
                cap: Field::read(from)?,
                jitter: from.bool()?,
            },
            2 => Self::Fixed {
                span: Field::read(from)?,
                jitter: from.bool()?,
            },
            3 => Self::Linear {
                base: Field::read(from)?,
                cap: Field::read(from)?,
                jitter: from.bool()?,
            },
            4 => Self::List(Field::read(from)?),
            _ => return Err(damaged("retry policy")),
        })
    }
}

/// Makes a key of a table: fields in order, sorted and written as they stand.
macro_rules! key {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name { $($(#[$field_doc])* pub(crate) $field: $type),* }
        impl $crate::machine::table::Key for $name {
            fn write(&self, to: &mut $crate::machine::codec::Writer) {
                $($crate::machine::fields::KeyField::write(&self.$field, to);)*
            }
            fn read(from: &mut $crate::machine::codec::Reader<'_>) -> $crate::error::Result<Self> {
                Ok(Self { $($field: $crate::machine::fields::KeyField::read(from)?),* })
            }
            fn weight(&self) -> usize {
                size_of::<Self>() $(+ $crate::machine::fields::KeyField::heap(&self.$field))*
            }
        }
    };
}

/// Makes a value of a table: its first byte, then the fields in order. Those after `then` are rare:
/// the last ones are not written while they have their defaults, and the first byte is 1 plus the
/// number of those that are. So a later version may add one, and reads older rows.
macro_rules! row {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? }
        $(then { $(#[$list_doc:meta])* $list:ident: $list_type:ty })*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
            $($(#[$list_doc])* pub(crate) $list: $list_type,)*
        }
        impl $crate::machine::table::Value for $name {
            fn write(&self, to: &mut $crate::machine::codec::Writer) {
                let lists: &[bool] = &[$(self.$list != <$list_type>::default()),*];
                let written = lists.iter().rposition(|has| *has).map_or(0, |at| at as u8 + 1);
                to.u8(1 + written);
                $($crate::machine::fields::Field::write(&self.$field, to);)*
                #[allow(unused_mut, unused_variables)]
                let mut left = written;
                $(if left > 0 {
                    left -= 1;
                    $crate::machine::fields::Field::write(&self.$list, to);
                })*
                let _ = left;
            }
            #[allow(unused_assignments, reason = "the last field counts down in vain")]
            fn read(from: &mut $crate::machine::codec::Reader<'_>) -> $crate::error::Result<Self> {
                let lists: &[&str] = &[$(stringify!($list)),*];
                #[allow(unused_mut, unused_variables)]
                let mut left = match from.u8()? {
                    0 => return Err($crate::machine::codec::damaged(stringify!($name))),
                    first => first - 1,
                };
                if usize::from(left) > lists.len() {
                    return Err($crate::machine::codec::damaged(stringify!($name)));
                }
                Ok(Self {
                    $($field: $crate::machine::fields::Field::read(from)?,)*
                    $($list: if left > 0 {
                        left -= 1;
                        $crate::machine::fields::Field::read(from)?
                    } else {
                        Default::default()
                    },)*
                })
            }
            fn weight(&self) -> usize {
                size_of::<Self>()
                    $(+ $crate::machine::fields::Field::heap(&self.$field))*
                    $(+ $crate::machine::fields::Field::heap(&self.$list))*
            }
        }
    };
}

pub(crate) use {key, row};

#[cfg(test)]
mod tests;
