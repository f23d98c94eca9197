//! Numbers of the forms on Redis: flags, tags, verdicts, and places of fields in bytes.

/// Numbers that belong together.
#[derive(Debug)]
pub struct Group {
    /// What they are, above them in the copies.
    pub title: &'static str,
    /// The marker of their table in `docs/wire-protocol.md`, if it has one.
    pub table: Option<&'static str>,
    /// The numbers.
    pub rows: &'static [Number],
}

/// One number with its name.
#[derive(Debug)]
pub struct Number {
    /// The name in Lua (`%NAME%`) and in Rust.
    pub name: &'static str,
    /// What it is, or the first and the last byte of a field, from 1.
    pub value: Value,
    /// The type in Rust; `None` if only Lua has it.
    pub rust: Option<&'static str>,
    /// Whether Lua has it.
    pub lua: bool,
    /// What it means.
    pub gloss: &'static str,
}

/// A number, or the bytes of a field.
#[derive(Debug, Clone, Copy)]
pub enum Value {
    /// A number.
    One(u64),
    /// First and last byte, from 1.
    Bytes(u64, u64),
}

const fn lua(name: &'static str, value: u64, gloss: &'static str) -> Number {
    let value = Value::One(value);
    Number {
        name,
        value,
        rust: None,
        lua: true,
        gloss,
    }
}

const fn bytes(name: &'static str, first: u64, last: u64, gloss: &'static str) -> Number {
    let value = Value::Bytes(first, last);
    Number {
        name,
        value,
        rust: None,
        lua: true,
        gloss,
    }
}

const fn both(name: &'static str, value: u64, gloss: &'static str) -> Number {
    let value = Value::One(value);
    Number {
        name,
        value,
        rust: Some("u8"),
        lua: true,
        gloss,
    }
}

const fn rust(name: &'static str, kind: &'static str, value: u64, gloss: &'static str) -> Number {
    let value = Value::One(value);
    Number {
        name,
        value,
        rust: Some(kind),
        lua: false,
        gloss,
    }
}

const fn plain(title: &'static str, rows: &'static [Number]) -> Group {
    Group {
        title,
        table: None,
        rows,
    }
}

const fn table(title: &'static str, table: &'static str, rows: &'static [Number]) -> Group {
    Group {
        title,
        table: Some(table),
        rows,
    }
}

/// Every number, by group.
pub const GROUPS: &[Group] = &[
    plain(
        "A record: first and last byte of a field, or its first byte.",
        RECORD,
    ),
    plain("Where records and bundles are.", PARTS),
    table("The first byte of what stands under an id.", "tags", TAGS),
    plain("A tombstone.", TOMBSTONE),
    plain("A reference to a tombstone.", TOMBSTONE_REF),
    plain("A chunk of a list of ready jobs.", CHUNK),
    plain("Flags of a job as sent, `sflags`.", SPEC),
    plain("Kinds of a due.", DUE),
    table("Flags of an enqueue.", "enqueue-flags", ENQUEUE),
    table("Flags of a claim.", "claim-flags", CLAIM),
    table("Flags of the reply to a claim.", "claimed-flags", CLAIMED),
    table(
        "What a settlement of form 2 has, in this order.",
        "settlement-flags",
        HAS,
    ),
    plain("Kinds of effects.", EFFECTS),
    plain("Verdicts of effects that no enqueue has.", VERDICTS),
    plain("Flags of a queue's row.", ROW),
    plain("Flags of a lease.", LEASE),
    plain("The last byte of a shard.", SHARD),
    plain("The first byte of the value of a `control` record.", VALUES),
    plain("The kind of a rate in the settings of a queue.", RATES),
    plain("Bundles.", BUNDLE),
];

const RECORD: &[Number] = &[
    bytes("REC_ENQUEUED", 2, 9, "when the job was enqueued"),
    bytes("REC_SUB", 10, 11, "which write of its microsecond"),
    bytes("REC_STAMP", 2, 11, "both"),
    bytes("REC_DUE", 12, 19, "when it is due"),
    lua("REC_DUE_AT", 12, "where that begins"),
    bytes("REC_HASH", 20, 27, "hash of its content"),
    Number {
        rust: Some("range"),
        ..bytes("REC_CORE", 12, 27, "due and hash")
    },
    bytes("REC_IDX", 28, 29, "its number in its call"),
    lua("REC_PRIORITY", 30, "its priority"),
    lua("REC_FLAGS", 31, "its sflags"),
    lua(
        "REC_BODY",
        32,
        "where the length of an ext, or the queue, begins",
    ),
    bytes("REC_HEAD", 2, 31, "all between its tag and its body"),
    lua(
        "REC_QUEUE",
        33,
        "where the queue of a record without an ext begins",
    ),
    lua("REC_EXT", 36, "where an ext begins"),
];

const TAGS: &[Number] = &[
    both("TAG_PLAIN", 1, "waits, without an ext"),
    both("TAG_WAITING", 2, "waits, with an ext"),
    lua("TAG_HELD", 3, "held; up to here a job has not ended"),
    Number {
        lua: false,
        ..lua("TAG_COMPLETED", 4, "completed")
    },
    lua("TAG_CANCELLED", 5, "cancelled"),
    both("TAG_DEAD", 6, "dead; up to here it is a record"),
    both(
        "TAG_TOMBSTONE",
        7,
        "a tombstone; from here on the job is settled or stored elsewhere",
    ),
    lua(
        "TAG_TOMBSTONE_REF",
        8,
        "reference to the tombstone of jobs that completed together",
    ),
    lua("TAG_BUNDLE_REF", 9, "reference to a bundle"),
];

const TOMBSTONE: &[Number] = &[
    bytes("TOMB_DUE", 2, 9, "due of the receipt"),
    bytes("TOMB_HASH", 10, 17, "hash of the content"),
    lua("TOMB_STATE", 18, "state, and 8 if it was late"),
    lua(
        "TOMB_FINISHED",
        19,
        "where the instant begins at which it ended",
    ),
    lua("TOMB_ATTEMPT", 27, "where the attempt begins"),
    bytes("TOMB_TOKEN", 31, 42, "token of the lease"),
    lua("TOMB_RESULT", 43, "where the result begins"),
    lua("TOMB_REMEMBERED", 16, "in its state: it is remembered"),
    lua("TOMB_UNTIL", 43, "then until when, before the result"),
    lua("TOMB_UNTIL_RESULT", 51, "and then the result begins"),
    lua(
        "TOMB_BYTES",
        256,
        "what one counts against the bound besides its result",
    ),
];

const TOMBSTONE_REF: &[Number] = &[
    bytes("TOMB_REF_NUMBER", 2, 12, "its number"),
    bytes("TOMB_REF_FINISHED", 2, 9, "when these jobs completed"),
];

const CHUNK: &[Number] = &[
    lua("CHUNK_KIND", 11, "where its kind stands"),
    lua("CHUNK_IDS", 1, "kind: ids of plain jobs"),
    lua(
        "CHUNK_MOVED",
        2,
        "kind: plain jobs that a sweep moved, with their first and last due",
    ),
    lua("CHUNK_BUNDLE", 3, "kind: jobs of a bundle"),
    lua(
        "CHUNK_EXT",
        4,
        "kind: jobs that may have an ext, and need no look when they start",
    ),
    lua("CHUNK_EXT_MOVED", 5, "kind: the same, moved by a sweep"),
    lua(
        "CHUNK_SENT",
        6,
        "kind: jobs as they were sent, whose end touches no more than their key and their expiry",
    ),
    lua("CHUNK_SENT_MOVED", 7, "kind: the same, moved by a sweep"),
];

const SPEC: &[Number] = &[
    both("SPEC_OPTS", 1, "opts follow"),
    both("SPEC_EXAMINED", 2, "the functions look into opts"),
];

const DUE: &[Number] = &[
    both("DUE_NOW", 0, "at once"),
    both("DUE_AFTER", 1, "after a span"),
    both("DUE_AT", 2, "at an instant"),
];

const ENQUEUE: &[Number] = &[
    both("ENQUEUE_TWICE", 1, "some id appears twice in this call"),
    both(
        "ENQUEUE_UNIFORM",
        2,
        "*uniform*: due, priority and queue of all jobs are the same",
    ),
    both("ENQUEUE_BUNDLES", 4, "the jobs come in bundles"),
    both(
        "ENQUEUE_LINKED",
        8,
        "*linked*: jobs of flows, or that wait for others; their links are a second argument",
    ),
];

const CLAIM: &[Number] = &[
    both("CLAIM_ALONE", 1, "the worker runs nothing else now"),
    both("CLAIM_TURNS", 2, "queues in turns"),
    both("CLAIM_WOKEN", 4, "a wakeup caused this claim"),
    both("CLAIM_READS", 8, "the claimer can read records itself"),
    both(
        "CLAIM_RETURNS",
        16,
        "the claimer comes again at `wake_at` by itself",
    ),
    both("CLAIM_BUNDLES", 32, "the claimer can read bundles too"),
    lua(
        "CLAIM_SUSPECTS",
        64,
        "a suspect may come if the worker holds no lease (see *Suspects*)",
    ),
    both(
        "CLAIM_READS_EXT",
        128,
        "the claimer can read records with an ext too (see *unseen*)",
    ),
];

const CLAIMED: &[Number] = &[
    both("CLAIMED_SUSPECTS", 1, "suspects wait"),
    both(
        "CLAIMED_UNSEEN",
        2,
        "*unseen*: the lease ends after its ids, and the client reads the records with `HMGET BASE:b:PART id...`",
    ),
    both(
        "CLAIMED_ANOTHER",
        4,
        "only after flag 16: another worker claims at `wake_at`, so this one may sleep on and `listen` at times",
    ),
    both(
        "CLAIMED_BUNDLES",
        8,
        "only with 2 and after flag 32: all jobs of the lease are in bundles",
    ),
    lua("CLAIMED_ALONE", 16, "the job is a suspect alone"),
    both(
        "CLAIMED_LIMITED",
        32,
        "only after flag 128: *limited queues* stand at the end",
    ),
    both(
        "CLAIMED_SHARES",
        64,
        "only with 32: *shares* that were closed stand behind them",
    ),
    both(
        "CLAIMED_NAMED",
        128,
        "only with 32: *named limits* that were closed stand behind those",
    ),
];

const PARTS: &[Number] = &[
    both(
        "PARTS",
        32,
        "hashes that the records of a shard are cut into, and the heads and payloads of bundles",
    ),
    both(
        "PART_OF_ID",
        5,
        "the byte of an id that has its part, in bits 1 to 5",
    ),
    both(
        "PART_OF_NUMBER",
        6,
        "the byte of a bundle's number that has its part, in bits 3 to 7",
    ),
];

const HAS: &[Number] = &[
    both("HAS_SPAN", 1, "`span u64`"),
    both("HAS_RESULT", 2, "`len u32, result`"),
    both("HAS_ERROR", 4, "`len u32, error`"),
    both("HAS_STOPPED", 8, "`stopped u8`"),
    both(
        "HAS_EFFECTS",
        16,
        "`effects u16`, each `kind u8`, `len u32, bytes`",
    ),
    both("HAS_LOG", 32, "`len u32`, a mp list of lines to log"),
    both(
        "HAS_NAMES",
        64,
        "`len u32`, a mp list of the names that a hold waits for",
    ),
    both(
        "HAS_GUARD",
        128,
        "`len u8, record`, `version u64` that the record must have",
    ),
];

const EFFECTS: &[Number] = &[
    both("EFFECT_LINKED", 4, "an enqueue of a job with its link"),
    both(
        "EFFECT_CANCEL",
        5,
        "a cancel of the job that holds a unique key",
    ),
    both("EFFECT_SIGNAL", 6, "a signal of a job"),
];

const VERDICTS: &[Number] = &[
    both(
        "VERDICT_NOT_HERE",
        253,
        "a clear of a job that this shard does not know",
    ),
    both(
        "VERDICT_POSTED",
        254,
        "it is in the outbox for another shard",
    ),
    both("VERDICT_CLEARED", 255, "a clear"),
];

const ROW: &[Number] = &[
    lua("ROW_IDLE", 1, "a worker may sleep without a leader"),
    lua("ROW_PAUSED", 2, "the queue is paused"),
    lua(
        "ROW_DEAD_LETTERS",
        4,
        "a full queue dead-letters its oldest job",
    ),
    lua("ROW_BOUNDED", 8, "the queue has a `max_pending`"),
    lua("ROW_LIMITED", 16, "the queue has limits, or had some"),
    lua(
        "ROW_NAMED",
        32,
        "ready or active jobs of the queue have named limits; then it is limited too",
    ),
    lua(
        "ROW_SHARED",
        64,
        "jobs of the queue have shares; then it is limited too",
    ),
    lua("ROW_LATER", 128, "from here on a later version"),
];

const LEASE: &[Number] = &[
    lua("LEASE_ALONE", 1, "its only job is a suspect"),
    lua("LEASE_PLAIN", 2, "all its jobs are plain"),
    lua("LEASE_BUNDLES", 4, "and in bundles"),
    lua(
        "LEASE_SENT",
        8,
        "all its jobs were as they were sent, and their ends touch no more than keys and expiries",
    ),
    lua("LEASE_LATER", 16, "from here on a later version"),
];

const SHARD: &[Number] = &[lua("SHARD_LATER", 2, "from here on a later version")];

const VALUES: &[Number] = &[
    both("VALUE_SETTINGS", 0, "settings of a queue"),
    both("VALUE_OPAQUE", 1, "opaque bytes"),
    both("VALUE_SCHEDULE", 2, "a schedule"),
    both("VALUE_LIMIT", 3, "settings of a named limit"),
];

/// A number of 64 bits, for both.
const fn number(name: &'static str, value: u64, gloss: &'static str) -> Number {
    Number {
        rust: Some("u64"),
        ..both(name, value, gloss)
    }
}

const RATES: &[Number] = &[
    number(
        "RATE_SMOOTH",
        0,
        "starts that are a step apart, and a burst",
    ),
    number("RATE_WINDOW", 1, "starts in any span of a length"),
];

const BUNDLE: &[Number] = &[
    rust(
        "BUNDLE_MIN",
        "usize",
        8,
        "the least jobs that are stored as a bundle",
    ),
    rust(
        "BUNDLE_JOBS_MAX",
        "usize",
        100,
        "jobs of one bundle at most",
    ),
    rust(
        "BUNDLE_BYTES_MAX",
        "usize",
        65_535,
        "bytes of one bundle at most: a job that runs for long keeps the payloads of its bundle",
    ),
];
