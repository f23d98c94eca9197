//! Unit tests of `spec`.

use punctual::{Group, Unique};

use super::*;

#[test]
fn the_hash_is_as_in_the_vectors() {
    let vectors = include_str!("../../../../../docs/vectors/content_hash.tsv");
    let mut compared = 0;
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let headers = fields[4].split(',').filter(|header| !header.is_empty());
        let header = |header: &str| {
            let (name, value) = header.split_once('=').expect("name=value");
            (name.to_owned(), value.to_owned())
        };
        let job = NewJob::new(fields[0], fields[2].to_owned())
            .kind(fields[1])
            .content_type(fields[3])
            .headers(headers.map(header).collect());
        assert_eq!(format!("{:016x}", content_hash(&job)), fields[5], "{line}");
        compared += 1;
    }
    assert!(compared > 8, "{compared} vectors");
}

#[test]
fn what_differs_from_job_to_job_comes_first() {
    let mut job = NewJob::new("mail", "{}").content_type("text/plain");
    job.expires_at = Some(punctual::time::Timestamp::from_micros(7));
    job.unique = Some(Unique::new("key"));
    job.group = Some(Group::new("group"));
    let mut front = Writer::default();
    write_front(&mut front, &job);
    let first = b"\xa2ex\xa8\0\0\0\0\0\0\0\x07\xa1u\xa3key\xa1g\xa5group\xa2ct";
    let packed = front.0;
    assert!(
        packed.windows(first.len()).any(|bytes| bytes == first),
        "{packed:x?}"
    );
}
