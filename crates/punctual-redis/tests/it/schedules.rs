//! Schedules on servers: their runs need no process of ours, rubbish stops nothing, and several
//! shards have each its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual::conformance::{Harness, LAWS, Law, START, Subject, first_broken};
use punctual::engine::{Control, Controlled, RecordValue, ScheduleAct};
use punctual::schedule::{
    Every, Form, Overlap, PatternText, SCHEDULE_PREFIX, Schedule, ScheduleStatus, SpecBuilder,
    Template,
};
use punctual::time::{ManualClock, Timestamp, minutes, seconds};
use punctual::{Engine, Limits, NewJob, Result};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;
use serde_json::Value;

use crate::client::{QUEUE, here, of_all_records, options};
use crate::hand::SHARD;

/// A schedule whose runs overlap as they like.
fn schedule(spec: SpecBuilder) -> Schedule {
    let template = Template::of(NewJob::new(QUEUE, "{}")).expect("a plain job");
    let mut schedule = Schedule::new(spec, template);
    schedule.overlap = Overlap::Allow;
    schedule
}

fn cron(pattern: &str) -> Schedule {
    let mut spec = SpecBuilder::default();
    spec.patterns = vec![PatternText::new(Form::Cron, pattern)];
    schedule(spec)
}

fn every_minute() -> Schedule {
    let mut spec = SpecBuilder::default();
    spec.every = vec![Every::new(minutes(1), std::time::Duration::ZERO)];
    schedule(spec)
}

/// The first minute after the start, and those after it.
fn minute(n: u64) -> Timestamp {
    let first = START.as_micros().div_ceil(60_000_000);
    Timestamp::from_micros((first + n) * 60_000_000)
}

/// An engine on a server whose clock stands still.
struct Still {
    server: TestServer,
    clock: ManualClock,
    engine: RedisEngine,
}

impl Still {
    async fn at(address: impl Fn(&TestServer) -> String) -> Self {
        let server = TestServer::start();
        Self::on(address(&server), server).await
    }

    async fn new() -> Self {
        Self::at(TestServer::address).await
    }

    async fn on(address: String, server: TestServer) -> Self {
        let clock = ManualClock::new(START);
        let connected = RedisEngine::connect_with_clock(options(&address), clock.clone());
        Self {
            engine: connected.await.expect("the server is there"),
            server,
            clock,
        }
    }

    async fn set_time(&self, now: Timestamp) {
        self.engine.set_time(now).await.expect("it is reported");
        self.clock.set(now);
    }

    async fn write(&self, name: &str, schedule: Schedule) -> Result<Controlled> {
        let known = self.find(name).await;
        let write = Control::Write {
            name: format!("{SCHEDULE_PREFIX}{name}"),
            expected: known.map_or(0, |known| known.version),
            value: Some(RecordValue::Schedule(Box::new(schedule))),
        };
        self.engine.control(&here(), write).await
    }

    async fn find(&self, name: &str) -> Option<ScheduleStatus> {
        let (name, act) = (name.into(), ScheduleAct::Read);
        let read = Control::Schedule { name, act };
        match self.engine.control(&here(), read).await {
            Ok(Controlled::Schedule(found)) => found.map(|found| *found),
            other => panic!("a schedule is read, got {other:?}"),
        }
    }

    /// What `info` says of the health of namespaces.
    async fn problems(&self) -> String {
        let health = self.engine.info().await.expect("info").health;
        let problems = health.of_namespaces.iter();
        problems.map(|problem| problem.text.clone()).collect()
    }

    async fn names(&self) -> Vec<String> {
        let (after, limit) = (String::new(), 100);
        let list = Control::Schedules { after, limit };
        match self.engine.control(&here(), list).await {
            Ok(Controlled::Schedules(found)) => found.into_iter().map(|one| one.name).collect(),
            other => panic!("schedules are listed, got {other:?}"),
        }
    }

    fn fired_by_hand(&self, now: Timestamp) -> Vec<(String, Timestamp)> {
        fired_by_hand(&self.server, now)
    }
}

/// A call by hand, with nothing but a Redis client.
fn by_hand(server: &TestServer, function: &str, words: &[&str]) -> Value {
    let function = format!("punctual_test_{function}");
    let call = [&["FCALL", &function, "1", SHARD], words].concat();
    let answer = server.cli(&call);
    serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{words:?}: {answer}"))
}

/// Claims and completes what is ready by hand; the instants that it stands for, by schedule.
fn fired_by_hand(server: &TestServer, now: Timestamp) -> Vec<(String, Timestamp)> {
    let clock = format!("{SHARD}:clock");
    server.cli(&["SET", &clock, &now.as_micros().to_string()]);
    let lease = by_hand(server, "claim", &[QUEUE, "LIMIT", "100"]);
    let token = lease["token"].as_str().unwrap_or_default();
    let mut fired = Vec::new();
    for job in lease["jobs"].as_array().expect("a list") {
        let id = job["id"].as_str().expect("an id");
        by_hand(server, "settle", &[token, id, "completed"]);
        let at = job["schedule"]["at"].as_str().expect("an instant");
        let name = job["schedule"]["name"].as_str().expect("a name");
        fired.push((name.to_owned(), at.parse().expect("an instant")));
    }
    fired.sort();
    fired
}

/// With redis-cli alone every run comes on time: of a calendar while its list lasts, of spans for
/// good.
#[tokio::test]
async fn runs_come_without_any_process_of_ours() {
    let still = Still::new().await;
    still
        .write("cron", cron("* * * * *"))
        .await
        .expect("written");
    still.write("span", every_minute()).await.expect("written");
    let lasts = still.find("cron").await.expect("it is there").lasts_until;
    let lasts = lasts.expect("a list ends");
    assert!(lasts >= START + minutes(60), "{lasts:?}");
    let Still { server, engine, .. } = still;
    drop(engine);
    let mut counted = 0;
    for n in 0.. {
        let at = minute(n);
        let fired = fired_by_hand(&server, at);
        let span = ("span".to_owned(), at);
        if at > lasts {
            assert_eq!(fired, [span], "spans never run dry");
            break;
        }
        assert_eq!(fired, [("cron".to_owned(), at), span], "minute {n}");
        assert!(fired_by_hand(&server, at + minutes(1) / 2).is_empty());
        counted += 1;
    }
    assert!(counted >= 60, "{counted}");
    // A process with calendars comes again.
    let still = Still::on(server.address(), server).await;
    assert!(still.find("cron").await.expect("it is there").dry);
    still.set_time(lasts + minutes(2)).await;
    let problems = still.problems().await;
    assert!(
        problems.contains("schedule cron: no run to come"),
        "{problems}"
    );
    for _ in 0..10 {
        still.engine.maintain().await.expect("maintain");
    }
    assert_eq!(still.problems().await, "");
    let status = still.find("cron").await.expect("it is there");
    assert!(!status.dry && status.pending.is_some(), "{status:?}");
    let all = (lasts + minutes(2) - minute(0)).as_secs() / 60 + 1;
    assert_eq!(status.fired + status.missed, all);
}

/// `health` warns before the list of a calendar is used up, once nothing has refilled it for a
/// minute.
#[tokio::test]
async fn health_warns_before_a_list_runs_dry() {
    let still = Still::new().await;
    still
        .write("cron", cron("* * * * *"))
        .await
        .expect("written");
    still.write("span", every_minute()).await.expect("written");
    let lasts = still.find("cron").await.expect("it is there").lasts_until;
    let lasts = lasts.expect("a list ends");
    let Still { server, engine, .. } = still;
    drop(engine);
    // From there on a process with calendars would have refilled it.
    let short = (0..)
        .map(minute)
        .find(|at| *at + minutes(30) > lasts)
        .expect("an instant");
    for at in (0..).map(minute).take_while(|at| *at <= short) {
        fired_by_hand(&server, at);
    }
    let still = Still::on(server.address(), server).await;
    // The time of a shard can be set once it is known; health is as it was when that was read last.
    still.find("cron").await.expect("it is there");
    still.set_time(short + seconds(90)).await;
    assert!(!still.find("cron").await.expect("it is there").dry);
    let problems = still.problems().await;
    let expected = format!("schedule cron: runs are known until {lasts} only");
    assert!(problems.contains(&expected), "{problems}");
    // A process with calendars refills it.
    for _ in 0..10 {
        still.engine.maintain().await.expect("maintain");
    }
    assert_eq!(still.problems().await, "");
    let now = still.find("cron").await.expect("it is there").lasts_until;
    assert!(now.is_some_and(|now| now > lasts), "{now:?}");
}

/// What was lost of a schedule, or is rubbish, heals with the next run or with maintenance.
#[tokio::test]
async fn a_lost_row_ends_no_series() {
    let key = |name: &str| format!("{SHARD}:{name}");
    let losses: [&[&str]; 7] = [
        &["HSET", &key("sc"), "beat", "rubbish"],
        &["HSET", &key("sc"), "beat", ""],
        &["HSET", &key("sc"), "~beat", "odd"],
        &["HDEL", &key("sc"), "beat", "~beat"],
        &["DEL", &key("sc")],
        &["DEL", &key("sn"), &key("sl")],
        &["DEL", &key("sc"), &key("sn"), &key("sl")],
    ];
    for loss in losses {
        let still = Still::new().await;
        still
            .write("beat", cron("* * * * *"))
            .await
            .expect("written");
        still.write("span", every_minute()).await.expect("written");
        still.server.cli(loss);
        let mut fired = 0;
        for n in 0..6 {
            still.set_time(minute(n)).await;
            for _ in 0..3 {
                still.engine.maintain().await.expect("maintain");
            }
            fired += still.fired_by_hand(minute(n)).len();
        }
        assert!(fired >= 10, "{loss:?}: {fired}");
        assert_eq!(still.names().await, ["beat", "span"], "{loss:?}");
        let status = still.find("beat").await.expect("it is there");
        assert_eq!(status.next[0], minute(6), "{loss:?}");
    }
}

/// A next run that another client deleted is skipped.
#[tokio::test]
async fn a_lost_run_ends_no_series() {
    let still = Still::new().await;
    still.write("beat", every_minute()).await.expect("written");
    of_all_records(&still.server, &["DEL"], SHARD);
    still.set_time(minute(0)).await;
    for _ in 0..10 {
        still.engine.maintain().await.expect("maintain");
    }
    assert_eq!(still.fired_by_hand(minute(1)).len(), 1);
    let status = still.find("beat").await.expect("it is there");
    assert_eq!((status.fired, status.skipped), (1, 1));
}

/// A record that is rubbish stops no other schedule; a write puts it right.
#[tokio::test]
async fn a_rubbish_record_stops_nothing() {
    let still = Still::new().await;
    for name in ["a", "b", "c"] {
        still.write(name, every_minute()).await.expect("written");
    }
    let records = format!("{SHARD}:rec");
    still
        .server
        .cli(&["HSET", &records, "schedule/b", "rubbish"]);
    for n in 0..3 {
        let fired = still.fired_by_hand(minute(n));
        let names: Vec<_> = fired.iter().map(|(name, _)| name.as_str()).collect();
        let runs_once: &[&str] = if n == 0 {
            &["a", "b", "c"]
        } else {
            &["a", "c"]
        };
        assert_eq!(names, runs_once);
    }
    assert_eq!(still.names().await, ["a", "c"]);
    assert_eq!(still.find("b").await, None);
    still.write("b", every_minute()).await.expect("written");
    assert_eq!(still.fired_by_hand(minute(3)).len(), 3);
}

/// Another program's key stops no job, and `maintain` names it.
#[tokio::test]
async fn a_foreign_key_stops_no_run() {
    for name in ["sc", "sn", "sl"] {
        let still = Still::new().await;
        still.write("beat", every_minute()).await.expect("written");
        let key = format!("{SHARD}:{name}");
        still.server.cli(&["DEL", &key]);
        still.server.cli(&["SET", &key, "foreign"]);
        for n in 0..3 {
            assert_eq!(
                still.fired_by_hand(minute(n)).len(),
                1,
                "{name}, minute {n}"
            );
        }
        let error = still.engine.maintain().await.expect_err("a foreign key");
        assert!(error.to_string().contains(&key), "{error}");
        still.server.cli(&["DEL", &key]);
        for n in 3..9 {
            still.set_time(minute(n)).await;
            still.engine.maintain().await.expect("maintain");
            still.fired_by_hand(minute(n));
        }
        assert_eq!(still.names().await, ["beat"], "{name}");
    }
}

/// Instants of an older tz database give way to those of a newer one.
#[tokio::test]
async fn a_newer_tz_database_names_all_instants_anew() {
    let still = Still::new().await;
    still
        .write("beat", cron("0 9 * * *"))
        .await
        .expect("written");
    let before = still.find("beat").await.expect("it is there");
    // As an older database would have named them: an hour later.
    let script = "local row = redis.call('HGET', KEYS[1], 'beat')
        local list = redis.call('HGET', KEYS[1], '~beat')
        local later = {}
        for at = 1, #list, 8 do
          later[#later + 1] = struct.pack('>I8', struct.unpack('>I8', list, at) + 3600000000)
        end
        redis.call('HSET', KEYS[1], 'beat', row:sub(1, 48) .. '2000a', '~beat', table.concat(later))
        redis.call('HSET', KEYS[2], 'z', '2000a')";
    let keys = ["sc", "s"].map(|name| format!("{SHARD}:{name}"));
    still.server.cli(&["EVAL", script, "2", &keys[0], &keys[1]]);
    let moved = still.find("beat").await.expect("it is there");
    assert_eq!(moved.next[1], before.next[1] + minutes(60));
    for _ in 0..3 {
        still.engine.maintain().await.expect("maintain");
    }
    let after = still.find("beat").await.expect("it is there");
    assert_eq!(after.tz_database, before.tz_database);
    assert_eq!((after.next, after.pending), (before.next, before.pending));
}

/// Each schedule lives in one shard, with all its runs; all of them are listed by name.
#[tokio::test]
async fn each_schedule_has_a_shard_of_its_own() {
    let still = Still::at(|server| format!("{}?shards=3", server.address())).await;
    let names: Vec<String> = (10..30).map(|n| format!("beat-{n}")).collect();
    for name in &names {
        let mut schedule = every_minute();
        schedule.overlap = Overlap::Skip;
        still.write(name, schedule).await.expect("written");
    }
    assert_eq!(still.names().await, names);
    let mut shards = 0;
    for shard in 0..3 {
        let rows = format!("punctual:{{default/{shard}}}:sc");
        let rows = still.server.cli(&["HKEYS", &rows]);
        let of_shard = rows.lines().filter(|row| row.starts_with("beat")).count();
        shards += usize::from(of_shard > 0);
        assert!(of_shard < names.len());
    }
    assert_eq!(shards, 3);
    let (mut found, mut next) = (BTreeSet::new(), Some(None));
    while let Some(cursor) = next {
        let page = Control::Names {
            prefix: SCHEDULE_PREFIX.into(),
            cursor,
            limit: 1_000,
        };
        let reported = still.engine.control(&here(), page).await;
        let Ok(Controlled::Names { names, cursor }) = reported else {
            panic!("names, and not {reported:?}");
        };
        found.extend(names);
        next = cursor.map(Some);
    }
    let records = names.iter().map(|name| format!("{SCHEDULE_PREFIX}{name}"));
    assert_eq!(found, records.collect());
    // A schedule whose jobs have a group lives where that is.
    let mut grouped = every_minute();
    grouped.template.group = Some(punctual::Group::new("ann"));
    still
        .write("grouped", grouped.clone())
        .await
        .expect("written");
    let mut moved = grouped.clone();
    let keys = (0..50).map(|n| format!("bob-{n}"));
    let mut refused = None;
    for key in keys {
        moved.template.group = Some(punctual::Group::new(&key));
        refused = refused.or(still.write("grouped", moved.clone()).await.err());
    }
    let refused = refused.expect("some group is of another shard");
    assert!(refused.to_string().contains("another shard"), "{refused}");
}

/// Bugs of schedules, injected into the functions, break laws.
#[test]
fn injected_bugs_of_schedules_are_found() {
    let of_schedules = |law: &&Law| law.name.starts_with("schedule");
    for bug in [
        "TickedTwice",
        "TickLostOnCancel",
        "MissedAllFired",
        "OverlapUnchecked",
    ] {
        let broken = first_broken(LAWS.iter().filter(of_schedules), Faulty(bug));
        assert!(broken.is_some(), "no law finds {bug}");
    }
}

/// Makes engines with a bug in their functions.
#[derive(Debug, Clone)]
struct Faulty(&'static str);

#[async_trait::async_trait]
impl Harness for Faulty {
    async fn fresh(&self, limits: Limits) -> Box<dyn Subject> {
        let server = TestServer::start();
        let clock = ManualClock::new(START);
        let options = options(&server.address()).limits(limits);
        let engine = RedisEngine::connect_with_clock_and_bug(options, clock.clone(), self.0);
        let engine = Arc::new(engine.await.expect("the server is there"));
        Box::new(Bugged {
            engine,
            clock,
            _server: server,
        })
    }
}

struct Bugged {
    engine: Arc<RedisEngine>,
    clock: ManualClock,
    _server: TestServer,
}

#[async_trait::async_trait]
impl Subject for Bugged {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    async fn set_time(&self, now: Timestamp) {
        self.engine.set_time(now).await.expect("it is reported");
        self.clock.set(now);
    }
}
