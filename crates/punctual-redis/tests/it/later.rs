//! What a later version has added to a record is kept by this one, and what it cannot read is
//! written over by no edit.

use punctual::engine::{Action, Edit, Select, SettleVerdict, Target};
use punctual::time::hours;
use punctual::{Due, Engine, ErrorKind, JobState, NewJob, Outcome};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{Claimed, QUEUE, claim, connect, here, job, of_all_records, state};
use crate::hand::SHARD;

/// The one record of the shard, cut into its parts as `docs/wire-protocol.md` says.
const PARTS: &str = "
    local records
    for part = 0, 31 do
      local key = 'punctual:{default/0}:b:' .. part
      if redis.call('EXISTS', key) == 1 then records = key end
    end
    local id = redis.call('HKEYS', records)[1]
    local r = redis.call('HGET', records, id)
    local tag, flags, at = string.byte(r, 1), string.byte(r, 31), 32
    local function map()
      local length = struct.unpack('>I4', r, at)
      local found = cmsgpack.unpack(string.sub(r, at + 4, at + 3 + length))
      at = at + 4 + length
      return found
    end
    local ext = {}
    if tag >= 2 and tag <= 6 then ext = map() end
    local names = at
    at = at + 1 + string.byte(r, at)
    at = at + 1 + string.byte(r, at)
    names = string.sub(r, names, at - 1)
    local opts = {}
    if flags % 2 == 1 then opts = map() end
";

/// Adds to both maps what no reader knows yet.
const ADDS: &str = "
    ext.zz, opts.zy = {1, 'later'}, 'still later'
    local function packed(map)
      local bytes = cmsgpack.pack(map)
      return struct.pack('>I4', #bytes) .. bytes
    end
    local sflags = flags % 2 == 1 and flags or flags + 1
    redis.call('HSET', records, id, string.char(tag == 1 and 2 or tag) .. string.sub(r, 2, 30)
      .. string.char(sflags) .. packed(ext) .. names .. packed(opts) .. string.sub(r, at))
    return 'OK'
";

const SHOWS: &str = "
    return {tag, ext.zz and ext.zz[2] or 'gone', opts.zy or 'gone'}
";

fn evaluates(server: &TestServer, script: &str) -> String {
    server.cli(&["EVAL", &format!("{PARTS}{script}"), "0"])
}

/// The record, and everything else, as it is.
fn digest(server: &TestServer) -> String {
    of_all_records(server, &["DEBUG", "DIGEST-VALUE"], SHARD)
}

async fn edits(engine: &RedisEngine, job: &NewJob, action: Action) {
    let edit = Edit::new(Select::Targets(vec![Target::Id(job.id)]), action);
    let edited = engine.edit(&here(), edit).await.expect("edit");
    assert_eq!(edited.matched, 1, "{edited:?}");
}

async fn settles(engine: &RedisEngine, lease: &Claimed, outcome: Outcome) {
    let settled = engine.settle(&here(), lease.ends(outcome)).await;
    let verdicts = settled.expect("settle").verdicts.concat();
    assert!(
        matches!(verdicts[..], [SettleVerdict::Settled { .. }]),
        "{verdicts:?}"
    );
}

#[tokio::test]
async fn unknown_parts_of_a_record_outlive_each_rewrite() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let job = job().retention(hours(1));
    let sent = engine.enqueue(&here(), vec![job.clone()]).await;
    sent.expect("enqueue");
    assert_eq!(evaluates(&server, ADDS), "OK");
    let mut before = String::new();
    let mut is_kept = |what: &str, rewritten: bool| {
        let reported = evaluates(&server, SHOWS);
        let (_, added) = reported
            .split_once('\n')
            .expect("a tag, and what was added");
        assert_eq!(added, "later\nstill later", "{what}");
        let now = digest(&server);
        assert!(!rewritten || now != before, "{what} wrote it anew");
        before = now;
    };
    is_kept("nothing", false);
    edits(&engine, &job, Action::Reprioritise(3)).await;
    is_kept("another priority", true);
    edits(&engine, &job, Action::Reschedule(Due::After(hours(1)))).await;
    is_kept("another due", true);
    edits(&engine, &job, Action::RunNow).await;
    is_kept("run now", true);
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    let extend = lease.extension().progress(vec![(job.id, "half".into())]);
    let extended = engine.extend(&here(), vec![extend]).await;
    extended.expect("extend");
    is_kept("progress", true);
    settles(&engine, &lease, Outcome::Retry { after: None }).await;
    is_kept("a retry", true);
    edits(&engine, &job, Action::RunNow).await;
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    settles(&engine, &lease, Outcome::Snooze { after: hours(1) }).await;
    is_kept("a snooze", true);
    edits(&engine, &job, Action::RunNow).await;
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    settles(&engine, &lease, Outcome::Dead).await;
    is_kept("a death", true);
    edits(&engine, &job, Action::Redrive).await;
    is_kept("another life", true);
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    assert!(lease.complete(&engine).await.expect("settle"));
    is_kept("a completion", true);
    assert_eq!(state(&engine, job.id).await, Some(JobState::Completed));
}

#[tokio::test]
async fn no_edit_writes_over_a_record_of_a_later_format() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let job = job();
    let sent = engine.enqueue(&here(), vec![job.clone()]).await;
    sent.expect("enqueue");
    let tags = |tag: u8| {
        let sets = format!(
            "redis.call('HSET', records, id, string.char({tag}) .. string.sub(r, 2)) return 'OK'"
        );
        assert_eq!(evaluates(&server, &sets), "OK");
    };
    for tag in [10, 255] {
        tags(tag);
        let before = digest(&server);
        let sent = engine.enqueue(&here(), vec![job.clone()]).await;
        let error = sent.expect_err("its id is not free");
        assert_eq!(error.kind(), ErrorKind::DataDamaged, "{error}");
        for action in [Action::Cancel, Action::Reprioritise(1), Action::Delete] {
            let edit = Edit::new(Select::Targets(vec![Target::Id(job.id)]), action);
            if let Ok(edited) = engine.edit(&here(), edit).await {
                assert_eq!(edited.matched, 0, "{edited:?}");
            }
        }
        let got = engine.get(&here(), vec![Target::Id(job.id)], false).await;
        let error = got.expect_err("it is not known to be anything");
        assert_eq!(error.kind(), ErrorKind::DataDamaged, "{error}");
        engine.maintain().await.expect("maintain");
        assert_eq!(digest(&server), before, "tag {tag} is left alone");
    }
    tags(1);
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    assert!(lease.complete(&engine).await.expect("settle"));
}

/// Sets a byte of a field of a hash, and answers what it was.
fn patch(server: &TestServer, key: &str, field: &str, at: i64, byte: u8) -> u8 {
    let base = "punctual:{default/0}:";
    let script = format!(
        "local raw = redis.call('HGET', '{base}{key}', {field}) local at = {at} < 0 and #raw or {at} \
         redis.call('HSET', '{base}{key}', {field}, string.sub(raw, 1, at - 1) .. string.char({byte}) .. string.sub(raw, at + 1)) \
         return tostring(string.byte(raw, at))"
    );
    let before = server.cli(&["EVAL", &script, "0"]);
    before.trim().parse().expect("a byte")
}

#[tokio::test]
async fn rows_and_leases_of_a_later_format_are_refused() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let sent = engine.enqueue(&here(), vec![job(), job()]).await;
    sent.expect("enqueue");
    let lease = claim(&engine, 1).await.expect("claim").remove(0);
    let row = format!("'q{QUEUE}'");
    let token = "(function() for _, field in ipairs(redis.call('HKEYS', \
                 'punctual:{default/0}:pg')) do if #field == 16 then return field end end end)()";
    for (key, field, at, later) in [("s", row.as_str(), 1, 128), ("s", "'m'", -1, 2)] {
        let before = patch(&server, key, field, at, later);
        // Each write of a row changes the time of the shard: until then what was parsed is trusted.
        if patch(&server, "s", "'m'", 8, 0) == 0 {
            patch(&server, "s", "'m'", 8, 1);
        }
        let error = engine.enqueue(&here(), vec![job()]).await;
        let error = error.expect_err("of a later format");
        assert_eq!(error.kind(), ErrorKind::DataDamaged, "{field}: {error}");
        assert!(error.to_string().contains("newer library"), "{error}");
        patch(&server, key, field, at, before);
    }
    let before = patch(&server, "pg", token, 49, 64);
    let error = lease
        .complete(&engine)
        .await
        .expect_err("of a later format");
    assert_eq!(error.kind(), ErrorKind::DataDamaged, "{error}");
    patch(&server, "pg", token, 49, before);
    assert!(lease.complete(&engine).await.expect("settle"));
}
