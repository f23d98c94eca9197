//! Jobs of one call that are stored together: whatever is done to one of them, and to all.

use std::ops::Range;

use punctual::conformance::START;
use punctual::engine::{
    Action, Claim, Edit, EnqueueVerdict, Got, LeaseReport, List, ListBy, Select, Settle,
    SettleVerdict, Settlement, Target, WorkerId,
};
use punctual::job::TOMBSTONE_BYTES;
use punctual::time::{ManualClock, Timestamp, minutes, seconds};
use punctual::{Due, Engine, JobId, JobRecord, JobState, Limits, NewJob, Outcome};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

use crate::client::{Claimed, QUEUE, claim, claim_as, connect, drain, here, state};

/// An engine whose time is moved by hand.
pub(crate) struct Place {
    pub(crate) server: TestServer,
    pub(crate) engine: RedisEngine,
    clock: ManualClock,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    async fn with(limits: Limits) -> Self {
        let server = TestServer::start();
        let clock = ManualClock::new(START);
        let options: Options = server.address().parse().expect("a good address");
        let engine = RedisEngine::connect_with_clock(options.limits(limits), clock.clone()).await;
        Self {
            engine: engine.expect("the server is there"),
            clock,
            server,
        }
    }

    async fn set_time(&self, now: Timestamp) {
        self.engine.set_time(now).await.expect("it is there");
        self.clock.set(now);
    }

    pub(crate) async fn enqueue(&self, jobs: &[NewJob]) -> Vec<EnqueueVerdict> {
        let sent = self.engine.enqueue(&here(), jobs.to_vec()).await;
        let receipts = sent.expect("enqueue").receipts;
        receipts.iter().map(|receipt| receipt.verdict).collect()
    }

    async fn settle(&self, lease: &Claimed, which: &[usize], outcome: Outcome) {
        let one = |place: &usize| {
            let job = &lease.jobs[*place];
            Settlement::new(job.id, job.attempt, outcome.clone())
        };
        let report = LeaseReport::new(lease.token, which.iter().map(one).collect());
        let settle = Settle::new(vec![report]);
        let settled = self.engine.settle(&here(), settle).await.expect("settle");
        let good = |verdict: &SettleVerdict| matches!(verdict, SettleVerdict::Settled { .. });
        assert!(settled.verdicts.iter().flatten().all(good), "{settled:?}");
    }

    async fn edit(&self, id: JobId, action: Action) {
        let edit = Edit::new(Select::Targets(vec![Target::Id(id)]), action);
        let edited = self.engine.edit(&here(), edit).await.expect("edit");
        assert_eq!(edited.matched, 1);
    }

    pub(crate) async fn get(&self, id: JobId) -> Option<Got> {
        let got = self
            .engine
            .get(&here(), vec![Target::Id(id)], true)
            .await
            .expect("get");
        got.into_iter().next().flatten()
    }

    async fn list(&self, by: ListBy) -> Vec<JobRecord> {
        let list = List::new(by).limit(1_000).payloads(true);
        self.engine.list(&here(), list).await.expect("list").jobs
    }

    /// Fields of a hash, or items of a list, that is kept under this name; of all its parts.
    fn count(&self, name: &str) -> usize {
        let script = "local sum = redis.call(ARGV[1], KEYS[1])
            for part = 0, 31 do sum = sum + redis.call('HLEN', KEYS[1] .. ':' .. part) end
            return sum";
        let key = format!("punctual:{{default/0}}:{name}");
        let command = if name == "mp" { "LLEN" } else { "HLEN" };
        let said = self.server.cli(&["EVAL", script, "1", &key, command]);
        said.trim().parse().expect("a number")
    }

    /// Lets every tombstone's time pass; then nothing is left.
    pub(crate) async fn all_forgotten(&self) {
        self.set_time(self.clock_now() + minutes(5)).await;
        while self.engine.maintain().await.expect("maintain").pruned > 0 {}
        for name in ["b", "sh", "sd", "md", "mp", "rv", "pg"] {
            assert_eq!(self.count(name), 0, "{name} is empty");
        }
    }

    fn clock_now(&self) -> Timestamp {
        use punctual::time::Clock;
        self.clock.now()
    }
}

/// Jobs that differ in nothing but id and payload.
pub(crate) fn alike(count: usize) -> Vec<NewJob> {
    let job = |number| {
        NewJob::new(QUEUE, format!("{{\"order\":{number}}}"))
            .kind("orders.close")
            .headers(vec![("trace".into(), "a".into())])
    };
    (0..count).map(job).collect()
}

pub(crate) fn ids(jobs: &[NewJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

fn is_like(job: &NewJob, kept: &JobRecord) {
    assert_eq!(kept.id, job.id);
    assert_eq!(kept.payload, job.payload);
    assert_eq!(kept.kind, job.kind);
    assert_eq!(kept.headers, job.headers);
    assert_eq!(kept.queue, job.queue);
}

async fn one_lease(engine: &RedisEngine, limit: usize) -> Claimed {
    claim(engine, limit).await.expect("claim").remove(0)
}

#[tokio::test]
async fn alike_jobs_are_kept_as_they_came_and_nothing_is_left_of_them() {
    let place = Place::new().await;
    let mut jobs = alike(250);
    use EnqueueVerdict::{Created, Duplicate, IdConflict};
    assert_eq!(place.enqueue(&jobs).await, vec![Created; 250]);
    assert_eq!((place.count("sh"), place.count("sd")), (3, 3));
    assert_eq!(place.enqueue(&jobs).await, vec![Duplicate; 250]);
    let ready = ListBy::State {
        queue: QUEUE.into(),
        state: JobState::Ready,
    };
    for by in [ready, ListBy::All] {
        let mut listed = place.list(by).await;
        listed.sort_by_key(|job| job.id);
        jobs.sort_by_key(|job| job.id);
        assert_eq!(listed.len(), 250);
        for (job, kept) in jobs.iter().zip(&listed) {
            is_like(job, kept);
        }
    }
    assert_eq!(drain(&place.engine).await.len(), 250);
    assert_eq!(place.count("sd"), 0, "no payload outlives its job");
    for job in [&jobs[0], &jobs[99], &jobs[249]] {
        assert!(matches!(
            place.get(job.id).await,
            Some(Got::Tombstone { .. })
        ));
    }
    assert_eq!(place.enqueue(&jobs).await, vec![Duplicate; 250]);
    jobs[7].payload = "other".into();
    assert_eq!(place.enqueue(&jobs[7..8]).await, [IdConflict]);
    place.all_forgotten().await;
}

#[tokio::test]
async fn a_bundle_is_claimed_and_settled_in_parts() {
    let place = Place::new().await;
    let jobs = alike(90);
    place.enqueue(&jobs).await;
    let mut seen = Vec::new();
    for limit in [30, 7, 40] {
        let lease = one_lease(&place.engine, limit).await;
        assert_eq!(lease.jobs.len(), limit);
        seen.extend(lease.jobs.iter().map(|job| job.id));
        let scattered: Vec<usize> = (0..limit).step_by(3).collect();
        place.settle(&lease, &scattered, Outcome::Completed).await;
        place.settle(&lease, &[1], Outcome::Completed).await;
        assert_eq!(
            state(&place.engine, lease.jobs[3].id).await,
            Some(JobState::Completed)
        );
        assert_eq!(
            state(&place.engine, lease.jobs[2].id).await,
            Some(JobState::Active)
        );
        let rest: Vec<usize> = (2..limit).filter(|place| place % 3 != 0).collect();
        place.settle(&lease, &rest, Outcome::Completed).await;
    }
    assert_eq!(place.count("sd"), 1, "thirteen are left of it");
    seen.extend(drain(&place.engine).await);
    assert_eq!(seen, ids(&jobs));
    assert_eq!(place.count("sd"), 0);
    place.all_forgotten().await;
}

/// In the order of the lease, as workers settle them, across the ends of bundles; and in none.
#[tokio::test]
async fn a_part_of_a_lease_of_bundles_completes_only_the_jobs_it_names() {
    let place = Place::new().await;
    for seed in 1..=6 {
        let jobs = alike(250);
        place.enqueue(&jobs).await;
        let lease = one_lease(&place.engine, 250).await;
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut left: Vec<usize> = (0..250).collect();
        let mut completed = vec![false; 250];
        while !left.is_empty() {
            let kept_in_1000 = [0, 30, 300, 900][dice.usize(..4)];
            let (mut part, kept): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|_| dice.u32(..1_000) >= kept_in_1000);
            left = kept;
            if part.is_empty() {
                continue;
            }
            // Now and then all but those at the front, or in no order.
            let front = dice.usize(..part.len());
            left.extend(part.drain(..front));
            left.sort_unstable();
            if dice.bool() {
                dice.shuffle(&mut part);
            }
            place.settle(&lease, &part, Outcome::Completed).await;
            part.iter().for_each(|one| completed[*one] = true);
            let targets = lease.jobs.iter().map(|job| Target::Id(job.id)).collect();
            let got = place
                .engine
                .get(&here(), targets, false)
                .await
                .expect("get");
            for (got, completed) in got.iter().zip(&completed) {
                let state = got.as_ref().expect("it is known").state();
                assert_eq!(state == JobState::Completed, *completed, "seed {seed}");
            }
        }
    }
    place.all_forgotten().await;
}

/// The same job twice in a report counts once, wherever it stands.
#[tokio::test]
async fn a_job_that_is_named_twice_in_a_part_is_settled_once() {
    let place = Place::new().await;
    for twice in [&[3, 4, 5, 5][..], &[5, 4, 3, 5], &[3, 3, 4], &[0, 1, 2, 0]] {
        let jobs = alike(20);
        place.enqueue(&jobs).await;
        let lease = one_lease(&place.engine, 20).await;
        let one = |place: &usize| {
            let job = &lease.jobs[*place];
            Settlement::new(job.id, job.attempt, Outcome::Completed)
        };
        let report = LeaseReport::new(lease.token, twice.iter().map(one).collect());
        let settle = Settle::new(vec![report]);
        let settled = place.engine.settle(&here(), settle).await.expect("settle");
        let repeated = |verdict: &&SettleVerdict| **verdict == SettleVerdict::Repeated;
        let verdicts = settled.verdicts.iter().flatten();
        assert_eq!(verdicts.filter(repeated).count(), 1, "{settled:?}");
        assert!(lease.complete(&place.engine).await.expect("settle"));
    }
    place.set_time(START + minutes(1)).await;
    place.all_forgotten().await;
}

#[tokio::test]
async fn a_part_of_a_lease_is_known_again_when_it_is_settled_again() {
    let place = Place::new().await;
    place.enqueue(&alike(20)).await;
    let lease = one_lease(&place.engine, 20).await;
    place
        .settle(&lease, &[0, 1, 2, 3, 5], Outcome::Completed)
        .await;
    assert!(lease.complete(&place.engine).await.expect("settle"));
    assert!(
        lease.complete(&place.engine).await.expect("settle"),
        "repeated"
    );
    place.set_time(START + minutes(1)).await;
    place.all_forgotten().await;
}

#[tokio::test]
async fn one_of_a_bundle_goes_its_own_way() {
    let place = Place::new().await;
    let jobs = alike(12);
    place.enqueue(&jobs).await;
    let later = Action::Reschedule(Due::After(minutes(1)));
    place.edit(jobs[0].id, Action::Cancel).await;
    place.edit(jobs[1].id, later).await;
    place.edit(jobs[2].id, Action::Reprioritise(1)).await;
    for (nth, is) in [(0, JobState::Cancelled), (1, JobState::Scheduled)] {
        assert_eq!(state(&place.engine, jobs[nth].id).await, Some(is));
    }
    let lease = one_lease(&place.engine, 12).await;
    let claimed: Vec<JobId> = lease.jobs.iter().map(|job| job.id).collect();
    assert_eq!(claimed[0], jobs[2].id, "its priority is higher");
    assert_eq!(claimed[1..], ids(&jobs)[3..]);
    let again = Outcome::Retry {
        after: Some(seconds(10)),
    };
    place.settle(&lease, &[4], again).await;
    place.settle(&lease, &[5], Outcome::Released).await;
    place.settle(&lease, &[6, 7, 8], Outcome::Completed).await;
    let back = one_lease(&place.engine, 1).await;
    assert_eq!(back.jobs[0].id, claimed[5]);
    assert_eq!(back.jobs[0].attempt, 2);
    assert!(back.complete(&place.engine).await.expect("settle"));
    place.set_time(START + seconds(11)).await;
    let retried = one_lease(&place.engine, 5).await;
    assert_eq!((retried.jobs[0].id, retried.jobs.len()), (claimed[4], 1));
    is_like(&jobs[6], &retried.jobs[0]);
    assert!(retried.complete(&place.engine).await.expect("settle"));
    let rest = [0, 1, 2, 3, 9];
    place.settle(&lease, &rest, Outcome::Completed).await;
    place.set_time(START + minutes(2)).await;
    assert_eq!(drain(&place.engine).await, [jobs[1].id]);
    place.edit(jobs[0].id, Action::Delete).await;
    place.all_forgotten().await;
}

#[tokio::test]
async fn jobs_of_a_bundle_whose_worker_died_are_rescued_in_order() {
    let place = Place::new().await;
    let jobs = alike(15);
    place.enqueue(&jobs).await;
    let dies = Claim::new(WorkerId::random(), QUEUE, 10).lease_duration(seconds(1));
    let died = claim_as(&place.engine, dies.clone()).await.expect("claim");
    let again = claim_as(&place.engine, dies).await.expect("claim");
    assert_eq!(again[0].jobs, died[0].jobs, "its answer may have been lost");
    place
        .settle(&died[0], &[0, 1, 2, 3], Outcome::Completed)
        .await;
    // Not one step: the engine must have been there, or it would spare the lease.
    for tenths in 1..=12_u32 {
        let step = std::time::Duration::from_millis(100) * tenths;
        place.set_time(START + step).await;
        place.engine.maintain().await.expect("maintain");
    }
    let lease = one_lease(&place.engine, 100).await;
    let claimed: Vec<JobId> = lease.jobs.iter().map(|job| job.id).collect();
    assert_eq!(claimed, ids(&jobs)[4..]);
    for (nth, job) in lease.jobs.iter().enumerate() {
        assert_eq!(job.crashes, u32::from(nth < 6), "{nth}");
        is_like(&jobs[nth + 4], job);
    }
    assert!(!died[0].complete(&place.engine).await.expect("settle"));
    assert!(lease.complete(&place.engine).await.expect("settle"));
    place.all_forgotten().await;
}

#[tokio::test]
async fn tombstones_of_a_bundle_are_bounded_as_all_are() {
    let mut limits = Limits::default();
    limits.tombstone_bytes = 30 * TOMBSTONE_BYTES;
    let place = Place::with(limits).await;
    let jobs = alike(70);
    place.enqueue(&jobs).await;
    let lease = one_lease(&place.engine, 50).await;
    assert!(lease.complete(&place.engine).await.expect("settle"));
    let known = async |range: Range<usize>| {
        let mut known = 0;
        for job in &jobs[range] {
            known += usize::from(place.get(job.id).await.is_some());
        }
        known
    };
    assert_eq!((known(0..20).await, known(20..50).await), (0, 30));
    assert_eq!(place.count("b"), 50, "30 tombstones, and 20 that wait");
    assert_eq!(
        place.enqueue(&jobs[..1]).await,
        [EnqueueVerdict::Created],
        "it is forgotten"
    );
    assert_eq!(drain(&place.engine).await.len(), 21);
    assert_eq!((known(0..1).await, known(50..70).await), (1, 20));
    place.all_forgotten().await;
}

#[tokio::test]
async fn an_id_whose_tombstone_has_ended_is_free_before_it_is_pruned() {
    let place = Place::new().await;
    let jobs = alike(10);
    place.enqueue(&jobs).await;
    assert_eq!(drain(&place.engine).await.len(), 10);
    // The sweep prunes a second after the window.
    let ended = START + minutes(2) + std::time::Duration::from_millis(500);
    place.set_time(ended).await;
    use EnqueueVerdict::Created;
    assert_eq!(place.enqueue(&jobs[2..5]).await, [Created; 3]);
    assert_eq!(place.count("b"), 10);
    place.set_time(START + minutes(3)).await;
    place.engine.maintain().await.expect("maintain");
    assert_eq!(place.count("b"), 3);
    assert_eq!(drain(&place.engine).await, ids(&jobs[2..5]));
    place.all_forgotten().await;
}

#[tokio::test]
async fn one_call_of_many_that_repeats_an_id_fails_alone() {
    let place = Place::new().await;
    let jobs = alike(10);
    let mut twice = alike(6);
    twice[3] = jobs[3].clone();
    let (here, others) = (here(), twice.clone());
    let [sent, met] = [jobs.clone(), others].map(|jobs| place.engine.enqueue(&here, jobs));
    let (sent, met) = tokio::join!(sent, met);
    let verdict = |nth: usize, of: &punctual::engine::Enqueued| of.receipts[nth].verdict;
    let (sent, met) = (sent.expect("enqueue"), met.expect("enqueue"));
    assert_eq!(verdict(3, &sent), EnqueueVerdict::Created);
    assert_eq!(verdict(3, &met), EnqueueVerdict::Duplicate);
    let done = drain(&place.engine).await;
    assert_eq!(done.len(), 15);
    place.all_forgotten().await;
}

#[tokio::test]
async fn a_client_that_knows_no_bundles_finds_records() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let jobs = alike(40);
    let sent = engine.enqueue(&here(), jobs.clone()).await;
    sent.expect("enqueue");
    let key = "punctual:{default/0}";
    let heads = server.cli(&["--raw", "KEYS", &format!("{key}:sh:*")]);
    assert_eq!(server.cli(&["HLEN", heads.trim()]).trim(), "1");
    // By hand no more is claimed: ten in words, then all by a program that reads what it claimed
    // itself.
    let said = server.cli(&["FCALL", "punctual_1_claim", "1", key, QUEUE, "LIMIT", "10"]);
    for job in &jobs[..10] {
        assert!(said.contains(&job.id.to_string()), "{} in {said}", job.id);
    }
    assert_eq!(drain(&engine).await, ids(&jobs)[10..]);
}
