//! The recipes of the page that need nothing but the command run as they stand there.

use std::path::Path;
use std::process::Command;

use crate::support::Punctual;

/// The first block of commands under a heading of the page.
fn commands(heading: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let (_, part) = page
        .split_once(&format!("\n## {heading}"))
        .expect("the heading");
    let (_, part) = part.split_once("```sh\n").expect("commands");
    let (commands, _) = part.split_once("```").expect("an end");
    commands.to_owned()
}

/// Runs the commands of a recipe in a fresh directory.
fn run(heading: &str) -> Punctual {
    let punctual = Punctual::new();
    let built = Path::new(env!("CARGO_BIN_EXE_punctual")).parent();
    let built = built.expect("a directory").to_str().expect("a path");
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new("sh")
        .args(["-euc", &commands(heading)])
        .current_dir(punctual.path("."))
        .env("PATH", format!("{built}:{path}"))
        .env_remove("PUNCTUAL_ENGINE")
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{heading}: {output:?}");
    punctual
}

#[test]
fn a_webhook_is_waited_for() {
    let punctual = run("Wait for a webhook");
    assert_eq!(
        punctual.state("0192f3a4-5b6c-7d8e-9fa0-b1c2d3e4f507"),
        "ready"
    );
}

#[test]
fn an_order_is_a_flow() {
    let punctual = run("Fulfil an order");
    let order = punctual.one(&["flows", "show", "order-7"]);
    assert_eq!(
        (&order["state"], &order["counts"]["steps"]),
        (&"running".into(), &5.into())
    );
}

#[test]
fn a_message_has_its_number() {
    let punctual = run("Messages out of order");
    assert_eq!(
        punctual.state("0192f3a4-5b6c-7d8e-9fa0-b1c2d3e40007"),
        "ready"
    );
}

#[test]
fn a_batch_of_ten_thousand_is_sent() {
    let punctual = run("A nightly batch");
    let batch = punctual.one(&["flows", "show", "statements-2026-11-27"]);
    assert_eq!(batch["counts"]["steps"], 10_000);
}
