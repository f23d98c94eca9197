//! Reads replies for fuzzing.

use punctual::engine::{LeaseReport, Settlement, Token, WorkerId};
use punctual::{NewJob, Outcome};

use crate::wire::mp::Mp;
use crate::wire::{claim, edit, enqueue, extend, inspect, record, settle, stats};

/// Reads bytes as each reply that the functions pack, for a fuzzer: whatever they are, that ends.
pub fn read_replies(bytes: &[u8]) {
    let job = NewJob::new("orders", "{}");
    let ends = vec![Settlement::new(job.id, 1, Outcome::Completed); 2];
    let lease = LeaseReport::new(Token::new(1, 2), ends);
    let _ = enqueue::reply(bytes, &[&job, &job]);
    let _ = claim::reply(bytes, WorkerId(5));
    let _ = extend::reply(bytes, 1);
    let _ = settle::reply(bytes, &[&lease]);
    let _ = record::read_view(bytes);
    let Ok(map) = Mp::read(bytes) else {
        return;
    };
    let _ = edit::reply(&map);
    let _ = inspect::get_reply(&map, 3, true);
    let _ = inspect::list_reply(&map);
    let _ = stats::reply(&map);
    let _ = stats::maintained(&map);
}
