//! Rows with and without rare fields: how a later version reads rows of the one before.

use super::super::codec::{Reader, Writer};
use super::super::table::Value;

row!(
    /// A row as it is.
    Now { count: u32 }
    then {
        /// A rare field.
        names: Vec<String>
    }
);

row!(
    /// The same row of a later version, which has one more rare field.
    Later { count: u32 }
    then {
        /// The rare field of before.
        names: Vec<String>
    }
    then {
        /// The one that was added.
        is_new: bool
    }
);

fn bytes(row: &impl Value) -> Vec<u8> {
    let mut to = Writer::default();
    row.write(&mut to);
    to.0
}

fn read<V: Value>(bytes: &[u8]) -> Option<V> {
    V::read(&mut Reader(bytes)).ok()
}

#[test]
fn a_later_version_reads_rows_without_its_rare_field() {
    for names in [Vec::new(), vec!["mail".to_owned()]] {
        let count = 7;
        let now = bytes(&Now {
            count,
            names: names.clone(),
        });
        assert_eq!(now[0], 1 + u8::from(!names.is_empty()));
        let later = Later {
            count,
            names,
            is_new: false,
        };
        assert_eq!(read::<Later>(&now), Some(later.clone()));
        assert_eq!(bytes(&later), now, "and writes it as before");
    }
}

#[test]
fn a_row_with_more_rare_fields_than_are_known_is_refused() {
    let names = Vec::new();
    let later = Later {
        count: 7,
        names,
        is_new: true,
    };
    let later = bytes(&later);
    assert_eq!(later[0], 3, "the rare field before it is written too");
    assert_eq!(read::<Now>(&later), None);
    let mut none = later.clone();
    none[0] = 0;
    assert_eq!(read::<Later>(&none), None, "no row begins with 0");
    assert!(read::<Later>(&later).is_some());
}
