//! Seeded random histories, replayed on an engine and on the model, compared after every step.

mod action;
mod differ;
mod generate;
mod guards;
mod observe;
mod passing;
mod random;
mod replay;
mod request;
mod scene;
mod shrink;
mod verbs;

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use super::harness::Harness;
use replay::replay;

/// Which histories to replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histories {
    /// One history per seed.
    pub seeds: Range<u64>,
    /// Steps of each.
    pub steps: usize,
    /// Whether to crash and reopen the engine, as the harness of a durable one can.
    pub durable: bool,
    /// Namespaces that the steps are in, 1 or 2. One for an engine whose namespaces have each a
    /// time of their own, as those of a server's shards: the model has one time for all.
    pub namespaces: u8,
    /// The most jobs of one call that differ in nothing but id and payload, at least 2: an engine
    /// may store such a call in another way if it is large.
    pub alike: u8,
}

impl Default for Histories {
    /// Sixty seeds of 120 steps, without crashes.
    fn default() -> Self {
        Self {
            seeds: 0..60,
            steps: 120,
            durable: false,
            namespaces: 2,
            alike: 10,
        }
    }
}

impl Histories {
    /// These, unless the environment says otherwise: `PUNCTUAL_SEED` picks one seed,
    /// `PUNCTUAL_SEEDS` says how many, or which (`200..300`), `PUNCTUAL_STEPS` how long each is.
    #[must_use]
    pub fn or_from_env(mut self) -> Self {
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let range = std::env::var("PUNCTUAL_SEEDS").unwrap_or_default();
        let range = range.split_once("..").map(|(a, b)| (a.parse(), b.parse()));
        if let Some((Ok(first), Ok(end))) = range {
            self.seeds = first..end;
        }
        if let Some(count) = number("PUNCTUAL_SEEDS") {
            self.seeds.end = self.seeds.start + count;
        }
        if let Some(seed) = number("PUNCTUAL_SEED") {
            self.seeds = seed..seed + 1;
        }
        if let Some(steps) = number("PUNCTUAL_STEPS") {
            self.steps = steps as usize;
        }
        self
    }
}

/// A history after which an engine and the model differ, as small as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed: `PUNCTUAL_SEED` replays it.
    pub seed: u64,
    /// The steps of the shrunk history.
    pub steps: Vec<String>,
    /// What differs after the last one.
    pub difference: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "engine and model differ at seed {} (PUNCTUAL_SEED={} replays it), shrunk to:",
            self.seed, self.seed
        )?;
        for (nth, step) in self.steps.iter().enumerate() {
            writeln!(f, "{nth:4}  {step}")?;
        }
        write!(f, "then {}", self.difference)
    }
}

impl std::error::Error for Failure {}

/// Replays histories as [`run_histories`] does; panics with the failure if there is one.
///
/// ```text
/// check_histories(MyHarness::new(), Histories::default().or_from_env());
/// ```
pub fn check_histories(harness: impl Harness, histories: Histories) {
    let done = super::run::runtime().block_on(run_histories(&harness, histories));
    match done {
        Ok(steps) => println!("engine and model agree after each of {steps} steps"),
        Err(failure) => panic!("{failure}"),
    }
}

/// Replays histories on fresh engines and on the model; answers how many steps were compared, or
/// the first failure, shrunk.
pub async fn run_histories(harness: &dyn Harness, histories: Histories) -> Result<usize, Failure> {
    let mut compared = 0;
    for seed in histories.seeds.clone() {
        let mut steps = generate::history(seed, &histories);
        for step in &mut steps {
            step.space %= histories.namespaces.max(1);
        }
        compared += steps.len();
        if let Some(failure) = replay(harness, seed, &steps).await {
            let (steps, difference) = shrink::shrink(harness, seed, steps, failure).await;
            return Err(Failure {
                seed,
                steps: steps.iter().map(|step| format!("{step:?}")).collect(),
                difference: with_numbers(difference, seed),
            });
        }
    }
    Ok(compared)
}

/// Puts the numbers of jobs, as the steps give them, in the place of ids.
fn with_numbers(mut text: String, seed: u64) -> String {
    for no in 0..2_000 {
        let id = action::id_of(seed, no).to_string();
        text = text.replace(&format!("job {id}"), &id);
        text = text.replace(&id, &format!("job {no}"));
    }
    text
}
