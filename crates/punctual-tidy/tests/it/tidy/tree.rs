//! The repository's own text files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Path from the root, with `/`, and text of each file.
pub(super) struct Tree(BTreeMap<String, String>);

/// What is not ours, or not text that we write.
const PASSED_OVER: [&str; 6] = [
    ".git",
    "target",
    "node_modules",
    "punctual-data",
    "punctual-demo",
    "proptest-regressions",
];
const READ: [&str; 11] = [
    "rs", "md", "toml", "lock", "lua", "ts", "tsx", "sh", "jsonl", "mjs", "py",
];
const READ_WITHOUT_EXTENSION: [&str; 4] = ["justfile", "scripts/test", ".ci/run", "scripts/bench"];

impl Tree {
    /// Everything under the workspace root.
    pub(super) fn of_repository() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = BTreeMap::new();
        read_into(&mut files, &root, "");
        assert!(
            files.contains_key("Cargo.lock"),
            "{} is not the workspace",
            root.display()
        );
        Self(files)
    }

    /// The same with this text at the end of one file, which may be new.
    pub(super) fn with(mut self, path: &str, text: &str) -> Self {
        let file = self.0.entry(path.to_owned()).or_default();
        if !file.is_empty() && !file.ends_with('\n') {
            file.push('\n');
        }
        file.push_str(text);
        self
    }

    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Whether there is a file or folder of that name.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.0.contains_key(path)
            || self.0.keys().any(|file| file.starts_with(&folder))
            || Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .join(path)
                .exists()
    }

    /// Files whose path starts so and ends so.
    pub(super) fn files(&self, start: &str, end: &str) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter(move |(path, _)| path.starts_with(start) && path.ends_with(end))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

fn read_into(files: &mut BTreeMap<String, String>, folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).expect("a folder of the repository is readable") {
        let entry = entry.expect("a folder of the repository is readable");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if PASSED_OVER.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            read_into(files, &entry.path(), &format!("{path}/"));
        } else if is_read(&path) {
            let text = fs::read(entry.path()).expect("a file of the repository is readable");
            files.insert(path, String::from_utf8_lossy(&text).into_owned());
        }
    }
}

fn is_read(path: &str) -> bool {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| READ.contains(&extension))
        || READ_WITHOUT_EXTENSION.contains(&path)
}
