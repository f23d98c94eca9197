//! Rules about how long sentences and lines of pages may be.

use super::tree::Tree;

const WORDS_MAX: usize = 40;
const COLUMNS_MAX: usize = 160;
const README_LINES_MAX: usize = 170;

/// The README is read to its end.
pub(super) fn readme_lines(tree: &Tree) -> Vec<String> {
    let pages = ["README.md", "README.zh-CN.md"].map(|page| (page, tree.get(page)));
    let lines = pages.map(|(page, text)| (page, text.unwrap_or_default().lines().count()));
    let long = lines
        .into_iter()
        .filter(|(_, lines)| *lines > README_LINES_MAX);
    long.map(|(page, lines)| format!("{page}: {lines} lines; {README_LINES_MAX} are the most"))
        .collect()
}

/// No sentence of a page has more words than a reader takes in at once. A blank line, a list item,
/// a heading and a table end a sentence; a span of code counts as one word.
pub(super) fn sentences(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files("", ".md") {
        for (number, paragraph) in paragraphs(text) {
            for words in sentence_lengths(&without_code_and_targets(&paragraph)) {
                if words > WORDS_MAX {
                    complaints.push(format!(
                        "{path}:{number}: a sentence of {words} words; {WORDS_MAX} are the most"
                    ));
                }
            }
        }
    }
    complaints
}

/// No line of prose is wider than a screen; code, tables and the targets of links do not count.
pub(super) fn widths(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files("", ".md") {
        for (number, line) in outside_fences(text) {
            let columns = without_code_and_targets(line).chars().count();
            if columns > COLUMNS_MAX && !is_table(line) {
                complaints.push(format!(
                    "{path}:{number}: {columns} columns; {COLUMNS_MAX} are the most"
                ));
            }
        }
    }
    complaints
}

/// Paragraphs and list items, each as one line, with the number of its first line.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    let mut last = 0;
    for (number, line) in outside_fences(text) {
        let line = line.trim();
        let ends = line.is_empty() || line.starts_with(['#', '<']) || is_table(line);
        // A fence between two lines ends a paragraph as well.
        is_open &= !ends && number == last + 1;
        last = number;
        if ends {
            continue;
        }
        let item = item_of(line);
        match found.last_mut().filter(|_| is_open && item.is_none()) {
            Some((_, paragraph)) => {
                paragraph.push(' ');
                paragraph.push_str(line);
            }
            None => found.push((number, item.unwrap_or(line).to_owned())),
        }
        is_open = true;
    }
    found
}

/// What follows the bullet or number of a list item.
fn item_of(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let bullets = if rest.len() < line.len() {
        [". ", ") ", ") "]
    } else {
        ["- ", "* ", "+ "]
    };
    bullets.iter().find_map(|bullet| rest.strip_prefix(bullet))
}

/// The number of words of each sentence.
fn sentence_lengths(text: &str) -> Vec<usize> {
    let mut lengths = vec![0];
    for word in text.split_whitespace() {
        if let Some(length) = lengths.last_mut() {
            *length += 1;
        }
        let bare = word.trim_end_matches([')', '"', '*', '_', ']']);
        if bare.ends_with(['.', '?', '!']) || bare.contains('。') {
            lengths.push(0);
        }
    }
    lengths
}

/// The text with each span of code as one word, and links without their targets.
fn without_code_and_targets(text: &str) -> String {
    let spans = text.split('`').enumerate();
    let text: String = spans
        .map(|(index, piece)| if index % 2 == 0 { piece } else { "code" })
        .collect();
    let mut pieces = text.split("](");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push(']');
        plain.push_str(piece.split_once(')').map_or("", |(_, after)| after));
    }
    plain
}

fn is_table(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Lines outside fenced code, with their numbers.
fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}
