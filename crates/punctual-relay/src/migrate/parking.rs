//! The parking keys: the journal of a migration. Each job that was taken has a number there, its
//! place, and its bytes; a second key lists those that are not stored yet.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use punctual::time::{Stopwatch, millis, pause, seconds};
use punctual::{Error, ErrorKind, JobId, Result};

use super::found::{Found, Place, Shape, of_millis};
use crate::redis::{Connection, Place as Key};

/// A migration that does nothing for so long is dead: another may begin.
const LOCK: Duration = seconds(10);
/// How long a migration waits for one that was killed.
const LOCK_WAIT: Duration = seconds(12);

/// In front of every script: a process that lost the lock does nothing more.
const HOLDS_LOCK: &str = "
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return redis.error_reply('LOCKLOST another migration of the queue has begun')
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
";

/// Moves jobs that are still there. Each is parked before it is removed: a script that fails
/// between the two, as a command is denied, leaves it in both places, and the next one finds its
/// number again. The key by which BullMQ deduplicates goes with the job that holds it: it would
/// swallow what producers send from now on. A hash that would expire is kept as long as it is
/// parked.
///
/// KEYS: lock, items, unstored, meta, the place. ARGV from 3 on: shape, number of the place,
/// beginning of the keys of hashes or nothing, the same for parked ones, then a name and a handle
/// per job.
const TAKE: &str = "
redis.call('PERSIST', KEYS[2])
local shape, place, hash, parked = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local taken, seen = {}, {}
for at = 7, #ARGV, 2 do
    local name, handle = ARGV[at], ARGV[at + 1]
    local item, score, there = handle, '-', nil
    if shape == 'sorted' then
        score = redis.call('ZSCORE', KEYS[5], handle)
        there = score
    elseif shape == 'held' then
        item = redis.call('HGET', KEYS[5], handle)
        there = item
    else
        there = redis.call('LPOS', KEYS[5], handle, 'RANK', shape == 'tail' and -1 or 1)
    end
    local job = hash ~= '' and hash .. name
    if there and not seen[name] and (not job or redis.call('TYPE', job).ok == 'hash') then
        seen[name] = true
        local n = redis.call('HGET', KEYS[3], name)
        if not n then
            n = redis.call('HINCRBY', KEYS[4], 'n', 1)
            redis.call('HSET', KEYS[3], name, n)
        end
        local before = redis.call('HGET', KEYS[2], n)
        local at = before and string.match(before, '^%d+@(%d+) ') or now
        redis.call('HSET', KEYS[2], n, place .. '@' .. at .. ' ' .. score .. ' ' .. #name .. ' ' .. name .. item)
        if job then
            local held = redis.call('HGET', job, 'deid')
            held = held and hash .. 'de:' .. held
            if held and redis.call('GET', held) == name then
                redis.call('HSET', job, 'punctual:de', redis.call('PTTL', held))
                redis.call('DEL', held)
            end
            local left = redis.call('PTTL', job)
            if left > 0 then
                redis.call('HSET', job, 'punctual:until', now + left)
                redis.call('PERSIST', job)
            end
            redis.call('RENAME', job, parked .. n)
        end
        if shape == 'sorted' then
            redis.call('ZREM', KEYS[5], handle)
        elseif shape == 'held' then
            redis.call('HDEL', KEYS[5], handle)
            redis.call('ZREM', KEYS[5] .. '_index', handle)
        else
            redis.call('LREM', KEYS[5], shape == 'tail' and -1 or 1, handle)
        end
        taken[#taken + 1] = tonumber(n)
    end
end
return taken
";

/// Jobs that are stored stay parked for a while. KEYS as above. ARGV from 3 on: milliseconds,
/// beginning of the keys of parked hashes, then a name and a number per job.
const STORED: &str = "
for at = 5, #ARGV, 2 do
    redis.call('HDEL', KEYS[3], ARGV[at])
    redis.call('PEXPIRE', ARGV[4] .. ARGV[at + 1], ARGV[3])
end
if redis.call('EXISTS', KEYS[3]) == 0 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
return 0
";

/// Puts jobs back, unless their name or the key of their place is used otherwise by now: a part of
/// a job must not go back. KEYS as above, without a place. ARGV from 3 on: beginning of the keys of
/// parked hashes, then per job: number, name, key, shape, score, item, key of its hash or nothing.
const PUT_BACK: &str = "
local back = 0
for at = 4, #ARGV, 7 do
    local n, name, key, shape = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    local score, item, job = ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
    local held, wanted = redis.call('TYPE', key).ok, shape == 'sorted' and 'zset' or 'list'
    local is_free = held == 'none' or held == wanted
    is_free = is_free and (job == '' or redis.call('EXISTS', job) == 0)
    if is_free and redis.call('HEXISTS', KEYS[2], n) == 1 then
        if job ~= '' then
            redis.call('RENAME', ARGV[3] .. n, job)
            redis.call('PERSIST', job)
            local till = redis.call('HGET', job, 'punctual:until')
            if till then
                redis.call('HDEL', job, 'punctual:until')
                redis.call('PEXPIREAT', job, till)
            end
            local left, held = unpack(redis.call('HMGET', job, 'punctual:de', 'deid'))
            if left then
                redis.call('HDEL', job, 'punctual:de')
                held = string.sub(job, 1, -#name - 1) .. 'de:' .. held
                if redis.call('SET', held, name, 'NX') and tonumber(left) > 0 then
                    redis.call('PEXPIRE', held, left)
                end
            end
        end
        if shape == 'sorted' then
            redis.call('ZADD', key, score, item)
        elseif shape == 'head' then
            redis.call('LPUSH', key, item)
        else
            redis.call('RPUSH', key, item)
        end
        redis.call('HDEL', KEYS[2], n)
        redis.call('HDEL', KEYS[3], name)
        redis.call('HDEL', KEYS[4], 'undo ' .. n)
        back = back + 1
    end
end
return back
";

/// Takes the lock, and answers the identity of the source, made once. Like every script here it
/// begins with a write that needs no memory: at `maxmemory` Redis refuses one that does not.
const LOCKS: &str = "
redis.call('HDEL', KEYS[2], '')
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
redis.call('HSETNX', KEYS[2], 'id', ARGV[1])
return redis.call('HGET', KEYS[2], 'id')
";

/// Sets fields of the meta key, each with its value. KEYS as above.
const NOTE: &str = "
for at = 3, #ARGV, 2 do redis.call('HSET', KEYS[4], ARGV[at], ARGV[at + 1]) end
return 0
";

/// Adds the member by which BullMQ wakes a worker.
const WAKE: &str = "
redis.call('ZREM', KEYS[1], '')
return redis.call('ZADD', KEYS[1], 0, '0')
";

/// Ends the lock if it is held still.
const RELEASE: &str = "
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 0
";

pub(super) struct Parking {
    pub(super) connection: Connection,
    base: String,
    token: String,
    /// Made once per source: jobs of two servers have different ids.
    pub(super) identity: String,
}

/// A job that was taken.
#[derive(Debug, Clone)]
pub(super) struct Parked {
    pub(super) number: u64,
    pub(super) place: usize,
    pub(super) name: String,
    /// As Redis wrote it: put back, it is the same.
    pub(super) score: String,
    pub(super) found: Found,
}

impl Parking {
    /// Begins, once no other migration of the queue runs.
    pub(super) async fn open(key: &Key) -> Result<Self> {
        let mut connection = key.connect().await?;
        let base = key.key().to_owned();
        let token = JobId::new().to_string();
        let watch = Stopwatch::start();
        let mut lock = redis::cmd("EVAL");
        lock.arg(LOCKS).arg(2);
        lock.arg(format!("{base}:lock")).arg(format!("{base}:meta"));
        lock.arg(&token).arg(LOCK.as_millis() as u64);
        let identity = loop {
            let held: Option<String> = connection.ask(&lock).await?;
            if let Some(identity) = held {
                break identity;
            }
            if watch.elapsed() > LOCK_WAIT {
                let message = "another migration of the queue runs; wait until it ends";
                return Err(Error::new(ErrorKind::EngineUnavailable, message));
            }
            pause(millis(100)).await;
        };
        Ok(Self {
            connection,
            base,
            token,
            identity,
        })
    }

    fn script(&self, body: &str, place: Option<&str>) -> redis::Cmd {
        let base = &self.base;
        let keys = [":lock", "", ":unstored", ":meta"].map(|end| format!("{base}{end}"));
        let mut command = redis::cmd("EVAL");
        command.arg(format!("{HOLDS_LOCK}{body}"));
        command.arg(4 + place.iter().len()).arg(&keys[..]);
        command.arg(place);
        command.arg(&self.token).arg(LOCK.as_millis() as u64);
        command
    }

    fn hashes(&self) -> String {
        format!("{}:job:", self.base)
    }

    /// Takes jobs by their names and handles; answers the numbers of those that were still there.
    pub(super) async fn take(
        &mut self,
        (index, place): (usize, &Place),
        hash: &str,
        jobs: &[(String, Bytes)],
    ) -> Result<Vec<u64>> {
        let shape = match place.shape {
            Shape::Tail => "tail",
            Shape::Head => "head",
            Shape::Sorted => "sorted",
            Shape::Held => "held",
        };
        let mut command = self.script(TAKE, Some(&place.key));
        command.arg(shape).arg(index).arg(hash).arg(self.hashes());
        for (name, handle) in jobs {
            command.arg(name).arg(&handle[..]);
        }
        self.connection.ask(&command).await
    }

    /// The numbers of jobs that are not stored yet.
    pub(super) async fn unstored(&mut self) -> Result<Vec<u64>> {
        let mut command = redis::cmd("HVALS");
        command.arg(format!("{}:unstored", self.base));
        let mut numbers: Vec<u64> = self.connection.ask(&command).await?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The largest number that was given.
    pub(super) async fn last(&mut self) -> Result<u64> {
        let mut command = redis::cmd("HGET");
        command.arg(format!("{}:meta", self.base)).arg("n");
        let last: Option<u64> = self.connection.ask(&command).await?;
        Ok(last.unwrap_or(0))
    }

    /// Those that are parked, in that order.
    pub(super) async fn read(&mut self, numbers: &[u64], places: &[Place]) -> Result<Vec<Parked>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let mut calls = redis::pipe();
        calls.cmd("HMGET").arg(&self.base).arg(numbers);
        for number in numbers {
            calls
                .cmd("HGETALL")
                .arg(format!("{}{number}", self.hashes()));
        }
        let mut answers: Vec<redis::Value> = self.connection.ask_all(&calls).await?;
        let mut hashes = answers.split_off(1);
        let values: Vec<Option<Vec<u8>>> = match answers.pop() {
            Some(value) => redis::from_redis_value(value).map_err(|_| damaged())?,
            None => return Err(damaged()),
        };
        let mut parked = Vec::new();
        for (at, value) in values.into_iter().enumerate() {
            let hash = std::mem::replace(&mut hashes[at], redis::Value::Nil);
            if let Some(value) = value {
                let mut one = read(numbers[at], &value, places).ok_or_else(damaged)?;
                let fields: HashMap<String, Vec<u8>> =
                    redis::from_redis_value(hash).map_err(|_| damaged())?;
                one.found.fields = fields.into_iter().map(|(k, v)| (k, v.into())).collect();
                parked.push(one);
            }
        }
        Ok(parked)
    }

    /// They are stored; they stay parked for that long.
    pub(super) async fn stored(&mut self, jobs: &[&Parked], keep: Duration) -> Result<()> {
        let mut command = self.script(STORED, None);
        command.arg(keep.as_millis() as u64).arg(self.hashes());
        for job in jobs {
            command.arg(&job.name).arg(job.number);
        }
        self.connection.ask(&command).await
    }

    /// Notes that they are to be put back, before their jobs are cancelled.
    pub(super) async fn note_undo(&mut self, jobs: &[&Parked]) -> Result<()> {
        let mut command = self.script(NOTE, None);
        for job in jobs {
            command.arg(format!("undo {}", job.number)).arg(1);
        }
        self.connection.ask(&command).await
    }

    /// Whether a migration of the queue has begun before.
    pub(super) async fn has_begun(connection: &mut Connection, key: &Key) -> Result<bool> {
        let mut command = redis::cmd("EXISTS");
        command.arg(format!("{}:meta", key.key()));
        connection.ask(&command).await
    }

    /// Where its jobs went, in words.
    pub(super) async fn bound(&mut self) -> Result<Option<String>> {
        let mut command = redis::cmd("HGET");
        command.arg(format!("{}:meta", self.base)).arg("bound");
        self.connection.ask(&command).await
    }

    /// Notes where they go.
    pub(super) async fn bind(&mut self, into: &str) -> Result<()> {
        let mut command = self.script(NOTE, None);
        command.arg("bound").arg(into);
        self.connection.ask(&command).await
    }

    /// Whether any job is parked.
    pub(super) async fn has_jobs(&mut self) -> Result<bool> {
        let mut command = redis::cmd("EXISTS");
        self.connection.ask(command.arg(&self.base)).await
    }

    /// Which of them were noted so.
    pub(super) async fn are_undone(&mut self, jobs: &[Parked]) -> Result<Vec<bool>> {
        let mut command = redis::cmd("HMGET");
        command.arg(format!("{}:meta", self.base));
        for job in jobs {
            command.arg(format!("undo {}", job.number));
        }
        let noted: Vec<Option<u8>> = self.connection.ask(&command).await?;
        Ok(noted.iter().map(Option::is_some).collect())
    }

    /// Leaves out those whose hash is there again: their name is in use.
    pub(super) async fn keep_free(&mut self, jobs: &mut Vec<Parked>, hash: &str) -> Result<()> {
        if hash.is_empty() || jobs.is_empty() {
            return Ok(());
        }
        let mut calls = redis::pipe();
        for job in &*jobs {
            calls.cmd("EXISTS").arg(format!("{hash}{}", job.name));
        }
        let used: Vec<bool> = self.connection.ask_all(&calls).await?;
        let mut used = used.into_iter();
        jobs.retain(|_| !used.next().unwrap_or_default());
        Ok(())
    }

    /// Puts them back, the last that was taken first. Answers how many were; the name of another
    /// may be in use again.
    pub(super) async fn put_back(
        &mut self,
        jobs: &[&Parked],
        places: &[Place],
        hash: &str,
    ) -> Result<u64> {
        let mut command = self.script(PUT_BACK, None);
        command.arg(self.hashes());
        for job in jobs {
            let place = places.get(job.place).ok_or_else(damaged)?;
            let (key, shape, item) = match place.shape {
                Shape::Sorted => (&place.key, "sorted", job.found.item.to_vec()),
                Shape::Head => (&place.key, "head", job.found.item.to_vec()),
                Shape::Tail => (&place.key, "tail", job.found.item.to_vec()),
                // No worker holds it any more: it waits in its queue.
                Shape::Held => (&places[0].key, "tail", message_of(&job.found.item)),
            };
            let job_key = match hash {
                "" => String::new(),
                hash => format!("{hash}{}", job.name),
            };
            command.arg(job.number).arg(&job.name).arg(key).arg(shape);
            command.arg(&job.score).arg(item).arg(job_key);
        }
        self.connection.ask(&command).await
    }

    /// Wakes workers of the library by their key.
    pub(super) async fn wake(&mut self, marker: &str) -> Result<()> {
        let mut command = redis::cmd("EVAL");
        command.arg(WAKE).arg(1).arg(marker);
        self.connection.ask(&command).await
    }

    /// Ends it: another may begin at once.
    pub(super) async fn close(mut self) -> Result<()> {
        let mut command = redis::cmd("EVAL");
        command.arg(RELEASE).arg(1);
        command.arg(format!("{}:lock", self.base)).arg(&self.token);
        self.connection.ask(&command).await
    }
}

/// The message of what kombu notes of one that a worker holds.
fn message_of(item: &[u8]) -> Vec<u8> {
    let parts: Option<Vec<Box<serde_json::value::RawValue>>> = serde_json::from_slice(item).ok();
    let first = parts.and_then(|parts| parts.into_iter().next());
    first.map_or_else(|| item.to_vec(), |first| first.get().as_bytes().to_vec())
}

fn damaged() -> Error {
    let message =
        "the parking keys of the migration are damaged; was something else written there?";
    Error::new(ErrorKind::DataDamaged, message)
}

/// A parked job: its place with the instant of its taking, its score, the length of its name, its
/// name, its item.
fn read(number: u64, value: &[u8], places: &[Place]) -> Option<Parked> {
    let mut parts = value.splitn(4, |byte| *byte == b' ');
    let mut text = || std::str::from_utf8(parts.next()?).ok();
    let (place, score, length) = (text()?, text()?, text()?);
    let (place, taken) = place.split_once('@').unwrap_or((place, ""));
    let place: usize = place.parse().ok()?;
    let rest = parts.next()?;
    let (name, item) = rest.split_at_checked(length.parse().ok()?)?;
    Some(Parked {
        number,
        place,
        name: String::from_utf8(name.to_vec()).ok()?,
        score: score.to_owned(),
        found: Found {
            state: places.get(place)?.state,
            item: Bytes::copy_from_slice(item),
            score: score.parse().ok(),
            fields: HashMap::new(),
            is_odd: None,
            taken_at: taken.parse().ok().and_then(of_millis),
        },
    })
}
