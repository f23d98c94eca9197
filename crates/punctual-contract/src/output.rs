//! What is generated from the tables, and where it stands in the repository.

mod docs;
mod lua;
mod rust;

use std::path::Path;
use std::{fs, io};

use crate::COMMAND;

/// A file that is generated as a whole, or in a part.
#[derive(Debug)]
pub struct Output {
    /// Its path from the root of the repository.
    pub path: &'static str,
    /// The name in the markers of the part; none for a whole file.
    pub marker: Option<&'static str>,
    /// What stands there.
    pub text: String,
}

/// Everything that is generated.
pub fn all() -> Vec<Output> {
    let mut outputs = vec![
        whole(
            "crates/punctual-redis/functions/CONSTANTS",
            lua::constants(),
        ),
        whole("crates/punctual-redis/src/wire/numbers.rs", rust::numbers()),
        whole("crates/punctual/src/job/bounds.rs", rust::bounds()),
        whole("crates/punctual-gateway/src/decode/takes.rs", rust::takes()),
        whole("crates/punctual-gateway/src/metrics/help.rs", rust::help()),
    ];
    outputs.extend(docs::parts());
    outputs
}

fn whole(path: &'static str, text: String) -> Output {
    let marker = None;
    Output { path, marker, text }
}

/// The files that differ from the tables, each with the text that it should have.
pub fn stale(root: &Path) -> io::Result<Vec<(&'static str, String)>> {
    let mut files: Vec<(&'static str, String, String)> = Vec::new();
    for output in all() {
        let known = files.iter().position(|(path, ..)| *path == output.path);
        let at = match known {
            Some(at) => at,
            None => {
                let there = fs::read_to_string(root.join(output.path)).unwrap_or_default();
                files.push((output.path, there.clone(), there));
                files.len() - 1
            }
        };
        let text = &mut files[at].2;
        *text = match output.marker {
            None => output.text,
            Some(marker) => replaced(text, marker, &output.text)
                .ok_or_else(|| no_marker(output.path, marker))?,
        };
    }
    let differs = |(path, there, text): (&'static str, String, String)| {
        (there != text).then_some((path, text))
    };
    Ok(files.into_iter().filter_map(differs).collect())
}

/// A text with another part between the markers of that name.
fn replaced(text: &str, marker: &str, part: &str) -> Option<String> {
    let (start, end) = (
        format!("<!-- contract: {marker} -->\n"),
        format!("<!-- end of {marker} -->"),
    );
    let (before, rest) = text.split_once(&start)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{start}{part}{end}{after}"))
}

fn no_marker(path: &str, marker: &str) -> io::Error {
    let message = format!(
        "{path} has no place for the table {marker:?}; write `<!-- contract: {marker} -->` and \
         `<!-- end of {marker} -->` around it, then run `{COMMAND}`"
    );
    io::Error::other(message)
}

/// What a whole file says of itself.
fn notice() -> String {
    format!("Generated from `punctual-contract`; change the tables there and run `{COMMAND}`.")
}
