//! The tables of the pages are those of the totals.

use crate::support::said;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_tables_of_the_pages_are_those_of_the_totals() {
    let copies = tempfile::tempdir().expect("a directory");
    for page in ["docs/torture.md", "README.md", "README.zh-CN.md"] {
        let text = std::fs::read_to_string(format!("{ROOT}/{page}")).expect("the page is there");
        let copy = copies.path().join("page.md");
        std::fs::write(&copy, &text).expect("a copy");
        let totals = format!("{}/totals.json", env!("CARGO_MANIFEST_DIR"));
        said(&["tables", "--totals", &totals, &copy.to_string_lossy()]);
        let filled = std::fs::read_to_string(&copy).expect("the copy is there");
        assert_eq!(
            filled, text,
            "{page} is not what `punctual-torture tables` writes"
        );
        let brief = text.contains("<!-- torture-brief -->");
        assert!(brief || page == "docs/torture.md", "{page}");
        for table in [
            "",
            "-lossy",
            "-by-fault",
            "-seeds",
            "-faults",
            "-kinds",
            "-quiet-periods",
            "-excused",
            "-lateness",
            "-runs",
        ] {
            let is_there = text.contains(&format!("<!-- torture{table} -->"));
            assert!(is_there || page != "docs/torture.md", "{page}: {table}");
        }
    }
}

/// Settings that may lose what was acknowledged: of them there is a table of what they lost.
const LOSSY: [&str; 9] = [
    "embedded-os-power",
    "embedded-interval",
    "redis-everysec",
    "redis-everysec-power",
    "redis-everysec-slow",
    "redis-rdb",
    "redis-emptied",
    "sentinel-one",
    "sentinel-unwaited",
];

/// What the README says of these totals, and what a run that is added must keep.
#[test]
fn the_totals_are_large_and_the_page_names_what_was_broken() {
    let text = include_str!("../../totals.json");
    let totals: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let runs = totals["runs"].as_array().expect("runs");
    let (mut acknowledged, mut faults, mut broken) = (0, 0, Vec::new());
    for run in runs {
        let tally = &run["tally"];
        for never in ["doubled", "early", "stale_accepted"] {
            assert_eq!(tally[never], 0, "{never}: {run}");
        }
        let cell = run["cell"].as_str().expect("a name");
        if LOSSY.contains(&cell) {
            continue;
        }
        assert_eq!(tally["lost"], 0, "{run}");
        acknowledged += tally["acknowledged"].as_u64().expect("a number");
        let of_run = tally["faults"].as_object().expect("by fault").values();
        faults += of_run.filter_map(serde_json::Value::as_u64).sum::<u64>();
        for (verdict, counts) in run["verdicts"].as_object().expect("by invariant") {
            if counts[1] != 0 {
                let seed = &run["seed"];
                let verdict = verdict.split(' ').next().unwrap_or_default();
                broken.push(format!("{cell} {seed} {verdict}"));
            }
        }
    }
    broken.sort();
    let expected = [
        "embedded-disk 303 I2",
        "embedded-disk 303 I7",
        "embedded-power 1201 I2",
        "embedded-power 1201 I5",
        "redis-always 402 I9",
        "redis-clock 1501 I6",
        "redis-http 701 I1",
    ];
    assert_eq!(broken, expected);
    assert!(acknowledged >= 1_000_000, "{acknowledged} jobs");
    assert!(faults >= 5_000, "{faults} faults");
}

/// The page says of which faults there is no lateness, and why.
#[test]
fn every_fault_has_lateness_but_those_that_the_page_names() {
    let text = include_str!("../../totals.json");
    let totals: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let keys = |it: &serde_json::Value| -> Vec<String> {
        let keys = it.as_object().expect("by name").keys();
        keys.cloned().collect()
    };
    let runs = totals["runs"].as_array().expect("runs").iter();
    let mut faults: Vec<_> = runs.flat_map(|run| keys(&run["tally"]["faults"])).collect();
    let cells = totals["lateness"].as_object().expect("by cell").values();
    let late: Vec<_> = cells.flat_map(&keys).collect();
    faults.retain(|fault| !late.contains(fault));
    faults.sort();
    faults.dedup();
    assert_eq!(faults, ["F14", "F30", "F35"]);
    let page = include_str!("../../../../docs/torture.md");
    assert!(page.contains("F14, F30 and F35 have no rows"));
}

#[test]
fn the_totals_take_no_run_twice() {
    let place = tempfile::tempdir().expect("a directory");
    let totals = place.path().join("totals.json");
    std::fs::copy(
        format!("{}/totals.json", env!("CARGO_MANIFEST_DIR")),
        &totals,
    )
    .expect("a copy");
    let text = std::fs::read_to_string(&totals).expect("JSON");
    let known: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let known = |name: &str| known["runs"][0][name].to_string().replace('"', "");
    let run = |seed: &str| {
        let again = ["--commit", &known("commit"), "--engine", &known("cell")];
        let totals = totals.to_string_lossy();
        let more = ["--seed", seed, "--minutes", "0", "--totals", &*totals];
        crate::support::run(&[&again[..], &more].concat())
    };
    let (refused, taken) = (run(&known("seed")), run("4711"));
    assert!(!refused.is_clean(), "{}", refused.said());
    let said = "already; take another --seed";
    assert!(refused.said().contains(said), "{}", refused.said());
    assert!(taken.is_clean(), "{}", taken.said());
    assert_eq!(std::fs::read_to_string(&totals).expect("JSON"), text);
}
