//! Unit tests of `backoff`.

use super::*;

#[test]
fn pauses_double_to_the_cap_and_stay_between_half_and_whole() {
    let mut backoff = Backoff::engine();
    for whole in [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
        let pause = backoff.pause();
        assert!(
            (millis(whole) / 2..=millis(whole)).contains(&pause),
            "{pause:?} is not within half and whole of {whole} ms"
        );
    }
}

#[test]
fn a_success_starts_small_again() {
    let mut backoff = Backoff::engine();
    for _ in 0..10 {
        backoff.pause();
    }
    backoff.reset();
    assert!(backoff.pause() <= millis(50));
}
