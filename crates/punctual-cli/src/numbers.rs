//! Numbers on a command line and in files: what is wrong with one, in words.

use std::ops::RangeInclusive;

/// What the readers of numbers say, and what it means.
const WORDS: [(&str, &str); 4] = [
    ("invalid digit found in string", "use a whole number"),
    (
        "cannot parse integer from empty string",
        "use a whole number",
    ),
    (
        "number too large to fit in target type",
        "use a smaller number",
    ),
    ("invalid float literal", "use a number such as 1.5"),
];

/// Reads a whole number of a range.
///
/// # Errors
/// What to use instead.
pub(crate) fn whole<T: TryFrom<u64>>(text: &str, range: RangeInclusive<u64>) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| match (range.start(), range.end()) {
        (first, &u64::MAX) => format!("use a whole number of {first} or more"),
        (first, last) => format!("use a whole number from {first} to {last}"),
    })
}

/// A message of a parser, with what to use where it says what the reader of a number met.
pub(crate) fn in_words(message: &str) -> String {
    let lines = message.split('\n').map(|line| {
        for (reported, words) in WORDS {
            if let Some(front) = line.strip_suffix(reported) {
                return format!("{front}{words}");
            }
        }
        let Some((front, range)) = line.rsplit_once(" is not in ") else {
            return line.to_owned();
        };
        // In front stand the option, a colon, and once more the value.
        let front = front.rsplit_once(": ").map_or("", |(front, _)| front);
        let words = match range.split_once("..") {
            Some(("", last)) => format!("use at most {}", last.trim_start_matches('=')),
            Some((first, "")) => format!("use {first} or more"),
            Some((first, last)) => format!("use {first} to {}", last.trim_start_matches('=')),
            None => return line.to_owned(),
        };
        match front {
            "" => words,
            front => format!("{front}: {words}"),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
