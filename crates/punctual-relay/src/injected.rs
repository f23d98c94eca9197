//! Bugs that a run of faults injects in relays, by a variable of their environment.

/// The bug that the environment names: none is there, in a build without them.
pub(crate) fn is_injected(bug: &str) -> bool {
    cfg!(feature = "injected") && std::env::var("PUNCTUAL_PLANTED").is_ok_and(|name| name == bug)
}
