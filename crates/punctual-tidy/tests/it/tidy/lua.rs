//! Rules about the functions on Redis: places of bytes and bits have names, functions are short.

use super::tree::Tree;

const FUNCTIONS: &str = "crates/punctual-redis/functions/";
/// The most lines of a function.
const LINES_MAX: usize = 100;
/// The digits of an id are not the places of fields.
const DIGITS: &str = "hex";

/// Lines of code, without what stands behind `--`.
fn code(tree: &Tree) -> impl Iterator<Item = (&str, usize, &str)> {
    tree.files(FUNCTIONS, ".lua").flat_map(|(path, text)| {
        let lines = (1..).zip(text.lines());
        lines.map(move |(number, line)| (path, number, line.split("--").next().unwrap_or_default()))
    })
}

/// Bytes from the third on, and bits, are named by `CONSTANTS`: `sub(raw, %REC_DUE%)` and
/// `%flags has CLAIM_READS%`.
pub(super) fn bare_places(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, number, line) in code(tree) {
        let slices = ["sub(", "byte("]
            .into_iter()
            .flat_map(|call| arguments(line, call));
        for (of, places) in slices {
            if of != DIGITS && is_bare(&places) {
                complaints.push(format!(
                    "{path}:{number}: {of} is cut at {}; give the place a name in \
                     punctual-contract/src/numbers",
                    places.join(", ")
                ));
            }
        }
        if arguments(line, "floor(")
            .iter()
            .any(|(of, _)| is_bare_bit(line, of))
        {
            complaints.push(format!(
                "{path}:{number}: a bare bit; write `%flags has NAME%`"
            ));
        }
    }
    complaints
}

/// The first argument of each call of a function, and the others.
fn arguments<'a>(line: &'a str, call: &str) -> Vec<(&'a str, Vec<&'a str>)> {
    let is_name = |before: char| before.is_alphanumeric() || before == '_';
    let mut found = Vec::new();
    for (at, _) in line.match_indices(call) {
        let inside = &line[at + call.len()..];
        let mut depth = 0;
        let end = inside.find(|letter| {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            depth < 0
        });
        if line[..at].ends_with(is_name) || inside[..end.unwrap_or(0)].contains('(') {
            continue;
        }
        let mut parts = inside[..end.unwrap_or(0)].split(',').map(str::trim);
        found.push((parts.next().unwrap_or_default(), parts.collect()));
    }
    found
}

/// Whether these are plain numbers, beyond the first two bytes.
fn is_bare(places: &[&str]) -> bool {
    let numbers: Option<Vec<u32>> = places.iter().map(|place| place.parse().ok()).collect();
    let last = numbers.and_then(|numbers| numbers.last().copied());
    last.is_some_and(|last| last > 2)
}

/// Whether a line tests the bit of a plain number.
fn is_bare_bit(line: &str, divided: &str) -> bool {
    let bit = divided.rsplit_once(" / ").map(|(_, bit)| bit);
    let is_number = bit.is_some_and(|bit| bit.parse::<u32>().is_ok());
    is_number && line.contains(&format!("floor({divided}) % 2"))
}

/// A function fits on two screens.
pub(super) fn function_lengths(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.files(FUNCTIONS, ".lua") {
        let mut begun = None;
        for (number, line) in (1..).zip(text.lines()) {
            let begins = line.starts_with("function ") || line.starts_with("local function ");
            if begins && !line.ends_with(" end") {
                begun = Some(number);
            } else if line == "end" {
                let lines = begun.take().map_or(0, |begun| number + 1 - begun);
                if lines > LINES_MAX {
                    complaints.push(format!(
                        "{path}:{number}: a function of {lines} lines ends; {LINES_MAX} are the most"
                    ));
                }
            }
        }
    }
    complaints
}

#[test]
fn places_of_bytes_and_bits_have_names() {
    let rule: super::Rule = bare_places;
    super::holds(rule);
    let planted = [
        "local due = sub(raw, 12, 19)",
        "if byte(raw, 31) == 1 then return sub(raw, 1) end",
        "return sub(member, 13) .. '%REC_DUE%'",
        "local head = sub(all[i], 1, 16)",
        "if floor(flags / 16) % 2 == 1 then",
    ];
    let planted = planted.iter().enumerate().map(|(number, line)| {
        let path = format!("{FUNCTIONS}injected_{number}.lua");
        (path, format!("  {line}\n"))
    });
    super::finds_each(rule, &planted.collect::<Vec<_>>());
    let kept = [
        "local kind, rest = sub(cursor, 1, 1), sub(cursor, 2)",
        "local id = sub(member, -16) .. sub(bytes, 5, length) -- sub(raw, 12, 19)",
        "local due = sub(raw, %REC_DUE%)",
        "local half = floor(n / 2)",
    ];
    let kept = Tree::of_repository().with(&format!("{FUNCTIONS}kept.lua"), &kept.join("\n"));
    assert!(rule(&kept).is_empty(), "{:?}", rule(&kept));
}

#[test]
fn functions_of_the_library_have_at_most_100_lines() {
    let rule: super::Rule = function_lengths;
    super::holds(rule);
    let long = format!("local function long()\n{}end\n", "  step()\n".repeat(99));
    super::finds(rule, &format!("{FUNCTIONS}injected.lua"), &long);
    let short = format!("function Short.one()\n{}end\n", "  step()\n".repeat(98));
    let kept = Tree::of_repository().with(&format!("{FUNCTIONS}kept.lua"), &short);
    assert!(rule(&kept).is_empty(), "{:?}", rule(&kept));
}
