//! Lists keep entries of jobs that have left their line: no call is slowed down by these, and they
//! end.

use punctual::engine::{Action, Edit, Got, Reason, Select, StatsRequest, Target};
use punctual::{Engine, JobId, NewJob};

use crate::bundles::{Place, alike, ids};
use crate::client::{QUEUE, claim, drain, here};

const LIST: &str = "punctual:{default/0}:r:5:orders";

async fn edit(place: &Place, ids: &[JobId], action: Action) {
    let edit = Edit::new(
        Select::Targets(ids.iter().copied().map(Target::Id).collect()),
        action,
    );
    let edited = place.engine.edit(&here(), edit).await.expect("edit");
    assert_eq!(edited.matched, ids.len());
}

async fn cancel(place: &Place, jobs: &[NewJob]) {
    edit(place, &ids(jobs), Action::Cancel).await;
}

fn chunks(place: &Place) -> usize {
    let said = place.server.cli(&["LLEN", LIST]);
    said.trim().parse().expect("a number")
}

/// Nothing is left of any job, nor of its line.
async fn all_gone(place: &Place, cancelled: &[NewJob]) {
    for some in cancelled.chunks(1_000) {
        edit(place, &ids(some), Action::Delete).await;
    }
    assert_eq!(chunks(place), 0);
    place.all_forgotten().await;
}

#[tokio::test]
async fn a_bundle_that_was_cancelled_whole_slows_no_claim_down() {
    let place = Place::new().await;
    let (cancelled, others) = (alike(90), alike(700));
    place.enqueue(&cancelled).await;
    place.enqueue(&others).await;
    cancel(&place, &cancelled).await;
    let examined = claim(&place.engine, 1_000).await.expect("claim").remove(0);
    assert_eq!(examined.jobs.len(), 250, "these are looked at");
    let unseen = claim(&place.engine, 1_000).await.expect("claim").remove(0);
    assert_eq!(unseen.jobs.len(), 450, "nothing stale is in front of these");
    for lease in [examined, unseen] {
        assert!(lease.complete(&place.engine).await.expect("settle"));
    }
    all_gone(&place, &cancelled).await;
}

#[tokio::test]
async fn a_client_without_bundles_leaves_nothing_of_a_cancelled_one() {
    let place = Place::new().await;
    let (cancelled, others) = (alike(90), alike(20));
    place.enqueue(&cancelled).await;
    place.enqueue(&others).await;
    cancel(&place, &cancelled).await;
    let words = ["FCALL", "punctual_test_claim", "1", "punctual:{default/0}"];
    let said = place
        .server
        .cli(&[words.as_slice(), &[QUEUE, "LIMIT", "5"]].concat());
    for job in &others[..5] {
        assert!(said.contains(&job.id.to_string()), "{} in {said}", job.id);
    }
    let said: serde_json::Value = serde_json::from_str(&said).expect("one line of JSON");
    let token = said["token"].as_str().expect("a token");
    let mut settle = vec!["FCALL", "punctual_test_settle", "1", "punctual:{default/0}"];
    settle.push(token);
    let five: Vec<String> = others[..5].iter().map(|job| job.id.to_string()).collect();
    for id in &five {
        settle.extend([id, "completed"]);
    }
    let said = place.server.cli(&settle);
    assert!(
        !said.contains("lease_lost") && !said.contains("PUNCTUAL"),
        "{said}"
    );
    assert_eq!(drain(&place.engine).await, ids(&others[5..]));
    all_gone(&place, &cancelled).await;
}

#[tokio::test]
async fn stale_entries_at_the_end_of_a_line_go_with_its_last_job() {
    let place = Place::new().await;
    let jobs = alike(60);
    place.enqueue(&jobs).await;
    cancel(&place, &jobs[20..]).await;
    assert_eq!(drain(&place.engine).await, ids(&jobs[..20]));
    all_gone(&place, &jobs[20..]).await;
}

#[tokio::test]
async fn a_cancel_of_a_queue_from_its_front_leaves_no_stale_chunks() {
    let place = Place::new().await;
    let jobs = alike(1_000);
    place.enqueue(&jobs).await;
    assert_eq!(chunks(&place), 10);
    cancel(&place, &jobs[..950]).await;
    assert!(chunks(&place) <= 2, "{} chunks", chunks(&place));
    assert_eq!(drain(&place.engine).await, ids(&jobs[950..]));
    all_gone(&place, &jobs[..950]).await;
}

#[tokio::test]
async fn stale_packs_in_the_middle_are_taken_out_when_they_outnumber_the_live() {
    let place = Place::new().await;
    let jobs = alike(1_000);
    let more = alike(500);
    place.enqueue(&jobs).await;
    place.enqueue(&more).await;
    cancel(&place, &jobs[10..]).await;
    cancel(&place, &more[..400]).await;
    assert!(chunks(&place) <= 14, "{} chunks", chunks(&place));
    let left: Vec<JobId> = [ids(&jobs[..10]), ids(&more[400..])].concat();
    assert_eq!(drain(&place.engine).await, left);
    all_gone(&place, &[&jobs[10..], &more[..400]].concat()).await;
}

#[tokio::test]
async fn stats_and_health_read_few_chunks_however_many_are_stale() {
    let place = Place::new().await;
    let jobs = alike(1_000);
    place.enqueue(&jobs).await;
    cancel(&place, &jobs[50..950]).await;
    let first = claim(&place.engine, 50).await.expect("claim").remove(0);
    assert!(first.complete(&place.engine).await.expect("settle"));
    assert!(chunks(&place) > 8, "{} chunks", chunks(&place));
    place.server.cli(&["CONFIG", "RESETSTAT"]);
    let stats = place.engine.stats(&here(), StatsRequest::default()).await;
    let stats = stats.expect("stats").queues.remove(0);
    assert!(stats.oldest_due.is_some(), "some are ready: {stats:?}");
    place.engine.info().await.expect("info");
    let reported = place.server.cli(&["INFO", "commandstats"]);
    let reads = ["cmdstat_lindex:calls=", "cmdstat_lrange:calls="].map(|name| {
        let line = reported.lines().find_map(|line| line.strip_prefix(name));
        let calls = line.and_then(|line| line.split(',').next());
        calls.map_or(0, |calls| calls.parse::<u32>().expect("a number"))
    });
    assert!(reads[0] > 0, "it reads the line");
    assert!(reads[0] + reads[1] <= 14, "{reads:?} chunks read");
    assert_eq!(drain(&place.engine).await, ids(&jobs[950..]));
    all_gone(&place, &jobs[50..950]).await;
}

#[tokio::test]
async fn explain_counts_no_stale_entries() {
    let place = Place::new().await;
    let jobs = alike(60);
    place.enqueue(&jobs).await;
    cancel(&place, &jobs[5..45]).await;
    let Some(Got::Job(_, Some(explained))) = place.get(jobs[50].id).await else {
        panic!("it waits");
    };
    let ahead = explained.reasons.iter().find_map(|reason| match reason {
        Reason::InLine { ahead } => Some(*ahead),
        _ => None,
    });
    assert_eq!(ahead, Some(10));
}
