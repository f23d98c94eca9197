//! What a preview shows of a payload.

use super::preview;

#[test]
fn a_preview_is_cut_between_characters() {
    assert_eq!(
        preview(b"{\"order\":7001}", 8).as_deref(),
        Some("{\"order\"")
    );
    assert_eq!(preview("任务任务".as_bytes(), 3).as_deref(), Some("任务任"));
    assert_eq!(
        preview("é".repeat(9).as_bytes(), 4).as_deref(),
        Some("éééé")
    );
    // Eight bytes end within the third character here.
    assert_eq!(preview("a任务任务".as_bytes(), 2).as_deref(), Some("a任"));
    assert_eq!(preview(b"", 8).as_deref(), Some(""));
}

#[test]
fn bytes_that_are_no_text_have_no_preview() {
    assert_eq!(preview(&[0xff, 0xfe, b'a', b'b'], 2), None);
    assert_eq!(preview(&[b'a', 0xe4, 0xbb], 8), None, "cut off at its end");
}
