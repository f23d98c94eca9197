//! Lists, edits and purges of many jobs: each once, none left, in short calls.

use std::collections::BTreeSet;

use punctual::conformance::START;
use punctual::engine::{Action, Cursor, Edit, Filter, List, ListBy, Select, StatsRequest, Target};
use punctual::time::{hours, minutes, seconds};
use punctual::{Due, Engine, JobId, JobState, NewJob};

use crate::client::{QUEUE, claim, here};
use crate::meter::CHANGES_MAX;
use crate::pile::{BATCH, Pile, jobs};

/// Pages of a list that are looked at, from its first on.
const LEASES: usize = 10;
/// Commands for a page of a list: its index, its chunks, and of each the hashes that its jobs lie
/// in, which are many in the library of tests.
const LIST_MAX: u64 = 600;
/// Half of the jobs are ready, half due within an hour; a page of 1,000 is the most that can be
/// asked for.
#[tokio::test]
async fn reads_and_changes_of_a_large_queue_are_cut_into_slices() {
    let half = jobs();
    let mut pile = Pile::new().await;
    let here = here();
    pile.enqueue(half, START).await;
    pile.enqueue(half, START + hours(1)).await;
    pile.set_time(START + minutes(1)).await;
    pile.maintain().await;
    for lease in claim(&pile.engine, BATCH).await.expect("claim") {
        assert!(lease.complete(&pile.engine).await.expect("settle"));
    }
    claim(&pile.engine, BATCH).await.expect("claim");
    pile.announce("before");

    let states = [
        ("list ready", Some(JobState::Ready)),
        ("list scheduled", Some(JobState::Scheduled)),
        ("list active", Some(JobState::Active)),
        ("list completed", Some(JobState::Completed)),
        ("search all", None),
    ];
    for (what, state) in states {
        for text in [None, Some("y".into())] {
            let mut list = List::new(state.map_or(ListBy::All, |state| ListBy::State {
                queue: QUEUE.into(),
                state,
            }))
            .filter(Filter::default().text(text))
            .limit(BATCH)
            .payloads(true);
            for _ in 0..LEASES {
                let listed = pile.engine.list(&here, list.clone());
                let listed = pile.meter.bounded_by(what, LIST_MAX, listed).await;
                list.cursor = listed.expect(what).cursor;
                if list.cursor.is_none() {
                    break;
                }
            }
            if state == Some(JobState::Scheduled) {
                let cursor = list.cursor.expect("there are more");
                assert_eq!(cursor.0[6], b'p', "a long list is not sorted for each page");
            }
        }
    }
    let everything = StatsRequest::default()
        .history(true)
        .due(true)
        .ends(true)
        .shares(100);
    let stats = pile.engine.stats(&here, everything);
    pile.meter.bounded("stats", stats).await.expect("stats");
    pile.meter
        .bounded("info", pile.engine.info())
        .await
        .expect("info");
    pile.announce("looked at");

    for (what, state, action) in [
        ("run now", JobState::Scheduled, Action::RunNow),
        ("cancel scheduled", JobState::Scheduled, Action::Cancel),
        ("cancel ready", JobState::Ready, Action::Cancel),
    ] {
        for dry_run in [true, false] {
            let mut select = Filtered::of(state);
            for _ in 0..LEASES {
                let edited = pile.engine.edit(
                    &here,
                    Edit::new(select.next(), action.clone()).dry_run(dry_run),
                );
                let name = if dry_run { "dry run" } else { what };
                let edited = pile.meter.bounded_by(name, CHANGES_MAX, edited).await;
                let edited = edited.expect(what);
                assert!(edited.matched > 0, "{what}");
                select.cursor = edited.cursor;
                if select.cursor.is_none() {
                    break;
                }
            }
        }
    }
    pile.announce("edited");
    let cancelled = pile.purge().await;
    pile.announce("purged");
    assert!(cancelled > half / 2, "{cancelled} of {half}");
    for state in [JobState::Ready, JobState::Scheduled] {
        let listed = pile.engine.list(&here, of_state(state));
        let listed = pile.meter.bounded("list of none", listed).await;
        assert_eq!(listed.expect("list").jobs.len(), 0, "{state}");
    }
}

/// Every scheduled job as it is listed, so many a page.
async fn walk(pile: &mut Pile, limit: usize) -> Vec<JobId> {
    let mut list = of_state(JobState::Scheduled);
    list.limit = limit;
    let (mut listed, here) = (Vec::new(), here());
    loop {
        let page = pile.engine.list(&here, list.clone());
        let page = pile.meter.bounded("list", page).await.expect("list");
        listed.extend(page.jobs.into_iter().map(|job| job.id));
        list.cursor = page.cursor;
        if list.cursor.is_none() {
            return listed;
        }
    }
}

fn of_state(state: JobState) -> List {
    List::new(ListBy::State {
        queue: QUEUE.into(),
        state,
    })
    .limit(BATCH)
}

/// Commands of a call that passes over tombstones: it takes a hundred at a time, 2,000 at most.
const PASSED_MAX: u64 = 100;

/// What is settled is a tombstone for a while: a walk through everything passes over those.
#[tokio::test]
async fn a_search_behind_many_tombstones_takes_many_short_calls() {
    let mut pile = Pile::new().await;
    let here = here();
    pile.enqueue(20_000, START).await;
    pile.set_time(START + minutes(1)).await;
    assert_eq!(pile.work_off().await, 20_000);
    let open = NewJob::new(QUEUE, "{}");
    let sent = pile.engine.enqueue(&here, vec![open.clone()]).await;
    sent.expect("enqueue");
    let mut list = List::new(ListBy::All).limit(BATCH);
    let mut found = Vec::new();
    loop {
        let page = pile.engine.list(&here, list.clone());
        let page = pile.meter.bounded_by("search", PASSED_MAX, page).await;
        let page = page.expect("list");
        found.extend(page.jobs.into_iter().map(|job| job.id));
        list.cursor = page.cursor;
        if list.cursor.is_none() {
            break;
        }
    }
    assert_eq!(found, [open.id]);
}

/// Where jobs stand that wait long: some near, the others in a list that is short or long.
#[tokio::test]
async fn all_of_those_that_wait_long_are_listed_once_and_purged() {
    for (jobs, near) in [(900, 0), (1_500, 0), (3_000, 20), (3_000, 600)] {
        let mut pile = Pile::new().await;
        let here = here();
        let mut sent = BTreeSet::new();
        let mut put = async |due: Due, jobs: usize| {
            let job = |_| NewJob::new(QUEUE, "{}").due(due);
            let jobs: Vec<NewJob> = (0..jobs).map(job).collect();
            sent.extend(jobs.iter().map(|job| job.id));
            pile.engine.enqueue(&here, jobs).await.expect("enqueue");
        };
        put(Due::After(seconds(30)), near).await;
        for nth in 0..jobs / 100 {
            // In no order.
            let due = hours(24) + seconds(nth as u64 * 7 % 31);
            put(Due::After(due), 100).await;
        }
        let listed = walk(&mut pile, 50).await;
        assert_eq!(listed.len(), sent.len(), "{jobs} far and {near} near jobs");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), sent);
        let purged = pile.purge().await;
        assert_eq!(purged, sent.len(), "{jobs} far and {near} near jobs");
        assert_eq!(walk(&mut pile, 50).await, []);
    }
}

/// What a job left behind in a long list is not what it has in another one.
#[tokio::test]
async fn a_job_of_a_long_list_that_is_moved_forward_runs_when_it_is_due() {
    let mut pile = Pile::new().await;
    let here = here();
    let mut moved = None;
    for (hours_ahead, jobs) in [(2, 300), (20, 1_200)] {
        let job = |_| NewJob::new(QUEUE, "{}").due(Due::After(hours(hours_ahead)));
        let jobs: Vec<NewJob> = (0..jobs).map(job).collect();
        moved = Some(jobs[7].id);
        for some in jobs.chunks(BATCH) {
            let sent = pile.engine.enqueue(&here, some.to_vec()).await;
            sent.expect("enqueue");
        }
    }
    let moved = moved.expect("jobs were sent");
    let edit = |action| Edit::new(Select::Targets(vec![Target::Id(moved)]), action);
    for action in [
        Action::Reprioritise(3),
        Action::Reschedule(Due::After(hours(10))),
        Action::Reprioritise(4),
    ] {
        let edited = pile.engine.edit(&here, edit(action)).await.expect("edit");
        assert_eq!(edited.matched, 1);
    }
    for (hours_ahead, due) in [(2, 300), (10, 1), (20, 1_199)] {
        pile.set_time(START + hours(hours_ahead)).await;
        pile.maintain().await;
        assert_eq!(pile.work_off().await, due, "{hours_ahead} hours ahead");
    }
}

/// Who changed jobs of a long list has them there once.
#[tokio::test]
async fn jobs_of_a_long_list_that_were_changed_are_listed_once() {
    let mut pile = Pile::new().await;
    let here = here();
    let job = |_| NewJob::new(QUEUE, "{}").due(Due::After(hours(24)));
    let jobs: Vec<NewJob> = (0..1_900).map(job).collect();
    for some in jobs.chunks(BATCH) {
        let sent = pile.engine.enqueue(&here, some.to_vec()).await;
        sent.expect("enqueue");
        let edit = Edit::new(
            Select::Targets(some.iter().map(|job| Target::Id(job.id)).collect()),
            Action::Reprioritise(2),
        );
        let edited = pile.engine.edit(&here, edit).await.expect("edit");
        assert_eq!(edited.matched, some.len());
    }
    let listed = walk(&mut pile, 50).await;
    assert_eq!(listed.len(), jobs.len());
    assert_eq!(pile.purge().await, jobs.len());
}

struct Filtered {
    state: JobState,
    cursor: Option<Cursor>,
}

impl Filtered {
    fn of(state: JobState) -> Self {
        Self {
            state,
            cursor: None,
        }
    }

    fn next(&self) -> Select {
        Select::Filter {
            filter: Filter::default()
                .queue(QUEUE.to_owned())
                .state(Some(self.state)),
            cursor: self.cursor.clone(),
            limit: BATCH,
        }
    }
}

/// Workers that run many jobs at once, each claimed alone.
#[tokio::test]
async fn leases_of_one_job_each_are_read_together() {
    let mut pile = Pile::new().await;
    let here = here();
    pile.enqueue(400, START).await;
    pile.set_time(START + minutes(1)).await;
    let mut ids = Vec::new();
    for _ in 0..300 {
        for lease in claim(&pile.engine, 1).await.expect("claim") {
            ids.extend(lease.jobs.iter().map(|job| job.id));
        }
    }
    assert_eq!(ids.len(), 300);
    let stats = pile.engine.stats(&here, StatsRequest::default());
    let stats = pile
        .meter
        .bounded_by("stats", 40, stats)
        .await
        .expect("stats");
    let leased: usize = stats.workers.iter().map(|seen| seen.leased).sum();
    assert_eq!(leased, 300);
    let last = vec![Target::Id(ids[299])];
    let got = pile.engine.get(&here, last, true);
    let got = pile.meter.bounded_by("get", 20, got).await.expect("get");
    assert_eq!(
        got[0].as_ref().map(punctual::engine::Got::state),
        Some(JobState::Active)
    );
}
