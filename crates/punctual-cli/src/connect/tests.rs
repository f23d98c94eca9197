use super::*;
use punctual::time::millis;

fn file(dir: &str, durability: Durability) -> Address {
    Address::File {
        dir: dir.into(),
        durability,
    }
}

#[test]
fn addresses_name_directories_and_durabilities() {
    let reads = |text: &str| Address::parse(text).expect(text);
    assert_eq!(reads("memory:"), Address::Memory);
    assert_eq!(reads("file:./data"), file("./data", Durability::Fsync));
    assert_eq!(
        reads("file:/var/lib/p?durability=os"),
        file("/var/lib/p", Durability::Os)
    );
    assert_eq!(
        reads("file:///var/lib/p"),
        file("/var/lib/p", Durability::Fsync)
    );
    assert_eq!(
        reads("file:d?durability=interval(50ms)"),
        file("d", Durability::Interval(millis(50)))
    );
}

#[test]
fn wrong_addresses_are_refused() {
    for text in [
        "",
        "data",
        "file:",
        "file:?durability=os",
        "file:d?durability=maybe",
        "file:d?durability=interval(5)",
        "file:d?speed=fast",
        "memory:x",
        "redis://127.0.0.1",
        "carrier-pigeon://roof",
    ] {
        assert!(Address::parse(text).is_err(), "{text}");
    }
}
