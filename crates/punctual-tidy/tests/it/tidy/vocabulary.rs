//! Words that no source has: the actor of a sentence is a thing with a name, and names are words of
//! the field.

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

/// Parts of names that a reader of the field does not know, each with a name that is known.
pub(super) const OBSCURE: [(&str, &str); 9] = [
    ("look", "poll, read, check or examine"),
    ("looked", "polled, read, checked or examined"),
    ("looking", "polling, reading or checking"),
    ("rank", "position, order or severity"),
    ("fate", "outcome or result"),
    ("crowd", "the things, such as `waiters`"),
    ("crowds", "the things, such as `large_shares`"),
    ("duty", "maintenance"),
    ("duties", "maintenance"),
];

/// These files name what they forbid.
const EXEMPT: &str = "crates/punctual-tidy/tests/it/tidy";

/// Sources, and how a comment begins there.
const SOURCES: [(&str, &str); 6] = [
    (".rs", "//"),
    (".ts", "//"),
    (".tsx", "//"),
    (".mjs", "//"),
    (".py", "#"),
    (".lua", "--"),
];

fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &str, &'static str)> {
    let of_kind = |(end, comment): (&'static str, &'static str)| {
        let files = tree.files("", end);
        files.map(move |(path, text)| (path, text, comment))
    };
    // What is generated from the OpenAPI has the words of its texts.
    let ours = |path: &str| !path.starts_with(EXEMPT) && !path.ends_with(".gen.ts");
    let all = SOURCES.into_iter().flat_map(of_kind);
    all.filter(move |(path, ..)| ours(path))
}

/// Comments, names and texts have no vague words, also not as parts of names.
pub(super) fn vague(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text, _) in sources(tree) {
        for (number, line) in (1..).zip(text.lines()) {
            complaints.extend(found(&VAGUE, line, path, number));
        }
    }
    complaints
}

/// Names have no obscure parts. Comments and texts may use these words.
pub(super) fn obscure(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text, comment) in sources(tree) {
        let code = match path.ends_with(".rs") {
            true => without_texts(text),
            false => without_texts_of_script(text, comment),
        };
        for (number, line) in (1..).zip(code.lines()) {
            complaints.extend(found(&OBSCURE, line, path, number));
        }
    }
    complaints
}

fn found(
    words_of: &'static [(&str, &str)],
    line: &str,
    path: &str,
    number: usize,
) -> impl Iterator<Item = String> {
    words(line).into_iter().filter_map(move |word| {
        let (_, better) = words_of.iter().find(|(removed, _)| *removed == word)?;
        Some(format!("{path}:{number}: {word:?}; write {better}"))
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

/// The source of Rust without its string literals and comments; lines stay where they are.
fn without_texts(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let is_name = out.ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = raw_text(rest).filter(|_| !is_name) {
            length
        } else if letter == '"' {
            quoted(rest, letter).unwrap_or(rest.len())
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

/// The same of a script, whose comments of one line begin so. A quote that no other one of its line
/// ends is an apostrophe of a text between tags, which is read.
fn without_texts_of_script(source: &str, comment: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let line = rest.split('\n').next().unwrap_or_default();
        let length = if line.starts_with(comment) {
            Some(line.len())
        } else if comment == "//" && line.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)
        } else if comment == "#" && line.starts_with("\"\"\"") {
            rest[3..].find("\"\"\"").map(|end| end + 6)
        } else {
            match letter {
                '"' | '\'' => quoted(line, letter),
                '`' => quoted(rest, letter),
                _ => None,
            }
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

#[test]
fn actors_of_sentences_and_names_are_things() {
    let rule: super::Rule = vague;
    super::holds(rule);
    let planted = VAGUE.iter().enumerate();
    let planted = planted.flat_map(|(number, (word, _))| {
        let path = |place: &str| format!("crates/punctual/{place}/injected_{number}.rs");
        let file = |kind: &str| format!("dashboard/src/injected-{kind}-{number}.{kind}");
        let name = capital(word);
        [
            (path("src/conformance"), format!("/// A {word}.\n")),
            (path("tests/it"), format!("fn a_job_{word}_it() {{}}\n")),
            (path("src"), format!("let text = \"it {word} it\";\n")),
            (path("examples"), format!("let is{name}Now = 1;\n")),
            (
                file("ts"),
                format!("const text = \"it's\"; // It's {word}\n"),
            ),
            (file("tsx"), format!("const is{name}Now = `'`;\n")),
            (file("mjs"), format!("test(\"a job is {word}\");\n")),
            (file("py"), format!("    # It {word} it.\n")),
            (file("lua"), format!("local is_{word} = 1\n")),
        ]
    });
    super::finds_each(rule, &planted.collect::<Vec<_>>());
    let kept = "let teller = 1; // retold\n";
    let kept = Tree::of_repository().with("crates/punctual/src/kept.rs", kept);
    assert!(rule(&kept).is_empty(), "{:?}", rule(&kept));
}

/// `told` as `Told`.
fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

#[test]
fn names_are_words_of_the_field() {
    let rule: super::Rule = obscure;
    super::holds(rule);
    let planted = OBSCURE.iter().enumerate();
    let planted = planted.flat_map(|(number, (word, _))| {
        let file = |kind: &str| format!("dashboard/src/injected-{kind}-{number}.{kind}");
        let name = capital(word);
        [
            (file("rs"), format!("let quote = '\"'; fn {word}() {{}}\n")),
            (file("ts"), format!("const its{name} = 1;\n")),
            (file("tsx"), format!("<p>It's {{its{name}}}</p>\n")),
            (file("mjs"), format!("const {word} = \"'\";\n")),
            (file("py"), format!("def {word}(self):\n")),
            (file("lua"), format!("local a, n = \"'\", batch.{word}\n")),
        ]
    });
    super::finds_each(rule, &planted.collect::<Vec<_>>());
    let kept = [
        (
            "kept.rs",
            "/// A look.\nlet text = r#\"a \"look\"\"#;\nlet lookup = '\"';\n",
        ),
        (
            "kept.ts",
            "/** A\n look. */ const text = `a look`; // look\n",
        ),
        ("kept.py", "text = \"\"\"A\n look.\"\"\" + 'look' # look\n"),
        ("kept.lua", "local text = 'look' -- look\n"),
    ];
    let kept = kept
        .iter()
        .fold(Tree::of_repository(), |tree, (name, text)| {
            tree.with(&format!("dashboard/src/{name}"), text)
        });
    assert!(rule(&kept).is_empty(), "{:?}", rule(&kept));
}
