use super::*;
use crate::time::seconds;

fn after(run_times: impl IntoIterator<Item = Duration>) -> Estimate {
    let mut estimate = Estimate::default();
    run_times
        .into_iter()
        .for_each(|span| estimate.observe(span));
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
