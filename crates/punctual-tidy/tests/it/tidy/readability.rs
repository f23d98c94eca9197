//! Rules for readers of code: first lines, widths of comments, lengths of functions, test names.

use super::tree::Tree;

const COMMENT_COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 100;
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

/// A comment ends where code does.
pub(super) fn comment_widths(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (kind, mark) in [(".rs", "//"), (".lua", "--")] {
        for (path, text) in tree.files("", kind) {
            for (number, line) in text.lines().enumerate() {
                let columns = line.chars().count();
                let is_comment = line.trim_start().starts_with(mark);
                if is_comment && columns > COMMENT_COLUMNS_MAX && !is_unbreakable(line) {
                    complaints.push(format!(
                        "{path}:{}: {columns} columns; {COMMENT_COLUMNS_MAX} are the most",
                        number + 1
                    ));
                }
            }
        }
    }
    complaints
}

/// An address or a row of a table cannot be broken; nor can code, such as what only tests load.
fn is_unbreakable(line: &str) -> bool {
    let code = ["--TEST", "--SMALL", "--exec", "--http", "/// #"];
    line.contains("://")
        || line.contains("| ")
        || code.iter().any(|mark| line.trim_start().starts_with(mark))
}

/// A function is read in one go, in products, tests, examples and benches.
pub(super) fn function_lengths(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files("", ".rs") {
        for (number, name, lines) in functions(text) {
            if lines > FUNCTION_LINES_MAX {
                complaints.push(format!(
                    "{path}:{number}: {name} has {lines} lines; split it by step, \
                     {FUNCTION_LINES_MAX} are the most"
                ));
            }
        }
    }
    complaints
}

/// Number of the first line, name and count of lines of each function with a body; rustfmt ends it
/// with a brace below its first letter.
fn functions(text: &str) -> Vec<(usize, &str, usize)> {
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some((before, after)) = code.split_once("fn ") else {
            continue;
        };
        let is_function = before.split_whitespace().all(is_qualifier);
        if !is_function || code.ends_with(['}', ';']) {
            continue;
        }
        // A trait declares it without a body.
        let signature = lines[index..]
            .iter()
            .find(|line| line.ends_with(['{', ';']));
        if signature.is_none_or(|line| line.ends_with(';')) {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let is_end = |line: &&str| line.strip_prefix(indent) == Some("}");
        let Some(end) = lines[index..].iter().position(is_end) else {
            continue;
        };
        let name = after.split(['(', '<']).next().unwrap_or_default();
        found.push((index + 1, name, end + 1));
    }
    found
}

fn is_qualifier(word: &str) -> bool {
    word.starts_with("pub")
        || ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
        || word.ends_with(')')
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

/// Public structs of the library and the gateway that users fill in or read: one more field breaks
/// no program.
/// What only proofs use may grow otherwise.
pub(super) fn open_structs(tree: &Tree) -> Vec<String> {
    let of_users = |path: &str| {
        let inner = ["conformance", "testing", "machine", "/tests"];
        !inner.iter().any(|part| path.contains(part))
    };
    let mut complaints = Vec::new();
    let sources = ["crates/punctual/src/", "crates/punctual-gateway/src/"];
    let files = sources.iter().flat_map(|of| tree.files(of, ".rs"));
    for (path, text) in files.filter(|(path, _)| of_users(path)) {
        for (at, _) in text.match_indices("\npub struct ") {
            let (above, item) = (&text[..at], &text[at + 1..]);
            let name = item["pub struct ".len()..]
                .split([' ', '<', '(', ';'])
                .next();
            let body = item.split_once("\n}").map_or("", |(body, _)| body);
            let has_fields = item.lines().next().is_some_and(|line| line.ends_with('{'))
                && body.lines().any(|line| line.starts_with("    pub "));
            let of_item = above.rsplit_once("\n\n").map_or(above, |(_, last)| last);
            if has_fields && !of_item.contains("#[non_exhaustive]") {
                let name = name.unwrap_or_default();
                complaints.push(format!(
                    "{path}: {name} is not non_exhaustive; add it, and what makes one"
                ));
            }
        }
    }
    complaints
}
