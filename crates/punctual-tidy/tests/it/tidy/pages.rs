//! Rules about pages, and about the words of pages and code.

use std::collections::BTreeSet;
use std::fmt::Write;

use punctual::job::TRANSITIONS;

use super::tree::Tree;

/// Words with another word in their place. A page may name *visibility timeout*, the word of SQS
/// for a lease: people search for it.
const SYNONYMS: [(&str, &str); 6] = [
    ("dequeue", "claim"),
    ("requeue", "retry, release or redrive"),
    ("dead-letter queue", "dead letter"),
    ("deduplication key", "unique key"),
    ("job type", "kind"),
    ("run_at:", "due"),
];

/// Words that stood here once and that no other system uses, with the word in their place.
pub(super) const REMOVED: [(&str, &str); 26] = [
    ("bell", "wakeup"),
    ("bells", "wakeups"),
    ("doorbell", "wakeup"),
    ("rung", "woken"),
    ("sheaf", "bundle"),
    ("sheaves", "bundles"),
    ("keeper", "maintenance"),
    ("vitals", "heartbeat"),
    ("untold", "log throttle"),
    ("porter", "connection limit"),
    ("unbegun", "uninitialised"),
    ("struck", "acknowledged"),
    ("planted", "injected"),
    ("torn_end", "truncated AOF"),
    ("horizon", "hot window"),
    ("alarm", "precise sleep, or wakeup leader"),
    ("alarms", "wakeup coalescing"),
    ("doors", "listener"),
    ("ears", "listener"),
    ("felt", "measured"),
    ("meters", "metrics"),
    ("pulse", "heartbeat"),
    ("seat", "permit"),
    ("spells", "log throttle"),
    ("story", "call log"),
    ("street", "test transport"),
];

/// One word for each thing, in code and pages; where rivals are described, theirs.
pub(super) fn words(tree: &Tree) -> Vec<String> {
    let of_rivals = [
        "README.md",
        "README.zh-CN.md",
        "docs/comparison.md",
        "docs/words.md",
        "bench/README.md",
    ];
    let mut complaints = Vec::new();
    let kinds = [".rs", ".lua", ".ts", ".tsx", ".md"];
    for (path, text) in kinds.iter().flat_map(|kind| tree.files("", kind)) {
        if of_rivals.contains(&path) || path.contains("tests/it/tidy") {
            continue;
        }
        let text = text.to_lowercase().replace('\n', " ");
        // Not a set of all words of a file: tests are not optimised, and the tree is large.
        let whole = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        let removed = whole.filter_map(|word| REMOVED.iter().find(|(removed, _)| *removed == word));
        for (removed, word) in removed.collect::<BTreeSet<_>>() {
            complaints.push(format!("{path}: {removed:?} is called {word:?} here"));
        }
        // In names of two words, such as `moreQueues`, these would be found too.
        let is_page_or_rust = path.ends_with(".rs") || path.ends_with(".md");
        let found = |(synonym, _): &&(&str, &str)| is_page_or_rust && text.contains(synonym);
        for (synonym, word) in SYNONYMS.iter().filter(found) {
            complaints.push(format!("{path}: {synonym:?} is called {word:?} here"));
        }
    }
    complaints
}

/// Every bad input that a server may meet has a test, and that is there.
pub(super) fn proofs(tree: &Tree) -> Vec<String> {
    const PAGE: &str = "docs/serving.md";
    let page = tree.get(PAGE).unwrap_or_default();
    let (_, listed) = page.split_once("## Bad input").unwrap_or_default();
    let rows = listed.lines().filter(|line| line.starts_with("| ")).skip(2);
    let mut complaints = Vec::new();
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next();
        let spans = tests.unwrap_or_default().split('`').skip(1).step_by(2);
        let mut has_one = false;
        for (file, test) in spans.filter_map(|span| span.split_once("::")) {
            has_one = true;
            if !is_proved(tree, file, test) {
                complaints.push(format!("{PAGE}: there is no test {file}::{test}"));
            }
        }
        if !has_one && !row.contains("`dashboard/test`") {
            complaints.push(format!("{PAGE}: no test is named by {row:?}"));
        }
    }
    complaints
}

/// A test of a file, every test of it, or the unit tests of a module.
fn is_proved(tree: &Tree, file: &str, test: &str) -> bool {
    let end = match test {
        "tests" => format!("/{file}/tests.rs"),
        _ => format!("/tests/it/{file}.rs"),
    };
    let mut found = tree.files("crates/", &end);
    found.any(|(_, text)| matches!(test, "" | "tests") || text.contains(&format!("fn {test}(")))
}

/// Every relative link leads to a file, and to a heading of it if it names one.
pub(super) fn links(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files("", ".md") {
        for target in link_targets(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() {
                path.to_owned()
            } else {
                beside(path, file)
            };
            if !tree.has(&file) {
                complaints.push(format!("{path}: link to {target} leads nowhere"));
            } else if !heading.is_empty() && !has_heading(tree.get(&file), heading) {
                complaints.push(format!(
                    "{path}: link to {target}: {file} has no such heading"
                ));
            }
        }
    }
    complaints
}

const DECISION_LINES_MAX: usize = 80;

/// A decision is one page, numbered, titled as the question it answers, and in the index.
pub(super) fn decisions(tree: &Tree) -> Vec<String> {
    let index = tree.get("docs/README.md").unwrap_or_default();
    let mut complaints = Vec::new();
    let mut numbers = Vec::new();
    for (path, text) in tree.files("docs/decisions/", ".md") {
        let name = path.trim_start_matches("docs/decisions/");
        let (number, rest) = name.split_at(name.len().min(4));
        if !number.bytes().all(|digit| digit.is_ascii_digit()) || !rest.starts_with("-why-") {
            complaints.push(format!("{path}: name it NNNN-why-question.md"));
        }
        if numbers.contains(&number) {
            complaints.push(format!("{path}: its number is taken"));
        }
        numbers.push(number);
        let title = text.lines().next().unwrap_or_default();
        if !title.starts_with("# Why") || !title.ends_with('?') {
            complaints.push(format!(
                "{path}: its title is no question that starts with why"
            ));
        }
        if text.lines().count() > DECISION_LINES_MAX {
            complaints.push(format!(
                "{path}: longer than a page of {DECISION_LINES_MAX} lines"
            ));
        }
        if !index.contains(&format!("(decisions/{name})")) {
            complaints.push(format!("{path}: docs/README.md does not list it"));
        }
    }
    complaints
}

/// The Chinese README has the headings, in number and depth, and the code of the English one.
pub(super) fn twins(tree: &Tree) -> Vec<String> {
    const CHINESE: &str = "README.zh-CN.md";
    let (Some(english), Some(chinese)) = (tree.get("README.md"), tree.get(CHINESE)) else {
        return vec![format!("README.md or {CHINESE} is missing")];
    };
    let depths = |text| headings(text).map(|(depth, _)| depth).collect::<Vec<_>>();
    let mut complaints = Vec::new();
    if depths(english) != depths(chinese) {
        complaints.push(format!(
            "{CHINESE}: its headings are not those of README.md"
        ));
    }
    if code_blocks(english) != code_blocks(chinese) {
        complaints.push(format!(
            "{CHINESE}: its code blocks are not those of README.md"
        ));
    }
    complaints
}

pub(super) const TRANSITIONS_PAGE: &str = "docs/transitions.md";

/// The page ends with the table of transitions, as the code has it.
pub(super) fn transitions(tree: &Tree) -> Vec<String> {
    let mut table =
        String::from("| from | what happens | to | counts |\n| --- | --- | --- | --- |\n");
    for step in TRANSITIONS {
        let event = in_words(&format!("{:?}", step.event));
        let raises = step.raises.join(", ");
        let row = format!("| {} | {event} | {} | {raises} |\n", step.from, step.to);
        write!(table, "{}", row.replace("  |", " |")).expect("a string takes any text");
    }
    let page = tree.get(TRANSITIONS_PAGE).unwrap_or_default();
    let differs =
        format!("{TRANSITIONS_PAGE}: does not end with the table in code, which is\n{table}");
    (!page.ends_with(&table))
        .then_some(differs)
        .into_iter()
        .collect()
}

/// `DueReached` as `due reached`.
fn in_words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// Whoever reads how to contribute learns every recipe.
pub(super) fn recipes(tree: &Tree) -> Vec<String> {
    let listed = tree.get("CONTRIBUTING.md").unwrap_or_default();
    let justfile = tree.get("justfile").unwrap_or_default();
    let heads = justfile
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()));
    heads
        .filter_map(|line| line.split_once(':'))
        .filter(|(_, after)| !after.starts_with('='))
        .filter_map(|(head, _)| head.split_whitespace().next())
        .filter(|recipe| !listed.contains(&format!("`just {recipe}`")))
        .map(|recipe| format!("justfile: CONTRIBUTING.md does not name `just {recipe}`"))
        .collect()
}

/// Targets of `[text](target)` outside code.
fn link_targets(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    for line in prose(text) {
        // Every second piece between backticks is code.
        for piece in line.split('`').step_by(2) {
            for (at, _) in piece.match_indices("](") {
                let rest = &piece[at + 2..];
                targets.extend(rest.find(')').map(|end| &rest[..end]));
            }
        }
        // A link whose text is code: `](` follows a backtick.
        for piece in line.split('`').skip(2).step_by(2) {
            if let Some(rest) = piece.strip_prefix("](") {
                targets.extend(rest.find(')').map(|end| &rest[..end]));
            }
        }
    }
    targets
}

/// Lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

fn code_blocks(text: &str) -> Vec<&str> {
    text.split("\n```").skip(1).step_by(2).collect()
}

fn headings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#');
            (line.len() - title.len(), title.trim())
        })
}

/// Headings become anchors as forges make them: lower case, words joined by hyphens.
fn has_heading(text: Option<&str>, anchor: &str) -> bool {
    let as_anchor = |title: &str| -> String {
        let kept = title.to_lowercase();
        let kept = kept
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    text.is_some_and(|text| headings(text).any(|(_, title)| as_anchor(title) == anchor))
}

/// The path of `target` as a link in the file at `path`.
fn beside(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
