//! Tests of plans: a seed repeats them.

use crate::support::{run, said};

#[test]
fn a_seed_is_a_plan() {
    let plan = |seed| said(&["plan", "--engine", "redis-always", "--seed", seed]);
    assert_eq!(plan("7"), plan("7"));
    assert_ne!(plan("7"), plan("8"));
    assert!(plan("7").contains("F02"), "{}", plan("7"));
}

#[test]
fn a_plan_may_be_of_some_lanes_alone() {
    let plan = |tracks| {
        let cell = ["plan", "--engine", "redis-always", "--seed", "7"];
        said(&[&cell[..], tracks].concat())
    };
    let (all, some) = (plan(&[]), plan(&["--tracks", "servers,network"]));
    assert!(all.contains("F01") && !some.contains("F01"), "{some}");
    assert!(some.contains("F02") && some.contains("F12"), "{some}");
    assert!(some.lines().all(|line| all.contains(line)), "the same ones");
}

#[test]
fn packed_histories_are_judged_alike_while_there_is_room() {
    let run_with = |bytes| {
        let packed = ["--engine", "embedded", "--minutes", "0.05", "--seed", "2"];
        run(&[&packed[..], &["--keep-bytes", bytes]].concat())
    };
    let kept = run_with("100000000");
    assert!(kept.is_clean(), "{}", kept.said());
    let history = kept.folder().join("seed-2/embedded/round-000/history");
    for entry in std::fs::read_dir(history).expect("it was kept") {
        let path = entry.expect("it was kept").path();
        assert_eq!(path.extension(), Some("gz".as_ref()), "{path:?}");
    }
    let judged = said(&["verify", &kept.folder().to_string_lossy()]);
    let hash = kept.rounds()[0]["hash"].as_str().map(str::to_owned);
    assert!(judged.contains(&hash.expect("a hash")), "{judged}");
    assert!(judged.contains("I1 nothing lost: holds"), "{judged}");
    assert!(!judged.contains("not what was judged"), "{judged}");
    let too_large = run_with("1000");
    let judged = said(&["verify", &too_large.folder().to_string_lossy()]);
    assert!(judged.contains("its history was not kept"), "{judged}");
}

#[test]
fn kept_histories_are_judged_alike_again_and_a_changed_one_is_not() {
    let run = run(&[
        "--engine",
        "embedded",
        "--minutes",
        "0.1",
        "--keep",
        "--seed",
        "2",
    ]);
    assert!(run.is_clean(), "{}", run.said());
    let folder = run.folder();
    let round = &run.rounds()[0];
    let judged = || said(&["verify", &folder.to_string_lossy()]);
    assert!(
        judged().contains(round["hash"].as_str().expect("a hash")),
        "{}",
        judged()
    );
    assert!(!judged().contains("BROKEN"), "{}", judged());
    // A line less: a job that was never sent.
    let history = folder.join("seed-2/embedded/round-000/history");
    for entry in std::fs::read_dir(history).expect("it was kept") {
        let path = entry.expect("it was kept").path();
        let text = std::fs::read_to_string(&path).expect("lines");
        let rest = text.lines().filter(|line| !line.contains("enqueue_invoke"));
        let rest: String = rest.map(|line| format!("{line}\n")).collect();
        std::fs::write(&path, rest).expect("it can be changed");
    }
    assert!(judged().contains("I1 nothing lost: BROKEN"), "{}", judged());
}
