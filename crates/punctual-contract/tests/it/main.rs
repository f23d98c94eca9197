//! What is generated from the tables is current.

mod metrics;
mod verbs;

use std::fs;
use std::path::{Path, PathBuf};

use punctual_contract::{COMMAND, output};

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn generated_copies_are_current() {
    let stale = output::stale(root()).expect("readable files");
    let paths: Vec<&str> = stale.iter().map(|(path, _)| *path).collect();
    assert!(
        paths.is_empty(),
        "{paths:?} differ from the tables; run `{COMMAND}`"
    );
}

/// A folder with a copy of every file that has something generated, removed at the end.
struct Copies(PathBuf);

impl Copies {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        for output in output::all() {
            let to = folder.join(output.path);
            fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            fs::copy(root().join(output.path), to).expect("copied");
        }
        Self(folder)
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_copy_that_was_changed_by_hand_is_found() {
    let copies = Copies::new("changed");
    let changes = [
        (
            "crates/punctual-redis/functions/CONSTANTS",
            "CLAIM_WOKEN = 4",
        ),
        ("crates/punctual-redis/src/wire/numbers.rs", "u8 = 253"),
        ("docs/wire-protocol.md", "ends of retention"),
        ("docs/http-api.md", "`lease_lost`"),
        ("docs/job-lifecycle.md", "takes due jobs under leases"),
    ];
    for (path, part) in changes {
        let at = copies.0.join(path);
        let text = fs::read_to_string(&at).expect("readable");
        assert!(text.contains(part), "{path} has {part:?}");
        fs::write(&at, text.replace(part, "something else")).expect("written");
        let stale = output::stale(&copies.0).expect("readable files");
        let (found, renewed) = stale.first().expect("found");
        assert_eq!(*found, path);
        fs::write(&at, renewed).expect("written");
        assert!(output::stale(&copies.0).expect("readable files").is_empty());
    }
}

#[test]
fn a_page_without_a_place_for_its_table_says_so() {
    let copies = Copies::new("no-place");
    let page = copies.0.join("docs/engines/redis.md");
    let text = fs::read_to_string(&page).expect("readable");
    fs::write(&page, text.replace("<!-- contract: keys-by-name -->", "")).expect("written");
    let error = output::stale(&copies.0).expect_err("no place");
    assert!(error.to_string().contains("keys-by-name"), "{error}");
}
