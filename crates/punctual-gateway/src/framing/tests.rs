//! Unit tests of `framing`.

use super::*;

const SOUND: &[u8] = b"\r\nPOST /a HTTP/1.1\r\nhost: x\r\nContent-Length: 40\r\n\r\n\
    content-length: 1\r\ncontent-length: 2\r\n..\
    GET /b HTTP/1.1\r\nx-content-length: 1\r\ncontent-length-: 2\r\nx: content-length:\r\n\r\n\
    POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
    14;a=content-length:\r\ncontent-length: 1\r\n\n\r\n1\r\n:\r\n0\r\ntransfer-encoding: a\r\ncontent-length: 1\r\n\r\n\
    POST /d HTTP/1.1\r\ncontent-length: 0\r\n\r\n\
    POST /e HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";

/// Where a second length is named, read in parts of that size.
fn found(bytes: &[u8], size: usize) -> Option<usize> {
    let mut reader = Reader::default();
    let mut before = 0;
    for part in bytes.chunks(size) {
        if let Some(at) = reader.read(part) {
            return Some(before + at);
        }
        before += part.len();
    }
    None
}

#[test]
fn sound_requests_pass_however_they_are_cut() {
    for size in 1..SOUND.len() {
        assert_eq!(found(SOUND, size), None, "in parts of {size}");
    }
    let mut reader = Reader::default();
    reader.read(SOUND);
    assert_eq!(reader.at, At::Start, "the next one would be understood");
}

#[test]
fn a_second_length_is_found_after_any_prefix_and_in_any_parts() {
    let heads = [
        "content-length: 1\r\ncontent-length:",
        "Content-Length: 1\r\nx: y\r\nTRANSFER-ENCODING:",
        "transfer-encoding: chunked\r\nContent-length:",
        "transfer-encoding: chunked\r\nTransfer-Encoding:",
        "content-length:\r\ncontent-length:",
    ];
    for head in heads {
        let bytes = [SOUND, b"POST / HTTP/1.1\r\n", head.as_bytes()].concat();
        let whole = [&bytes, &b" 1\r\n\r\n"[..]].concat();
        for size in 1..=whole.len() {
            assert_eq!(
                found(&whole, size),
                Some(bytes.len() - 1),
                "{head:?} in parts of {size}"
            );
        }
    }
}

#[test]
fn a_bare_line_feed_is_found_wherever_a_line_may_end() {
    let starts = [
        "",
        "GET / HTTP/1.1",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nhost: x",
        "GET / HTTP/1.1\r\nhost",
        "GET / HTTP/1.1\r\nhost: x\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 3",
        "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n\r\n\r",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3;a",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\r",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: y",
    ];
    for start in starts {
        let bytes = [SOUND, start.as_bytes(), b"\n\r\n\r\n"].concat();
        for size in 1..=bytes.len() {
            let at = SOUND.len() + start.len();
            assert_eq!(
                found(&bytes, size),
                Some(at),
                "{start:?} in parts of {size}"
            );
        }
    }
}
