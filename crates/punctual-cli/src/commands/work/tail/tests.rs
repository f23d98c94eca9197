//! Unit tests of `commands::work::tail`.

use super::*;

#[tokio::test]
async fn the_last_bytes_are_kept_and_the_rest_is_read() {
    let stream = std::io::Cursor::new(vec![b'a'; 100_000]).chain(std::io::Cursor::new(b"end"));
    let kept = Tail::collect(Some(stream), 5).finish().await;
    assert_eq!(kept, "aaend");
}

#[tokio::test]
async fn a_short_stream_is_kept_whole() {
    let kept = Tail::collect(Some(&b"short"[..]), 100).finish().await;
    assert_eq!(kept, "short");
}

#[test]
fn a_character_that_was_cut_is_left_out() {
    assert_eq!(whole_characters(&"é!".as_bytes()[1..]), "!");
    assert_eq!(whole_characters("é!".as_bytes()), "é!");
}
