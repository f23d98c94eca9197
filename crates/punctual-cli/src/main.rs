//! The `punctual` command.
fn main() {}
