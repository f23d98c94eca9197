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
        FILES.len() + 2,
        "every file but ORDER and bundle.sh is in ORDER"
    );
}

#[test]
fn nobody_moves_the_clock_of_the_library_that_serves() {
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
