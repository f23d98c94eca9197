//! Insert, cancel and fire timers: the wheel beside a heap, a tree and tokio-util's DelayQueue.
//!
//! Delays are log-uniform from 1 ms to 30 days in microseconds, inserted in random order; a random
//! half is cancelled, in random order; then virtual time passes and the rest fires in due order,
//! checked afterwards. Every structure sees the same timers and the same wakes. Each
//! measurement is a process of its own, so no structure inherits the heap of another.

mod structures;

use std::process::Command;

use clap::{Parser, ValueEnum};
use punctual_bench::{process::resident_bytes, random::Random, stopwatch::time};
use serde::{Deserialize, Serialize};
use structures::{Heap, PunctualWheel, Queue, Timers, Tree};

const DELAY_MIN_MICROSECONDS: u64 = 1_000;
const DELAY_MAX_MICROSECONDS: u64 = 30 * 24 * 3_600 * 1_000_000;

/// Nanoseconds and bytes per timer: the wheel and its rivals.
#[derive(Parser)]
struct Options {
    /// How many timers; may be given several times.
    #[arg(long, default_values_t = [1_000_000, 10_000_000])]
    timers: Vec<usize>,
    /// Timers due at each wake.
    #[arg(long, default_value_t = 256)]
    page: usize,
    /// Runs of each, of which the median counts; 5 up to a million timers, else 3.
    #[arg(long)]
    runs: Option<usize>,
    /// Print the medians as JSON.
    #[arg(long)]
    json: bool,
    /// Measure this one, once, in this process.
    #[arg(long, hide = true)]
    only: Option<Structure>,
    #[arg(long, hide = true, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Structure {
    Wheel,
    Heap,
    Tree,
    DelayQueue,
}

/// Per timer: of all inserted, of the half cancelled, of the half fired, of those pending.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measurement {
    structure: Structure,
    timers: usize,
    insert_nanoseconds: f64,
    cancel_nanoseconds: f64,
    fire_nanoseconds: f64,
    /// Resident, with all pending, the 4 bytes of the value taken off.
    full_bytes: Option<f64>,
    /// The same with half of them cancelled.
    half_bytes: Option<f64>,
    /// As `full_bytes` and `half_bytes`, by the structure's own account.
    full_heap_bytes: Option<f64>,
    half_heap_bytes: Option<f64>,
}

impl Measurement {
    fn insert_and_fire(&self) -> f64 {
        self.insert_nanoseconds + self.fire_nanoseconds
    }
}

fn main() {
    let options = Options::parse();
    if let Some(structure) = options.only {
        let measurement = measure(structure, options.timers[0], options.page, options.seed);
        println!(
            "{}",
            serde_json::to_string(&measurement).expect("numbers are JSON")
        );
        return;
    }
    for &timers in &options.timers {
        let runs = options
            .runs
            .unwrap_or(if timers > 1_000_000 { 3 } else { 5 });
        let mut all = Vec::new();
        for seed in 1..=runs as u64 {
            for &structure in Structure::value_variants() {
                all.push(measure_apart(structure, timers, options.page, seed));
            }
        }
        let medians: Vec<_> = Structure::value_variants()
            .iter()
            .map(|&structure| median_of(all.iter().filter(|one| one.structure == structure)))
            .collect();
        if options.json {
            println!(
                "{}",
                serde_json::to_string(&medians).expect("numbers are JSON")
            );
        } else {
            print_table(timers, runs, &medians);
        }
    }
}

fn measure(structure: Structure, count: usize, page: usize, seed: u64) -> Measurement {
    let mut random = Random::new(seed);
    let dues: Vec<u64> = (0..count)
        .map(|_| random.log_uniform(DELAY_MIN_MICROSECONDS, DELAY_MAX_MICROSECONDS))
        .collect();
    let mut shuffled: Vec<u32> = (0..count as u32).collect();
    random.shuffle(&mut shuffled);
    let (cancelled, kept) = shuffled.split_at_mut(count / 2);
    kept.sort_unstable_by_key(|&timer| (dues[timer as usize], timer));
    let mut wakes: Vec<u64> = kept
        .chunks(page)
        .map(|page| dues[page[0] as usize])
        .collect();
    // One more, a second after the last due: a rival may round up.
    wakes.push(DELAY_MAX_MICROSECONDS + 1_000_000);
    let mut fired = vec![u32::MAX; kept.len()];
    fired.clear();

    let mut timers: Box<dyn Timers> = match structure {
        Structure::Wheel => Box::new(PunctualWheel::new(count)),
        Structure::Heap => Box::new(Heap::new(count)),
        Structure::Tree => Box::new(Tree::new()),
        Structure::DelayQueue => Box::new(Queue::new(count)),
    };
    let before = resident_bytes();
    let resident = || Some(resident_bytes()?.saturating_sub(before?));
    let each = |bytes: u64, pending: usize| bytes as f64 / pending as f64 - 4.0;

    let (insert, ()) = time(|| timers.insert(&dues));
    let full_bytes = resident().map(|bytes| each(bytes, count));
    let full_heap_bytes = timers.heap_bytes().map(|bytes| each(bytes as u64, count));
    let (cancel, ()) = time(|| timers.cancel(&dues, cancelled));
    let half_bytes = resident().map(|bytes| each(bytes, kept.len()));
    let half_heap_bytes = timers
        .heap_bytes()
        .map(|bytes| each(bytes as u64, kept.len()));
    let (fire, ()) = time(|| timers.fire(&wakes, &mut fired));

    assert_eq!(
        fired.len(),
        kept.len(),
        "every timer that was not cancelled fires, once"
    );
    if structure == Structure::DelayQueue {
        let milliseconds = |timer: &u32| dues[*timer as usize].div_ceil(1_000);
        assert!(
            fired.is_sorted_by_key(milliseconds),
            "timers fire in the order of their dues"
        );
    } else {
        assert!(fired == kept, "timers fire in the order of their dues");
    }
    Measurement {
        structure,
        timers: count,
        insert_nanoseconds: insert.as_nanos() as f64 / count as f64,
        cancel_nanoseconds: cancel.as_nanos() as f64 / cancelled.len() as f64,
        fire_nanoseconds: fire.as_nanos() as f64 / kept.len() as f64,
        full_bytes,
        half_bytes,
        full_heap_bytes,
        half_heap_bytes,
    }
}

fn measure_apart(structure: Structure, timers: usize, page: usize, seed: u64) -> Measurement {
    let name = structure
        .to_possible_value()
        .expect("no structure is hidden");
    let output = Command::new(std::env::current_exe().expect("the path of this program"))
        .args(["--only", name.get_name()])
        .args(["--timers", &timers.to_string()])
        .args(["--page", &page.to_string()])
        .args(["--seed", &seed.to_string()])
        .output()
        .expect("this program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "measuring {structure:?} failed: {errors}"
    );
    serde_json::from_slice(&output.stdout).expect("a measurement")
}

fn median_of<'a>(runs: impl Iterator<Item = &'a Measurement>) -> Measurement {
    let runs: Vec<_> = runs.collect();
    let median = |number: fn(&Measurement) -> f64| {
        let mut numbers: Vec<_> = runs.iter().map(|run| number(run)).collect();
        numbers.sort_unstable_by(f64::total_cmp);
        numbers[numbers.len() / 2]
    };
    let known = |number: fn(&Measurement) -> f64| Some(median(number)).filter(|it| !it.is_nan());
    Measurement {
        structure: runs[0].structure,
        timers: runs[0].timers,
        insert_nanoseconds: median(|run| run.insert_nanoseconds),
        cancel_nanoseconds: median(|run| run.cancel_nanoseconds),
        fire_nanoseconds: median(|run| run.fire_nanoseconds),
        full_bytes: known(|run| run.full_bytes.unwrap_or(f64::NAN)),
        half_bytes: known(|run| run.half_bytes.unwrap_or(f64::NAN)),
        full_heap_bytes: known(|run| run.full_heap_bytes.unwrap_or(f64::NAN)),
        half_heap_bytes: known(|run| run.half_heap_bytes.unwrap_or(f64::NAN)),
    }
}

fn print_table(timers: usize, runs: usize, medians: &[Measurement]) {
    println!("{timers} timers, medians of {runs}; ns and bytes each");
    println!(
        "{:<12} {:>7} {:>7} {:>7} {:>12} {:>10} {:>10} {:>10}",
        "", "insert", "cancel", "fire", "insert+fire", "vs wheel", "bytes full", "bytes half"
    );
    let wheel = medians[0].insert_and_fire();
    for one in medians {
        let bytes = |bytes: Option<f64>| bytes.map_or("-".into(), |bytes| format!("{bytes:.1}"));
        println!(
            "{:<12} {:>7.1} {:>7.1} {:>7.1} {:>12.1} {:>9.2}x {:>10} {:>10}",
            format!("{:?}", one.structure),
            one.insert_nanoseconds,
            one.cancel_nanoseconds,
            one.fire_nanoseconds,
            one.insert_and_fire(),
            one.insert_and_fire() / wheel,
            bytes(one.full_bytes),
            bytes(one.half_bytes),
        );
        if let (Some(full), Some(half)) = (one.full_heap_bytes, one.half_heap_bytes) {
            println!("{:<60} {full:>9.1} {half:>10.1}", "  by its own account");
        }
    }
}
