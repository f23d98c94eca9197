//! Unit tests of `library`.

use super::*;

#[test]
fn the_files_come_in_their_order() {
    let order = include_str!("../../functions/ORDER");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/functions/");
    let read = |name: &str| std::fs::read_to_string(format!("{folder}{name}")).expect(name);
    let listed: Vec<String> = order.split_whitespace().map(read).collect();
    assert_eq!(listed, FILES);
    let there = std::fs::read_dir(folder).expect("a folder").count();
    assert_eq!(
        there,
        FILES.len() + 3,
        "every file but ORDER, CONSTANTS and bundle.sh is in ORDER"
    );
}

#[test]
fn every_constant_is_used_and_has_a_value() {
    let files = FILES.concat();
    for line in CONSTANTS.lines().filter(|line| !line.starts_with('#')) {
        let (name, _) = line.split_once(" = ").expect("NAME = VALUE");
        assert!(line.contains(" -- "), "{name} says what it is");
        let forms = [format!("%{name}%"), format!(" has {name}%")];
        let is_used = forms.iter().any(|form| files.contains(form));
        assert!(is_used, "{name} is used");
    }
    let assembled = assembled();
    let mut names = assembled.split('%').skip(1);
    let is_name = |it: &str| {
        it.len() > 3
            && it
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    assert_eq!(names.find(|it| is_name(it)), None, "no name is left");
}

#[test]
fn no_request_moves_the_clock_of_the_library_that_serves() {
    let serves = Library::production();
    let tests = Library::with_test_clock();
    assert!(
        !serves
            .text
            .lines()
            .any(|line| !line.trim_start().starts_with("--") && line.contains(":clock"))
    );
    assert!(
        tests
            .text
            .lines()
            .any(|line| !line.trim_start().starts_with("--") && line.contains(":clock"))
    );
    assert_eq!(serves.version(), tests.version());
    assert!(serves.version() > 0, "the text names its version");
}

#[test]
fn bits_of_flags_are_tested_by_their_names() {
    let bare = |line: &&str| {
        let (_, test) = line.split_once("floor(").unwrap_or_default();
        test.contains(") % 2 == 1") && !line.starts_with("function flag(")
    };
    let text = FILES.concat();
    let found: Vec<&str> = text.lines().filter(bare).collect();
    assert!(found.is_empty(), "write `%FLAGS has NAME%`: {found:?}");
    assert!(bare(&"  if floor(flags / 16) % 2 == 1 then"));
}

#[test]
fn bundle_sh_prints_the_library_as_it_is_loaded() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/functions/bundle.sh");
    let printed = std::process::Command::new("sh").arg(script).output();
    let printed = String::from_utf8(printed.expect("a shell").stdout).expect("UTF-8");
    assert!(printed == Library::named("punctual_1", assembled(), 0).text);
}

/// The number of the library, and a digest of the functions that have it.
const NUMBERED: (i64, u64) = (1, 0xfeed_5224_54f2_5e51);

#[test]
fn functions_that_changed_have_another_number() {
    let functions = assembled();
    let code = functions.lines().map(str::trim);
    let code = code.filter(|line| !line.is_empty() && !line.starts_with("--"));
    // FNV-1a, which no release of a library changes.
    let digest = code.fold(0xcbf2_9ce4_8422_2325, |digest, line| {
        let bytes = line.bytes().chain([b'\n']);
        bytes.fold(digest, |digest: u64, byte| {
            (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    });
    let there = (Library::production().version(), digest);
    assert!(
        there == NUMBERED,
        "the functions are not those of number {}: servers that have that number keep the old ones. Raise VERSION \
         in core.lua, unless no server of others can have it yet, and write ({}, {digest:#x}) as NUMBERED here",
        NUMBERED.0,
        there.0,
    );
}
