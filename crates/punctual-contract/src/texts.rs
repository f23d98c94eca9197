//! Texts of refusals that Rust and the functions share.

/// One text.
#[derive(Debug)]
pub struct Text {
    /// The name in Lua (`%NAME%`) and in Rust.
    pub name: &'static str,
    /// What it says.
    pub text: &'static str,
    /// When it is said.
    pub gloss: &'static str,
}

const fn text(name: &'static str, text: &'static str, gloss: &'static str) -> Text {
    Text { name, text, gloss }
}

/// Every shared text.
pub const TEXTS: &[Text] = &[
    text(
        "TEXT_PRIORITY",
        "priority is out of range; use 0 (first) to 9 (last)",
        "a priority is over the last one",
    ),
    text(
        "TEXT_LEASE_DURATION",
        "lease_duration is out of range; use 1 ms to 1 day",
        "a lease is too short or too long",
    ),
    text(
        "TEXT_NAME_RULE",
        "use 1 to 128 of a-z A-Z 0-9 . _ - : /",
        "the rule of names",
    ),
    text(
        "TEXT_KEY_RULE",
        "use 1 to 256 bytes of printable text",
        "the rule of keys",
    ),
];
