//! Unit tests of `wire`.

use super::mp::{MapWriter, Mp};

fn packed(value: &Mp) -> Vec<u8> {
    let mut out = Vec::new();
    value.write(&mut out);
    out
}

#[test]
fn every_mp_value_is_read_back() {
    let long = "x".repeat(300);
    let value = Mp::List(vec![
        Mp::Nil,
        Mp::Bool(true),
        Mp::Int(-7),
        Mp::Int(127),
        Mp::Int(1_790_000_000_000_000),
        Mp::Float(1.5),
        Mp::from(""),
        Mp::from("short"),
        Mp::from(&long),
        Mp::from(vec![0; 70_000].as_slice()),
        Mp::List((0..40).map(Mp::Int).collect()),
        Mp::Map(vec![(Mp::from("k"), Mp::from("v"))]),
    ]);
    assert_eq!(Mp::read(&packed(&value)).unwrap(), value);
}

#[test]
fn a_map_is_read_by_its_keys() {
    let mut map = MapWriter::default();
    for key in 0..20 {
        map.put(&format!("k{key}"), key as u64);
    }
    let map = Mp::read(&map.packed()).unwrap();
    assert_eq!(map.get("k19").number().unwrap(), 19);
    assert!(map.get("k20").is_nil());
}

#[test]
fn what_is_cut_or_too_deep_is_damage() {
    let value = Mp::List(vec![Mp::from("text"), Mp::Int(1 << 40)]);
    let value = packed(&value);
    for length in 0..value.len() {
        assert!(Mp::read(&value[..length]).is_err(), "{length}");
    }
    assert!(Mp::read(&[0x91; 100]).is_err());
    assert!(Mp::read(&[0xdd, 0xff, 0xff, 0xff, 0xff]).is_err());
}
