use super::*;
use crate::job::JobRecord;
use crate::time::{millis, seconds};
use crate::worker::Verdict;
use crate::worker::fixtures::{LABELS, board, context_under, lease, record};
use crate::worker::slots::Beat;

/// Jobs that ended, in the order given by their pages.
fn ended(of_pages: &[usize]) -> (Vec<Ended>, Vec<JobRecord>) {
    let mut board = board(of_pages.len());
    let mut keys = Vec::new();
    let mut jobs = Vec::new();
    for page in of_pages {
        while keys.len() <= *page {
            let lease = lease(keys.len() as u64);
            let key = board.add_page(lease.clone(), Beat::new(seconds(0), seconds(10)));
            keys.push((key, lease));
        }
        let job = record();
        let (key, lease) = &keys[*page];
        let ctx = context_under(job.clone(), lease.clone());
        board.add_job(*key, ctx, LABELS, seconds(0));
        jobs.push(job);
    }
    for start in board.start(millis(2)).into_iter().rev() {
        board.finish(start.key, Some(Verdict::completed()), millis(5));
    }
    (board.take_ended(), jobs)
}

#[test]
fn one_report_per_page_with_the_jobs_in_its_order_whichever_ended_first() {
    let (ended, jobs) = ended(&[0, 1, 0, 1, 2]);
    let (settle, places) = pages(&ended);
    let ids: Vec<Vec<_>> = settle
        .pages
        .iter()
        .map(|page| page.settlements.iter().map(|s| s.id).collect())
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
    let (settle, _) = pages(&ended);
    assert_eq!(settle.pages[0].lateness_us, [2_000, 2_000]);
    assert_eq!(settle.pages[0].run_time_us, [3_000, 3_000]);
}

#[test]
fn only_what_would_be_refused_again_is_divided() {
    assert!(is_refusal(&Error::new(ErrorKind::InvalidInput, "")));
    assert!(!is_refusal(&Error::new(ErrorKind::EngineUnavailable, "")));
    assert!(!is_refusal(&Error::new(ErrorKind::Internal, "")));
}
