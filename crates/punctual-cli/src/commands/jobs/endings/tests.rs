//! Unit tests of `commands::jobs::endings`.

use super::*;

const ID: &str = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";

fn end(text: &str) -> IdOrEnd {
    IdOrEnd::End(text.into())
}

#[test]
fn the_last_eight_characters_of_an_id_name_a_job() {
    assert_eq!(id_or_end(ID), Ok(IdOrEnd::Id(ID.parse().expect("an id"))));
    assert_eq!(id_or_end("4c1d2b7a"), Ok(end("4c1d2b7a")));
    assert_eq!(id_or_end("8000-3F0F4C1D2B7A"), Ok(end("80003f0f4c1d2b7a")));
    for text in ["", "c1d2b7a", "4c1d-b7a", "4c1d2b7x", "seven", "----------"] {
        assert!(id_or_end(text).is_err(), "{text}");
    }
}

#[test]
fn an_end_that_names_no_single_job_is_refused() {
    let id = |n: u8| JobId::from_bytes([n; 16]);
    let ids = |of: &[u8]| of.iter().map(|n| id(*n)).collect::<BTreeSet<_>>();
    assert_eq!(only("01010101", &ids(&[1]), true).ok(), Some(id(1)));
    let text = |ids, is_whole| {
        let failure = only("01010101", &ids, is_whole).expect_err("it is refused");
        failure
            .text(crate::output::Format::Table)
            .expect("it has text")
    };
    let several = text(ids(&[1, 2]), true);
    assert!(several.contains("2 jobs") && several.contains(&id(2).to_string()));
    assert!(text(ids(&[]), true).contains("no job has an id"));
    assert!(text(ids(&[]), false).contains("first 100,000 jobs"));
}
