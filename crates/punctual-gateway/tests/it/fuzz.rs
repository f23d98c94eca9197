//! Tests of the gateway over HTTP: fuzz.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{ADMIN, python, serve_in_real_time};

/// Drawn requests of each sort to each route.
const EXAMPLES: &str = "2";
/// The same of the deep tier, drawn anew in each run, beside those that cover each bound and type:
/// some thousands in all.
const MORE_EXAMPLES: &str = "20";

const UNASKED: &str = "positive_data_acceptance,ignored_auth,missing_required_header";

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemathesis.toml");

/// schemathesis makes requests from `/openapi.json`, good and bad ones, and holds what comes back
/// against it: no 500, no status, type or shape that is not described, no bad request taken.
/// Which good requests may be refused is written in words, not in the description; that outsiders
/// are refused has tests of its own, for here they would soon be asked to wait.
#[tokio::test(flavor = "multi_thread")]
async fn the_description_holds_whatever_is_sent() {
    let drawn = ["--max-examples", EXAMPLES, "--generation-deterministic"];
    holds("examples,fuzzing", &drawn).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_holds_on_more_seeds() {
    let drawn = ["--max-examples", MORE_EXAMPLES];
    holds("examples,coverage,fuzzing", &drawn).await;
}

async fn holds(phases: &str, drawn: &[&str]) {
    let under = serve_in_real_time().await;
    let url = format!("http://{}/openapi.json", under.address);
    let token = format!("Authorization: Bearer {ADMIN}");
    let here = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut fuzzer = Command::new(python("schemathesis"));
    fuzzer
        .current_dir(here)
        .args([
            "-c",
            "from schemathesis.cli import schemathesis; schemathesis()",
        ])
        .args(["--config-file", CONFIG])
        .args(["run", &url, "--header", &token])
        .args(["--phases", phases])
        .args(drawn)
        .arg("--no-color")
        .args(["--exclude-checks", UNASKED])
        // A WebSocket, and a stream of lines: neither is for it.
        .args(["--exclude-path", "/v1/events", "--exclude-path", "/v1/bulk"])
        .args(["--warnings", "off"])
        .stdin(Stdio::null());
    let said = tokio::task::spawn_blocking(move || fuzzer.output().expect("it starts"));
    let said = said.await.expect("no panic");
    let text = String::from_utf8_lossy(&said.stdout);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{text}\n{errors}");
    assert!(
        text.contains("Tested: 69"),
        "not every route was asked: {text}"
    );
}
