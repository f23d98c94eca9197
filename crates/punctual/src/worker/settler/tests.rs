//! Unit tests of `worker::settler`.

use super::*;
use crate::job::JobRecord;
use crate::time::{millis, seconds};
use crate::worker::fixtures::{Away, LABELS, board, context_under, held, record};
use crate::worker::slots::Beat;
use crate::worker::{Verdict, Worker};

/// Jobs that ended, in the order given by their leases.
fn ended(of_leases: &[usize]) -> (Vec<Ended>, Vec<JobRecord>) {
    let mut board = board(of_leases.len());
    let mut keys = Vec::new();
    let mut jobs = Vec::new();
    for lease in of_leases {
        while keys.len() <= *lease {
            let held = held(keys.len() as u64);
            let key = board.add_lease(held.clone(), Beat::new(seconds(0), seconds(10)));
            keys.push((key, held));
        }
        let job = record();
        let (key, held) = &keys[*lease];
        let ctx = context_under(job.clone(), held.clone());
        board.add_job(*key, ctx, LABELS, seconds(0));
        jobs.push(job);
    }
    for start in board.start(millis(2)).into_iter().rev() {
        board.finish(start.key, Some(Verdict::completed()), millis(5));
    }
    (board.take_ended(), jobs)
}

#[test]
fn one_report_per_lease_with_the_jobs_in_its_order_whichever_ended_first() {
    let (ended, jobs) = ended(&[0, 1, 0, 1, 2]);
    let (settle, places) = leases(&ended);
    let ids: Vec<Vec<_>> = settle
        .leases
        .iter()
        .map(|lease| lease.settlements.iter().map(|s| s.id).collect())
        .collect();
    assert_eq!(
        ids,
        [
            vec![jobs[0].id, jobs[2].id],
            vec![jobs[1].id, jobs[3].id],
            vec![jobs[4].id]
        ]
    );
    assert_eq!(places, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]);
}

#[test]
fn lateness_and_run_time_go_with_the_report() {
    let (ended, _) = ended(&[0, 0]);
    let (settle, _) = leases(&ended);
    // 2 ms, and what clocks may drift apart in that time.
    assert_eq!(settle.leases[0].lateness_us, [2_001, 2_001]);
    assert_eq!(settle.leases[0].run_time_us, [3_000, 3_000]);
}

#[test]
fn only_what_would_be_refused_again_is_divided() {
    assert!(is_refusal(&Error::new(ErrorKind::InvalidInput, "")));
    assert!(!is_refusal(&Error::new(ErrorKind::EngineUnavailable, "")));
    assert!(!is_refusal(&Error::new(ErrorKind::Internal, "")));
}

const NOW: Duration = seconds(100);

/// How many jobs each batch that is due has.
fn due(outbox: &mut Outbox, now: Duration) -> Vec<usize> {
    let due = outbox.due(now, Duration::MAX);
    due.iter()
        .map(|place| outbox.at(*place).ended.len())
        .collect()
}

#[test]
fn an_unanswered_settle_splits_by_lease_and_waits_beside_new_ends() {
    let (batch, _) = ended(&[0, 1, 1]);
    let mut outbox = Outbox::default();
    outbox.take_in(batch);
    assert_eq!(due(&mut outbox, NOW), [3]);
    outbox.unanswered(0, NOW);
    assert_eq!(due(&mut outbox, NOW), [1, 2], "each lease at once");
    outbox.unanswered(1, NOW);
    assert_eq!(due(&mut outbox, NOW), [1]);
    outbox.remove(0);
    let (fresh, _) = ended(&[0, 0, 0]);
    outbox.take_in(fresh);
    // A lease of the same number is the same lease here.
    assert_eq!(due(&mut outbox, NOW), [3], "of another lease");
    let again_at = outbox.next().expect("one waits");
    assert!(again_at > NOW);
    assert_eq!(
        due(&mut outbox, again_at),
        [2, 3],
        "whatever else has ended"
    );
}

#[test]
fn what_ends_of_a_lease_that_waits_goes_with_it() {
    let (mut batch, _) = ended(&[0, 0, 1]);
    let later = batch.split_off(1);
    let mut outbox = Outbox::default();
    outbox.take_in(batch);
    outbox.unanswered(0, NOW);
    outbox.take_in(later);
    assert_eq!(due(&mut outbox, NOW), [1], "the other lease");
    let again_at = outbox.next().expect("one waits");
    assert_eq!(due(&mut outbox, again_at), [2, 1]);
}

#[test]
fn a_batch_waits_longer_each_time_and_not_when_the_worker_ends() {
    let (batch, _) = ended(&[0]);
    let mut outbox = Outbox::default();
    outbox.take_in(batch);
    for _ in 0..20 {
        outbox.unanswered(0, NOW);
    }
    assert!(outbox.next().expect("it waits") > NOW + seconds(2));
    assert!(outbox.due(NOW, millis(100)).is_empty());
    assert_eq!(outbox.next(), Some(NOW + millis(100)));
    assert_eq!(outbox.due(NOW, Duration::ZERO), [0]);
}

/// How many outcomes a settler settles, in this phase, of a job whose handler was aborted.
async fn settled(phase: Phase) -> usize {
    let engine = Arc::new(Away::default());
    let rt = Runtime::new(Arc::new(Worker::new(&engine).0), None, false);
    {
        let mut board = rt.board();
        let held = held(1);
        let key = board.add_lease(held.clone(), Beat::new(seconds(0), seconds(10)));
        board.add_job(key, context_under(record(), held), LABELS, seconds(0));
        let start = board.start(seconds(0)).remove(0);
        board.finish(start.key, None, seconds(0));
    }
    rt.enter(phase);
    run(Arc::new(rt)).await;
    engine.settles()
}

/// A settler that is at work when its run is dropped goes on to where it next waits.
#[tokio::test]
async fn what_a_dropped_run_aborted_is_not_settled() {
    assert_eq!(settled(Phase::Over).await, 1);
    assert_eq!(settled(Phase::Dropped).await, 0);
}
