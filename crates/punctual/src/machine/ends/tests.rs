//! Slots of the ends of a queue are few, and used again.

use super::*;

#[test]
fn slots_are_used_again_and_hold_a_hundred_ends() {
    for counts in [vec![1], vec![100], vec![64], vec![1, 99, 7], vec![30, 1, 1]] {
        let mut slots = Slots::default();
        let mut written: std::collections::HashMap<u8, u64> = Default::default();
        let mut sizes = Vec::new();
        for step in 0..1_000 {
            let count = counts[step % counts.len()];
            let slot = slots.take(count);
            sizes.push(count);
            written.insert(slot, slots.seq);
            let mut ends = 0;
            for (back, size) in sizes.iter().rev().enumerate() {
                if ends >= ENDS_KEPT {
                    break;
                }
                ends += size;
                let seq = slots.seq - back as u64;
                assert!(written.values().any(|kept| *kept == seq), "{counts:?}");
            }
        }
        assert!(written.len() <= ENDS_KEPT, "{counts:?}");
        assert!(written.keys().all(|slot| usize::from(*slot) < ENDS_KEPT));
    }
}
