//! Tests of the command: bench.

use serde_json::Value;

use crate::support::Punctual;

fn fields(document: &Value) -> Vec<&str> {
    let object = document.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

/// What is compared is the shape; the numbers are a machine's.
fn measured(args: &[&str]) -> Value {
    let punctual = Punctual::new();
    let document = punctual.one(&[&["bench"], args].concat());
    let left: Vec<_> = std::fs::read_dir(punctual.path("."))
        .expect("a directory")
        .collect();
    assert!(left.is_empty(), "the bench leaves {left:?}");
    document
}

#[test]
fn lifecycle_has_its_fields() {
    let document = measured(&[
        "lifecycle",
        "--jobs",
        "500",
        "--batch",
        "50",
        "--payload-bytes",
        "10",
    ]);
    assert_eq!(
        fields(&document),
        [
            "client_cpu_us_per_job",
            "drain_per_s",
            "engine",
            "enqueue_per_s",
            "jobs",
            "store_cpu_us_per_job"
        ]
    );
    assert_eq!(document["jobs"], 500);
    assert!(document["drain_per_s"].as_f64() > Some(0.0));
}

#[test]
fn lateness_has_its_fields_and_nothing_is_early_lost_or_doubled() {
    let document = measured(&["lateness", "--rate", "200", "--seconds", "1"]);
    assert_eq!(
        fields(&document),
        ["duplicated", "early", "jobs", "lateness_ms", "lost"]
    );
    assert_eq!(
        fields(&document["lateness_ms"]),
        ["max", "p50", "p99", "p999"]
    );
    assert_eq!(document["jobs"], 200);
    for zero in ["early", "lost", "duplicated"] {
        assert_eq!(document[zero], 0, "{document}");
    }
}

#[test]
fn footprint_has_its_fields() {
    let document = measured(&["footprint", "--jobs", "2000", "--payload-bytes", "100"]);
    assert_eq!(fields(&document), ["bytes_per_job", "jobs"]);
    assert!(
        document["bytes_per_job"].as_f64() > Some(100.0),
        "{document}"
    );
}
