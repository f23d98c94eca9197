//! Calls of jobs with a key, an expiry, a retention, a group or a retry take as few commands as
//! calls of plain ones: a number that does not grow with the jobs of the call.

use std::collections::BTreeMap;

use punctual::conformance::START;
use punctual::engine::{
    Action, Control, Edit, Edited, EnqueueVerdict, FlowAct, LeaseReport, LimitSettings,
    QueueSettings, RecordValue, Select, Settle, SettleVerdict, Settlement, ShareSettings, Target,
};
use punctual::flow::OnFailure;
use punctual::time::{ManualClock, hours, minutes, seconds};
use punctual::{Due, Effect, Engine, JobId, JobState, NewJob, Outcome, Unique};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

use crate::client::{Claimed, QUEUE, claim, here, state};

/// A server, an engine with a clock of its own, and what the functions did since the last count.
struct Place {
    server: TestServer,
    engine: RedisEngine,
    clock: ManualClock,
    before: BTreeMap<String, u64>,
}

/// Commands that no function of ours gives, and those of the test's clock.
const NOT_OURS: [&str; 13] = [
    "get", "set", "info", "config", "client", "hello", "ping", "select", "command", "function",
    "fcall", "fcall_ro", "time",
];

impl Place {
    async fn new() -> Self {
        let server = TestServer::start();
        let clock = ManualClock::new(START);
        let options: Options = server.address().parse().expect("a good address");
        let engine = RedisEngine::connect_with_clock(options, clock.clone()).await;
        let mut place = Self {
            engine: engine.expect("the server is there"),
            clock,
            server,
            before: BTreeMap::new(),
        };
        // The shard, the queue and the worker are known from here on.
        place.enqueue(vec![NewJob::new(QUEUE, "{}")]).await;
        place
            .claim(1)
            .await
            .complete(&place.engine)
            .await
            .expect("settle");
        place.by_name();
        place
    }

    /// Commands within functions since the last count, by name.
    fn by_name(&mut self) -> BTreeMap<String, u64> {
        let reported = self.server.cli(&["INFO", "commandstats"]);
        let counts = reported.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let count = rest.split(',').next()?.parse().ok()?;
            let is_ours = !NOT_OURS.contains(&name.split('|').next()?);
            is_ours.then(|| (name.to_owned(), count))
        });
        let now: BTreeMap<String, u64> = counts.collect();
        let since = now.iter().map(|(name, count)| {
            let before = self.before.get(name).copied().unwrap_or_default();
            (name.clone(), count - before)
        });
        let since = since.filter(|(_, count)| *count > 0).collect();
        self.before = now;
        since
    }

    /// How many commands that were.
    fn commands(&mut self) -> u64 {
        self.by_name().values().sum()
    }

    async fn set_time(&mut self, after: std::time::Duration) {
        self.engine.set_time(START + after).await.expect("a clock");
        self.clock.set(START + after);
    }

    async fn enqueue(&mut self, jobs: Vec<NewJob>) {
        let count = jobs.len();
        let sent = self.engine.enqueue(&here(), jobs).await.expect("enqueue");
        let created = sent
            .receipts
            .iter()
            .filter(|one| one.verdict == EnqueueVerdict::Created);
        assert_eq!(created.count(), count);
    }

    async fn claim(&mut self, count: usize) -> Claimed {
        let mut leases = claim(&self.engine, count).await.expect("claim");
        assert_eq!(leases.len(), 1);
        assert_eq!(leases[0].jobs.len(), count);
        leases.remove(0)
    }

    async fn end(&mut self, lease: &Claimed, outcome: Outcome) {
        let settled = self.engine.settle(&here(), lease.ends(outcome)).await;
        let verdicts = settled.expect("settle").verdicts.remove(0);
        let is_settled = |one: &SettleVerdict| matches!(one, SettleVerdict::Settled { .. });
        assert!(verdicts.iter().all(is_settled), "{verdicts:?}");
    }

    /// Commands of an enqueue, a claim and a settle of these jobs.
    async fn life(&mut self, jobs: Vec<NewJob>) -> [u64; 3] {
        let count = jobs.len();
        self.enqueue(jobs).await;
        let enqueued = self.commands();
        let lease = self.claim(count).await;
        let claimed = self.commands();
        self.end(&lease, Outcome::Completed).await;
        [enqueued, claimed, self.commands()]
    }
}

/// All in one hash, which the last byte decides in the library of tests: what jobs of several take
/// is for another test.
fn plain(_: usize) -> NewJob {
    let mut job = NewJob::new(QUEUE, vec![b'x'; 100]);
    let mut id = *job.id.as_bytes();
    id[15] = 0;
    job.id = JobId::from_bytes(id);
    job
}

fn keyed(number: usize) -> NewJob {
    let mut job = plain(number);
    job.unique = Some(Unique::new(format!("order-{number}")));
    job
}

fn expiring(number: usize) -> NewJob {
    let mut job = plain(number);
    job.expires_at = Some(START + hours(1) + seconds(number as u64));
    job
}

fn in_group(number: usize) -> NewJob {
    plain(number).group(format!("customer-{number}"))
}

fn of_share(number: usize) -> NewJob {
    plain(number).share(format!("customer-{number}"))
}

fn with_limits(number: usize) -> NewJob {
    plain(number)
        .limit("smtp")
        .limit(format!("host:{}", number % 10))
}

fn retained(number: usize) -> NewJob {
    let mut job = plain(number);
    job.retention = hours(1);
    job
}

/// Of so many jobs, and of as few as are worth it, the same.
async fn life_of(kind: fn(usize) -> NewJob) -> [u64; 3] {
    let mut place = Place::new().await;
    // The hash of unique keys is made a table once in ten seconds.
    place.life((200..210).map(kind).collect()).await;
    let few = place.life((0..20).map(kind).collect()).await;
    let many = place.life((100..180).map(kind).collect()).await;
    assert_eq!(few, many, "it grows with the jobs");
    many
}

#[tokio::test]
async fn keyed_jobs_take_a_few_commands_a_call() {
    assert_eq!(life_of(keyed).await, [8, 13, 11]);
}

#[tokio::test]
async fn expiring_jobs_take_a_few_commands_a_call() {
    assert_eq!(life_of(expiring).await, [7, 14, 10]);
}

#[tokio::test]
async fn retained_jobs_take_a_few_commands_a_call() {
    assert_eq!(life_of(retained).await, [6, 13, 12]);
}

#[tokio::test]
async fn jobs_of_groups_take_a_few_commands_a_call() {
    let [enqueue, claim, settle] = life_of(in_group).await;
    assert!(enqueue <= 9, "{enqueue}");
    assert!(claim <= 22, "{claim}");
    assert!(settle <= 14, "{settle}");
}

/// A claim of forty jobs reads records twice where one of ten reads them once, as records may be
/// large: so many commands more.
const RECORDS_READ: u64 = 6;

/// A group knows who comes next without reading its line.
#[tokio::test]
async fn jobs_of_shares_take_a_few_commands_a_call() {
    assert_eq!(life_of(of_share).await, [11, 17, 13]);
}

/// A settle of jobs as they were sent reads their lease and what their ends touch, not themselves.
#[tokio::test]
async fn ends_of_jobs_as_they_were_sent_read_no_record() {
    let step: fn(usize) -> NewJob = |nth| plain(nth).step("nightly", nth.to_string());
    for kind in [keyed, of_share, in_group, step] {
        let mut place = Place::new().await;
        place.enqueue((0..20).map(kind).collect()).await;
        let act = FlowAct::Seal {
            steps: 20,
            on_failure: OnFailure::default(),
            callbacks: None,
        };
        let name = "nightly".to_owned();
        let seal = Control::Flow { name, act };
        // There is a flow of steps only.
        let _ = place.engine.control(&here(), seal).await;
        let lease = place.claim(20).await;
        place.by_name();
        place.end(&lease, Outcome::Completed).await;
        assert_eq!(place.by_name().get("hmget"), Some(&2));
    }
}

/// While the settings bound how many jobs of a share wait, plain jobs cost as much as elsewhere,
/// and a claim of jobs with shares gives a few commands more, however many it takes.
#[tokio::test]
async fn a_bound_of_shares_costs_only_jobs_with_one() {
    let mut place = Place::new().await;
    let shares = ShareSettings::new().max_pending(1_000);
    let write = Control::Write {
        name: format!("queue/{QUEUE}"),
        expected: 0,
        value: Some(RecordValue::Queue(QueueSettings::new().shares(shares))),
    };
    let written = place.engine.control(&here(), write).await;
    written.expect("settings");
    place.by_name();
    place.life((200..210).map(plain).collect()).await;
    let bounded = place.life((0..80).map(plain).collect()).await;
    assert_eq!(bounded, life_of(plain).await, "plain jobs");
    place.life((200..210).map(of_share).collect()).await;
    let few = place.life((0..20).map(of_share).collect()).await;
    let many = place.life((100..180).map(of_share).collect()).await;
    let free = life_of(of_share).await;
    assert_eq!(
        [few[1], few[2]],
        [many[1], many[2]],
        "it grows with the jobs"
    );
    assert!(
        many[1] <= free[1] + 2 && many[2] <= free[2] + 1,
        "{many:?}, {free:?}"
    );
}

/// Commands of an enqueue, a claim and a settle of a hundred jobs, with ten thousand that wait.
async fn among_shares(shares: usize) -> [u64; 3] {
    let mut place = Place::new().await;
    for thousand in 0..10 {
        let jobs = (0..1_000).map(|nth| of_share((thousand * 1_000 + nth) % shares));
        place.enqueue(jobs.collect()).await;
    }
    let warm = place.claim(100).await;
    place.end(&warm, Outcome::Completed).await;
    place.by_name();
    place
        .life((0..100).map(|nth| of_share(nth * 7 % shares)).collect())
        .await
}

#[tokio::test]
async fn jobs_with_limits_take_a_few_commands_a_call() {
    let [enqueue, claim, settle] = life_of(with_limits).await;
    assert!(enqueue <= 13, "{enqueue}");
    assert!(claim <= 25, "{claim}");
    assert!(settle <= 18, "{settle}");
}

/// Commands of a settle that frees twenty slots of a limit, and of a claim that takes them, while
/// so many jobs wait at it.
async fn at_a_limit(waiting: usize) -> [u64; 2] {
    let mut place = Place::new().await;
    let write = Control::Write {
        name: "limit/smtp".into(),
        expected: 0,
        value: Some(RecordValue::Limit(LimitSettings::new().concurrency(20))),
    };
    let written = place.engine.control(&here(), write).await;
    written.expect("a limit");
    let jobs = (0..20 + waiting).map(|nth| plain(nth).limit("smtp"));
    place.enqueue(jobs.collect()).await;
    let active = place.claim(20).await;
    // A claim keeps back a part of them.
    for _ in 0..waiting / 100 {
        let none = claim(&place.engine, 20).await.expect("claim");
        assert!(none.is_empty());
    }
    place.by_name();
    place.end(&active, Outcome::Completed).await;
    let settled = place.commands();
    place.claim(20).await;
    [settled, place.commands()]
}

#[tokio::test]
async fn jobs_that_wait_at_a_limit_cost_no_call_anything() {
    assert_eq!(at_a_limit(900).await, at_a_limit(200).await);
}

#[tokio::test]
async fn ten_thousand_shares_cost_what_ten_do() {
    let (many, few) = (among_shares(10_000).await, among_shares(10).await);
    let sum = |commands: [u64; 3]| commands.iter().sum::<u64>();
    assert!(sum(many) <= sum(few), "{many:?} against {few:?}");
    assert!(sum(many) <= 45, "{many:?}");
}

#[tokio::test]
async fn groups_of_several_jobs_take_a_few_commands_a_call() {
    const MEMBERS: usize = 4;
    let mut counts = Vec::new();
    for groups in [10, 40] {
        let mut place = Place::new().await;
        let jobs = (0..MEMBERS * groups).map(|nth| in_group(nth % groups));
        place.enqueue(jobs.collect()).await;
        let mut commands = vec![place.commands()];
        for _ in 0..MEMBERS {
            let lease = place.claim(groups).await;
            commands.push(place.commands());
            place.end(&lease, Outcome::Completed).await;
            let settling = place.by_name();
            assert_eq!(settling.get("zrangebylex"), None);
            commands.push(settling.values().sum());
        }
        counts.push(commands);
    }
    for (few, many) in counts[0].iter().zip(&counts[1]) {
        assert!(many <= &(few + RECORDS_READ), "{counts:?}");
    }
    assert!(counts[1].iter().all(|count| *count <= 24), "{counts:?}");
}

#[tokio::test]
async fn retained_jobs_are_removed_with_a_few_commands() {
    let mut place = Place::new().await;
    for (count, first) in [(20, 0), (80, 100)] {
        place
            .life((first..first + count).map(retained).collect())
            .await;
    }
    place.set_time(hours(2)).await;
    place.by_name();
    let mut calls = 0;
    loop {
        calls += 1;
        if place.engine.maintain().await.expect("maintain").pruned == 0 {
            break;
        }
    }
    let commands = place.by_name();
    let removals = ["zrem", "hdel"].map(|name| commands.get(name).copied().unwrap_or_default());
    assert!(calls <= 4, "{calls} calls");
    assert!(removals.iter().all(|count| *count <= 6), "{commands:?}");
}

#[tokio::test]
async fn jobs_that_failed_are_retried_with_a_few_commands_a_call() {
    let mut counts = Vec::new();
    for count in [20, 80] {
        let mut place = Place::new().await;
        place.enqueue((0..count).map(plain).collect()).await;
        let lease = place.claim(count).await;
        place.by_name();
        let failed = |job: &punctual::JobRecord| {
            let mut failed = Settlement::new(
                job.id,
                job.attempt,
                Outcome::Retry {
                    after: Some(seconds(2)),
                },
            );
            failed.error = Some("no connection".into());
            failed
        };
        let report = LeaseReport::new(lease.token, lease.jobs.iter().map(failed).collect());
        let settle = Settle::new(vec![report]);
        place.engine.settle(&here(), settle).await.expect("settle");
        let failing = place.commands();
        place.set_time(seconds(5)).await;
        place.engine.maintain().await.expect("maintain");
        place.by_name();
        let lease = place.claim(count).await;
        assert!(lease.jobs.iter().all(|job| job.attempt == 2));
        let claiming = place.commands();
        place.end(&lease, Outcome::Completed).await;
        counts.push([failing, claiming, place.commands()]);
    }
    assert_eq!(counts[0], counts[1], "it grows with the jobs");
    assert_eq!(counts[1], [15, 15, 10]);
}

/// Jobs with a key, due after that span.
fn orders(after: std::time::Duration, count: usize) -> Vec<NewJob> {
    let order = |number| {
        let mut job = keyed(number);
        job.due = Due::After(after);
        job
    };
    (0..count).map(order).collect()
}

/// Commands of an enqueue of orders, and of a cancel of all of them by key.
async fn ordered_and_cancelled(after: std::time::Duration, count: usize) -> [u64; 2] {
    let mut place = Place::new().await;
    let orders = orders(after, count);
    let ids: Vec<JobId> = orders.iter().map(|job| job.id).collect();
    let key = |job: &NewJob| Target::Unique {
        queue: QUEUE.into(),
        key: job.unique.clone().expect("a key").key,
    };
    let keys = orders.iter().map(key).collect();
    place.by_name();
    place.enqueue(orders).await;
    let enqueued = place.commands();
    let cancel = Edit::new(Select::Targets(keys), Action::Cancel);
    let edited: Edited = place.engine.edit(&here(), cancel).await.expect("edit");
    assert_eq!(edited.matched, count);
    let cancelled = place.commands();
    for id in ids {
        assert_eq!(state(&place.engine, id).await, Some(JobState::Cancelled));
    }
    [enqueued, cancelled]
}

#[tokio::test]
async fn orders_are_cancelled_by_key_with_a_few_commands_a_call() {
    let few = ordered_and_cancelled(seconds(15), 20).await;
    let many = ordered_and_cancelled(seconds(15), 80).await;
    assert_eq!(few, many, "it grows with the jobs");
    assert_eq!(
        many,
        [11, 14],
        "two of them make a table of the hash of keys"
    );
}

#[tokio::test]
async fn one_order_is_cancelled_by_key_as_many_are() {
    let [_, cancelled] = ordered_and_cancelled(seconds(15), 1).await;
    assert!(cancelled <= 15, "{cancelled}");
}

/// Their order by finish is the one by the end of their retention, too.
#[tokio::test]
async fn cancelled_jobs_are_removed_with_a_few_commands() {
    let mut place = Place::new().await;
    for nth in 0..3 {
        let jobs: Vec<NewJob> = orders(seconds(15), 80);
        let ids = jobs.iter().map(|job| job.id);
        let cancel = Edit::new(
            Select::Targets(ids.map(Target::Id).collect()),
            Action::Cancel,
        );
        place.enqueue(jobs).await;
        place.engine.edit(&here(), cancel).await.expect("edit");
        place.set_time(seconds(1 + nth)).await;
    }
    place.set_time(hours(25)).await;
    place.by_name();
    let mut pruned = 0;
    loop {
        match place.engine.maintain().await.expect("maintain").pruned {
            0 => break,
            some => pruned += some,
        }
    }
    assert_eq!(pruned, 3 * 80 + 1, "and the tombstone of the first job");
    let commands = place.by_name();
    let count = |name| commands.get(name).copied().unwrap_or_default();
    assert_eq!(count("zremrangebyrank"), 1, "{commands:?}");
    assert!(count("zrem") <= 7 && count("hdel") <= 6, "{commands:?}");
}

#[tokio::test]
async fn orders_of_half_an_hour_take_a_few_commands_too() {
    let few = ordered_and_cancelled(minutes(30), 20).await;
    let many = ordered_and_cancelled(minutes(30), 80).await;
    assert_eq!(few, many, "it grows with the jobs");
    assert!(many.iter().all(|count| *count <= 24), "{many:?}");
}

#[tokio::test]
async fn held_jobs_are_released_together() {
    let mut counts = Vec::new();
    for count in [10, 60] {
        let mut place = Place::new().await;
        let held = |number| {
            let mut job = plain(number);
            job.wait_for = vec!["paid".into()];
            job
        };
        let held: Vec<NewJob> = (0..count).map(held).collect();
        let clear = |job: &NewJob| Effect::Clear {
            job: job.id,
            name: "paid".into(),
        };
        let effects = held.iter().map(clear).collect();
        place.by_name();
        place.enqueue(held).await;
        let enqueued = place.commands();
        place.enqueue(vec![plain(0)]).await;
        let lease = place.claim(1).await;
        place.by_name();
        let job = &lease.jobs[0];
        let mut done = Settlement::new(job.id, job.attempt, Outcome::Completed);
        done.effects = effects;
        let settle = Settle::new(vec![LeaseReport::new(lease.token, vec![done])]);
        place.engine.settle(&here(), settle).await.expect("settle");
        let released = place.commands();
        let lease = place.claim(count).await;
        let claimed = place.commands();
        place.end(&lease, Outcome::Completed).await;
        counts.push([enqueued, released, claimed, place.commands()]);
    }
    assert_eq!(counts[0], [6, 17, 13, 9]);
    assert_eq!(counts[1], counts[0], "no record is read");
}

/// What stands in the way of one job of a call stands in the way of no other.
#[tokio::test]
async fn one_taken_key_makes_the_others_no_dearer() {
    let mut place = Place::new().await;
    place.enqueue(vec![keyed(50)]).await;
    place.by_name();
    let jobs = (0..100).map(keyed).collect();
    let sent = place.engine.enqueue(&here(), jobs).await.expect("enqueue");
    let created = sent
        .receipts
        .iter()
        .filter(|one| one.verdict == EnqueueVerdict::Created);
    assert_eq!(created.count(), 99);
    let commands = place.by_name();
    assert!(commands.values().sum::<u64>() <= 16, "{commands:?}");
}
