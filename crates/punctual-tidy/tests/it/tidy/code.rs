//! Rules about source files.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;

/// Modules of `punctual`, and what they must not import, by module or by the type that it gives
/// to the crate's root. What is left out of a row lies below it.
const LAYERS: [(&[&str], &[&str]); 4] = [
    (
        &["error", "job", "retry", "schedule", "time"],
        &[
            "engine",
            "machine",
            "memory",
            "queue",
            "worker",
            "conformance",
        ],
    ),
    (
        &["engine"],
        &["machine", "memory", "queue", "worker", "conformance"],
    ),
    (&["machine", "memory"], &["queue", "worker", "conformance"]),
    (&["queue", "worker"], &["machine", "memory", "conformance"]),
];
const ROOT_TYPES: [(&str, &str); 4] = [
    ("MemoryEngine", "memory"),
    ("Queue", "queue"),
    ("Worker", "worker"),
    ("Engine", "engine"),
];

/// Inside `punctual`, imports point downwards; the machine takes only the wheel from `memory`.
pub(super) fn layers(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, number, line) in code(tree, "crates/punctual/src/") {
        let module = module_of(path);
        let mut above: Vec<&str> = LAYERS
            .iter()
            .filter(|(modules, _)| modules.contains(&module))
            .flat_map(|(_, above)| above.iter().copied())
            .collect();
        if module == "machine" && !line.contains("crate::memory::wheel") {
            above.push("memory");
        }
        for import in imports_of(line) {
            let named = ROOT_TYPES.iter().find(|(name, _)| *name == import);
            let import = named.map_or(import, |(_, module)| module);
            if above.contains(&import) {
                complaints.push(format!(
                    "{path}:{number}: {module} must not know {import}: {}",
                    line.trim()
                ));
            }
        }
    }
    complaints
}

/// Modules of `punctual-redis`, each above those before it.
const REDIS_LAYERS: [&str; 7] = [
    "wire",
    "transport",
    "policy",
    "servers",
    "session",
    "wakeup",
    "engine",
];

/// Inside `punctual-redis`, the forms of calls know no connection, and connections no session.
pub(super) fn redis_layers(tree: &Tree) -> Vec<String> {
    const REDIS: &str = "crates/punctual-redis/src/";
    let mut complaints = Vec::new();
    for (path, number, line) in code(tree, REDIS).filter(|(path, ..)| !is_test(path)) {
        let inside = path.trim_start_matches(REDIS);
        let module = inside.split(['/', '.']).next().unwrap_or(inside);
        let layer = |name: &str| REDIS_LAYERS.iter().position(|layer| *layer == name);
        let Some(at) = layer(module) else { continue };
        for import in imports_of(line) {
            if layer(import).is_some_and(|above| above > at) {
                complaints.push(format!(
                    "{path}:{number}: {module} must not know {import}: {}",
                    line.trim()
                ));
            }
        }
    }
    complaints
}

/// What a file of the gateway names of the crate's root.
fn gateway_imports(path: &str, text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let mut code: String = lines.flat_map(|line| [line.trim(), " "]).collect();
    if !path.trim_start_matches(GATEWAY).contains('/') {
        // In a file beside the root, `super` is the root.
        code = code.replace("super::", "crate::");
    }
    let named = imports_of(&code);
    named.into_iter().map(str::to_owned).collect()
}

const GATEWAY: &str = "crates/punctual-gateway/src/";

/// No two modules of the gateway depend on each other, directly or through others.
pub(super) fn circles(tree: &Tree) -> Vec<String> {
    let module = |path: &str| {
        let inside = path.trim_start_matches(GATEWAY);
        inside.split(['/', '.']).next().unwrap_or(inside).to_owned()
    };
    let files = tree.files(GATEWAY, ".rs").filter(|(path, _)| {
        !is_test(path) && !path.ends_with("lib.rs") && !path.ends_with("test_transport.rs")
    });
    let files: Vec<_> = files.collect();
    let modules: BTreeSet<String> = files.iter().map(|(path, _)| module(path)).collect();
    let mut below: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in &files {
        let named = gateway_imports(path, text).into_iter();
        let named = named.filter(|name| modules.contains(name) && *name != module(path));
        below.entry(module(path)).or_default().extend(named);
    }
    // Whatever lies below a module, however deep.
    while let Some((module, more)) = below.iter().find_map(|(module, names)| {
        let deeper = names.iter().flat_map(|name| &below[name]);
        let more: BTreeSet<String> = deeper
            .filter(|one| !names.contains(*one))
            .cloned()
            .collect();
        (!more.is_empty()).then(|| (module.clone(), more))
    }) {
        below.entry(module).or_default().extend(more);
    }
    let circle = below
        .iter()
        .filter(|(module, names)| names.contains(*module));
    circle
        .map(|(module, _)| format!("{GATEWAY}{module}.rs: it depends on itself through others"))
        .collect()
}

/// Modules that a user of the library sees: its documentation starts with them.
pub(super) fn public_modules(tree: &Tree) -> Vec<String> {
    const ROOT: &str = "crates/punctual/src/lib.rs";
    const MOST: usize = 9;
    let text = tree.get(ROOT).unwrap_or_default();
    let mut seen = Vec::new();
    let (mut is_hidden, mut is_optional) = (false, false);
    for line in text.lines() {
        match line.strip_prefix("pub mod ") {
            _ if line.starts_with("#[doc(hidden)]") => is_hidden = true,
            _ if line.starts_with("#[cfg(feature") => is_optional = true,
            Some(name) if !is_hidden && !is_optional => seen.push(name.trim_end_matches(';')),
            _ => {}
        }
        if !line.starts_with("#[") {
            (is_hidden, is_optional) = (false, false);
        }
    }
    let is_few = seen.len() <= MOST;
    let complaint = || format!("{ROOT}: public modules {seen:?}; {MOST} are the most, hide one");
    (!is_few).then(complaint).into_iter().collect()
}

/// One deterministic machine: engine time comes with each call, answers go back with it.
pub(super) fn machine(tree: &Tree) -> Vec<String> {
    // Signals are how engines wake those who wait; their waiting is not part of a step.
    let waits = |path: &str| path.contains("machine/signals");
    let banned = [
        "std::fs",
        "std::net",
        "std::thread",
        "Clock",
        "Instant",
        "SystemTime",
        "JobId::new(",
    ];
    let banned_outside_signals = ["tokio", "async ", ".await"];
    let mut found = banned_in(tree, "crates/punctual/src/machine", &banned, waits);
    found.extend(banned_in(
        tree,
        "crates/punctual/src/machine",
        &banned_outside_signals,
        waits,
    ));
    let banned_in_signals = &banned[..3];
    found.extend(banned_in(
        tree,
        "crates/punctual/src/machine/signals",
        banned_in_signals,
        |_| false,
    ));
    found
}

/// The wheel: no clock, no async, no lock, nothing of the model.
pub(super) fn wheel(tree: &Tree) -> Vec<String> {
    let banned = [
        "std::time",
        "std::sync",
        "std::thread",
        "tokio",
        "async ",
        "crate::",
    ];
    let mut found = banned_in(tree, "crates/punctual/src/memory/wheel.rs", &banned, |_| {
        false
    });
    found.extend(banned_in(
        tree,
        "crates/punctual/src/memory/wheel/",
        &banned,
        |_| false,
    ));
    found
}

/// Calendars are arithmetic: the same spec and instant give the same answer on every host.
pub(super) fn calendars(tree: &Tree) -> Vec<String> {
    let banned = [
        "std::fs",
        "std::net",
        "std::thread",
        "std::env",
        " Clock,",
        "{Clock,",
        "dyn Clock",
        "time::Clock",
        "SystemClock",
        "SystemTime",
        "::now()",
        "TimeZone::system",
        "TimeZoneDatabase::from_env",
        "tokio",
        "async ",
    ];
    banned_in(tree, "crates/punctual/src/schedule", &banned, |_| false)
}

/// Clippy forbids clocks; here nobody may allow them again, and tests may not sleep either.
pub(super) fn clocks(tree: &Tree) -> Vec<String> {
    let banned = [
        "Instant::now",
        "SystemTime::now",
        "thread::sleep",
        "tokio::time::sleep",
        "tokio::time::timeout",
        "tokio::time::interval",
        "tokio::time::Instant",
        "clippy::disallowed_methods",
    ];
    let exempt = |path: &str| {
        path == "crates/punctual/src/time.rs"
            || path.starts_with("crates/punctual/src/time/")
            || path == "crates/punctual/src/job/id.rs"
            || is_tidy(path)
    };
    let mut found = banned_in(tree, "crates/", &banned, exempt);
    found.extend(banned_in(tree, "examples/", &banned, exempt));
    found
}

/// An address becomes an engine in one place. What follows `redis://` is read where every client of
/// such servers reads it.
pub(super) fn addresses(tree: &Tree) -> Vec<String> {
    let banned = [
        "\"memory:",
        "\"file:",
        "redis://",
        "rediss://",
        "redis+",
        "amqp://",
        "kafka://",
    ];
    banned_in(tree, "crates/", &banned, |path| {
        path.starts_with("crates/punctual-cli/src/connect")
            // It opens engines beside the command, so that processes of a run find them.
            || path == "crates/punctual-torture/src/address.rs"
            || path.starts_with("crates/punctual-redis/src/transport/address")
            || path.starts_with("crates/punctual-redis/src/testing")
            // Addresses of sources and sinks, which are no engines.
            || path.starts_with("crates/punctual-relay/src/redis/")
            || path.starts_with("crates/punctual-relay/src/migrate/")
            || path.starts_with("crates/punctual-brokers/src/")
            || path.starts_with("crates/punctual-cli/src/commands/relay/")
            || path.starts_with("crates/punctual-cli/src/commands/migrate")
            || path.starts_with("crates/punctual-cli/src/commands/serve/relays/")
            || is_test(path)
    })
}

/// The reference model would repeat the machine's mistakes if it used the machine.
pub(super) fn independent_model(tree: &Tree) -> Vec<String> {
    banned_in(
        tree,
        "crates/punctual/src/conformance",
        &["crate::machine", "super::machine"],
        |_| false,
    )
}

const LINES_MAX: usize = 600;

/// A file is read in one go.
pub(super) fn sizes(tree: &Tree) -> Vec<String> {
    [".rs", ".lua", ".ts", ".tsx"]
        .into_iter()
        .flat_map(|end| tree.files("", end))
        // The types of every route, which nobody writes.
        .filter(|(path, _)| !path.ends_with(".gen.ts"))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| {
            format!("{path}: {lines} lines; split it by role, {LINES_MAX} are the most")
        })
        .collect()
}

/// What says that something is not done. In halves, so that this file passes.
pub(super) fn leftover_markers() -> [String; 7] {
    [
        ("to", "do!("),
        ("unim", "plemented!("),
        ("#[ig", "nore"),
        ("FIX", "ME"),
        ("TO", "DO"),
        ("XX", "X"),
        ("db", "g!("),
    ]
    .map(|(start, end)| format!("{start}{end}"))
}

/// Nothing is half done, and no test is switched off.
pub(super) fn leftovers(tree: &Tree) -> Vec<String> {
    let markers = leftover_markers();
    let mut complaints = Vec::new();
    for end in [
        ".rs",
        ".md",
        ".lua",
        ".toml",
        ".ts",
        ".tsx",
        "scripts/test",
        ".ci/run",
        "justfile",
    ] {
        for (path, text) in tree.files("", end) {
            for (number, line) in numbered(text) {
                for marker in markers
                    .iter()
                    .filter(|marker| line.contains(marker.as_str()))
                {
                    complaints.push(format!("{path}:{number}: {marker} is left over"));
                }
            }
        }
    }
    complaints
}

/// A test is named as the fact it proves; a crate links one integration binary.
pub(super) fn tests(tree: &Tree) -> Vec<String> {
    let mut found = banned_in(tree, "crates/", &["fn test_"], is_tidy);
    for (path, _) in tree.files("crates/", ".rs") {
        let parts: Vec<&str> = path.split('/').collect();
        if parts.len() == 4 && parts[2] == "tests" {
            found.push(format!(
                "{path}: a second test binary; make it a module of tests/it/main.rs"
            ));
        }
    }
    found
}

/// Lines of Rust that are no comment, under a path.
fn code<'a>(tree: &'a Tree, start: &str) -> impl Iterator<Item = (&'a str, usize, &'a str)> {
    let files: Vec<_> = tree.files(start, ".rs").collect();
    files.into_iter().flat_map(|(path, text)| {
        numbered(text)
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(move |(number, line)| (path, number, line))
    })
}

fn banned_in(
    tree: &Tree,
    start: &str,
    banned: &[&str],
    exempt: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, number, line) in code(tree, start).filter(|(path, ..)| !exempt(path)) {
        for word in banned.iter().filter(|word| line.contains(**word)) {
            complaints.push(format!(
                "{path}:{number}: {word} has no place here: {}",
                line.trim()
            ));
        }
    }
    complaints
}

/// The first name after each `crate::`; of an import in braces, each of its names.
fn imports_of(line: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, path) in line.match_indices("crate::") {
        let rest = &line[at + path.len()..];
        match rest.strip_prefix('{') {
            None => names.push(first_name(rest)),
            Some(list) => names.extend(list.split(',').map(|item| first_name(item.trim()))),
        }
    }
    names
}

fn first_name(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The top module that a file of `punctual` belongs to.
fn module_of(path: &str) -> &str {
    let inside = path.trim_start_matches("crates/punctual/src/");
    inside.split(['/', '.']).next().unwrap_or(inside)
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// These files name what they forbid.
fn is_tidy(path: &str) -> bool {
    path.contains("tests/it/tidy")
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
}
