//! What is compared after every step: every job, every list, the counts.

use std::collections::BTreeSet;

use super::action::id_of;
use super::differ::{Difference, same, same_got, same_job, same_jobs, same_reasons};
use super::generate::QUEUES;
use super::replay::Replay;
use super::request;
use super::verbs::broken;
use crate::engine::{ENDS_KEPT, Filter, Got, JobEnd, List, ListBy, StatsRequest, Target};
use crate::error::Result;
use crate::job::{JobId, JobRecord, JobState};
use crate::time::{Timestamp, days, minutes};

/// Compares all that can be seen of both, in the namespaces used so far.
pub(super) async fn compare(replay: &mut Replay, step: usize) -> Result<(), Difference> {
    for space in 0..replay.spaces.len() {
        if !replay.spaces[space].used {
            continue;
        }
        stats(replay, space).await?;
        let numbers = replay.spaces[space].numbers.iter();
        let targets = numbers.map(|no| Target::Id(id_of(replay.seed, *no)));
        let targets = targets.collect();
        get(replay, space, targets, step.is_multiple_of(2)).await?;
        for queue in 0..QUEUES {
            for state in JobState::ALL {
                let queue = request::queue(queue);
                let by = ListBy::State { queue, state };
                list(replay, space, by, Filter::default(), 1_000, true).await?;
            }
        }
    }
    Ok(())
}

pub(super) async fn stats(replay: &mut Replay, space: usize) -> Result<(), Difference> {
    let name = replay.name(space);
    let request = StatsRequest {
        due: true,
        ends: true,
        ..StatsRequest::default()
    };
    let answered = replay.engine.stats(&name, request).await;
    let answered = answered.map_err(|error| broken("stats", &error))?;
    let now = answered.now;
    let model = replay.at(space, now)?;
    same("stats' exact", &true, &answered.exact)?;
    for queue in model.queues() {
        if answered.queues.iter().all(|seen| seen.queue != queue) {
            return Err(format!("stats: {queue} is missing"));
        }
    }
    for seen in &answered.queues {
        let queue = &seen.queue;
        let counts = model.counts(queue, now);
        same(&format!("counts of {queue}"), &counts, &seen.counts)?;
        let paused = model.pauses(queue);
        same(&format!("paused of {queue}"), &paused, &seen.paused)?;
        let due_for = model.due_for(queue, now);
        let is_one = seen.oldest_due.map(|span| due_for.contains(&span));
        let by_due = !model.was_limited(queue);
        if by_due && is_one != (!due_for.is_empty()).then_some(true) {
            let answered = seen.oldest_due;
            return Err(format!(
                "oldest due of {queue}\n    expected one of {due_for:?}\n    answered {answered:?}"
            ));
        }
        same_ends(queue, &model.ends(queue), &seen.ends, now)?;
        for bucket in &seen.due {
            let due = model.due_in(queue, bucket, now);
            same(&format!("due bucket of {queue}"), &due, &bucket.jobs)?;
        }
    }
    let mut expected = model.workers_seen(now);
    let mut seen = answered.workers;
    expected.sort_by_key(|worker| worker.worker.id);
    seen.sort_by_key(|worker| worker.worker.id);
    same("workers seen", &expected, &seen)
}

/// The last ends, the latest first. The law leaves open which of those of one instant come first,
/// and which of the earliest instant are still there. A queue that was idle for a day may have been
/// forgotten since, and what ended before with it.
fn same_ends(
    queue: &str,
    expected: &[JobEnd],
    answered: &[JobEnd],
    now: Timestamp,
) -> Result<(), Difference> {
    let what = format!("ends of {queue}");
    // Engines count by minutes how long a queue was idle.
    let idle = days(1) - minutes(1);
    let last = answered
        .len()
        .checked_sub(1)
        .and_then(|last| expected.get(last));
    let before = expected.get(answered.len());
    let since = last.map_or(now, |end| end.at);
    let forgotten = before.is_some_and(|end| since.since(end.at) > idle);
    let expected = if forgotten {
        &expected[..answered.len()]
    } else {
        expected
    };
    let kept = expected.len().min(ENDS_KEPT);
    same(&what, &kept, &answered.len())?;
    if !answered.iter().rev().is_sorted_by_key(|end| end.at) {
        return Err(format!(
            "{what}: the latest does not come first: {answered:?}"
        ));
    }
    let mut answered = answered.to_vec();
    answered.sort_by_key(|end| (std::cmp::Reverse(end.at), end.id));
    let open = expected.get(ENDS_KEPT).map(|end| end.at);
    let is_certain = |end: &&JobEnd| Some(end.at) != open;
    let certain = |ends: &[JobEnd]| ends.iter().filter(is_certain).cloned().collect::<Vec<_>>();
    same(&what, &certain(&expected[..kept]), &certain(&answered))
}

pub(super) async fn get(
    replay: &mut Replay,
    space: usize,
    targets: Vec<Target>,
    explain: bool,
) -> Result<(), Difference> {
    let name = replay.name(space);
    let now = replay.unsaid();
    let answered = replay.engine.get(&name, targets.clone(), explain).await;
    let answered = answered.map_err(|error| broken("get", &error))?;
    let model = replay.at(space, now)?;
    same("number of jobs got", &targets.len(), &answered.len())?;
    for (target, answered) in targets.iter().zip(&answered) {
        same_got(model.get(now, target).as_ref(), answered.as_ref())?;
        if let Some(Got::Job(job, reasons)) = answered {
            let expected = model.explain(now, job.id).filter(|_| explain);
            same_reasons(job, expected.as_ref(), reasons.as_ref())?;
        }
    }
    Ok(())
}

/// Walks a list to its end.
pub(super) async fn list(
    replay: &mut Replay,
    space: usize,
    by: ListBy,
    filter: Filter,
    limit: usize,
    payloads: bool,
) -> Result<(), Difference> {
    let name = replay.name(space);
    let what = format!("list {by:?}");
    let (mut cursor, mut jobs) = (None, Vec::new());
    loop {
        let list = List {
            by: by.clone(),
            filter: filter.clone(),
            cursor,
            limit,
            payloads,
        };
        let answered = replay.engine.list(&name, list).await;
        let answered = answered.map_err(|error| broken("list", &error))?;
        if answered.examined > limit || answered.examined < answered.jobs.len() {
            return Err(format!("{what}: examined {}", answered.examined));
        }
        jobs.extend(answered.jobs);
        cursor = answered.cursor;
        let now = answered.now;
        let model = replay.at(space, now)?;
        if cursor.is_none() {
            let expected = model.list(now, &by, &filter, payloads);
            return same_list(&what, &by, &expected, &jobs);
        }
        if jobs.len() > 10_000 {
            return Err(format!("{what}: comes to no end"));
        }
    }
}

fn same_list(
    what: &str,
    by: &ListBy,
    expected: &[JobRecord],
    answered: &[JobRecord],
) -> Result<(), Difference> {
    let ids = |jobs: &[JobRecord]| jobs.iter().map(|job| job.id).collect::<BTreeSet<JobId>>();
    same(what, &ids(expected), &ids(answered))?;
    same(what, &expected.len(), &answered.len())?;
    match by {
        ListBy::State { state, .. } if *state == JobState::Ready => {
            same_lines(what, expected, answered)?;
        }
        ListBy::State { state, .. } if state.is_settled() => {
            let times = |jobs: &[JobRecord]| jobs.iter().map(|job| job.finished_at).collect();
            same::<Vec<_>>(what, &times(expected), &times(answered))?;
        }
        ListBy::State { state, .. } if *state == JobState::Scheduled => {
            return same_jobs(what, expected, answered);
        }
        _ => {}
    }
    for expected in expected {
        for answered in answered.iter().filter(|job| job.id == expected.id) {
            same_job(what, expected, answered)?;
        }
    }
    Ok(())
}

/// The same lines, each in its order and in one piece; those without a group by priority.
fn same_lines(
    what: &str,
    expected: &[JobRecord],
    answered: &[JobRecord],
) -> Result<(), Difference> {
    type Line = (Option<String>, bool, u8, Vec<JobId>);
    let lines = |jobs: &[JobRecord]| {
        let mut lines: Vec<Line> = Vec::new();
        for job in jobs {
            let group = job.group.as_ref().map(|group| group.key.clone());
            let apart = group.is_none() && job.is_suspect();
            match lines.last_mut() {
                Some((g, a, p, ids)) if (&*g, *a, *p) == (&group, apart, job.priority) => {
                    ids.push(job.id);
                }
                _ => lines.push((group, apart, job.priority, vec![job.id])),
            }
        }
        lines
    };
    let (mut expected, mut answered) = (lines(expected), lines(answered));
    let by_priority =
        |(group, apart, priority, _): &Line| (group.is_none()).then_some((*apart, *priority));
    let ungrouped: Vec<_> = answered.iter().filter_map(by_priority).collect();
    if !ungrouped.is_sorted() {
        return Err(format!("{what}: jobs without a group are not by priority"));
    }
    expected.sort();
    answered.sort();
    same(what, &expected, &answered)
}
