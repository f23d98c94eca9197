//! Fuzzes the records of a commit log.

use std::cell::Cell;

use punctual::Limits;
use punctual::machine::Machine;
use punctual_fuzz::fuzz;

use crate::logs::{disk_with_log, runtime};

/// `FORMAT.md`: a header, and then records, each with the length of its payload in front.
const HEADER_BYTES: usize = 56;
const RECORD_BYTES: usize = 24;

/// The payloads of a log's records: steps of the machine.
fn steps() -> Vec<Vec<u8>> {
    let (_, _, log) = disk_with_log(&runtime());
    let mut rest = &log[HEADER_BYTES..];
    let mut steps = Vec::new();
    while let Some(length) = rest
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes) as usize)
    {
        if length == 0 {
            break;
        }
        steps.push(rest[RECORD_BYTES..RECORD_BYTES + length].to_vec());
        rest = &rest[RECORD_BYTES + length..];
    }
    assert!(steps.len() > 4, "{} steps in the log", steps.len());
    steps
}

/// Every mutation of a step is read into its row or refused. What rows say of each other is not
/// asked: behind a checksum they contradict each other only by a bug, and assertions are for that.
#[test]
fn steps_of_a_log_are_read_or_refused() {
    let seeds = steps();
    let whole: Vec<u8> = seeds.concat();
    let read = Cell::new(0);
    let ran = fuzz("steps", [seeds, vec![whole]].concat(), 40_000, |input| {
        let mut machine = Machine::in_memory(Limits::default());
        read.set(read.get() + u32::from(machine.replay(input).is_ok()));
    });
    assert!(read.get() > 0, "some are still steps");
    println!("{ran:?}: {} were steps", read.get());
}
