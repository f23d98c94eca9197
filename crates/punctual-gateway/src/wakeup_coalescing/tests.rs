//! Unit tests of `wakeup_coalescing`.

use std::collections::BTreeSet;

use futures_util::{SinkExt, StreamExt};
use punctual::engine::{Action, Edit, Select};
use punctual::time::{ManualClock, millis, minutes, seconds, within};
use punctual::{Due, JobId, MemoryEngine, NewJob};
use tokio::io::AsyncReadExt;
use tokio::task::{JoinHandle, yield_now};

use super::*;
use crate::auth::authenticate;
use crate::http::Peer;
use crate::listener::test_transport::TestTransport;
use crate::request::parse;
use crate::service::claim_for;
use crate::shared::Shared;
use crate::{Gateway, GatewayLimits, Tokens};

const START: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);
/// When what is due later is due: before any worker that sleeps longer polls for work by itself, as
/// they do every second.
const SOON: std::time::Duration = millis(500);
/// What is known is known at once; no claim waits that long but on a machine that stands.
const PATIENT: std::time::Duration = seconds(20);

/// Claims that wait at a gateway whose clock stands still.
struct Waiting {
    shared: Shared,
    clock: ManualClock,
    polls: Vec<Poll>,
}

/// Answers the ids of what was claimed.
type Poll = JoinHandle<Vec<String>>;

impl Waiting {
    fn new() -> Self {
        Self::within(GatewayLimits::default())
    }

    fn within(limits: GatewayLimits) -> Self {
        let clock = ManualClock::new(START);
        let engine = Arc::new(MemoryEngine::with_clock(clock.clone()));
        let gateway = Gateway::new(engine, Tokens::open()).limits(limits);
        Self {
            shared: gateway.shared(),
            clock,
            polls: Vec::new(),
        }
    }

    /// Puts jobs into queues, each due that much later.
    async fn put(&self, jobs: &[(&str, std::time::Duration)]) -> Vec<JobId> {
        let job = |(queue, delay): &(&str, _)| NewJob::new(*queue, "1").due(Due::After(*delay));
        let jobs: Vec<NewJob> = jobs.iter().map(job).collect();
        let ids = jobs.iter().map(|job| job.id).collect();
        let namespace = Namespace::default();
        let enqueued = self.shared.engine.enqueue(&namespace, jobs).await;
        enqueued.expect("receipts");
        ids
    }

    /// So many claims of one job each, one after the other.
    async fn poll(&mut self, queues: &str, count: usize) {
        for _ in 0..count {
            let all = self.counted() + 1;
            let shared = self.shared.clone();
            let body = format!(r#"{{"queues":{queues},"wait":"60s"}}"#);
            self.polls.push(tokio::spawn(async move {
                let caller = authenticate(&shared, None, None, Peer::Unknown).expect("open");
                let request = parse(body.as_bytes()).expect("a claim");
                let claimed = claim_for(&shared, &caller, request).await;
                let (answer, undelivered) = claimed.unwrap_or_else(|_| panic!("an answer"));
                undelivered.expect("no lease comes again").delivered();
                let answer = serde_json::to_value(answer).expect("JSON");
                let jobs = answer["leases"][0]["jobs"].as_array();
                let ids = jobs.into_iter().flatten().map(|job| job["id"].as_str());
                ids.map(|id| id.expect("an id").to_owned()).collect()
            }));
            self.until(|waiting| waiting.counted() == all).await;
        }
    }

    fn counted(&self) -> usize {
        let all = self.shared.wakeups.lock();
        all.values().map(|entry| entry.waiters).sum()
    }

    /// Lets the others go on until something is so.
    async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let comes = async {
            while !is_so(self) {
                yield_now().await;
            }
        };
        within(PATIENT, comes).await.expect("it comes");
    }

    /// What those are answered that end, until that many jobs are claimed.
    async fn claimed(&mut self, count: usize) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for _ in 0..count {
            self.until(|waiting| waiting.polls.iter().any(Poll::is_finished))
                .await;
            let ended = self.polls.iter().position(Poll::is_finished);
            let poll = self.polls.remove(ended.expect("one has ended"));
            ids.extend(poll.await.expect("no panic"));
        }
        ids
    }
}

fn texts(ids: &[JobId]) -> BTreeSet<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn five_jobs_that_are_due_together_are_claimed_then_one_by_each() {
    let mut waiting = Waiting::new();
    let ids = waiting.put(&[("a", SOON); 5]).await;
    waiting.poll(r#"["a"]"#, 8).await;
    waiting.clock.advance(SOON);
    assert_eq!(waiting.claimed(5).await, texts(&ids));
}

#[tokio::test]
async fn of_two_that_wait_the_second_has_what_the_first_one_left_for_later() {
    let mut waiting = Waiting::new();
    waiting.poll(r#"["a"]"#, 2).await;
    let ids = waiting.put(&[("a", seconds(0)), ("a", SOON)]).await;
    assert_eq!(waiting.claimed(1).await, texts(&ids[..1]));
    let due = START + SOON;
    waiting
        .until(|waiting| waiting.clock.next_sleeper() == Some(due))
        .await;
    waiting.clock.advance(SOON);
    assert_eq!(waiting.claimed(1).await, texts(&ids[1..]));
}

#[tokio::test]
async fn a_due_that_is_moved_forward_is_woken_up_for() {
    let mut waiting = Waiting::new();
    let ids = waiting.put(&[("a", seconds(4))]).await;
    waiting.poll(r#"["a"]"#, WAKING_MAX + 2).await;
    let namespace = Namespace::default();
    // They receive the wakeup in turn; the last of these passes it on to those that wake up.
    for sooner in 0..=WAKING_MAX as u32 {
        let due = SOON - millis(10) * sooner;
        let edit = Edit::new(
            Select::Targets(vec![ids[0].into()]),
            Action::Reschedule(Due::After(due)),
        );
        let edited = waiting.shared.engine.edit(&namespace, edit).await;
        edited.expect("it is edited");
        let due = Some(START + due);
        waiting
            .until(|waiting| waiting.clock.next_sleeper() == due)
            .await;
    }
    waiting.clock.advance(SOON);
    assert_eq!(waiting.claimed(1).await, texts(&ids));
}

#[tokio::test]
async fn others_take_the_places_of_waiters_that_hang_up_when_woken() {
    let mut waiting = Waiting::new();
    let ids = waiting.put(&[("a", SOON)]).await;
    waiting.poll(r#"["a"]"#, WAKING_MAX + 2).await;
    waiting.clock.advance(SOON);
    // None of them has gone on since: this thread is theirs too.
    waiting
        .polls
        .drain(..WAKING_MAX)
        .for_each(|poll| poll.abort());
    assert_eq!(waiting.claimed(1).await, texts(&ids));
}

#[tokio::test]
async fn claims_of_a_silent_socket_keep_no_other_from_waking_up() {
    let mut waiting = Waiting::within(GatewayLimits {
        reader: minutes(10),
        ..GatewayLimits::default()
    });
    let ids = waiting.put(&[("a", SOON); WAKING_MAX + 1]).await;
    let large = NewJob::new("large", "x".repeat(200 << 10));
    let namespace = Namespace::default();
    let enqueued = waiting.shared.engine.enqueue(&namespace, vec![large]);
    enqueued.await.expect("a receipt");

    let transport = TestTransport::to(waiting.shared.clone());
    let stream = transport.connect_with(1 << 10, Peer::Unknown);
    let socket = tokio_tungstenite::client_async("ws://localhost/v1/events", stream).await;
    let (mut socket, _) = socket.expect("a socket");
    let claim =
        |queue| format!(r#"{{"type":"claim","request":{{"queues":["{queue}"],"wait":"60s"}}}}"#);
    for frame in [
        vec![r#"{"type":"hello"}"#.to_owned()],
        vec![claim("a"); WAKING_MAX],
    ]
    .concat()
    {
        socket.send(frame.into()).await.expect("it takes it");
    }
    waiting
        .until(|waiting| waiting.counted() == WAKING_MAX)
        .await;
    let welcome = socket.next().await.expect("a frame").expect("a sound one");
    assert!(welcome.to_string().contains("welcome"), "{welcome}");
    socket
        .send(claim("large").into())
        .await
        .expect("it takes it");
    // The answer has begun and cannot end, as no client reads on.
    let begun = within(PATIENT, socket.get_mut().read_u8()).await;
    begun.expect("in time").expect("a byte");

    waiting.poll(r#"["a"]"#, 1).await;
    waiting.clock.advance(SOON);
    assert!(waiting.claimed(1).await.is_subset(&texts(&ids)));
}

#[tokio::test]
async fn claims_of_other_queues_have_places_of_their_own() {
    let mut waiting = Waiting::new();
    let ids = waiting.put(&[("b", SOON)]).await;
    waiting.poll(r#"["a"]"#, WAKING_MAX).await;
    waiting.poll(r#"["a","b"]"#, 1).await;
    waiting.clock.advance(SOON);
    assert_eq!(waiting.claimed(1).await, texts(&ids));
}

#[tokio::test]
async fn nothing_is_kept_of_claims_that_wait_no_more_or_never_did() {
    let mut waiting = Waiting::new();
    waiting.poll(r#"["a"]"#, 2).await;
    waiting.poll(r#"["b"]"#, 1).await;
    assert_eq!(waiting.shared.wakeups.lock().len(), 2);
    waiting.put(&[("a", seconds(0)), ("a", seconds(0))]).await;
    waiting.claimed(2).await;
    assert_eq!(waiting.shared.wakeups.lock().len(), 1);
    waiting.polls.drain(..).for_each(|poll| poll.abort());
    waiting
        .until(|waiting| waiting.shared.wakeups.lock().is_empty())
        .await;
}

/// An answer at a second, with a due.
fn latest(now: u64, due: Option<u64>) -> LatestAnswer {
    LatestAnswer {
        now: START + seconds(now),
        due: due.map(|due| START + seconds(due)),
    }
}

#[test]
fn a_later_answer_counts_alone_and_an_older_one_takes_no_due_away() {
    for (known, answer, due) in [
        (latest(50, Some(60)), latest(51, Some(70)), Some(70)),
        (latest(50, Some(60)), latest(51, None), None),
        (latest(50, Some(60)), latest(49, None), Some(60)),
        (latest(50, Some(60)), latest(50, Some(70)), Some(60)),
        // A clock that has fallen behind: what comes is learned, what is past by it is not kept.
        (latest(50, Some(60)), latest(20, Some(25)), Some(25)),
        (latest(50, Some(25)), latest(26, Some(30)), Some(30)),
        (latest(50, Some(25)), latest(26, None), None),
    ] {
        let due = due.map(|due| START + seconds(due));
        assert_eq!(known.and(answer).due, due, "{known:?} {answer:?}");
    }
}
