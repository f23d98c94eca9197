//! The jobs that hold a named limit, or wait at it, for listing.

use std::ops::Bound;

use super::Machine;
use super::codec::{Reader, Writer};
use super::cursor::{Fixed, bad_cursor};
use super::inspect::Candidates;
use super::named_rows::KeptBackKey;
use crate::error::Result;

/// The part of a queue in which a walk is.
const ACTIVE: u8 = 0;
const KEPT_BACK: u8 = 1;
const DONE: u8 = 2;

/// Where a walk over queues stands: the part of a queue, its name, and the place in that part.
struct Stand {
    part: u8,
    queue: String,
    rest: Option<Vec<u8>>,
}

impl Stand {
    fn read(cursor: Option<&[u8]>) -> Result<Self> {
        let Some(bytes) = cursor else {
            return Ok(Self {
                part: ACTIVE,
                queue: String::new(),
                rest: None,
            });
        };
        let mut reader = Reader(bytes);
        let part = reader.u8().map_err(|_| bad_cursor())?;
        let queue = reader.text().map_err(|_| bad_cursor())?;
        if part > DONE {
            return Err(bad_cursor());
        }
        let rest = (!reader.0.is_empty()).then(|| reader.0.to_vec());
        Ok(Self { part, queue, rest })
    }

    fn after(&self, rest: &[u8]) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u8(self.part);
        writer.text(&self.queue);
        writer.0.extend_from_slice(rest);
        writer.0
    }
}

impl Machine {
    /// Queue by queue: active jobs lease by lease, of which some have the limit, then the places
    /// that it keeps back. The end of each queue is an entry too, so that a call is bounded.
    pub(super) fn by_limit(
        &self,
        namespace: u32,
        limit: &str,
        cursor: Option<&[u8]>,
        most: usize,
    ) -> Result<Candidates> {
        let mut stand = Stand::read(cursor)?;
        let mut found: Candidates = Vec::new();
        while found.len() < most {
            let key = (namespace, stand.queue.clone());
            let from = match stand.part {
                DONE => Bound::Excluded(key),
                _ => Bound::Included(key),
            };
            let mut queues = self.derived.queue_ids.range((from, Bound::Unbounded));
            let Some(((of, name), queue)) = queues.next().filter(|((of, _), _)| *of == namespace)
            else {
                break;
            };
            debug_assert_eq!(*of, namespace, "a walk stays in its namespace");
            if stand.part == DONE || *name != stand.queue {
                (stand.part, stand.rest) = (ACTIVE, None);
                stand.queue = name.clone();
            }
            let (queue, want) = (*queue, most - found.len());
            let rest = stand.rest.take();
            let here = match (self.queue_state(queue)?.named.is_some(), stand.part) {
                (true, ACTIVE) => self.active_jobs(queue, rest.as_deref(), want)?,
                (true, KEPT_BACK) => self.kept_back_by(queue, limit, rest.as_deref(), want)?,
                _ => Vec::new(),
            };
            let is_full = here.len() == want;
            let here = here.into_iter();
            found.extend(here.map(|(id, after)| (id, stand.after(&after))));
            if is_full {
                break;
            }
            stand.part += 1;
            if stand.part == DONE {
                found.push((None, stand.after(&[])));
            }
        }
        Ok(found)
    }

    /// The places of a queue that a limit keeps back, in line; of a group its first job.
    fn kept_back_by(
        &self,
        queue: u32,
        limit: &str,
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Candidates> {
        let start = KeptBackKey::start_of(queue, limit, 0);
        let end = KeptBackKey::start_of(queue, limit, u8::MAX);
        // Lane, whether in front, instant and number.
        let fixed = Fixed::but_last(&start, 2 + 2 * size_of::<u64>());
        let after: Option<KeptBackKey> = fixed.read(after)?;
        let from = after
            .as_ref()
            .map_or(Bound::Included(&start), Bound::Excluded);
        let found = (self.rows.kept_back).scan(from, Bound::Excluded(&end), false, most)?;
        let found = found.into_iter();
        Ok(found
            .map(|(key, row)| (Some(row.job), fixed.write(&key)))
            .collect())
    }
}
