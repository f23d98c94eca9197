//! Unit tests of `injected`.

use super::{INJECTED, injected};
use crate::library::Library;

#[test]
fn every_injected_bug_changes_the_functions() {
    let functions = Library::production().text().to_owned();
    for (bug, ..) in INJECTED {
        assert_ne!(injected(functions.clone(), bug), functions, "{bug}");
    }
    assert_eq!(injected(functions.clone(), "no such bug"), functions);
}
