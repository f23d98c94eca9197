//! Unit tests of `relayed`.

use super::{System, name_in, name_of};

#[test]
fn the_name_of_a_message_is_found_in_what_was_kept_of_it() {
    let name = name_of("round-000", "producer-0.0", System::List, 7);
    let cut = format!(r#"{{"message":"{name}","pad":"xxx"#);
    assert_eq!(name_in(cut.as_bytes()), Some(name.clone()));
    let bytes = [&[0xff, 0][..], name.as_bytes(), &[0xfe]].concat();
    assert_eq!(name_in(&bytes), Some(name.clone()));
    assert_eq!(name_in(&name.as_bytes()[..name.len() - 1]), None);
    assert_eq!(name_in(b"{}"), None);
}
