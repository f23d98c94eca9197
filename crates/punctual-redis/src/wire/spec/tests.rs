//! Unit tests of `spec`.

use punctual::{Group, Unique};

use super::super::numbers::CONTENT_TYPES;
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
    let mut job = NewJob::new("mail", "{}").content_type("text/x-none");
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

/// What stands of a job of that content type between its priority and its payload.
fn front_of(content_type: &str) -> Vec<u8> {
    let mut front = Writer::default();
    let job = NewJob::new("mail", "{}").content_type(content_type);
    write_front(&mut front, &job);
    front.0.split_off(1)
}

#[test]
fn a_common_content_type_is_a_number_in_the_flags() {
    assert_eq!(front_of("application/json"), b"\0\x04mail\0");
    assert_eq!(front_of("text/plain"), b"\x04\x04mail\0");
    assert_eq!(front_of("text/xml"), [&[19 * 4, 4][..], b"mail\0"].concat());
    let other = b"\x01\x04mail\0\0\0\0\x0b\x81\xa2ct\xa6text/x";
    assert_eq!(front_of("text/x"), other);
}

#[test]
fn content_types_stay_what_they_were() {
    let known = CONTENT_TYPES.len();
    assert!(known <= 62, "{known} do not fit into flags");
    for content_type in CONTENT_TYPES.iter().chain(&["text/x"]) {
        let front = front_of(content_type);
        let options = match front[0] & SPEC_OPTS {
            0 => Mp::Nil,
            _ => Mp::read(&front[11..]).expect("opts"),
        };
        let mut job = NewJob::new("mail", "{}");
        opts::read(&mut job, front[0], &options).expect("it is known");
        assert_eq!(job.content_type, *content_type);
    }
    let mut job = NewJob::new("mail", "{}");
    let unknown = opts::read(&mut job, 252, &Mp::Nil);
    assert!(unknown.is_err(), "one of a later version");
}
