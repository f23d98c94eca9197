//! The last jobs of each queue that ended: one row per step and queue, in slots that are used
//! again.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use rustc_hash::FxHashMap;

use super::Machine;
use super::jobs::Loaded;
use super::rows::{EndKey, EndRow, EndRun};
use crate::engine::{ENDS_KEPT, JobEnd};
use crate::error::Result;
use crate::job::JobState;
use crate::time::Timestamp;

/// What the step has ended so far, and where the rows of each queue stand.
#[derive(Debug, Default)]
pub(super) struct Ends {
    step: BTreeMap<u32, StepEnds>,
    /// By queue, read when a queue's first job ends.
    slots: FxHashMap<u32, Slots>,
}

#[derive(Debug)]
struct StepEnds {
    at: Timestamp,
    count: usize,
    runs: Vec<EndRun>,
}

/// The rows of a queue that hold its last ends, the oldest first, and the slots of the others.
#[derive(Debug, Default)]
struct Slots {
    seq: u64,
    live: VecDeque<(u8, usize)>,
    free: Vec<u8>,
}

impl Slots {
    /// The slot for a row of so many ends; rows that are not needed any more give theirs up.
    fn take(&mut self, count: usize) -> u8 {
        let mut ends: usize = self.live.iter().map(|(_, count)| count).sum();
        ends += count;
        while let Some((slot, oldest)) = self.live.front().copied()
            && ends - oldest >= ENDS_KEPT
        {
            ends -= oldest;
            self.live.pop_front();
            self.free.push(slot);
        }
        // Every row holds an end, so there are at most as many as ends are kept.
        let slot = self.free.pop().unwrap_or(self.live.len() as u8);
        self.live.push_back((slot, count));
        self.seq += 1;
        slot
    }
}

impl EndRow {
    fn count(&self) -> usize {
        self.runs.iter().map(|run| run.ids.len()).sum()
    }
}

impl Machine {
    /// Notes that a job ended; the end is written with the step.
    pub(super) fn note_end(&mut self, job: &Loaded, state: JobState) {
        let queue = job.spec.queue;
        let of_queue = self.derived.queues.get(&queue);
        let is_default = of_queue.is_some_and(|queue| *queue.name == *job.spec.kind);
        let kind = if is_default { "" } else { &job.spec.kind };
        let now = self.now;
        let step = self.ends.step.entry(queue).or_insert_with(|| StepEnds {
            at: now,
            count: 0,
            runs: Vec::new(),
        });
        step.count += 1;
        match step.runs.last_mut() {
            Some(run) if run.state == state && run.kind == kind => run.ids.push(job.key.id),
            _ => step.runs.push(EndRun {
                state,
                kind: kind.to_owned(),
                ids: vec![job.key.id],
            }),
        }
    }

    /// The queue is deleted: its ends go with it.
    pub(super) fn forget_ends(&mut self, queue: u32) -> Result<()> {
        self.ends.step.remove(&queue);
        self.ends.slots.remove(&queue);
        let key = |queue| EndKey { queue, slot: 0 };
        let (first, end) = (key(queue), key(queue + 1));
        let (from, to) = (Bound::Included(&first), Bound::Excluded(&end));
        for (key, _) in self.rows.ends.scan(from, to, false, ENDS_KEPT)? {
            self.rows.ends.remove(&mut self.journal, &key);
        }
        Ok(())
    }

    /// Writes the ends of the step, one row per queue.
    pub(super) fn write_ends(&mut self) -> Result<()> {
        while let Some((queue, step)) = self.ends.step.pop_first() {
            let mut runs = step.runs;
            let mut over = step.count.saturating_sub(ENDS_KEPT);
            runs.retain_mut(|run| {
                let gone = over.min(run.ids.len());
                run.ids.drain(..gone);
                over -= gone;
                !run.ids.is_empty()
            });
            if !self.ends.slots.contains_key(&queue) {
                let slots = self.read_slots(queue)?;
                self.ends.slots.insert(queue, slots);
            }
            let slots = self.ends.slots.entry(queue).or_default();
            let slot = slots.take(step.count.min(ENDS_KEPT));
            let row = EndRow {
                seq: slots.seq,
                at: step.at,
                runs,
            };
            let key = EndKey { queue, slot };
            self.rows.ends.put(&mut self.journal, key, row);
        }
        Ok(())
    }

    /// The last ends of a queue, the newest first.
    pub(super) fn ends_of(&mut self, queue: u32) -> Result<Vec<JobEnd>> {
        self.write_ends()?;
        let name = self.queue_state(queue)?.name.clone();
        let mut ends = Vec::new();
        for (_, row) in self.end_rows(queue)?.into_iter().rev() {
            for run in row.runs.into_iter().rev() {
                let kind = if run.kind.is_empty() {
                    name.to_string()
                } else {
                    run.kind
                };
                ends.extend(run.ids.into_iter().rev().map(|id| JobEnd {
                    id,
                    kind: kind.clone(),
                    state: run.state,
                    at: row.at,
                }));
            }
            if ends.len() >= ENDS_KEPT {
                break;
            }
        }
        ends.truncate(ENDS_KEPT);
        Ok(ends)
    }

    /// When the last job of a queue ended.
    pub(super) fn last_end(&self, queue: u32) -> Result<Option<Timestamp>> {
        let rows = self.end_rows(queue)?;
        Ok(rows.iter().map(|(_, row)| row.at).max())
    }

    /// The rows of a queue, the oldest first; the first ones may be out of use.
    fn end_rows(&self, queue: u32) -> Result<Vec<(u8, EndRow)>> {
        let start = EndKey { queue, slot: 0 };
        let end = EndKey {
            queue,
            slot: u8::MAX,
        };
        let rows = self.rows.ends.scan(
            Bound::Included(&start),
            Bound::Excluded(&end),
            false,
            ENDS_KEPT,
        )?;
        let mut rows: Vec<_> = rows.into_iter().map(|(key, row)| (key.slot, row)).collect();
        rows.sort_by_key(|(_, row)| row.seq);
        Ok(rows)
    }

    fn read_slots(&self, queue: u32) -> Result<Slots> {
        let mut slots = Slots::default();
        let mut ends = 0;
        for (slot, row) in self.end_rows(queue)?.into_iter().rev() {
            slots.seq = slots.seq.max(row.seq);
            if ends >= ENDS_KEPT {
                slots.free.push(slot);
            } else {
                slots.live.push_front((slot, row.count()));
            }
            ends += row.count();
        }
        Ok(slots)
    }
}

#[cfg(test)]
mod tests;
