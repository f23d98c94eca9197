//! Runs laws, and finds the first that an engine breaks.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::case::Case;
use super::{DURABLE_LAWS, Harness, LAWS, Law};
use crate::time::{seconds, within};

/// Runs the law of that name on a fresh engine; panics if the engine breaks it.
///
/// [`suite!`](super::suite) makes one test of each; the name is as in [`LAWS`].
pub fn check(name: &str, harness: impl Harness) {
    let law = LAWS.iter().chain(DURABLE_LAWS).find(|law| law.name == name);
    let law = law.unwrap_or_else(|| panic!("no law is named {name}"));
    runtime().block_on(run(law, Arc::new(harness)));
}

/// Runs every law of a topic, each on a fresh engine of one harness; panics with those that the
/// engine breaks.
///
/// With the name of a law in the variable `PUNCTUAL_LAW` it runs only that one, if it is of the
/// topic.
///
/// # Panics
/// Also if no law is of that topic, or none has the name in the variable.
pub fn check_topic(topic: &str, harness: impl Harness) {
    check_some(topic, 1, harness);
}

/// Runs the first law of a topic and each so many behind it, as [`check_topic`] does.
///
/// # Panics
/// As [`check_topic`], and if `step` is 0.
pub fn check_some(topic: &str, step: usize, harness: impl Harness) {
    let is_of_topic = |law: &&Law| law.name.split("::").next() == Some(topic);
    let only = std::env::var("PUNCTUAL_LAW").ok();
    let mut laws = LAWS
        .iter()
        .chain(DURABLE_LAWS)
        .filter(is_of_topic)
        .step_by(step)
        .peekable();
    assert!(laws.peek().is_some(), "no law is of the topic {topic}");
    if let Some(only) = &only {
        let is_known = LAWS.iter().chain(DURABLE_LAWS).any(|law| law.name == only);
        assert!(is_known, "no law is named {only}; LAWS lists the names");
    }
    let laws = laws.filter(|law| only.as_ref().is_none_or(|only| law.name == only));
    let broken = broken(laws, Arc::new(harness));
    let broken: Vec<String> = broken.map(|one| one.to_string()).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Runs laws one after the other, each on a fresh engine; answers the first that is broken.
///
/// This is how the suite is proved: inject a bug and see that this finds it.
pub fn first_broken<'a>(
    laws: impl IntoIterator<Item = &'a Law>,
    harness: impl Harness,
) -> Option<Broken> {
    broken(laws, Arc::new(harness)).next()
}

/// Those of some laws that an engine breaks; runs each when it is asked for.
fn broken<'a>(
    laws: impl IntoIterator<Item = &'a Law>,
    harness: Arc<dyn Harness>,
) -> impl Iterator<Item = Broken> {
    let runtime = runtime();
    laws.into_iter().filter_map(move |law| {
        let ran = AssertUnwindSafe(run(law, harness.clone())).catch_unwind();
        let why = runtime.block_on(ran).err()?;
        Some(Broken {
            law: law.name,
            why: text_of(&*why),
        })
    })
}

/// Injects a bug in every engine of this process, checks for a law that it breaks, takes it out
/// again.
///
/// The switch is one per process: a test that injects shares its process with no other test.
#[cfg(feature = "injected-bugs")]
pub fn find<'a>(
    bug: crate::injected::Bug,
    laws: impl IntoIterator<Item = &'a Law>,
    harness: impl Harness,
) -> Option<Broken> {
    crate::injected::inject(Some(bug));
    let broken = first_broken(laws, harness);
    crate::injected::inject(None);
    broken
}

/// A law that an engine broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its name, as in [`LAWS`].
    pub law: &'static str,
    /// What was expected, and what the engine answered.
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.why)
    }
}

/// A law moves time by hand and awaits facts: one that takes so long waits for what never comes.
const HANGS_AFTER: std::time::Duration = seconds(50);

async fn run(law: &Law, harness: Arc<dyn Harness>) {
    let case = Case::fresh(harness).await;
    if !case.claims(law.needs).await {
        return; // `capabilities::an_unclaimed_capability_answers_unsupported` holds there.
    }
    let done = within(HANGS_AFTER, (law.run)(case)).await;
    assert!(done.is_some(), "hangs: no end after {HANGS_AFTER:?}");
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("the system refuses to start a runtime")
}

pub(super) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a text").into()
}
