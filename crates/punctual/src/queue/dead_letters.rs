//! Dead letters in groups: what failed how often, by kind and error.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::engine::{Engine, Filter, List, ListBy, Namespace, StatsRequest};
use crate::error::Result;
use crate::job::{JobId, JobRecord, JobState};
use crate::time::Timestamp;

/// Which dead letters to group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeadSearch {
    /// The queues; every queue of the namespace if empty.
    pub queues: Vec<String>,
    /// Only jobs of this kind.
    pub kind: Option<String>,
    /// Only jobs whose last error contains this text.
    pub error: Option<String>,
    /// Groups to return at most; 50 if 0.
    pub groups: usize,
}

impl DeadSearch {
    /// In these queues; in every queue of the namespace if empty.
    #[must_use]
    pub fn queues(mut self, queues: Vec<String>) -> Self {
        self.queues = queues;
        self
    }

    /// Only jobs of this kind.
    #[must_use]
    pub fn kind(mut self, kind: Option<String>) -> Self {
        self.kind = kind;
        self
    }

    /// Only jobs whose last error contains this text.
    #[must_use]
    pub fn error(mut self, error: Option<String>) -> Self {
        self.error = error;
        self
    }

    /// Groups to return at most; 50 if 0.
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }
}

/// Dead letters of one queue and kind that ended with the same error, but for numbers and ids in
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadGroup {
    /// Their queue.
    pub queue: String,
    /// Their kind.
    pub kind: String,
    /// The first line of their last error, with `#` for each number and id, or the reason of their
    /// death if they have none.
    pub error: String,
    /// The longest part of `error` that stands in each of them: [`Filter::error`] finds them by it.
    pub search: Option<String>,
    /// How many there are.
    pub jobs: usize,
    /// When the first of them died.
    pub first: Timestamp,
    /// When the last of them died.
    pub last: Timestamp,
    /// The last of them.
    pub example: JobId,
}

/// The answer to a [`dead_groups`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadGroups {
    /// The largest group first.
    pub groups: Vec<DeadGroup>,
    /// How many groups there are beyond those.
    pub others: usize,
    /// Dead letters that were examined, the latest of each queue first.
    pub examined: usize,
    /// Whether those were all.
    pub complete: bool,
    /// Engine time.
    pub now: Timestamp,
}

/// Dead letters that one call examines.
pub const EXAMINED_MAX: usize = 10_000;
/// Groups that one call returns.
pub const GROUPS_MAX: usize = 200;
const GROUPS: usize = 50;
/// Jobs that one call of the engine examines.
const STEP: usize = 1_000;
/// Characters of an error that distinguish groups.
const ERROR_CHARS_MAX: usize = 200;
/// A part of an error that is shorter finds too much.
const SEARCH_CHARS_MIN: usize = 4;

/// Groups dead letters by queue, kind and error. It examines at most [`EXAMINED_MAX`] of them.
///
/// # Examples
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use punctual::queue::dead_letters::{DeadSearch, dead_groups};
/// use punctual::engine::{Claim, LeaseReport, Settle, Settlement, WorkerId};
/// use punctual::{Engine, MemoryEngine, Namespace, NewJob, Outcome};
///
/// let (engine, namespace) = (MemoryEngine::new(), Namespace::default());
/// let jobs = (0..3).map(|_| NewJob::new("mail", "{}")).collect();
/// engine.enqueue(&namespace, jobs).await?;
/// let claim = Claim::new(WorkerId::random(), "mail", 3);
/// let lease = engine.claim(&namespace, claim).await?.leases.remove(0);
/// let dead = lease.jobs.iter().zip(10..).map(|(job, n)| {
///     let mut settlement = Settlement::new(job.id, job.attempt, Outcome::Dead);
///     settlement.error = Some(format!("timeout after {n} ms"));
///     settlement
/// });
/// let report = LeaseReport::new(lease.token, dead.collect());
/// engine.settle(&namespace, Settle::new(vec![report])).await?;
///
/// let found = dead_groups(&engine, &namespace, &DeadSearch::default()).await?;
/// assert_eq!(found.groups[0].error, "timeout after # ms");
/// assert_eq!(found.groups[0].jobs, 3);
/// # Ok::<(), punctual::Error>(())
/// # }).unwrap();
/// ```
pub async fn dead_groups(
    engine: &dyn Engine,
    namespace: &Namespace,
    search: &DeadSearch,
) -> Result<DeadGroups> {
    let request = StatsRequest {
        queues: search.queues.clone(),
        ..StatsRequest::default()
    };
    let stats = engine.stats(namespace, request).await?;
    let mut found = Found {
        groups: HashMap::new(),
        examined: 0,
        complete: true,
        now: stats.now,
    };
    let has_dead = stats.queues.into_iter();
    for stats in has_dead.filter(|stats| stats.counts.of(JobState::Dead) > 0) {
        if found.examined >= EXAMINED_MAX {
            found.complete = false;
            break;
        }
        found.walk(engine, namespace, stats.queue, search).await?;
    }
    Ok(found.answer(search.groups))
}

struct Found {
    groups: HashMap<(String, String, String), DeadGroup>,
    examined: usize,
    complete: bool,
    now: Timestamp,
}

impl Found {
    async fn walk(
        &mut self,
        engine: &dyn Engine,
        namespace: &Namespace,
        queue: String,
        search: &DeadSearch,
    ) -> Result<()> {
        let mut cursor = None;
        loop {
            let list = List {
                by: ListBy::State {
                    queue: queue.clone(),
                    state: JobState::Dead,
                },
                filter: Filter {
                    kind: search.kind.clone(),
                    error: search.error.clone(),
                    ..Filter::default()
                },
                cursor,
                limit: STEP.min(EXAMINED_MAX - self.examined),
                payloads: false,
            };
            let listing = engine.list(namespace, list).await?;
            self.examined += listing.examined;
            self.now = self.now.max(listing.now);
            listing.jobs.iter().for_each(|job| self.put(job));
            cursor = listing.cursor;
            if cursor.is_none() {
                return Ok(());
            }
            if self.examined >= EXAMINED_MAX {
                self.complete = false;
                return Ok(());
            }
        }
    }

    fn put(&mut self, job: &JobRecord) {
        let (error, search) = match &job.last_error {
            Some(error) => shape_of(error),
            None => {
                let reason = job.dead.map_or("dead", |reason| reason.name());
                (reason.to_owned(), None)
            }
        };
        let at = job.finished_at.unwrap_or(job.due);
        let key = (job.queue.clone(), job.kind.clone(), error);
        if let Some(group) = self.groups.get_mut(&key) {
            group.jobs += 1;
            group.first = group.first.min(at);
            if at > group.last {
                (group.last, group.example) = (at, job.id);
            }
            return;
        }
        let (queue, kind, error) = key.clone();
        let group = DeadGroup {
            queue,
            kind,
            error,
            search,
            jobs: 1,
            first: at,
            last: at,
            example: job.id,
        };
        self.groups.insert(key, group);
    }

    fn answer(self, wanted: usize) -> DeadGroups {
        let mut groups: Vec<_> = self.groups.into_values().collect();
        groups.sort_by(|a, b| {
            let order = |group: &DeadGroup| (Reverse(group.jobs), Reverse(group.last));
            let names = |group: &DeadGroup| (group.queue.clone(), group.kind.clone());
            let first = order(a).cmp(&order(b));
            first.then_with(|| (names(a), &a.error).cmp(&(names(b), &b.error)))
        });
        let most = match wanted {
            0 => GROUPS,
            wanted => wanted.min(GROUPS_MAX),
        };
        let others = groups.len().saturating_sub(most);
        groups.truncate(most);
        DeadGroups {
            groups,
            others,
            examined: self.examined,
            complete: self.complete,
            now: self.now,
        }
    }
}

/// The first line of an error with `#` for each number and id, and the longest part between two of
/// them.
fn shape_of(error: &str) -> (String, Option<String>) {
    let line = error.lines().find(|line| !line.trim().is_empty());
    let line: String = (line.unwrap_or_default().trim().chars())
        .take(ERROR_CHARS_MAX)
        .collect();
    let mut shape = String::with_capacity(line.len());
    let mut rest = &*line;
    while !rest.is_empty() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        put_word(&mut shape, word);
        let next = after.find(is_word).unwrap_or(after.len());
        shape.push_str(&after[..next]);
        rest = &after[next..];
    }
    // What stood there as `#` is found by the text around it as well.
    let parts = shape.split('#').map(str::trim);
    let longest = parts.max_by_key(|part| part.len());
    let search = longest.filter(|part| part.chars().count() >= SEARCH_CHARS_MIN);
    let search = search.map(Into::into);
    (shape, search)
}

/// A word of letters, digits and dashes.
fn put_word(shape: &mut String, word: &str) {
    if word.len() == 36 && uuid::Uuid::try_parse(word).is_ok() {
        shape.push('#');
        return;
    }
    for (nth, part) in word.split('-').enumerate() {
        if nth > 0 {
            shape.push('-');
        }
        let has_digit = part.bytes().any(|c| c.is_ascii_digit());
        if has_digit && part.len() >= 8 && part.bytes().all(|c| c.is_ascii_hexdigit()) {
            shape.push('#');
            continue;
        }
        let mut in_number = false;
        for c in part.chars() {
            let is_digit = c.is_ascii_digit();
            if !is_digit {
                shape.push(c);
            } else if !in_number {
                shape.push('#');
            }
            in_number = is_digit;
        }
    }
}

#[cfg(test)]
mod tests;
