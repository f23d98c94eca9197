//! Facts about the wheel, and random histories beside a sorted map that does the same slowly.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const YEAR: u64 = 365 * 24 * 3_600 * 1_000_000;

fn popped<T: Copy>(wheel: &mut Wheel<T>, now: u64, limit: usize) -> Vec<(u64, u64, T)> {
    let mut due = Vec::new();
    wheel.pop_due(now, limit, &mut due);
    due
}

fn with_dues(now: u64, dues: impl IntoIterator<Item = u64>) -> Wheel<()> {
    let mut wheel = Wheel::new(now);
    for (order, due) in (0..).zip(dues) {
        wheel.insert(due, order, ());
    }
    wheel
}

#[test]
fn timers_fire_by_due_then_by_order() {
    let mut wheel = Wheel::new(0);
    for (due, order) in [(70, 3), (5, 9), (70, 1), (4_000, 0), (70, 2)] {
        wheel.insert(due, order, 'x');
    }
    let fired = popped(&mut wheel, 4_000, 100);
    assert_eq!(
        fired,
        [
            (5, 9, 'x'),
            (70, 1, 'x'),
            (70, 2, 'x'),
            (70, 3, 'x'),
            (4_000, 0, 'x')
        ]
    );
}

#[test]
fn nothing_fires_early() {
    let mut wheel = with_dues(0, [1_000_000]);
    assert_eq!(popped(&mut wheel, 999_999, 10), []);
    assert_eq!(popped(&mut wheel, 1_000_000, 10), [(1_000_000, 0, ())]);
}

#[test]
fn a_limit_leaves_the_rest_due() {
    let mut wheel = with_dues(0, [10, 20, 30, 40, 50, 60, 70]);
    assert_eq!(popped(&mut wheel, 100, 2), [(10, 0, ()), (20, 1, ())]);
    assert_eq!(wheel.next_due(), Some(30));
    assert_eq!(popped(&mut wheel, 100, 0), []);
    assert_eq!(popped(&mut wheel, 100, 2), [(30, 2, ()), (40, 3, ())]);
    assert_eq!(wheel.len(), 3);
}

#[test]
fn a_page_that_holds_timers_already_takes_as_many_again() {
    let mut wheel = with_dues(0, [10, 20, 30]);
    let mut due = popped(&mut wheel, 10, 1);
    wheel.pop_due(30, 1, &mut due);
    assert_eq!(due, [(10, 0, ()), (20, 1, ())]);
}

#[test]
fn insert_in_the_past_is_popped_next() {
    let mut wheel = with_dues(0, [500, 600, 700]);
    assert_eq!(popped(&mut wheel, 1_000, 1), [(500, 0, ())]);
    wheel.insert(650, 8, ());
    wheel.insert(3, 9, ());
    assert_eq!(wheel.next_due(), Some(3));
    let dues: Vec<_> = popped(&mut wheel, 1_000, 10)
        .iter()
        .map(|timer| timer.0)
        .collect();
    assert_eq!(dues, [3, 600, 650, 700]);
}

#[test]
fn time_never_goes_back() {
    let mut wheel = with_dues(0, []);
    popped(&mut wheel, 1_000, 10);
    wheel.insert(900, 0, ());
    assert_eq!(popped(&mut wheel, 10, 10), [(900, 0, ())]);
}

#[test]
fn cancel_after_fire_is_refused() {
    let mut wheel = Wheel::new(0);
    let handle = wheel.insert(10, 0, ());
    popped(&mut wheel, 10, 1);
    assert!(!wheel.cancel(handle));
    assert_eq!(wheel.len(), 0);
}

#[test]
fn handle_of_a_reused_slot_is_refused() {
    let mut wheel = Wheel::new(0);
    let old = wheel.insert(10, 0, 'a');
    popped(&mut wheel, 10, 1);
    let new = wheel.insert(20, 1, 'b');
    assert_eq!(old.index(), new.index());
    assert!(!wheel.cancel(old));
    assert_eq!(wheel.next_due(), Some(20));
    assert!(wheel.cancel(new));
}

#[test]
fn a_cancelled_timer_never_shows() {
    let mut wheel = Wheel::new(0);
    let handles: Vec<_> = (1..=8).map(|due| wheel.insert(due << 30, 0, due)).collect();
    for &handle in &handles[..7] {
        wheel.cancel(handle);
        assert_eq!(wheel.page(None, 100).len(), wheel.len());
    }
    assert_eq!(wheel.next_due(), Some(8 << 30));
    assert_eq!(popped(&mut wheel, u64::MAX, 100), [(8 << 30, 0, 8)]);
}

#[test]
fn thousand_years_ahead_is_a_due_like_any_other() {
    let mut wheel = with_dues(
        1_700_000_000_000_000,
        [1_700_000_000_000_000 + 1_000 * YEAR, 7],
    );
    assert_eq!(wheel.next_due(), Some(7));
    popped(&mut wheel, 0, 1);
    let due = 1_700_000_000_000_000 + 1_000 * YEAR;
    assert_eq!(wheel.next_due(), Some(due));
    assert_eq!(popped(&mut wheel, due - 1, 1), []);
    assert_eq!(popped(&mut wheel, due, 1), [(due, 0, ())]);
}

#[test]
fn first_and_last_tick_are_dues_too() {
    let mut wheel = with_dues(0, (0..9).flat_map(|_| [u64::MAX, 0]));
    assert_eq!(wheel.next_due(), Some(0));
    assert_eq!(popped(&mut wheel, u64::MAX - 1, 100).len(), 9);
    assert_eq!(popped(&mut wheel, u64::MAX, 100).len(), 9);
}

#[test]
fn backlog_loaded_backwards_fires_in_order() {
    let mut wheel = with_dues(1_000_000, (0..10_000).rev());
    check(&wheel);
    assert!(
        wheel.front.late_len() < 5_000,
        "the cursor went back for them"
    );
    let fired = popped(&mut wheel, 0, usize::MAX);
    assert!(fired.iter().map(|timer| timer.0).eq(0..10_000));
}

#[test]
fn peeking_at_a_far_timer_does_not_slow_the_near_ones() {
    let mut wheel = Wheel::new(0);
    let far: Vec<_> = (0..9).map(|order| wheel.insert(YEAR, order, ())).collect();
    wheel.cancel(far[0]);
    assert_eq!(
        wheel.next_due(),
        Some(YEAR),
        "the cursor is now a year ahead"
    );
    for order in 0..1_000 {
        wheel.insert(10_000 - order, order, ());
    }
    assert!(wheel.front.late_len() < 10, "the cursor went back for them");
    assert_eq!(wheel.next_due(), Some(9_001));
    assert_eq!(popped(&mut wheel, YEAR, usize::MAX).len(), 1_008);
}

#[test]
fn memory_stays_flat_when_rescheduled_100_000_times() {
    let mut wheel = with_dues(0, (0..100).map(|due| due << 40));
    let mut handle = wheel.insert(1, 0, ());
    let mut settled = 0;
    for round in 0..100_000 {
        assert!(wheel.cancel(handle));
        handle = wheel.insert(round * 7_919, round, ());
        if round == 1_000 {
            settled = wheel.heap_bytes();
        }
    }
    assert!(
        wheel.heap_bytes() <= 2 * settled,
        "{} after {settled}",
        wheel.heap_bytes()
    );
    assert_eq!(wheel.len(), 101);
}

#[test]
fn stale_entries_never_outnumber_pending_ones() {
    let mut wheel = Wheel::new(0);
    let handles: Vec<_> = (1..1_000)
        .map(|due| wheel.insert(due * due, 0, ()))
        .collect();
    for handle in handles {
        wheel.cancel(handle);
        assert!(wheel.handles.stale() <= wheel.len().max(STALE_MAX));
    }
}

#[test]
fn a_timer_costs_at_most_40_bytes_beside_its_value() {
    let mut wheel = Wheel::new(0);
    for step in 0..100_000_u64 {
        wheel.insert(
            step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8,
            step,
            step as u32,
        );
    }
    assert!(wheel.heap_bytes() / wheel.len() <= 40 + size_of::<u32>());
}

#[test]
fn pages_list_every_timer_once_in_order() {
    let dues = (0..500_u64).map(|step| step * step * step % 65_537);
    let wheel = with_dues(100, dues);
    let mut listed = Vec::new();
    while let page = wheel.page(listed.last().map(|&(due, order, ())| (due, order)), 7)
        && !page.is_empty()
    {
        listed.extend(page);
    }
    assert_eq!(listed.len(), 500);
    assert!(listed.is_sorted());
    assert_eq!(wheel.page(None, 0), []);
}

/// Asserts what must hold between any two calls.
fn check<T: Copy>(wheel: &Wheel<T>) {
    assert!(wheel.front.iter().all(|entry| entry.due <= wheel.cursor));
    let mut entries = wheel.front.len();
    let mut passed = wheel.cursor;
    for place in wheel.slots.places() {
        let (first, last) = place.span(wheel.cursor);
        assert!(passed < first && first <= last, "slots follow one another");
        passed = last;
        let slot = wheel.slots.get(place);
        assert!(
            slot.iter()
                .all(|entry| Place::of(entry.due, wheel.cursor) == place)
        );
        assert!(slot.iter().all(|entry| (first..=last).contains(&entry.due)));
        assert_eq!(
            slot.iter().map(|entry| entry.due).min(),
            Some(slot.earliest().0)
        );
        assert_eq!(slot.iter().count(), slot.len());
        entries += slot.len();
    }
    assert_eq!(entries, wheel.len() + wheel.handles.stale());
}

#[derive(Clone, Debug)]
enum Step {
    /// Dues ahead of the time, or behind it.
    Insert {
        distances: Vec<u64>,
        behind: bool,
    },
    /// Any handle ever given out, counted from the newest.
    Cancel {
        newest: usize,
    },
    /// The first of those pending, as leases are extended.
    CancelFirst,
    Pop {
        ticks: u64,
        limit: usize,
    },
    /// To the next due.
    PopNext {
        limit: usize,
    },
    NextDue,
    Page {
        after: u64,
        limit: usize,
    },
}

/// Distances of all magnitudes up to `bits`, round ones among them so that dues meet.
fn distance(bits: u32) -> impl Strategy<Value = u64> {
    let magnitude = (0..=bits, any::<u64>())
        .prop_map(|(bits, number)| number.checked_shr(u64::BITS - bits).unwrap_or(0));
    prop_oneof![3 => magnitude, 1 => (0..=bits).prop_map(|bits| 1 << bits)]
}

fn step(bits: u32) -> impl Strategy<Value = Step> {
    let distances = || prop::collection::vec(distance(bits), 1..24);
    prop_oneof![
        6 => distances().prop_map(|distances| Step::Insert { distances, behind: false }),
        1 => distances().prop_map(|distances| Step::Insert { distances, behind: true }),
        6 => (0..64_usize).prop_map(|newest| Step::Cancel { newest }),
        3 => Just(Step::CancelFirst),
        3 => (distance(bits), 0..40_usize).prop_map(|(ticks, limit)| Step::Pop { ticks, limit }),
        3 => (0..40_usize).prop_map(|limit| Step::PopNext { limit }),
        4 => Just(Step::NextDue),
        1 => (distance(bits), 0..20_usize).prop_map(|(after, limit)| Step::Page { after, limit }),
    ]
}

/// A short range fills single slots; the long one is a thousand years of microseconds.
fn history() -> impl Strategy<Value = (u64, Vec<Step>)> {
    let bits = prop_oneof![
        Just(1),
        Just(4),
        Just(8),
        Just(13),
        Just(24),
        Just(40),
        Just(55)
    ];
    bits.prop_flat_map(|bits| (distance(bits), prop::collection::vec(step(bits), 1..80)))
}

proptest! {
    #[test]
    fn any_history_goes_as_with_a_sorted_map((mut now, steps) in history()) {
        let mut wheel = Wheel::new(now);
        let mut map = BTreeMap::new();
        let mut handles = Vec::new();
        for step in steps {
            match step {
                Step::Insert { distances, behind } => for distance in distances {
                    let due = if behind { now.saturating_sub(distance) } else { now + distance };
                    let order = handles.len() as u64;
                    let value = order as u32;
                    handles.push((due, order, wheel.insert(due, order, value)));
                    map.insert((due, order), value);
                },
                Step::Cancel { newest } => {
                    let Some(&(due, order, handle)) = handles.iter().nth_back(newest) else { continue };
                    prop_assert_eq!(wheel.cancel(handle), map.remove(&(due, order)).is_some());
                }
                Step::CancelFirst => {
                    let Some(((_, order), _)) = map.pop_first() else { continue };
                    prop_assert!(wheel.cancel(handles[order as usize].2));
                    prop_assert_eq!(wheel.next_due(), map.keys().next().map(|key| key.0));
                }
                Step::Pop { ticks, limit } => {
                    now += ticks;
                    prop_assert_eq!(popped(&mut wheel, now, limit), pop(&mut map, now, limit));
                }
                Step::PopNext { limit } => {
                    now = now.max(wheel.next_due().unwrap_or(0));
                    prop_assert_eq!(popped(&mut wheel, now, limit), pop(&mut map, now, limit));
                }
                Step::NextDue => {
                    prop_assert_eq!(wheel.next_due(), map.keys().next().map(|key| key.0));
                }
                Step::Page { after, limit } => {
                    let after = (now.saturating_add(after), 3);
                    let rest = map.range(after..).filter(|(key, _)| **key != after);
                    let rest: Vec<_> = rest.map(timer).take(limit).collect();
                    prop_assert_eq!(wheel.page(Some(after), limit), rest);
                    let first: Vec<_> = map.iter().map(timer).take(limit).collect();
                    prop_assert_eq!(wheel.page(None, limit), first);
                }
            }
            prop_assert_eq!(wheel.len(), map.len());
            check(&wheel);
        }
        let rest: Vec<_> = map.iter().map(timer).collect();
        prop_assert_eq!(popped(&mut wheel, u64::MAX, usize::MAX), rest);
        prop_assert!(wheel.is_empty());
    }
}

fn timer((&(due, order), &value): (&(u64, u64), &u32)) -> (u64, u64, u32) {
    (due, order, value)
}

fn pop(map: &mut BTreeMap<(u64, u64), u32>, now: u64, limit: usize) -> Vec<(u64, u64, u32)> {
    let due: Vec<_> = map
        .range(..=(now, u64::MAX))
        .map(timer)
        .take(limit)
        .collect();
    for &(due, order, _) in &due {
        map.remove(&(due, order));
    }
    due
}
