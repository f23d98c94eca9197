//! About how large the keys of a namespace are, since a server moves each of them in one step.

use futures_util::future::join_all;
use punctual::{Namespace, Result};
use redis::{Cmd, FromRedisValue, cmd};

use crate::session::calls::Calls;
use crate::session::shards::Shard;
use crate::wire::damaged;
use crate::wire::numbers::PARTS;

/// A key of a shard with its size.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeySize {
    /// The whole name.
    pub key: String,
    /// About how many bytes its dump has before compression, by a sample of its elements.
    pub bytes: u64,
}

impl KeySize {
    /// A key of that many bytes.
    pub fn new(key: impl Into<String>, bytes: u64) -> Self {
        let key = key.into();
        Self { key, bytes }
    }
}

/// A key of fewer elements is not measured: the largest element has some 256 KiB.
const ELEMENTS_MIN: u64 = 1_000;
/// Elements of a sample, and bytes from which on it has no more.
const SAMPLE: usize = 100;
const SAMPLE_BYTES: usize = 1 << 20;
/// Elements that one scan of a hash is asked for, which may be large.
const SCAN: usize = 10;
/// What a dump has for an element besides its bytes: lengths, or the score of a sorted set.
const HEAD: u64 = 3;
const SCORE: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hash,
    List,
    Sorted,
}

use Kind::{Hash, List, Sorted};

/// Those of each part, of the shard, and of each queue that grow with the number of jobs.
const OF_PARTS: [&str; 3] = ["b", "sd", "sh"];
const OF_SHARD: [(&str, Kind); 10] = [
    ("u", Hash),
    ("fk", Hash),
    ("md", Hash),
    ("o", Hash),
    ("pg", Hash),
    ("mp", List),
    ("up", Sorted),
    ("xp", Sorted),
    ("kp", Sorted),
    ("rm", Sorted),
];
const OF_QUEUE: [(&str, Kind); 8] = [
    ("g", Hash),
    ("ss", Hash),
    ("n", Sorted),
    ("h", Sorted),
    ("l", Sorted),
    ("gm", Sorted),
    ("sy", Sorted),
    ("sw", Sorted),
];
const PRIORITIES: usize = 10;

impl Kind {
    fn count(self, key: &str) -> Cmd {
        let mut count = match self {
            Hash => cmd("HLEN"),
            List => cmd("LLEN"),
            Sorted => cmd("ZCOUNT"),
        };
        count.arg(key);
        if self == Sorted {
            count.arg("-inf").arg("+inf");
        }
        count
    }
}

/// The keys of a shard that may be large, with those of these queues.
fn keys_of(base: &str, queues: &[String]) -> Vec<(String, Kind)> {
    let mut keys = Vec::new();
    for name in OF_PARTS {
        keys.extend((0..PARTS).map(|part| (format!("{base}:{name}:{part}"), Hash)));
    }
    keys.extend(OF_SHARD.map(|(name, kind)| (format!("{base}:{name}"), kind)));
    for queue in queues {
        keys.extend(OF_QUEUE.map(|(name, kind)| (format!("{base}:{name}:{queue}"), kind)));
        keys.extend((0..PRIORITIES).map(|it| (format!("{base}:r:{it}:{queue}"), List)));
    }
    keys
}

impl Calls {
    /// The sizes of the keys of a namespace with a thousand elements and more, the largest first.
    /// Of queues it knows those that are named.
    pub(crate) async fn key_sizes(
        &self,
        namespace: &Namespace,
        queues: &[String],
    ) -> Result<Vec<KeySize>> {
        let mut sizes = Vec::new();
        for shard in self.shards_of(namespace).await?.iter() {
            let keys = keys_of(&shard.base, queues);
            let counts = keys.iter().map(async |(key, kind)| {
                let count = self.command(shard.slot, &kind.count(key)).await?;
                u64::from_redis_value(count).map_err(|_| damaged())
            });
            let counts = join_all(counts).await;
            for ((key, kind), count) in keys.into_iter().zip(counts) {
                let count = count?;
                if count >= ELEMENTS_MIN {
                    let bytes = count * self.element_size(shard, &key, kind).await?;
                    sizes.push(KeySize::new(key, bytes));
                }
            }
        }
        sizes.sort_by_key(|size| std::cmp::Reverse(size.bytes));
        Ok(sizes)
    }

    /// About how many bytes an element of a key has.
    async fn element_size(&self, shard: &Shard, key: &str, kind: Kind) -> Result<u64> {
        let (mut bytes, mut count, mut cursor) = (0, 0, "0".to_owned());
        loop {
            let mut read = match kind {
                Hash => cmd("HSCAN"),
                List => cmd("LRANGE"),
                Sorted => cmd("ZRANGE"),
            };
            read.arg(key);
            match kind {
                Hash => read.arg(&cursor).arg("COUNT").arg(SCAN),
                List | Sorted => read.arg(0).arg(SAMPLE - 1),
            };
            let answer = self.command(shard.slot, &read).await?;
            let found = match kind {
                Hash => <(String, Vec<Vec<u8>>)>::from_redis_value(answer).map(|(at, found)| {
                    cursor = at;
                    found
                }),
                List | Sorted => Vec::from_redis_value(answer),
            };
            let found = found.map_err(|_| damaged())?;
            bytes += found.iter().map(Vec::len).sum::<usize>();
            count += match kind {
                Hash => found.len() / 2,
                List | Sorted => found.len(),
            };
            if kind != Hash || cursor == "0" || count >= SAMPLE || bytes >= SAMPLE_BYTES {
                break;
            }
        }
        let head = match kind {
            Hash => 2 * HEAD,
            List => HEAD,
            Sorted => HEAD + SCORE,
        };
        Ok(bytes.div_ceil(count.max(1)) as u64 + head)
    }
}
