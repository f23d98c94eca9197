//! Unit tests of `worker::slots`.

use super::*;
use crate::time::{millis, seconds};
use crate::worker::Interrupt;
use crate::worker::context::Attempt;
use crate::worker::fixtures::{CLAIMED_AT, LABELS, board, context_under, held, lease_with, record};

const NOW: Duration = seconds(100);

/// A lease of that many jobs, of ten seconds from `NOW`.
fn add_lease(board: &mut Board, jobs: impl IntoIterator<Item = JobRecord>) -> u64 {
    let fence = board.leases.len() as u64 + 1;
    let held = lease_with(fence, board.seed());
    let lease = board.add_lease(held.clone(), Beat::new(NOW, seconds(10)));
    for job in jobs {
        board.add_job(lease, context_under(job, held.clone()), LABELS, NOW);
    }
    lease
}

fn records(count: usize) -> impl Iterator<Item = JobRecord> {
    std::iter::repeat_with(record).take(count)
}

fn with_timeout(timeout: Duration) -> JobRecord {
    JobRecord {
        timeout: Some(timeout),
        ..record()
    }
}

fn outcomes(board: &mut Board) -> Vec<Outcome> {
    let taken = board.take_ended();
    board.settled(&taken);
    taken
        .into_iter()
        .map(|ended| ended.settlement.outcome)
        .collect()
}

#[test]
fn only_as_many_jobs_start_as_there_are_slots() {
    let mut board = board(2);
    add_lease(&mut board, records(5));
    assert_eq!(board.start(NOW).len(), 2);
    assert_eq!(board.start(NOW).len(), 0);
    assert_eq!(board.ahead.len(), 3);
}

#[test]
fn a_free_slot_takes_the_next_in_line() {
    let mut board = board(1);
    let jobs: Vec<_> = records(2).collect();
    add_lease(&mut board, jobs.clone());
    let first = board.start(NOW).remove(0);
    assert_eq!(first.ctx.id(), jobs[0].id);
    board.finish(first.key, Some(Verdict::completed()), NOW);
    assert_eq!(board.start(NOW)[0].ctx.id(), jobs[1].id);
}

#[test]
fn room_is_free_slots_until_run_times_are_known() {
    let mut board = board(8);
    assert_eq!(board.room().unwrap().jobs, 8);
    add_lease(&mut board, records(3));
    board.start(NOW);
    assert_eq!(board.room().unwrap().jobs, 5);
}

#[test]
fn short_jobs_are_claimed_ahead_and_again_when_half_are_used_up() {
    let mut board = board(1);
    add_lease(&mut board, records(1));
    let start = board.start(NOW).remove(0);
    board.finish(start.key, Some(Verdict::completed()), NOW + millis(1));
    assert_eq!(board.room().unwrap().jobs, 1 + 5, "a slot and 5 ms ahead");

    add_lease(&mut board, records(6));
    let mut starts = board.start(NOW);
    assert_eq!(board.room(), None);
    let mut rooms = Vec::new();
    while let Some(start) = starts.pop() {
        board.finish(start.key, Some(Verdict::completed()), NOW + millis(1));
        starts = board.start(NOW);
        rooms.push(board.room().map(|room| room.jobs));
    }
    assert_eq!(rooms, [None, None, Some(3), Some(4), Some(5), Some(6)]);
}

#[test]
fn nothing_is_claimed_ahead_where_a_queue_has_limits() {
    let mut board = board(4);
    add_lease(&mut board, records(1));
    let start = board.start(NOW).remove(0);
    board.finish(start.key, Some(Verdict::completed()), NOW + millis(1));
    assert!(
        board.room().unwrap().jobs > 4,
        "short jobs are claimed ahead"
    );
    board.set_limited(true);
    assert_eq!(board.room().unwrap().jobs, 4, "free slots only");
    add_lease(&mut board, records(3));
    assert_eq!((board.room().unwrap().jobs, board.taken()), (1, 3));
    board.start(NOW);
    assert_eq!((board.room().unwrap().jobs, board.taken()), (1, 3));
    board.set_limited(false);
    assert!(board.room().unwrap().jobs > 1);
}

#[test]
fn what_a_job_waited_at_limits_is_not_late() {
    let due = CLAIMED_AT;
    let job = JobRecord { due, ..record() };
    let opens = due + seconds(3);
    let attempt = Attempt::new(job, held(1), opens);
    attempt.starts(opens + millis(4));
    assert_eq!(attempt.lateness(), millis(4));
    assert_eq!(attempt.waited_at_limits(), seconds(3));
}

#[test]
fn what_is_ahead_is_bounded_in_bytes() {
    let mut board = board(1);
    let large = || JobRecord {
        payload: vec![0; 1 << 20].into(),
        ..record()
    };
    add_lease(&mut board, [record(), large(), large(), large(), large()]);
    let start = board.start(NOW).remove(0);
    board.finish(start.key, Some(Verdict::completed()), NOW);
    assert_eq!(board.room(), None, "4 MiB wait already");
    board.start(NOW);
    assert_eq!(board.room().unwrap().bytes, CALL_BYTES, "of 1 MiB");
}

#[test]
fn nothing_is_claimed_while_too_much_waits_to_be_settled() {
    let mut board = board(1);
    let lease = add_lease(&mut board, []);
    for job in records(UNSETTLED_MAX) {
        board.end_unrun(lease, &job, LABELS, Outcome::Released, None);
    }
    assert_eq!(board.room(), None);
    assert_eq!(outcomes(&mut board).len(), 125, "one batch");
    assert!(board.room().is_some());
}

#[test]
fn a_lease_ends_with_its_last_job() {
    let mut board = board(2);
    add_lease(&mut board, records(2));
    for start in board.start(NOW) {
        assert_eq!(board.leases.len(), 1);
        board.finish(start.key, Some(Verdict::completed()), NOW);
        outcomes(&mut board);
    }
    assert!(board.leases.is_empty());
    assert!(board.is_quiet());
}

#[test]
fn lateness_counts_from_due_to_start_by_the_engines_clock() {
    let mut board = board(1);
    let due = crate::worker::fixtures::CLAIMED_AT;
    board.learn_engine_time(due + millis(3), NOW - millis(2), NOW);
    add_lease(&mut board, records(1));
    let start = board.start(NOW + millis(4)).remove(0);
    let lateness = start.begin(NOW + millis(4));
    let bound = millis(3 + 2 + 4);
    assert!(
        lateness >= bound,
        "{lateness:?} counts from when the claim was sent"
    );
    assert!(lateness < bound + millis(1), "{lateness:?}");
    assert_eq!(start.ctx.started_at(), due + lateness);
}

#[test]
fn lateness_counts_until_the_handler_is_called() {
    let mut board = board(1);
    let due = crate::worker::fixtures::CLAIMED_AT;
    board.learn_engine_time(due, NOW, NOW);
    add_lease(&mut board, records(1));
    let start = board.start(NOW).remove(0);
    assert_eq!(
        start.begin(NOW + millis(6)),
        millis(6),
        "its task had to wait"
    );
    board.finish(start.key, Some(Verdict::completed()), NOW + millis(9));
    let ended = board.take_ended().remove(0);
    assert_eq!(
        ended.measured.map(|(lateness, _)| lateness),
        Some(millis(6))
    );
}

#[test]
fn a_timeout_asks_then_aborts_then_gives_the_slot_up() {
    let mut board = board(1);
    add_lease(&mut board, [with_timeout(seconds(1))]);
    let start = board.start(NOW).remove(0);

    assert_eq!(board.watch_at(), Some(NOW + seconds(1)));
    assert_eq!(board.watch(NOW + millis(999)).len(), 0);
    assert!(!start.ctx.is_cancelled());
    board.watch(NOW + seconds(1));
    assert_eq!(start.ctx.interrupt(), Some(Interrupt::TimedOut));

    assert_eq!(board.watch_at(), Some(NOW + seconds(3)), "the grace is 2 s");
    assert!(matches!(
        board.watch(NOW + seconds(3))[..],
        [Notice::Aborted(_)]
    ));
    assert!(board.room().is_none());

    assert_eq!(board.watch_at(), Some(NOW + seconds(4)));
    assert!(matches!(
        board.watch(NOW + seconds(4))[..],
        [Notice::Leaked(_)]
    ));
    assert_eq!(board.leaked(), 1);
    assert!(board.room().is_some(), "its slot is free again");
    assert_eq!(outcomes(&mut board), [Outcome::Retry { after: None }]);

    assert!(board.finish(start.key, None, NOW + seconds(9)).is_none());
    assert_eq!(board.leaked(), 0, "its task ended after all");
    assert_eq!(outcomes(&mut board), [], "and is not settled twice");
}

#[test]
fn a_lease_that_is_not_extended_stops_its_handlers_before_it_ends() {
    let mut board = board(2);
    add_lease(&mut board, records(2));
    let starts = board.start(NOW);
    board.watch(NOW + millis(7_999));
    assert!(!starts[0].ctx.is_cancelled());
    board.watch(NOW + seconds(8));
    assert_eq!(starts[0].ctx.interrupt(), Some(Interrupt::LeaseLost));
    assert_eq!(board.watch(NOW + millis(8_999)).len(), 0);
    assert_eq!(board.watch(NOW + seconds(9)).len(), 2, "both are aborted");
    for start in starts {
        board.finish(start.key, None, NOW + seconds(9));
    }
    assert_eq!(outcomes(&mut board), [Outcome::Released, Outcome::Released]);
}

#[test]
fn a_lease_that_ends_cuts_the_grace_short() {
    let mut board = board(1);
    add_lease(&mut board, [with_timeout(millis(7_500))]);
    board.start(NOW);
    board.watch(NOW + millis(7_500));
    board.watch(NOW + seconds(8));
    let notices = board.watch(NOW + seconds(9));
    assert!(matches!(notices[..], [Notice::Aborted(_)]), "not at 9.5 s");
}

#[test]
fn a_lost_lease_outweighs_a_cancel() {
    let mut board = board(1);
    add_lease(&mut board, records(1));
    let start = board.start(NOW).remove(0);
    assert!(board.stop(start.key, Cause::Requested, NOW + seconds(2)));
    assert!(board.stop(start.key, Cause::Lost, NOW + seconds(2)));
    assert!(!board.stop(start.key, Cause::Requested, NOW + seconds(2)));
    board.finish(start.key, Some(Verdict::completed()), NOW);
    assert_eq!(outcomes(&mut board), [], "nothing is settled");
    assert!(board.leases.is_empty());
}

#[test]
fn what_waits_too_long_for_a_slot_is_handed_back() {
    let mut board = board(1);
    add_lease(&mut board, records(3));
    board.start(NOW);
    assert_eq!(board.release_stale(NOW + millis(249)), 0);
    assert_eq!(board.release_stale(NOW + millis(250)), 2);
    assert_eq!(outcomes(&mut board), [Outcome::Released, Outcome::Released]);
}

#[test]
fn a_batch_is_bounded_in_bytes() {
    let mut board = board(4);
    add_lease(&mut board, records(4));
    for start in board.start(NOW) {
        let effect = crate::NewJob::new("mail", vec![0; 2 << 20]);
        let effect = crate::job::Effect::Enqueue(Box::new(effect));
        start.ctx.shared().add(effect).unwrap();
        board.finish(start.key, Some(Verdict::completed()), NOW);
    }
    assert_eq!(outcomes(&mut board).len(), 2);
    assert_eq!(outcomes(&mut board).len(), 2);
}

#[test]
fn a_job_whose_lease_nears_its_end_is_not_started() {
    let mut board = board(2);
    add_lease(&mut board, records(1));
    assert_eq!(board.start(NOW + seconds(8)).len(), 0);
    assert_eq!(outcomes(&mut board), [Outcome::Released]);
    assert!(board.is_quiet());
    add_lease(&mut board, records(1));
    assert_eq!(board.start(NOW + millis(7_999)).len(), 1);
}

#[test]
fn limits_that_come_later_hold_from_then_on() {
    let mut board = board(20);
    board.set_limits(Limits {
        batch_items: 7,
        ..Limits::default()
    });
    assert_eq!(board.room().unwrap().jobs, 7);
    add_lease(&mut board, records(10));
    for start in board.start(NOW) {
        assert_eq!(start.ctx.shared().limits().batch_items, 7);
        board.finish(start.key, Some(Verdict::completed()), NOW);
    }
    assert_eq!(outcomes(&mut board).len(), 7);
    assert_eq!(outcomes(&mut board).len(), 3);
}

#[test]
fn nothing_is_claimed_while_too_many_bytes_wait_to_be_settled() {
    let mut board = board(20);
    add_lease(&mut board, records(16));
    let starts = board.start(NOW);
    for (ended, start) in starts.iter().enumerate() {
        assert!(board.room().is_some(), "after {ended}");
        let follow_up = crate::NewJob::new("mail", vec![0; 4 << 20]);
        let effect = crate::job::Effect::Enqueue(Box::new(follow_up));
        start.ctx.shared().add(effect).unwrap();
        board.finish(start.key, Some(Verdict::completed()), NOW);
    }
    assert_eq!(board.room(), None, "64 MiB wait");
    assert_eq!(outcomes(&mut board).len(), 1);
    assert!(board.room().is_some());
}

#[test]
fn a_slot_goes_on_with_the_next_in_line() {
    let mut board = board(2);
    let jobs: Vec<_> = records(3).collect();
    add_lease(&mut board, jobs.clone());
    let first = board.start(NOW).remove(0);
    let mut over = board
        .finish(first.key, Some(Verdict::completed()), NOW)
        .unwrap();
    let next = board.go_on(first.key, &mut over, NOW).unwrap();
    assert_eq!((next.key, next.ctx.id()), (first.key, jobs[2].id));
    let mut over = board
        .finish(next.key, Some(Verdict::completed()), NOW)
        .unwrap();
    assert!(board.go_on(next.key, &mut over, NOW).is_none());
    assert_eq!(board.runs.len(), 1);
}

#[test]
fn a_slot_whose_task_was_aborted_does_not_go_on() {
    let mut board = board(1);
    add_lease(&mut board, [with_timeout(seconds(1)), record()]);
    let start = board.start(NOW).remove(0);
    board.watch(NOW + seconds(1));
    board.watch(NOW + seconds(3));
    // It ended by itself while it was being aborted: the task is doomed all the same.
    let late = board.finish(start.key, Some(Verdict::completed()), NOW + seconds(3));
    let next = board.go_on(start.key, &mut late.unwrap(), NOW + seconds(3));
    assert!(next.is_none());
    assert_eq!(board.start(NOW + seconds(3)).len(), 1, "another task does");
}

/// Ends that many jobs, and returns how many settlements each call then carries.
fn calls_of(jobs: usize, verdict: impl Fn() -> Verdict) -> Vec<usize> {
    let mut board = board(jobs);
    add_lease(&mut board, records(jobs));
    for start in board.start(NOW) {
        board.finish(start.key, Some(verdict()), NOW);
    }
    let calls = std::iter::from_fn(|| {
        let taken = board.take_ended();
        board.settled(&taken);
        Some(taken.len()).filter(|taken| *taken > 0)
    });
    calls.collect()
}

#[test]
fn jobs_that_completed_are_settled_a_thousand_a_call() {
    assert_eq!(calls_of(1_200, Verdict::completed), [1_000, 200]);
}

#[test]
fn jobs_that_failed_are_settled_few_a_call() {
    let failed = || Verdict::retry("a service is away");
    assert_eq!(calls_of(300, failed), [125, 125, 50]);
}
