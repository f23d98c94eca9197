//! Rates against the plainest count of all starts.

use super::*;
use crate::time::{Timestamp, seconds};

fn empty() -> RateRow {
    RateRow {
        next: Timestamp::ZERO,
        since: Timestamp::ZERO,
        starts: Vec::new(),
    }
}

/// A small generator of numbers, so that each run is the same.
fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed % below
}

/// The most starts in any span that long.
fn fullest(starts: &[u64], per: u64) -> usize {
    let mut first = 0;
    let mut most = 0;
    for (nth, at) in starts.iter().enumerate() {
        while at - starts[first] >= per {
            first += 1;
        }
        most = most.max(nth + 1 - first);
    }
    most
}

/// Takes what is there in steps of all sizes; answers the instants.
fn run(rate: &Rate, seed: u64, saturated: bool) -> Vec<u64> {
    let (mut row, mut seed, mut starts) = (empty(), seed, Vec::new());
    let mut now = 1_790_000_000_000_000;
    let per = micros(rate.per());
    for _ in 0..3_000 {
        let at = Timestamp::from_micros(now);
        let room = row.room(rate, at);
        assert_eq!(room == 0, row.opens_at(rate, at).is_some());
        if room > 0 {
            let n = if saturated {
                room
            } else {
                1 + draw(&mut seed, room)
            };
            row.take(rate, at, n);
            starts.extend((0..n).map(|_| now));
        }
        now = match row.opens_at(rate, at) {
            Some(opens) if saturated || draw(&mut seed, 2) == 0 => opens.as_micros(),
            _ => now + draw(&mut seed, per / 3 + 2),
        };
        assert!(row.starts.len() <= 66, "{} parts", row.starts.len());
    }
    starts
}

#[test]
fn no_span_has_more_than_a_rate_lets_start() {
    let per = seconds(1);
    for starts in [1, 2, 7, 64, 65, 100, 1_000, 12_345] {
        let smooth = Rate::smooth(starts, per);
        for rate in [
            Rate::window(starts, per),
            smooth,
            smooth.burst(0),
            smooth.burst(starts),
        ] {
            for seed in 1..6 {
                let found = fullest(&run(&rate, seed, false), micros(per)) as u64;
                assert!(found <= rate.most(), "{rate}: {found}");
            }
        }
    }
}

#[test]
fn a_saturated_rate_is_used_up() {
    let per = seconds(1);
    for starts in [1, 7, 64, 100, 1_000] {
        for rate in [Rate::window(starts, per), Rate::smooth(starts, per)] {
            let all = run(&rate, 1, true);
            let span = all[all.len() - 1] - all[0];
            let windows = span / micros(per);
            let expected = windows * starts;
            assert!(
                all.len() as u64 * 100 >= expected * 98,
                "{rate}: {} in {windows}",
                all.len()
            );
        }
    }
}

#[test]
fn a_rate_that_is_lowered_opens_soon() {
    let mut row = empty();
    let now = Timestamp::from_micros(1_790_000_000_000_000);
    row.take(&Rate::smooth(1, crate::time::days(1)), now, 1);
    let fast = Rate::smooth(10, seconds(1)).burst(0);
    let opens = row.opens_at(&fast, now).expect("it is used up");
    assert!(opens - now <= seconds(1) / 10, "{:?}", opens - now);
    let mut row = empty();
    let hundred = Rate::window(100, seconds(1));
    row.take(&hundred, now, 100);
    let few = Rate::window(3, seconds(1));
    assert_eq!(row.room(&few, now), 0);
    assert_eq!(row.opens_at(&few, now), Some(now + seconds(1)));
}
