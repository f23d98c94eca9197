//! Numbers of what is stored: records, tombstones, lists, rows, leases.

use super::{Number, Value, both, bytes, lua, number, rust};

pub(super) const RECORD: &[Number] = &[
    bytes("REC_ENQUEUED", 2, 9, "when the job was enqueued"),
    bytes("REC_SUB", 10, 11, "which write of its microsecond"),
    bytes("REC_STAMP", 2, 11, "both"),
    bytes("REC_DUE", 12, 19, "when it is due"),
    lua("REC_DUE_AT", 12, "where that begins"),
    bytes("REC_HASH", 20, 27, "hash of its content"),
    lua("REC_HASH_AT", 20, "where that begins"),
    Number {
        rust: Some("range"),
        ..bytes("REC_CORE", 12, 27, "due and hash")
    },
    bytes("REC_IDX", 28, 29, "its number in its call"),
    lua("REC_IDX_AT", 28, "where that begins"),
    lua("REC_PRIORITY", 30, "its priority"),
    lua("REC_FLAGS", 31, "its sflags"),
    lua(
        "REC_BODY",
        32,
        "where the length of an ext, or the queue, begins",
    ),
    bytes("REC_TAIL", 20, 31, "all between its due and its body"),
    bytes("REC_HEAD", 2, 31, "all between its tag and its body"),
    lua(
        "REC_QUEUE",
        33,
        "where the queue of a record without an ext begins",
    ),
    lua("REC_EXT", 36, "where an ext begins"),
    lua(
        "REC_NEXT_QUEUE",
        37,
        "where the queue of a record begins whose ext has no entries",
    ),
    Number {
        value: Value::Text("\\0\\0\\0\\1\\128"),
        ..lua(
            "REC_NO_EXT",
            0,
            "the length of an ext without entries, and it",
        )
    },
];

pub(super) const TAGS: &[Number] = &[
    both("TAG_PLAIN", 1, "waits, without an ext"),
    both("TAG_WAITING", 2, "waits, with an ext"),
    lua("TAG_HELD", 3, "held; up to here a job has not ended"),
    lua("TAG_COMPLETED", 4, "completed"),
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

pub(super) const TOMBSTONE: &[Number] = &[
    bytes("TOMB_DUE", 2, 9, "due of the receipt"),
    bytes("TOMB_HASH", 10, 17, "hash of the content"),
    lua("TOMB_STATE", 18, "its state, with the bits below"),
    lua(
        "TOMB_FINISHED",
        19,
        "where the instant begins at which it ended",
    ),
    lua("TOMB_ATTEMPT", 27, "where the attempt begins"),
    bytes("TOMB_TOKEN", 31, 42, "token of the lease"),
    lua("TOMB_RESULT", 43, "where the result begins"),
    lua("TOMB_LATE", 8, "in its state: it was late"),
    lua("TOMB_REMEMBERED", 16, "in its state: it is remembered"),
    lua("TOMB_UNTIL", 43, "then until when, before the result"),
    lua("TOMB_UNTIL_RESULT", 51, "and then the result begins"),
    lua(
        "TOMB_BYTES",
        256,
        "what one counts against the bound besides its result",
    ),
];

pub(super) const TOMBSTONE_REF: &[Number] = &[
    bytes("TOMB_REF_NUMBER", 2, 12, "its number"),
    bytes("TOMB_REF_FINISHED", 2, 9, "when these jobs completed"),
];

pub(super) const CHUNK: &[Number] = &[
    bytes(
        "CHUNK_STAMP",
        1,
        10,
        "engine time of its call, and which write of it",
    ),
    bytes("CHUNK_TIME", 1, 8, "engine time of its call"),
    lua("CHUNK_KIND", 11, "where its kind stands"),
    bytes("CHUNK_SIZE", 12, 14, "bytes of its records"),
    lua("CHUNK_SIZE_AT", 12, "where that begins"),
    bytes(
        "CHUNK_DUES",
        15,
        30,
        "first and last due, if a sweep moved it",
    ),
    lua("CHUNK_FROM", 15, "where its ids begin"),
    lua(
        "CHUNK_MOVED_FROM",
        31,
        "where they begin if a sweep moved it",
    ),
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
    lua(
        "CHUNK_STEPS",
        8,
        "kind: as CHUNK_SENT, but jobs may be steps, whose end touches their link too",
    ),
];

pub(super) const PARTS: &[Number] = &[
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

pub(super) const ROW: &[Number] = &[
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

pub(super) const LEASE: &[Number] = &[
    lua("LEASE_ALONE", 1, "its only job is a suspect"),
    lua("LEASE_PLAIN", 2, "all its jobs are plain"),
    lua("LEASE_BUNDLES", 4, "and in bundles"),
    lua(
        "LEASE_SENT",
        8,
        "all its jobs were as they were sent, and their ends touch no more than keys and expiries",
    ),
    lua(
        "LEASE_STEPS",
        16,
        "with LEASE_SENT: some may be steps, whose ends touch their links too",
    ),
    lua(
        "LEASE_KEYED",
        32,
        "with LEASE_SENT: shares and groups of its jobs follow, whose ends touch them too",
    ),
    lua("LEASE_LATER", 64, "from here on a later version"),
];

pub(super) const LEASE_BYTES: &[Number] = &[
    bytes("LEASE_WORKER", 1, 16, "the id of the worker"),
    lua(
        "LEASE_STARTED_AT",
        17,
        "where its start and its duration stand",
    ),
    bytes("LEASE_FIRST_DUE", 33, 40, "the first due of its jobs"),
    bytes("LEASE_LAST_DUE", 41, 48, "the last due of its jobs"),
    lua("LEASE_FLAGS_AT", 49, "its flags"),
    bytes(
        "LEASE_FLAGS_COUNT",
        49,
        52,
        "its flags, how many jobs, and a zero before the length of a short name",
    ),
    lua("LEASE_COUNT_AT", 50, "where the number of jobs stands"),
    lua(
        "LEASE_QUEUES_AT",
        52,
        "where the length of its queues stands",
    ),
    lua(
        "LEASE_HEAD_BYTES",
        53,
        "all before its queues; its last byte is their length if that is short",
    ),
    lua("LEASE_NAME_AT", 54, "where its queues begin"),
];

pub(super) const SHARD: &[Number] = &[lua("SHARD_LATER", 2, "from here on a later version")];

pub(super) const VALUES: &[Number] = &[
    both("VALUE_SETTINGS", 0, "settings of a queue"),
    both("VALUE_OPAQUE", 1, "opaque bytes"),
    both("VALUE_SCHEDULE", 2, "a schedule"),
    both("VALUE_LIMIT", 3, "settings of a named limit"),
];

pub(super) const RATES: &[Number] = &[
    number(
        "RATE_SMOOTH",
        0,
        "starts that are a step apart, and a burst",
    ),
    number("RATE_WINDOW", 1, "starts in any span of a length"),
];

pub(super) const BUNDLE: &[Number] = &[
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
