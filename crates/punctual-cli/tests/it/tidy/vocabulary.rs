//! Words that no comment and no name of Rust or TypeScript has, nor a comment of Lua: the actor of
//! a sentence is a thing with a name.

use super::tree::Tree;

/// Each with what to write in its place.
pub(super) const VAGUE: [(&str, &str); 13] = [
    ("nobody", "the thing that does not, such as `no client`"),
    ("somebody", "the thing, such as `a client`"),
    ("anybody", "the thing, such as `any client`"),
    ("whoever", "the thing, such as `the caller that`"),
    ("told", "reported, answered, returned or logged"),
    ("tell", "report, answer, return or log"),
    ("tells", "reports, answers, returns or logs"),
    ("hear", "receive or learn"),
    ("hears", "receives or learns"),
    ("heard", "received or learned"),
    ("looks", "polls, reads or checks"),
    ("stranger", "outsider"),
    ("strangers", "outsiders"),
];

/// These files name what they forbid.
const EXEMPT: &str = "crates/punctual-cli/tests/it/tidy";

/// Comments and names, also parts of names, have no vague words. Texts are input and output.
pub(super) fn vague(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files("", ".rs") {
        if path.starts_with(EXEMPT) {
            continue;
        }
        for (number, line) in (1..).zip(without_texts(text).lines()) {
            complaints.extend(vague_in(line).map(|what| format!("{path}:{number}: {what}")));
        }
    }
    for (path, text) in [".ts", ".tsx"].iter().flat_map(|end| tree.files("", end)) {
        // Made from the OpenAPI, whose texts are texts of Rust.
        if path.ends_with(".gen.ts") {
            continue;
        }
        for (number, line) in (1..).zip(without_texts_of_script(text).lines()) {
            complaints.extend(vague_in(line).map(|what| format!("{path}:{number}: {what}")));
        }
    }
    for (path, text) in tree.files("", ".lua") {
        for (number, line) in (1..).zip(text.lines()) {
            let comment = line.split_once("--").map_or("", |(_, comment)| comment);
            complaints.extend(vague_in(comment).map(|what| format!("{path}:{number}: {what}")));
        }
    }
    complaints
}

fn vague_in(line: &str) -> impl Iterator<Item = String> {
    words(line).into_iter().filter_map(|word| {
        let (_, better) = VAGUE.iter().find(|(vague, _)| *vague == word)?;
        Some(format!("{word:?}; write {better}"))
    })
}

/// The words of a line in lower case; names are cut at `_` and before capitals.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in line.chars() {
        let begins = letter.is_uppercase() && was_lower;
        if begins || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The source with its string literals emptied; lines stay where they are.
fn without_texts(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let is_name = out.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let length = if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        } else if let Some(length) = raw_text(rest).filter(|_| !is_name) {
            length
        } else if letter == '"' {
            text(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            // A letter in quotes, which may be a quote.
            rest[1..].find('\'').map_or(1, |end| end + 2)
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        out.extend(rest[..length].chars().filter(|letter| *letter == '\n'));
        out.push(' ');
        rest = &rest[length..];
    }
    out
}

/// The same of TypeScript. A quote that no other one of its line ends is an apostrophe of a text
/// between tags, which is read.
fn without_texts_of_script(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let line = rest.split('\n').next().unwrap_or_default();
        let length = match letter {
            '/' if line.starts_with("//") => {
                out.push_str(line);
                rest = &rest[line.len()..];
                continue;
            }
            '"' | '\'' => quoted(line, letter),
            '`' => quoted(rest, letter),
            _ => None,
        };
        let Some(length) = length else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        out.extend(rest[..length].chars().filter(|letter| *letter == '\n'));
        out.push(' ');
        rest = &rest[length..];
    }
    out
}

/// Bytes of the text in these quotes that begins here, if it ends.
fn quoted(rest: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if letter == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Bytes of the string literal that begins here.
fn text(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Bytes of the raw string literal that begins here, if one does.
fn raw_text(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('r').or_else(|| rest.strip_prefix("br"))?;
    let marks = inner.len() - inner.trim_start_matches('#').len();
    let begin = rest.len() - inner.len() + marks + 1;
    if !inner[marks..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(marks));
    Some(
        rest[begin..]
            .find(&end)
            .map_or(rest.len(), |at| begin + at + end.len()),
    )
}
