//! Unit tests of `planted`.

use super::{PLANTS, planted};
use crate::library::Library;

#[test]
fn every_planted_bug_changes_the_functions() {
    let functions = Library::production().text().to_owned();
    for (bug, ..) in PLANTS {
        assert_ne!(planted(functions.clone(), bug), functions, "{bug}");
    }
    assert_eq!(planted(functions.clone(), "no such bug"), functions);
}
