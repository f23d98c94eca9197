use super::*;
use crate::library::Library;

#[test]
fn every_command_of_the_functions_is_allowed() {
    let library = Library::production();
    let mut seen = 0;
    for part in library.text().split("call").skip(1) {
        let Some(arguments) = part.strip_prefix("('").or(part.strip_prefix("_many('")) else {
            continue;
        };
        let command = arguments
            .split('\'')
            .next()
            .expect("a split has a first part");
        seen += 1;
        let rule = format!("+{}", command.to_lowercase());
        let allowed = ACL_RULES.split_whitespace().any(|known| known == rule);
        assert!(allowed, "{rule} is not among the rules");
    }
    assert!(seen > 50, "{seen} calls found");
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
