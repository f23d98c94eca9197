//! The last ends of a queue, as the functions store them.

use punctual::Result;
use punctual::engine::JobEnd;

use super::Reader;
use super::record::state_of;

/// Entries, the newest last: `at | state | count u8 | kind | ids`; the newest end comes out first.
pub(crate) fn read(queue: &str, bytes: &[u8]) -> Result<Vec<JobEnd>> {
    let mut reader = Reader(bytes);
    let mut ends = Vec::new();
    while !reader.0.is_empty() {
        let at = reader.instant()?;
        let state = state_of(reader.u8()?.into())?;
        let count = reader.u8()?;
        let kind = match reader.name()? {
            kind if kind.is_empty() => queue.to_owned(),
            kind => kind,
        };
        for _ in 0..count {
            ends.push(JobEnd::new(reader.id()?, kind.clone(), state, at));
        }
    }
    ends.reverse();
    Ok(ends)
}
