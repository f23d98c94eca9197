//! Messages that a relay has taken and not yet accepted, in two keys beside their source.

use std::time::Duration;

use bytes::Bytes;
use punctual::time::{Stopwatch, millis, pause, seconds};
use punctual::{JobId, Result};

use super::connection::{Connection, Place};
use crate::source::Refused;

/// A parked message belongs to a relay that died once it lay for so long.
pub(super) const STALE: Duration = seconds(5);
/// The pauses between polls of an empty source.
const POLL_FIRST: Duration = millis(2);
const POLL_MAX: Duration = millis(50);
/// A call for messages answers after that, with none.
const WAIT: Duration = seconds(1);

/// Hands out stale parked messages, then parks and hands out new ones. A message is parked before
/// it is taken: a script that fails between the two, as a command is denied, leaves it in both
/// places.
///
/// At `maxmemory` Redis refuses a script whose first write may need memory, and no later one: so
/// the first removes nothing. Else a list that filled the server could not be drained.
///
/// KEYS: the source, the ids with the instant of their taking, the bodies by id; of Redisson also
/// the sorted set and the list of what is delayed. ARGV: how many,
/// milliseconds until a parked one is stale, the command that takes, ids for new messages.
const TAKE: &str = "
redis.call('ZREM', KEYS[2], '')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local most = tonumber(ARGV[1])
local taken = {}
local stale = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2], 'LIMIT', 0, most)
for _, id in ipairs(stale) do
    local body = redis.call('HGET', KEYS[3], id)
    if body then
        redis.call('ZADD', KEYS[2], now, id)
        taken[#taken + 1] = id
        taken[#taken + 1] = body
    else
        redis.call('ZREM', KEYS[2], id)
    end
end
local function park(n, body)
    local id = ARGV[3 + n]
    redis.call('HSET', KEYS[3], id, body)
    redis.call('ZADD', KEYS[2], now, id)
    taken[#taken + 1] = id
    taken[#taken + 1] = body
end
local left = most - #stale
if left > 0 and ARGV[3] == 'zset' then
    local found = redis.call('ZRANGE', KEYS[1], 0, left - 1, 'WITHSCORES')
    for at = 1, #found, 2 do
        park((at + 1) / 2, found[at + 1] .. ' ' .. found[at])
        redis.call('ZREM', KEYS[1], found[at])
    end
elseif left > 0 and ARGV[3] == 'redisson' then
    local n = 0
    while n < left do
        local item = redis.call('LINDEX', KEYS[5], 0)
        if not item then break end
        n = n + 1
        park(n, (redis.call('ZSCORE', KEYS[4], item) or '-') .. ' ' .. item)
        redis.call('ZREM', KEYS[4], item)
        redis.call('LPOP', KEYS[5])
    end
    if n < left then
        local found = redis.call('ZRANGE', KEYS[4], 0, left - n - 1, 'WITHSCORES')
        for at = 1, #found, 2 do
            n = n + 1
            park(n, found[at + 1] .. ' ' .. found[at])
            redis.call('ZREM', KEYS[4], found[at])
        end
    end
    while n < left do
        local item = redis.call('LINDEX', KEYS[1], 0)
        if not item then break end
        n = n + 1
        park(n, '= ' .. item)
        redis.call('LPOP', KEYS[1])
    end
elseif left > 0 then
    local is_right = ARGV[3] == 'RPOP'
    for n = 1, left do
        local body = redis.call('LINDEX', KEYS[1], is_right and -1 or 0)
        if not body then break end
        park(n, body)
        redis.call(ARGV[3], KEYS[1])
    end
end
return taken
";

/// What is parked of one source.
pub(super) struct Parked {
    connection: Connection,
    ids: String,
    bodies: String,
    /// Further keys of the source.
    more: Vec<String>,
    /// Keys that are emptied before the source, the last one first.
    before: Vec<String>,
    /// How the script takes from the source.
    take: &'static str,
    stale: Duration,
    /// The last batch.
    batch: Vec<JobId>,
}

impl Parked {
    pub(super) async fn open(place: &Place, take: &'static str, stale: Duration) -> Result<Self> {
        Ok(Self {
            connection: place.connect().await?,
            ids: place.beside("parked"),
            bodies: place.beside("bodies"),
            more: Vec::new(),
            before: Vec::new(),
            take,
            stale,
            batch: Vec::new(),
        })
    }

    /// With further keys of the source.
    pub(super) fn beside(mut self, keys: [String; 2]) -> Self {
        self.more = keys.into();
        self
    }

    /// Takes from these keys first, until each is empty.
    pub(super) fn after(mut self, keys: Vec<String>) -> Self {
        self.before = keys;
        self
    }

    /// Takes the next, at most that many; polls for the first for up to a second.
    pub(super) async fn next(&mut self, at_most: usize) -> Result<Vec<(JobId, Bytes)>> {
        let watch = Stopwatch::start();
        let mut span = POLL_FIRST;
        loop {
            let taken = self.take(at_most).await?;
            if !taken.is_empty() || watch.elapsed() > WAIT {
                self.batch = taken.iter().map(|(id, _)| *id).collect();
                return Ok(taken);
            }
            pause(span).await;
            span = (span * 2).min(POLL_MAX);
        }
    }

    async fn take(&mut self, at_most: usize) -> Result<Vec<(JobId, Bytes)>> {
        while let Some(key) = self.before.last().cloned() {
            let taken = self.take_from(&key, at_most).await?;
            if !taken.is_empty() {
                return Ok(taken);
            }
            self.before.pop();
        }
        let key = self.connection.place.key().to_owned();
        self.take_from(&key, at_most).await
    }

    async fn take_from(&mut self, key: &str, at_most: usize) -> Result<Vec<(JobId, Bytes)>> {
        let mut command = redis::cmd("EVAL");
        command.arg(TAKE).arg(3 + self.more.len());
        command
            .arg(key)
            .arg(&self.ids)
            .arg(&self.bodies)
            .arg(&self.more);
        command
            .arg(at_most)
            .arg(self.stale.as_millis() as u64)
            .arg(self.take);
        for _ in 0..at_most {
            command.arg(JobId::new().to_string());
        }
        let taken: Vec<Vec<u8>> = self.connection.ask(&command).await?;
        let pairs = taken.chunks_exact(2).map(|pair| {
            let id = String::from_utf8_lossy(&pair[0]).parse()?;
            Ok((id, Bytes::copy_from_slice(&pair[1])))
        });
        pairs.collect()
    }

    /// The last batch is stored: removes it.
    pub(super) async fn accept(&mut self, _: &[Refused]) -> Result<()> {
        let ids: Vec<String> = self.batch.iter().map(ToString::to_string).collect();
        if ids.is_empty() {
            return Ok(());
        }
        // At `maxmemory` Redis refuses a transaction. A later call removes an id without a body.
        let mut calls = redis::pipe();
        calls.cmd("HDEL").arg(&self.bodies).arg(&ids).ignore();
        calls.cmd("ZREM").arg(&self.ids).arg(&ids).ignore();
        let () = self.connection.ask_all(&calls).await?;
        self.batch.clear();
        Ok(())
    }

    /// How many wait, parked ones included; `count` is the command that counts the source.
    pub(super) async fn waiting(&mut self, count: &str) -> Result<u64> {
        let mut calls = redis::pipe();
        calls.cmd(count).arg(self.connection.place.key());
        calls.cmd("ZCARD").arg(&self.ids);
        for key in &self.before {
            calls.cmd(count).arg(key);
        }
        let counts: Vec<u64> = self.connection.ask_all(&calls).await?;
        Ok(counts.iter().sum())
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
