//! Unit tests of `content`.

use punctual::NewJob;

use super::of_new;

#[test]
fn every_part_of_a_content_counts() {
    let job = || NewJob::new("orders", "payload");
    let of = |change: fn(&mut NewJob)| {
        let mut changed = job();
        change(&mut changed);
        of_new(&changed)
    };
    let same = of(|_| {});
    assert_eq!(same, of_new(&job()), "the id is no part of it");
    let others = [
        of(|job| job.queue = "mail".into()),
        of(|job| job.kind = "mail".into()),
        of(|job| job.content_type = "text/plain".into()),
        of(|job| job.headers.push(("scripted".into(), String::new()))),
        of(|job| job.payload = "payloae".into()),
        of(|job| job.payload = "payloadd".into()),
    ];
    for (place, other) in others.iter().enumerate() {
        assert_ne!(*other, same, "{place}");
    }
}
