//! Unit tests of `tests`.

use super::*;

/// Panics on a length before text that is longer than the text, as careless readers do.
fn careless(input: &[u8]) {
    if let [b'P', length, rest @ ..] = input {
        let _ = &rest[..usize::from(*length)];
    }
}

/// So many, however long they take.
fn inputs(inputs: u64) -> Bounds {
    Bounds::given(inputs, None, None)
}

#[test]
fn a_careless_reader_is_found_and_its_input_is_kept_and_tried_first() {
    let directory = std::env::temp_dir().join(format!("punctual-fuzz-{}", std::process::id()));
    let seeds = vec![b"P\x03abc".to_vec()];
    let found = catch_unwind(|| fuzz_in(&directory, seeds, inputs(2_000), careless));
    assert!(found.is_err(), "mutations have to break it");
    let kept = read(&directory);
    assert!(!kept.is_empty());
    let again = catch_unwind(|| fuzz_in(&directory, Vec::new(), inputs(0), careless));
    assert!(again.is_err(), "what broke it once is tried");
    fs::remove_dir_all(&directory).expect("the corpus of this test");
}

#[test]
fn the_same_seed_makes_the_same_inputs() {
    let kept = vec![b"{\"delay\":5}".to_vec(), vec![0; 40]];
    let inputs = |seed| -> Vec<Vec<u8>> {
        let mut random = Rng::with_seed(seed);
        (0..50)
            .map(|_| mutate::mutated(&kept, &mut random))
            .collect()
    };
    assert_eq!(inputs(1), inputs(1));
    assert_ne!(inputs(1), inputs(2));
}

#[test]
fn a_time_limit_ends_endless_runs_and_kept_inputs_still_run() {
    let nowhere = Path::new("there is no such corpus");
    let tried = std::cell::Cell::new(0);
    let ran = |within| {
        tried.set(0);
        let bounds = Bounds::given(7, None, Some(within));
        fuzz_in(nowhere, vec![b"one".to_vec()], bounds, |_| {
            tried.set(tried.get() + 1);
        })
    };
    let none = ran(0);
    assert_eq!((none.kept, none.mutated, tried.get()), (1, 0, 1));
    let some = ran(1);
    assert!(some.mutated > 7, "the count of the target is no bound then");
    assert_eq!(tried.get(), 1 + some.mutated);
}

#[test]
fn whichever_bound_comes_first_ends_a_run() {
    let both = Bounds::given(7, Some(3), Some(3_600));
    let ran = fuzz_in(Path::new("nowhere"), vec![b"one".to_vec()], both, |_| {});
    assert_eq!(ran.mutated, 3);
    assert_eq!(Bounds::given(7, Some(3), None).inputs, 3);
    assert_eq!(
        inputs(7),
        Bounds {
            inputs: 7,
            span: None
        }
    );
}
