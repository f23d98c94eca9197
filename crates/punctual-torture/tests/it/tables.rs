use crate::support::said;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_tables_of_the_pages_are_those_of_the_sums() {
    let copies = tempfile::tempdir().expect("a directory");
    for page in ["docs/reliability.md", "README.md", "README.zh-CN.md"] {
        let text = std::fs::read_to_string(format!("{ROOT}/{page}")).expect("the page is there");
        let copy = copies.path().join("page.md");
        std::fs::write(&copy, &text).expect("a copy");
        let sums = format!("{}/sums.json", env!("CARGO_MANIFEST_DIR"));
        said(&["tables", "--sums", &sums, &copy.to_string_lossy()]);
        let filled = std::fs::read_to_string(&copy).expect("the copy is there");
        assert_eq!(
            filled, text,
            "{page} is not what `punctual-torture tables` writes"
        );
        assert!(page != "docs/reliability.md" || text.contains("<!-- torture -->"));
    }
}

/// What the README says of these sums, and whoever adds a run to them must keep.
#[test]
fn the_sums_are_large_and_nothing_promised_was_broken_but_what_the_page_tells_of() {
    let text = include_str!("../../sums.json");
    let sums: serde_json::Value = serde_json::from_str(text).expect("JSON");
    let runs = sums["runs"].as_array().expect("runs");
    let (mut acknowledged, mut faults, mut broken) = (0, 0, Vec::new());
    for run in runs {
        let tally = &run["tally"];
        for never in ["lost", "doubled", "early", "stale_accepted"] {
            assert_eq!(tally[never], 0, "{never}: {run}");
        }
        acknowledged += tally["acknowledged"].as_u64().expect("a number");
        let of_run = tally["faults"].as_object().expect("by fault").values();
        faults += of_run.filter_map(serde_json::Value::as_u64).sum::<u64>();
        for (verdict, counts) in run["verdicts"].as_object().expect("by invariant") {
            if counts[1] != 0 {
                let (cell, seed) = (&run["cell"], &run["seed"]);
                let cell = cell.as_str().expect("a name");
                let verdict = verdict.split(' ').next().unwrap_or_default();
                broken.push(format!("{cell} {seed} {verdict}"));
            }
        }
    }
    broken.sort();
    let told = [
        "embedded-disk 303 I2",
        "embedded-disk 303 I7",
        "redis-always 402 I9",
        "redis-http 701 I1",
    ];
    assert_eq!(broken, told);
    assert!(acknowledged >= 1_000_000, "{acknowledged} jobs");
    assert!(faults >= 5_000, "{faults} faults");
}
