//! Rules about manifests, the lock file and scripts.

use super::tree::Tree;

/// Which crates of ours each crate may import: `None` for those that may see everything.
const MAP: [(&str, Option<&[&str]>); 19] = [
    // Tables of names and numbers, with which tests compare the code.
    ("punctual-contract", Some(&[])),
    ("punctual", Some(&["punctual-contract"])),
    ("punctual-embedded", Some(&["punctual"])),
    ("punctual-redis", Some(&["punctual"])),
    // Sources and sinks know no engine, and what an application enqueues knows no relay.
    ("punctual-relay", Some(&["punctual", "punctual-redis"])),
    ("punctual-outbox", Some(&["punctual"])),
    (
        "punctual-brokers",
        // Two for its drills, which are clients of the engines that they kill.
        Some(&[
            "punctual",
            "punctual-client",
            "punctual-gateway",
            "punctual-outbox",
            "punctual-redis",
            "punctual-relay",
        ]),
    ),
    ("punctual-push", Some(&["punctual"])),
    (
        "punctual-gateway",
        Some(&["punctual", "punctual-contract", "punctual-push"]),
    ),
    ("punctual-client", Some(&["punctual"])),
    // Joins the process that holds a directory: engines do not know gateways.
    (
        "punctual-directory",
        Some(&[
            "punctual",
            "punctual-client",
            "punctual-embedded",
            "punctual-gateway",
        ]),
    ),
    ("punctual-cli", None),
    ("punctual-torture", None),
    ("punctual-fuzz", None),
    ("punctual-model", None),
    ("punctual-tidy", Some(&["punctual"])),
    // Its tests cut the power of engines; what it preloads knows nobody.
    ("punctual-syncspy", None),
    ("punctual-syncspy-shim", Some(&[])),
    ("punctual-bench", None),
];

/// Engines never know each other, the gateway never knows which engine it serves. A crate may name
/// itself, to test with features on.
pub(super) fn imports(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, manifest) in manifests(tree) {
        let name = path
            .trim_start_matches("crates/")
            .trim_end_matches("/Cargo.toml");
        let Some((_, allowed)) = MAP.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!(
                "{path}: {name} is not on the map; say here what it may import"
            ));
            continue;
        };
        let Some(allowed) = allowed else { continue };
        for import in
            our_imports(manifest).filter(|import| *import != name && !allowed.contains(import))
        {
            complaints.push(format!("{path}: {name} must not import {import}"));
        }
    }
    complaints
}

/// Names of our crates in any of a manifest's tables of dependencies.
fn our_imports(manifest: &str) -> impl Iterator<Item = &str> {
    let mut within = false;
    manifest.lines().filter_map(move |line| {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            within = table.ends_with("dependencies");
            return table
                .split_once("dependencies.")
                .map(|(_, name)| name)
                .filter(|name| is_ours(name));
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        (within && is_ours(name)).then_some(name)
    })
}

fn is_ours(name: &str) -> bool {
    name == "punctual" || name.starts_with("punctual-")
}

/// Stands in for functions of the C library, so it cannot be safe code; its manifest has the
/// reason.
const UNSAFE: &str = "crates/punctual-syncspy-shim/Cargo.toml";

/// Lints, version, edition and licence come from the workspace; a crate says what it is.
pub(super) fn habits(tree: &Tree) -> Vec<String> {
    let needed = [
        "[lints]\nworkspace = true",
        "description = \"",
        "version.workspace = true",
        "edition.workspace = true",
        "rust-version.workspace = true",
        "license.workspace = true",
    ];
    let mut complaints = Vec::new();
    for (path, manifest) in manifests(tree) {
        let lints = |line: &str| line.starts_with("[lints]") && path == UNSAFE;
        for line in (needed.iter()).filter(|line| !manifest.contains(**line) && !lints(line)) {
            complaints.push(format!("{path}: has no {line:?}"));
        }
    }
    complaints
}

/// One TLS stack and one provider of its cryptography, neither of which needs a C library.
pub(super) fn lock(tree: &Tree) -> Vec<String> {
    let lock = tree.get("Cargo.lock").unwrap_or_default();
    ["openssl-sys", "native-tls", "aws-lc-sys"]
        .into_iter()
        .filter(|name| lock.contains(&format!("name = \"{name}\"\n")))
        .map(|name| format!("Cargo.lock: {name} came in; find a feature that leaves it out: cargo tree -i {name}"))
        .collect()
}

/// What passes on a machine is what a reader of the README or of CONTRIBUTING can type.
pub(super) fn ci_runs_readme(tree: &Tree) -> Vec<String> {
    let pages = ["README.md", "CONTRIBUTING.md"].map(|page| tree.get(page).unwrap_or_default());
    let commands = tree.get(".ci/run").unwrap_or_default().lines();
    commands
        // Where its output goes, and what runs beside it, is no part of a command.
        .map(|line| {
            line.split(['>', '|', '&'])
                .next()
                .unwrap_or_default()
                .trim()
        })
        .filter(|line| line.starts_with("cargo ") || line.starts_with("scripts/"))
        .filter(|line| !pages.iter().any(|page| page.contains(line)))
        .map(|line| format!(".ci/run: no page for people names {line:?}"))
        .collect()
}

/// `.ci/run` waits for a line of the server's banner and takes two others apart: they are there.
pub(super) fn ci_reads_the_banner(tree: &Tree) -> Vec<String> {
    const BANNER: &str = "crates/punctual-cli/src/commands/serve.rs";
    let banner = tree.get(BANNER).unwrap_or_default();
    let script = tree.get(".ci/run").unwrap_or_default();
    let awaited = script.split("grep -q '").skip(1);
    let awaited = awaited.filter_map(|rest| rest.split('\'').next());
    let taken = script.split("sed -n 's/^ *").skip(1);
    let taken = taken.filter_map(|rest| rest.split(' ').next());
    awaited
        .map(|line| (line, format!("out.line(\"{line}")))
        .chain(taken.map(|word| (word, format!("\"  {word} "))))
        .filter(|(_, printed)| !banner.contains(printed.as_str()))
        .map(|(named, _)| format!(".ci/run: {BANNER} prints no line {named:?}"))
        .collect()
}

fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.files("crates/", "/Cargo.toml")
}
