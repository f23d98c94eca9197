//! Keys of a namespace shard on Redis. All begin with the base, `punctual:{NAMESPACE/SHARD}`.

/// One kind of key.
#[derive(Debug)]
pub struct Key {
    /// What follows the base and a colon, for a key of the shard or in front of a queue's name.
    pub name: &'static str,
    /// What makes keys of this name.
    pub scope: Scope,
    /// The type on Redis.
    pub kind: Kind,
    /// What it holds.
    pub gloss: &'static str,
    /// The files of the functions that write it; none if an operator does.
    pub written_by: &'static [&'static str],
}

/// How many keys there are of a name, and how the rest of their name is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One a shard; its name is made once.
    Shard,
    /// One a shard; functions that need it make its name.
    ShardSeldom,
    /// One a part of the ids of a shard, or of the numbers of its bundles.
    Part,
    /// One a queue.
    Queue,
    /// One a queue and priority.
    QueuePriority,
    /// One a queue and lane.
    QueueLane,
    /// One a queue and settled state.
    QueueState,
    /// One a queue and number, found from another key.
    QueueNumber,
    /// One a queue, left of a queue that was deleted.
    QueueWakeup,
    /// One for each of the named things.
    Each(&'static str),
    /// An operator's.
    Operator,
}

/// A type on Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A hash.
    Hash,
    /// A list.
    List,
    /// A sorted set.
    Sorted,
}

impl Kind {
    /// What a page calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Hash => "hash",
            Self::List => "list",
            Self::Sorted => "sorted set",
        }
    }

    /// The command that asks a key of the type for something without harm.
    pub fn probe(self) -> &'static str {
        match self {
            Self::Text => "GET",
            Self::Hash => "HGET",
            Self::List => "LLEN",
            Self::Sorted => "ZSCORE",
        }
    }
}

use self::Kind::{Hash, List, Sorted, Text};
use self::Scope::{
    Each, Operator, Part, Queue, QueueLane, QueueNumber, QueuePriority, QueueState, QueueWakeup,
    Shard, ShardSeldom,
};

const fn key(
    name: &'static str,
    scope: Scope,
    kind: Kind,
    gloss: &'static str,
    written_by: &'static [&'static str],
) -> Key {
    Key {
        name,
        scope,
        kind,
        gloss,
        written_by,
    }
}

/// Every key, in the order of the pages.
pub const KEYS: &[Key] = &[
    key(
        "s",
        Shard,
        Hash,
        "`m` the shard; `q` + queue its row; `w` + worker when it claimed last, its limit then, how many jobs it holds, its record; `a` + worker the tokens of its leases (after flag 64); `l` + queue how its limits stand; `y` + queue what its shares have together; `j` + queue how many of its jobs have named limits, and wait at one; `g` what the named limits of the shard have together; `n` number of shards; `f` when workers were last removed; `h` cursor of the repair after lost records; `i` cursor of the search for idle queues; `te` the finish of the last tombstone that went early; `tr` bytes of tombstones in `:rm`; `kb` bytes of retained jobs",
        &[
            "shard", "lone", "heal", "workers", "stats", "settled", "kept",
        ],
    ),
    key("qs", Shard, Sorted, "queues by name", &["shard"]),
    key(
        "wk",
        Shard,
        Sorted,
        "workers, by when they were last examined",
        &["workers"],
    ),
    key(
        "b",
        Part,
        Hash,
        "id to record, of every state, for ids of that [part](#parts); a tombstone or a reference to a bundle stands in the record's place",
        &["records", "lone"],
    ),
    key(
        "r",
        QueuePriority,
        List,
        "ready jobs in order, in chunks: stamp, kind, size if each job were as large as the largest, ids or a run of a bundle",
        &["line", "lone", "clear"],
    ),
    key(
        "x",
        QueueLane,
        Sorted,
        "overflow set: ready jobs out of order, suspects, and groups that can be claimed",
        &["line", "group"],
    ),
    key(
        "sh",
        Part,
        Hash,
        "heads of bundles whose numbers are of that [part](#parts); under `~` and the number, what has changed",
        &["bundle"],
    ),
    key(
        "sd",
        Part,
        Hash,
        "payloads of bundles whose numbers are of that [part](#parts)",
        &["bundle"],
    ),
    key(
        "n",
        Queue,
        Sorted,
        "hot window: scheduled jobs that are due soon, by due",
        &["due", "purge"],
    ),
    key(
        "t",
        QueueNumber,
        List,
        "cold bucket: ids of scheduled jobs due in one span of 2^32 us",
        &["due"],
    ),
    key("tb", Queue, Sorted, "numbers of the cold buckets", &["due"]),
    key("ts", Queue, Hash, "stale entries by bucket", &["due"]),
    key(
        "h",
        Queue,
        Sorted,
        "held jobs",
        &["place", "store", "clear"],
    ),
    key(
        "g",
        Queue,
        Hash,
        "group to its row: active and holding jobs, ready jobs by priority and the first of them",
        &["group"],
    ),
    key(
        "l",
        Queue,
        Sorted,
        "the lines of all groups, by group, priority, position and due; who is alone in a group that \
         can be claimed stands only in its row",
        &["group"],
    ),
    key(
        "ss",
        Queue,
        Hash,
        "share to its row: active jobs, passes, how its limits stand, the first of its places",
        &["share_row"],
    ),
    key(
        "sy",
        Queue,
        Sorted,
        "places of all shares, by share and lane and then as in an overflow set",
        &["share_row"],
    ),
    key(
        "st",
        QueueLane,
        Sorted,
        "shares that may be claimed from, in the order of their turns",
        &["share_row", "share_claim"],
    ),
    key(
        "sp",
        Queue,
        Sorted,
        "closed shares, by when time opens them",
        &["share_row", "share"],
    ),
    key(
        "si",
        Queue,
        Sorted,
        "shares without ready jobs, by until when something is remembered of them",
        &["share_row", "share"],
    ),
    key(
        "sb",
        Queue,
        Sorted,
        "shares of 16 jobs and more, by the power of two of their number",
        &["share_row"],
    ),
    key(
        "sw",
        Queue,
        Sorted,
        "jobs that wait, by share, while the settings bound how many of a share may",
        &["group", "share_bound"],
    ),
    key(
        "nl",
        Shard,
        Hash,
        "named limit to its row: active and waiting jobs, how it stands, the queues that a freed slot wakes",
        &["named_row"],
    ),
    key(
        "nn",
        Shard,
        Sorted,
        "named limits with a row or settings, by name",
        &["named_row", "named"],
    ),
    key(
        "ni",
        Shard,
        Sorted,
        "named limits of which no job is active or waits, by until when something is remembered of them",
        &["named_row", "named"],
    ),
    key(
        "nk",
        Queue,
        Sorted,
        "ready places that a named limit keeps back, by limit and lane and then as in an overflow set",
        &["named_row"],
    ),
    key(
        "no",
        Queue,
        Sorted,
        "named limits at which places wait, by when the first of them may go",
        &["named_row"],
    ),
    key(
        "gm",
        Queue,
        Sorted,
        "held and scheduled members of groups, by group and enqueue",
        &["group", "heal"],
    ),
    key(
        "u",
        Shard,
        Hash,
        "unique key to its holder, the end of its period and the follower",
        &["unique", "control", "store"],
    ),
    key(
        "up",
        Shard,
        Sorted,
        "ends of the periods of unique keys",
        &["unique", "sweep", "control", "store"],
    ),
    key(
        "pg",
        Shard,
        Hash,
        "token to lease; under `~` and the token, what has changed; `n`, worker and nonce to tokens; `j` and the id to the token of a lease of one job; `!` the shortest lease that was extended by less than it had left",
        &["lease", "extend", "lone"],
    ),
    key(
        "e",
        Shard,
        Sorted,
        "queues with leases, by a lower bound of their first deadline",
        &["lease"],
    ),
    key(
        "eo",
        Queue,
        Sorted,
        "leases of one job, by deadline",
        &["lease", "lone"],
    ),
    key(
        "ew",
        Queue,
        Sorted,
        "leases of several jobs, by deadline, with the first and last due of their jobs",
        &["lease"],
    ),
    key(
        "xp",
        Shard,
        Sorted,
        "jobs by `expires_at`",
        &["place", "store", "settle_many"],
    ),
    key(
        "k",
        QueueState,
        Sorted,
        "retained settled jobs, by finish",
        &["kept", "purge", "settle_many"],
    ),
    key(
        "kp",
        Shard,
        Sorted,
        "ends of retention: of single jobs, of those of a queue that completed at one instant, of all cancelled or dead ones of a queue",
        &["kept", "settle_many"],
    ),
    key(
        "mp",
        Shard,
        List,
        "tombstones in order of finish",
        &["settled", "lone"],
    ),
    key(
        "md",
        Shard,
        Hash,
        "one entry for jobs that completed together; their records are 8 and a reference",
        &["settled"],
    ),
    key(
        "rm",
        Shard,
        Sorted,
        "ids whose tombstones count beyond the settled window, by their end",
        &["settled"],
    ),
    key("rv", Shard, Hash, "ids that were used again", &["settled"]),
    key(
        "w",
        Shard,
        Sorted,
        "queues by their earliest due",
        &["shard"],
    ),
    key(
        "rec",
        Shard,
        Hash,
        "records of `control`",
        &["control", "schedule_run"],
    ),
    key(
        "sc",
        Shard,
        Hash,
        "schedule to its row: how it stands; under `~` and the name, the next instants of its calendar; \
         under `+` and the name, its last run that completed",
        &["schedule_row", "schedule", "schedule_run"],
    ),
    key("sn", Shard, Sorted, "schedules by name", &["schedule"]),
    key(
        "sl",
        Shard,
        Sorted,
        "schedules that need more instants",
        &["schedule", "schedule_list"],
    ),
    key(
        "sx",
        Shard,
        Sorted,
        "schedules by when a run of them is expected to complete",
        &["schedule", "schedule_run"],
    ),
    key(
        "fl",
        Shard,
        Hash,
        "flow to its row: how it stands, its counts, its callbacks",
        &["flow_row"],
    ),
    key(
        "fk",
        Shard,
        Hash,
        "id of a step, or of a job that waits for others, to its link",
        &["flow_row"],
    ),
    key(
        "fy",
        Shard,
        Hash,
        "flow, NUL and a task of it to how far that has come",
        &["flow_row"],
    ),
    key("fn", Shard, Sorted, "flows by name", &["flow_row"]),
    key(
        "ft",
        Shard,
        Sorted,
        "flows, by when something is to be done for them",
        &["flow_row"],
    ),
    key(
        "fs",
        Each("FLOW"),
        Text,
        "ids of the steps of a flow, in order",
        &["flow_row"],
    ),
    key(
        "fq",
        Each("FLOW"),
        Sorted,
        "tasks that are left to do for a flow, in order",
        &["flow_row"],
    ),
    key(
        "fe",
        Each("ID"),
        Hash,
        "jobs that wait for a job, each with how that must end and what has become of it",
        &["flow_row"],
    ),
    key(
        "hi",
        Queue,
        List,
        "minute counters of closed minutes, a day of them",
        &["stats"],
    ),
    key(
        "hb",
        Queue,
        Hash,
        "samples of the current minute",
        &["stats"],
    ),
    key(
        "z",
        Queue,
        Text,
        "[ends](#ends): the last 100 jobs that ended",
        &["ends"],
    ),
    key(
        "d",
        QueueWakeup,
        Sorted,
        "wakeup of a queue, at most one member",
        &["shard", "lone"],
    ),
    key(
        "p",
        Each("PROCESS"),
        Sorted,
        "wakeup of a process",
        &["shard"],
    ),
    key("ws", Shard, Hash, "watched jobs", &["shard", "wait"]),
    key("f", Shard, List, "feed of changes", &["shard", "wait"]),
    key(
        "fw",
        Shard,
        Hash,
        "watchers of the feed",
        &["shard", "wait"],
    ),
    key(
        "o",
        ShardSeldom,
        Hash,
        "outbox: entry to kind, target and effect",
        &["outbox"],
    ),
    key(
        "oz",
        Each("TARGET"),
        Sorted,
        "entries of a target by time",
        &["outbox"],
    ),
    key(
        "ot",
        ShardSeldom,
        Sorted,
        "targets that have entries",
        &["outbox"],
    ),
    key(
        "oi",
        Each("SOURCE"),
        Sorted,
        "applied entries of another shard",
        &["outbox"],
    ),
    key(
        "ec",
        ShardSeldom,
        Sorted,
        "clears that came before their jobs: id and name, by when they are forgotten",
        &["early"],
    ),
    key(
        "of",
        ShardSeldom,
        Hash,
        "up to when ids of a source are forgotten",
        &["outbox"],
    ),
    key(
        "limits",
        Operator,
        Text,
        "bounds that differ from the defaults (mp map), read when the shard is created",
        &[],
    ),
];

impl Key {
    /// The name as pages write it, such as `:r:PRIORITY:QUEUE`.
    pub fn pattern(&self) -> String {
        let rest = match self.scope {
            Shard | ShardSeldom | Operator => "",
            Part => ":PART",
            Queue | QueueWakeup => ":QUEUE",
            QueuePriority => ":PRIORITY:QUEUE",
            QueueLane => ":LANE:QUEUE",
            QueueState => ":STATE:QUEUE",
            QueueNumber => ":NUMBER:QUEUE",
            Each(what) => return format!(":{}:{what}", self.name),
        };
        format!(":{}{rest}", self.name)
    }
}
