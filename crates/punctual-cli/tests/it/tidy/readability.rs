//! Rules for readers of code: first lines, names of tests.

use super::tree::Tree;

const TEST_NAME_MAX: usize = 70;

/// The first line of every source file says what the file is for.
pub(super) fn first_lines(tree: &Tree) -> Vec<String> {
    let kinds = [".rs", ".lua", ".ts", ".tsx"];
    let files = kinds.iter().flat_map(|kind| tree.files("", kind));
    let begins_well = |text: &str| {
        let line = text.lines().next().unwrap_or_default();
        ["//", "--", "/*"].iter().any(|mark| line.starts_with(mark))
    };
    files
        .filter(|(path, text)| !path.contains("/gen/") && !begins_well(text))
        .map(|(path, _)| format!("{path}: its first line does not say what it is for"))
        .collect()
}

/// The name of a test is read at a glance.
pub(super) fn test_names(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files("", ".rs") {
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            is_test |= line.starts_with("#[test") || line.starts_with("#[tokio::test");
            let (_, name) = line.split_once("fn ").unwrap_or_default();
            let name = name.split('(').next().unwrap_or_default();
            if is_test && !name.is_empty() {
                if name.len() > TEST_NAME_MAX {
                    complaints.push(format!(
                        "{path}: {name} has {} characters; {TEST_NAME_MAX} are the most",
                        name.len()
                    ));
                }
                is_test = false;
            }
        }
    }
    complaints
}
