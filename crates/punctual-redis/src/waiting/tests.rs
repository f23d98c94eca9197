use punctual::engine::{Stats, WorkerRecord, WorkerSeen};
use punctual::time::{Timestamp, seconds};

use super::crowd_of;

#[test]
fn who_came_and_went_is_nobody_of_the_crowd() {
    let at = |second: u64| Timestamp::ZERO + seconds(600 + second);
    let now = at(60);
    let seen = |ago: u64| WorkerSeen {
        worker: WorkerRecord::default(),
        seen_at: at(60 - ago),
        leased: 0,
    };
    let crowd = |workers: Vec<WorkerSeen>| {
        crowd_of(&Stats {
            queues: Vec::new(),
            workers,
            exact: true,
            now,
        })
    };
    assert_eq!(crowd((0..200).map(|_| seen(31)).collect()), 1);
    assert_eq!(crowd(vec![seen(0), seen(25), seen(31), seen(59)]), 2);
}
