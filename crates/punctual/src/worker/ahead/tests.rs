//! Unit tests of `worker::ahead`.

use super::*;
use crate::time::seconds;

const fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

fn after(run_times: impl IntoIterator<Item = Duration>) -> Estimate {
    let mut estimate = Estimate::default();
    run_times
        .into_iter()
        .for_each(|span| estimate.observe(span, Duration::ZERO));
    estimate
}

#[test]
fn nothing_is_claimed_ahead_before_a_run_time_is_known() {
    assert_eq!(Estimate::default().jobs(64), 0);
}

#[test]
fn jobs_of_a_second_are_never_claimed_ahead() {
    assert_eq!(after([seconds(1); 10]).jobs(64), 0);
}

#[test]
fn what_is_ahead_lasts_five_milliseconds() {
    assert_eq!(after([millis(10); 10]).jobs(64), 32);
    assert_eq!(after([millis(1); 10]).jobs(4), 20);
}

#[test]
fn short_jobs_end_at_the_bound() {
    assert_eq!(after([Duration::ZERO; 10]).jobs(64), 256);
}

/// Jobs of that run time, of which one ends every so often.
fn at_pace(run_time: Duration, every: Duration, jobs: u32) -> Estimate {
    let mut estimate = Estimate::default();
    (1..=jobs).for_each(|job| estimate.observe(run_time, every * job));
    estimate
}

#[test]
fn the_pace_at_which_jobs_end_raises_the_bound_to_what_a_call_may_carry() {
    let fast = at_pace(Duration::ZERO, micros(10), 10_000).jobs(64);
    assert!(
        (450..=500).contains(&fast),
        "{fast} jobs last five milliseconds"
    );
    assert_eq!(at_pace(Duration::ZERO, micros(1), 100_000).jobs(64), 936);
}

#[test]
fn handlers_that_compute_are_not_claimed_ahead_by_the_number_of_slots() {
    assert_eq!(at_pace(micros(100), micros(50), 10_000).jobs(64), 256);
}

#[test]
fn a_pause_takes_the_bound_back() {
    let mut estimate = at_pace(Duration::ZERO, micros(1), 100_000);
    (1..=6).for_each(|second| estimate.observe(Duration::ZERO, seconds(second)));
    assert_eq!(estimate.jobs(64), 256);
}

#[test]
fn a_change_of_pace_is_learned_within_a_few_dozen_jobs() {
    let slower = after([millis(1); 100].into_iter().chain([seconds(1); 32]));
    assert_eq!(slower.jobs(64), 0);
}

#[test]
fn a_reset_forgets() {
    let mut estimate = after([millis(1); 10]);
    estimate.reset();
    assert_eq!(estimate.jobs(64), 0);
}
