use crate::support::said;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn the_tables_of_the_pages_are_those_of_the_sums() {
    let copies = tempfile::tempdir().expect("a directory");
    for page in ["docs/reliability.md", "README.md", "README.zh-CN.md"] {
        let text = std::fs::read_to_string(format!("{ROOT}/{page}")).expect("the page is there");
        let copy = copies.path().join("page.md");
        std::fs::write(&copy, &text).expect("a copy");
        let sums = format!("{}/sums.json", env!("CARGO_MANIFEST_DIR"));
        said(&["tables", "--sums", &sums, &copy.to_string_lossy()]);
        let filled = std::fs::read_to_string(&copy).expect("the copy is there");
        assert_eq!(
            filled, text,
            "{page} is not what `punctual-torture tables` writes"
        );
        assert!(page != "docs/reliability.md" || text.contains("<!-- torture -->"));
    }
}
