//! Unit tests of `address`.

use super::hidden;

#[test]
fn an_address_is_shown_without_its_passwords() {
    let cases = [
        ("redis://u:p@h:1/3 to open", "redis://u:***@h:1/3 to open"),
        ("rediss://:p/a@ss@h", "rediss://:***@h"),
        (
            "--engine redis+sentinel://:p@h/main?sentinel_user=s&sentinel_password=q&durability=os",
            "--engine redis+sentinel://:***@h/main?sentinel_user=s&sentinel_password=***&durability=os",
        ),
        (
            "redis+sentinel://h/main?sentinel_password=a@q",
            "redis+sentinel://h/main?sentinel_password=***",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(hidden(text), expected);
    }
}

#[test]
fn an_address_without_one_is_shown_as_it_is() {
    for text in ["redis://h:1/3?durability=os", "http://h:1", "file:/d", "x"] {
        assert_eq!(hidden(text), text);
    }
}
