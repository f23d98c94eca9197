//! How schedules are written in rows.

use super::codec::{Reader, Writer, damaged};
use super::fields::Field;
use crate::error::Result;
use crate::schedule::{
    Every, Fold, Form, Gap, Missed, Overlap, PatternText, PlannedRun, Schedule, SpecBuilder,
    Success, Template,
};

/// Whole microseconds after the epoch, and the span from there to the due.
impl Field for PlannedRun {
    fn write(&self, to: &mut Writer) {
        to.time(self.at);
        to.varint(self.due.as_micros() - self.at.as_micros());
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let at = from.time()?;
        let due = at + std::time::Duration::from_micros(from.varint()?);
        Ok(Self { at, due })
    }
}

impl Field for Success {
    fn write(&self, to: &mut Writer) {
        to.time(self.at);
        to.time(self.finished_at);
        self.result.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            at: from.time()?,
            finished_at: from.time()?,
            result: Field::read(from)?,
        })
    }
    fn heap(&self) -> usize {
        self.result.as_ref().map_or(0, bytes::Bytes::len)
    }
}

impl Field for PatternText {
    fn write(&self, to: &mut Writer) {
        to.u8(match self.form {
            Form::Cron => 0,
            Form::CronWithSeconds => 1,
            Form::Quartz => 2,
        });
        to.text(&self.text);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let form = match from.u8()? {
            0 => Form::Cron,
            1 => Form::CronWithSeconds,
            2 => Form::Quartz,
            _ => return Err(damaged("pattern")),
        };
        let text = from.text()?;
        Ok(Self { form, text })
    }
    fn heap(&self) -> usize {
        self.text.len()
    }
}

impl Field for Every {
    fn write(&self, to: &mut Writer) {
        self.span.write(to);
        self.phase.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (span, phase) = (Field::read(from)?, Field::read(from)?);
        Ok(Self { span, phase })
    }
}

impl Field for SpecBuilder {
    fn write(&self, to: &mut Writer) {
        self.patterns.write(to);
        self.every.write(to);
        self.at.write(to);
        self.except.write(to);
        to.text(&self.zone);
        self.before.write(to);
        to.u8(match self.gap {
            Gap::AtItsEnd => 0,
            Gap::Shift => 1,
            Gap::Skip => 2,
        });
        to.u8(match self.fold {
            Fold::First => 0,
            Fold::Last => 1,
            Fold::Both => 2,
        });
        self.jitter.write(to);
        self.start.write(to);
        self.end.write(to);
        self.max_runs.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            patterns: Field::read(from)?,
            every: Field::read(from)?,
            at: Field::read(from)?,
            except: Field::read(from)?,
            zone: from.text()?,
            before: Field::read(from)?,
            gap: match from.u8()? {
                0 => Gap::AtItsEnd,
                1 => Gap::Shift,
                2 => Gap::Skip,
                _ => return Err(damaged("gap policy")),
            },
            fold: match from.u8()? {
                0 => Fold::First,
                1 => Fold::Last,
                2 => Fold::Both,
                _ => return Err(damaged("fold policy")),
            },
            jitter: Field::read(from)?,
            start: Field::read(from)?,
            end: Field::read(from)?,
            max_runs: Field::read(from)?,
        })
    }
    fn heap(&self) -> usize {
        let patterns = self.patterns.heap() + self.except.heap();
        patterns + self.every.heap() + self.at.heap() + self.zone.len()
    }
}

impl Field for Template {
    fn write(&self, to: &mut Writer) {
        to.text(&self.queue);
        to.text(&self.kind);
        self.payload.write(to);
        to.text(&self.content_type);
        self.headers.write(to);
        to.u8(self.priority);
        self.unique.write(to);
        self.group.write(to);
        to.u32(self.max_attempts);
        self.max_crashes.write(to);
        self.retry.write(to);
        self.timeout.write(to);
        self.retention.write(to);
        self.share.write(to);
        self.limits.write(to);
        to.u32(self.cost);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            queue: from.text()?,
            kind: from.text()?,
            payload: Field::read(from)?,
            content_type: from.text()?,
            headers: Field::read(from)?,
            priority: from.u8()?,
            unique: Field::read(from)?,
            group: Field::read(from)?,
            max_attempts: from.u32()?,
            max_crashes: Field::read(from)?,
            retry: Field::read(from)?,
            timeout: Field::read(from)?,
            retention: Field::read(from)?,
            share: Field::read(from)?,
            limits: Field::read(from)?,
            cost: from.u32()?,
        })
    }
    fn heap(&self) -> usize {
        let names = self.queue.len() + self.kind.len() + self.content_type.len();
        let limits = self.share.heap() + self.limits.heap();
        names
            + limits
            + self.payload.len()
            + self.headers.heap()
            + self.unique.heap()
            + self.group.heap()
    }
}

impl Field for Missed {
    fn write(&self, to: &mut Writer) {
        match self {
            Self::Latest { grace } => {
                to.u8(0);
                grace.write(to);
            }
            Self::All { max } => {
                to.u8(1);
                to.u32(*max);
            }
            Self::Skip { grace } => {
                to.u8(2);
                grace.write(to);
            }
        }
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(match from.u8()? {
            0 => Self::Latest {
                grace: Field::read(from)?,
            },
            1 => Self::All { max: from.u32()? },
            2 => Self::Skip {
                grace: Field::read(from)?,
            },
            _ => return Err(damaged("policy for missed runs")),
        })
    }
}

impl Field for Schedule {
    fn write(&self, to: &mut Writer) {
        self.spec.write(to);
        self.template.write(to);
        let overlap = Overlap::ALL.iter().position(|one| *one == self.overlap);
        to.u8(overlap.unwrap_or_default() as u8);
        self.missed.write(to);
        to.bool(self.paused);
        to.text(&self.note);
        to.bool(self.pause_on_failure);
        self.expect_within.write(to);
    }
    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            spec: Field::read(from)?,
            template: Field::read(from)?,
            overlap: *(Overlap::ALL.get(usize::from(from.u8()?)))
                .ok_or_else(|| damaged("overlap policy"))?,
            missed: Field::read(from)?,
            paused: from.bool()?,
            note: from.text()?,
            pause_on_failure: from.bool()?,
            expect_within: Field::read(from)?,
        })
    }
    fn heap(&self) -> usize {
        self.spec.heap() + self.template.heap() + self.note.len()
    }
}
