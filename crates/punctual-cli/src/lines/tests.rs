//! Unit tests of `lines`.

use super::*;

fn all(bytes: &[u8]) -> Vec<Line> {
    Lines::new(bytes)
        .collect::<io::Result<_>>()
        .expect("a slice reads")
}

fn line(number: u64, text: &str, ended: bool) -> Line {
    Line {
        number,
        text: Ok(text.into()),
        ended,
    }
}

#[test]
fn lines_are_numbered_and_empty_ones_left_out() {
    let lines = all(b"a\n\n  \r\nb\r\nc");
    assert_eq!(
        lines,
        [line(1, "a", true), line(4, "b", true), line(5, "c", false)]
    );
}

#[test]
fn a_last_line_that_reads_well_needs_no_line_feed() {
    let last = all(b"7").remove(0);
    assert_eq!(last.read(|text| Ok(text.to_owned())), Ok("7".into()));
    let torn = last.read(|_| Err::<(), _>("EOF".into())).expect_err("torn");
    assert!(torn.starts_with("truncated: "), "{torn}");
}

#[test]
fn a_bad_line_is_reported_and_the_next_one_still_read() {
    let mut bytes = vec![b'x'; LINE_BYTES_MAX + 10];
    bytes.extend_from_slice(b"\n\xff\nok\n");
    let lines = all(&bytes);
    assert!(
        lines[0]
            .text
            .as_ref()
            .is_err_and(|error| error.contains("over"))
    );
    assert!(
        lines[1]
            .text
            .as_ref()
            .is_err_and(|error| error.contains("UTF-8"))
    );
    assert_eq!(lines[2], line(3, "ok", true));
}

#[test]
fn ids_depend_on_the_whole_file_the_queue_and_the_line() {
    let hash = |bytes: &[u8]| {
        let mut hash = FileHash::new();
        all(bytes).iter().for_each(|line| hash.take(line));
        hash
    };
    let (one, two) = (hash(b"a\nb\n"), hash(b"a\nc\n"));
    assert_eq!(one.job_id("q", 1), hash(b"a\nb\n").job_id("q", 1));
    assert_ne!(one.job_id("q", 1), two.job_id("q", 1));
    assert_ne!(one.job_id("q", 1), one.job_id("q", 2));
    assert_ne!(one.job_id("q", 1), one.job_id("r", 1));
    assert_ne!(hash(b"ab\n").job_id("q", 1), one.job_id("q", 1));
}
