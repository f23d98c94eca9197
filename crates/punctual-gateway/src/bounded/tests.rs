//! Tests of what is kept of long lists.

use super::{Bounded, ITEMS_KEPT};
use crate::json::edit::EditRequest;
use crate::request::parse;

#[test]
fn of_a_list_without_end_a_bounded_part_is_kept() {
    let long = format!("[{}]", vec!["1"; 1_000_000].join(","));
    let read: Bounded<u64> = serde_json::from_str(&long).expect("a list");
    assert_eq!(read.0.len(), ITEMS_KEPT);
    let broken = long.replace("1]", "1");
    assert!(serde_json::from_str::<Bounded<u64>>(&broken).is_err());
    let short: Bounded<u64> = serde_json::from_str("[1,2]").expect("a list");
    assert_eq!(short.0, [1, 2]);
    let edit = format!(
        r#"{{"action":"cancel","ids":[{}]}}"#,
        vec!["\"x\""; 100_000].join(",")
    );
    let read: EditRequest = parse(edit.as_bytes()).expect("an edit");
    assert_eq!(read.ids.map(|ids| ids.len()), Some(ITEMS_KEPT));
}
