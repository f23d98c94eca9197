use super::*;

/// Panics on a length before text that is longer than the text, as careless readers do.
fn careless(input: &[u8]) {
    if let [b'P', length, rest @ ..] = input {
        let _ = &rest[..usize::from(*length)];
    }
}

#[test]
fn a_careless_reader_is_found_and_its_input_is_kept_and_tried_first() {
    let directory = std::env::temp_dir().join(format!("punctual-fuzz-{}", std::process::id()));
    let seeds = vec![b"P\x03abc".to_vec()];
    let found = catch_unwind(|| fuzz_in(&directory, seeds, 2_000, careless));
    assert!(found.is_err(), "mutations have to break it");
    let kept = read(&directory);
    assert!(!kept.is_empty());
    let again = catch_unwind(|| fuzz_in(&directory, Vec::new(), 0, careless));
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
