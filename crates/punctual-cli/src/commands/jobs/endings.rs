//! Finds jobs by the end of their ids, which is the part that differs.

use std::collections::{BTreeMap, BTreeSet};

use punctual::JobId;
use punctual::engine::{List, ListBy};

use crate::args::Session;
use crate::failure::{Exit, Failure, Result};
use crate::output::count;

/// The least characters of an id that name a job.
pub(super) const CHARS_MIN: usize = 8;
/// The most jobs that are examined.
const EXAMINED_MAX: usize = 100_000;
/// Ids that an error shows.
const SHOWN_MAX: usize = 3;

/// A job's id, or the end of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IdOrEnd {
    Id(JobId),
    /// Lower case, without dashes.
    End(String),
}

/// Reads a UUID, or the last eight or more characters of one.
pub(super) fn id_or_end(text: &str) -> std::result::Result<IdOrEnd, String> {
    if let Ok(id) = text.parse() {
        return Ok(IdOrEnd::Id(id));
    }
    let end: String = text.chars().filter(|c| *c != '-').collect();
    let is_hex = !end.is_empty() && end.chars().all(|c| c.is_ascii_hexdigit());
    match (is_hex, end.len()) {
        (true, CHARS_MIN..32) => Ok(IdOrEnd::End(end.to_ascii_lowercase())),
        (true, 0..CHARS_MIN) => Err(format!(
            "too short; write the last {CHARS_MIN} or more characters of a job's id"
        )),
        _ => Err(format!(
            "not a job's id; write a UUID, or its last {CHARS_MIN} or more characters"
        )),
    }
}

/// The ids of what was named, in order.
pub(super) async fn resolve(session: &Session, named: &[IdOrEnd]) -> Result<Vec<JobId>> {
    let mut found: BTreeMap<&str, BTreeSet<JobId>> = BTreeMap::new();
    for one in named {
        if let IdOrEnd::End(end) = one {
            found.insert(end, BTreeSet::new());
        }
    }
    let is_whole = found.is_empty() || search(session, &mut found).await?;
    let id = |one: &IdOrEnd| match one {
        IdOrEnd::Id(id) => Ok(*id),
        IdOrEnd::End(end) => only(end, &found[&**end], is_whole),
    };
    named.iter().map(id).collect()
}

/// Searches the namespace; returns whether it saw every job.
async fn search(session: &Session, found: &mut BTreeMap<&str, BTreeSet<JobId>>) -> Result<bool> {
    let mut cursor = None;
    let mut examined = 0;
    loop {
        let list = List::new(ListBy::All).cursor(cursor).limit(1_000);
        let listing = session.engine.list(&session.namespace, list).await?;
        examined += listing.examined;
        for job in &listing.jobs {
            let id = job.id.to_string().replace('-', "");
            for (end, ids) in &mut *found {
                if id.ends_with(end) {
                    ids.insert(job.id);
                }
            }
        }
        cursor = listing.cursor;
        if cursor.is_none() || examined >= EXAMINED_MAX {
            return Ok(cursor.is_none());
        }
    }
}

fn only(end: &str, ids: &BTreeSet<JobId>, is_whole: bool) -> Result<JobId> {
    let mut each = ids.iter();
    match (each.next(), each.next()) {
        (Some(id), None) => Ok(*id),
        (Some(_), Some(_)) => {
            let shown: Vec<_> = ids.iter().take(SHOWN_MAX).map(JobId::to_string).collect();
            let more = if ids.len() > SHOWN_MAX { ", .." } else { "" };
            let shown = shown.join(", ");
            let message = format!("{} jobs have an id that ends in {end}", ids.len());
            Err(Failure::new(Exit::Usage, "ambiguous_id", message)
                .hint(format!("write more of the id: {shown}{more}")))
        }
        (None, _) if is_whole => Err(super::not_found(format!(
            "no job has an id that ends in {end}"
        ))),
        (None, _) => {
            let bound = count(EXAMINED_MAX as u64);
            let message = format!("none of the first {bound} jobs has an id that ends in {end}");
            Err(Failure::new(Exit::NotFound, "not_found", message)
                .hint("the search by the end of an id examines no more jobs; write the whole id"))
        }
    }
}

#[cfg(test)]
mod tests;
