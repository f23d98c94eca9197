//! Malformed inputs for parsers: the kept inputs of a corpus, then mutations of them.
//!
//! A target is a function that reads bytes and panics on a bug. Its corpus is a directory of files
//! in git. An input that made the target panic stays there, and every run tries it first.
//! Mutations start from a fixed seed, so every machine tries the same inputs. `PUNCTUAL_FUZZ_SEED`
//! sets another seed, `PUNCTUAL_FUZZ_INPUTS` the number of inputs, and `PUNCTUAL_FUZZ_SECONDS` the
//! time of a run.
//!
//! ```
//! use punctual::time::{exact_span, parse_span};
//!
//! let ran = punctual_fuzz::fuzz("times", vec![b"1h30m".to_vec()], 100, |input| {
//!     let text = std::str::from_utf8(input).unwrap_or_default();
//!     if let Ok(span) = parse_span(text) {
//!         assert_eq!(parse_span(&exact_span(span)).ok(), Some(span));
//!     }
//! });
//! assert!(ran.kept >= 1);
//! ```
//!
//! # Where to start
//! - Run a target: [`fuzz`] with the name of a corpus, seeds and a number of inputs.
//! - The targets of this repository: `tests/it`. The mutations: `mutate.rs`.

mod mutate;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use punctual::time::{Stopwatch, seconds};

/// What a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// What the mutations began with: the same seed makes the same inputs.
    pub seed: u64,
    /// Inputs of the corpus, and those that the caller made.
    pub kept: usize,
    /// Mutated inputs.
    pub mutated: u64,
}

/// When a target has had enough mutated inputs: whichever comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    inputs: u64,
    /// How long they may take in all; checked before each of them.
    span: Option<Duration>,
}

impl Bounds {
    /// As many inputs as a target asks for, or as the environment sets; if it sets only seconds, as
    /// many as these allow.
    fn given(of_target: u64, inputs: Option<u64>, within: Option<u64>) -> Self {
        let otherwise = within.map_or(of_target, |_| u64::MAX);
        Self {
            inputs: inputs.unwrap_or(otherwise),
            span: within.map(seconds),
        }
    }
}

/// Tries every kept input of a target and these seeds, then so many mutations of them.
///
/// An input that makes the target panic is written to the corpus before the panic goes on. With
/// `PUNCTUAL_FUZZ_KEEP` set, the seeds are written there too.
pub fn fuzz(name: &str, seeds: Vec<Vec<u8>>, inputs: u64, target: impl Fn(&[u8])) -> Ran {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let (inputs_reported, within) = (
        number("PUNCTUAL_FUZZ_INPUTS"),
        number("PUNCTUAL_FUZZ_SECONDS"),
    );
    let bounds = Bounds::given(inputs, inputs_reported, within);
    fuzz_in(&directory, seeds, bounds, target)
}

fn fuzz_in(directory: &Path, seeds: Vec<Vec<u8>>, bounds: Bounds, target: impl Fn(&[u8])) -> Ran {
    if std::env::var_os("PUNCTUAL_FUZZ_KEEP").is_some() {
        seeds
            .iter()
            .for_each(|seed| drop(keep(directory, "seed", seed)));
    }
    let mut kept = read(directory);
    kept.extend(seeds);
    for input in &kept {
        attempt(directory, input, &target);
    }
    let seed = number("PUNCTUAL_FUZZ_SEED").unwrap_or_default();
    eprintln!("{}: inputs of seed {seed}", directory.display());
    let (mut random, clock, mut mutated) = (Rng::with_seed(seed), Stopwatch::start(), 0);
    while mutated < bounds.inputs && bounds.span.is_none_or(|span| clock.elapsed() < span) {
        let input = mutate::mutated(&kept, &mut random);
        attempt(directory, &input, &target);
        mutated += 1;
    }
    Ran {
        seed,
        kept: kept.len(),
        mutated,
    }
}

fn attempt(directory: &Path, input: &[u8], target: &impl Fn(&[u8])) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        eprintln!(
            "the input is kept: {}: {}",
            keep(directory, "broke", input).display(),
            input[..input.len().min(1_000)].escape_ascii()
        );
        resume_unwind(panic);
    }
}

/// Every input of a corpus, in the order of their names.
fn read(directory: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).expect("a kept input can be read"))
        .collect()
}

fn keep(directory: &Path, why: &str, input: &[u8]) -> PathBuf {
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let path = directory.join(format!("{why}-{hash:016x}"));
    fs::create_dir_all(directory).expect("a directory for the corpus");
    fs::write(&path, input).expect("room for one input");
    path
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
