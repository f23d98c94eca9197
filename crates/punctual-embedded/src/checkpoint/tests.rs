//! Unit tests of `checkpoint`.

use punctual::time::Stopwatch;

use super::*;

#[test]
fn a_long_checkpoint_is_known_to_go_on() {
    let activity = Activity::default();
    activity.beat(FAILING);
    let (began, mut seen) = (Stopwatch::start(), 0);
    let many: Rows<'_> = &|visit| (0..=ROWS_A_BEAT).try_for_each(|_| visit(0, b"key", None));
    let visited = beating(&activity, many, &mut |_, _, _| {
        seen += 1;
        let elapsed = began.elapsed();
        let is_fresh = activity.health().loops[0].age < elapsed;
        assert_eq!(is_fresh, seen >= ROWS_A_BEAT, "row {seen}");
        Ok(())
    });
    visited.expect("nothing fails");
    assert_eq!(seen, ROWS_A_BEAT + 1);
}
