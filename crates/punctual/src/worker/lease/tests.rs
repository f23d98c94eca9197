//! Unit tests of `worker::lease`.

use super::*;
use crate::job::Limits;
use crate::time::seconds;
use crate::worker::Interrupt;
use crate::worker::fixtures::{CLAIMED_AT, LABELS, board, context, held, record};

const NOW: Duration = seconds(100);
const LEASE_DURATION: Duration = seconds(10);

/// A board with one slot and a lease of two jobs: one runs, one waits for the slot.
fn one_runs_one_waits() -> (Board, u64, [JobId; 2]) {
    let mut board = board(1);
    let lease = board.add_lease(held(1), Beat::new(NOW, LEASE_DURATION));
    let jobs = [record(), record()];
    let ids = [jobs[0].id, jobs[1].id];
    for job in jobs {
        board.add_job(lease, context(job), LABELS, NOW);
    }
    assert_eq!(board.start(NOW).len(), 1);
    (board, lease, ids)
}

fn extended(lost: &[JobId], cancel_requested: &[JobId]) -> ExtendVerdict {
    ExtendVerdict::Extended {
        deadline: CLAIMED_AT + LEASE_DURATION,
        lost: lost.to_vec(),
        cancel_requested: cancel_requested.to_vec(),
    }
}

fn answer(board: &mut Board, lease: u64, verdict: &ExtendVerdict) -> usize {
    board.extended(lease, verdict, Beat::new(NOW, LEASE_DURATION), NOW)
}

#[test]
fn a_cancelled_job_that_waits_for_a_slot_is_not_started() {
    let (mut board, lease, [runs, waits]) = one_runs_one_waits();
    answer(&mut board, lease, &extended(&[], &[waits]));
    assert!(board.ahead.is_empty());
    let ended = board.take_ended();
    let settlement = &ended[0].settlement;
    assert_eq!((ended.len(), settlement.id), (1, waits));
    assert_eq!(settlement.outcome, Outcome::Cancelled);
    assert_eq!(settlement.stopped, Some(Stop::BeforeStart));
    let run = board.runs.values().next().unwrap();
    assert_eq!((run.ctx.id(), run.ctx.interrupt()), (runs, None));
}

#[test]
fn a_cancelled_job_that_runs_is_asked_to_stop() {
    let (mut board, lease, [runs, _]) = one_runs_one_waits();
    answer(&mut board, lease, &extended(&[], &[runs]));
    let run = board.runs.values().next().unwrap();
    assert_eq!(run.ctx.interrupt(), Some(Interrupt::CancelRequested));
    assert_eq!(
        board.ahead.len(),
        1,
        "the other one is none of its business"
    );
    assert_eq!(board.take_ended().len(), 0);
}

#[test]
fn nothing_is_settled_of_jobs_that_are_lost() {
    let (mut board, lease, [runs, waits]) = one_runs_one_waits();
    assert_eq!(answer(&mut board, lease, &extended(&[waits], &[])), 1);
    assert!(board.ahead.is_empty());
    assert_eq!(answer(&mut board, lease, &extended(&[runs], &[])), 1);
    assert_eq!(
        answer(&mut board, lease, &extended(&[runs], &[])),
        0,
        "once"
    );
    let (key, run) = board.runs.iter().next().unwrap();
    assert_eq!(run.ctx.interrupt(), Some(Interrupt::LeaseLost));
    let key = *key;
    board.finish(key, None, NOW);
    assert_eq!(board.take_ended().len(), 0);
    assert!(board.is_quiet() && board.leases.is_empty());
}

#[test]
fn a_lease_that_is_lost_takes_all_its_jobs_along() {
    let (mut board, lease, _) = one_runs_one_waits();
    assert_eq!(answer(&mut board, lease, &ExtendVerdict::LeaseLost), 2);
    assert!(board.ahead.is_empty() && board.leases.is_empty());
    let run = board.runs.values().next().unwrap();
    assert_eq!(run.ctx.interrupt(), Some(Interrupt::LeaseLost));
    assert!(board.start(NOW).is_empty());
    assert_eq!(board.take_ended().len(), 0);
}

#[test]
fn heartbeats_keep_to_the_batch_of_the_engine() {
    let mut board = board(1);
    board.set_limits(Limits {
        batch_items: 2,
        ..Limits::default()
    });
    for fence in 1..=3 {
        board.add_lease(held(fence), Beat::new(NOW, LEASE_DURATION));
    }
    let (keys, leases): (Vec<_>, Vec<_>) = board
        .due_beats(NOW + LEASE_DURATION, LEASE_DURATION)
        .into_iter()
        .unzip();
    assert_eq!((keys.len(), leases.len()), (2, 2));
}
