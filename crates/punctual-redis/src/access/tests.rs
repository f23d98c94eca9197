//! Unit tests of `access`.

use super::*;
use crate::library::Library;

/// Calls whose command is a variable: whatever these are given stands in quotes elsewhere.
const THROUGH_VARIABLES: [&str; 6] = [
    "call(command, key, unpack_list(items)",
    "call_many(command, key, list)",
    "call_many(command, one.key, one)",
    "call(command, key, unpack_list(slice",
    "redis.pcall(probe, key)",
    "redis.pcall(probe, key, '')",
];

#[test]
fn every_command_of_the_functions_is_allowed() {
    let library = Library::production();
    let mut seen = 0;
    let lines = library.text().lines().map(str::trim);
    for line in lines.filter(|line| !line.starts_with("--")) {
        for (command, rest) in calls_in(line) {
            let Some(command) = command else {
                let known = THROUGH_VARIABLES
                    .iter()
                    .any(|known| rest.starts_with(known));
                assert!(known, "write the command of this call out: {rest}");
                continue;
            };
            seen += 1;
            let rule = format!("+{}", command.to_lowercase());
            let allowed = ACL_RULES.split_whitespace().any(|known| known == rule);
            assert!(allowed, "{rule} is not among the rules");
        }
    }
    assert!(seen > 50, "{seen} calls found");
}

/// The server's commands that a line calls: each as it is written there, if it is, and what stands
/// from the call on.
fn calls_in(line: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let starts = ["redis.call(", "redis.pcall(", "call(", "call_many("];
    (0..line.len()).filter_map(move |at| {
        let rest = line.get(at..)?;
        let start = starts.iter().find(|start| rest.starts_with(*start))?;
        let before = line[..at].chars().next_back();
        let is_other = before.is_some_and(|it| it.is_alphanumeric() || "._".contains(it));
        if is_other || line[..at].ends_with("function ") {
            return None;
        }
        let quoted = rest[start.len()..].strip_prefix('\'');
        Some((quoted.and_then(|it| it.split('\'').next()), rest))
    })
}

#[test]
fn the_page_names_every_rule() {
    let page = include_str!("../../../../docs/engines/redis.md");
    let block = page
        .split("```text")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let line = block.expect("the page has the line").split_whitespace();
    let rules: Vec<&str> = line.skip_while(|word| !word.starts_with('~')).collect();
    assert_eq!(rules, ACL_RULES.split_whitespace().collect::<Vec<_>>());
}
