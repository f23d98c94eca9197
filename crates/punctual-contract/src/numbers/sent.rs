//! Numbers of what is sent: flags, kinds, and bytes of calls.

use super::{Number, both, bytes, lua, rust};

pub(super) const SPEC: &[Number] = &[
    both("SPEC_OPTS", 1, "opts follow"),
    both("SPEC_EXAMINED", 2, "the functions look into opts"),
    both(
        "SPEC_CONTENT_TYPE",
        4,
        "times the number of the content type",
    ),
];

pub(super) const DUE: &[Number] = &[
    both("DUE_NOW", 0, "at once"),
    both("DUE_AFTER", 1, "after a span"),
    both("DUE_AT", 2, "at an instant"),
];

pub(super) const ENQUEUE: &[Number] = &[
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

pub(super) const CLAIM: &[Number] = &[
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

pub(super) const CLAIMED: &[Number] = &[
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

pub(super) const HAS: &[Number] = &[
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

pub(super) const EFFECTS: &[Number] = &[
    both("EFFECT_JOB", 0, "an enqueue of a job"),
    both("EFFECT_CLEAR", 1, "a name that a job waits for is cleared"),
    both("EFFECT_POST", 2, "an enqueue of a job in another shard"),
    both(
        "EFFECT_CLEAR_ANYWHERE",
        3,
        "as 1, in whatever shard the job is",
    ),
    both("EFFECT_LINKED", 4, "an enqueue of a job with its link"),
    both(
        "EFFECT_CANCEL",
        5,
        "a cancel of the job that holds a unique key",
    ),
    both("EFFECT_SIGNAL", 6, "a signal of a job"),
];

pub(super) const CONTROL: &[Number] = &[
    both("CONTROL_PAUSE", 0, "pause a queue"),
    both("CONTROL_RESUME", 1, "resume it"),
    both("CONTROL_PURGE", 2, "purge it; up to here a queue is named"),
    both("CONTROL_READ", 3, "read a record"),
    both("CONTROL_NAMES", 4, "names of records"),
    both("CONTROL_WRITE", 5, "write a record"),
    both("CONTROL_BOUNDS", 6, "bounds that the functions obey"),
    both("CONTROL_DELETE", 7, "delete a queue in steps"),
    both("CONTROL_CLOCK", 8, "set engine time back"),
    both("CONTROL_BLOCK_SHARE", 9, "block or pause a share"),
    both("CONTROL_BLOCK_LIMIT", 10, "block a named limit"),
    both("CONTROL_LIMIT", 11, "how a named limit stands"),
    both("CONTROL_LIMITS", 12, "named limits after a name"),
    both(
        "CONTROL_BLOCKED_SHARES",
        13,
        "shares that are blocked or paused",
    ),
    both(
        "CONTROL_SCHEDULES",
        20,
        "schedules after a name; from here on those of schedules",
    ),
    both("CONTROL_SCHEDULE", 21, "what `ac` says of one"),
    both("CONTROL_REFILL", 22, "lists of next instants"),
    both("CONTROL_COUNT_SCHEDULES", 23, "how many there are"),
    both(
        "CONTROL_FLOWS",
        30,
        "flows after a name; from here on those of flows",
    ),
    both("CONTROL_FLOW", 31, "what `fa` says of one"),
    both("CONTROL_DEPENDANTS", 32, "jobs that wait for some"),
    both(
        "CONTROL_GUARDED",
        40,
        "effects under the version of a record",
    ),
    both("CONTROL_COPY", 41, "a version of a record of another shard"),
    both("CONTROL_VERSION", 42, "the version of a record"),
];

pub(super) const EDIT: &[Number] = &[
    both("EDIT_CANCEL", 0, "cancel"),
    both("EDIT_RESCHEDULE", 1, "another due"),
    both("EDIT_RUN_NOW", 2, "run now"),
    both("EDIT_REPRIORITISE", 3, "another priority"),
    both("EDIT_REDRIVE", 4, "redrive"),
    both("EDIT_DELETE", 5, "delete"),
    both("EDIT_PAYLOAD", 6, "another payload"),
    both("EDIT_SIGNAL", 7, "a signal"),
];

pub(super) const FLOW: &[Number] = &[
    both("FLOW_READ", 0, "how it stands"),
    both("FLOW_SEAL", 1, "seal it"),
    both("FLOW_WAIT_MORE", 2, "let a step wait for more"),
    both("FLOW_CANCEL", 3, "cancel it"),
    both("FLOW_RETRY", 4, "retry steps"),
    both("FLOW_STEPS", 5, "steps by number"),
    both("FLOW_STEPS_OF", 6, "steps by the ids of their jobs"),
    both("FLOW_EDGES", 7, "edges"),
    both("FLOW_RECOUNT", 8, "recount it"),
    both("FLOW_RESTORE", 9, "restore it"),
];

pub(super) const SCHEDULE: &[Number] = &[
    both("SCHEDULE_READ", 0, "how it stands"),
    both("SCHEDULE_RUN", 1, "a run now"),
    both("SCHEDULE_SKIP", 2, "skip the next run"),
    both("SCHEDULE_BACKFILL", 3, "runs of the instants `at`"),
    both("SCHEDULE_RESTORE", 4, "the last success `su` of an import"),
];

pub(super) const FORM: &[Number] = &[
    both("FORM_COMPLETED", 1, "all completed"),
    both("FORM_EACH", 2, "each has its own outcome"),
    both(
        "FORM_CORES",
        3,
        "all completed; with what their tombstones need",
    ),
    both("FORM_KINDS", 4, "all completed; with their kinds"),
    both("FORM_CORES_KINDS", 5, "all completed; with both"),
    both("FORM_HOLDS", 6, "the same, with unique keys and expiries"),
];

pub(super) const RETRY: &[Number] = &[
    both("RETRY_EXPONENTIAL", 1, "base, factor, cap, jitter"),
    both("RETRY_FIXED", 2, "span, jitter"),
    both("RETRY_LINEAR", 3, "base, cap, jitter"),
    rust("RETRY_LIST", "u8", 4, "spans"),
];

pub(super) const CALLS: &[Number] = &[
    both("CALLS_CLAIM", 67, "C"),
    both("CALLS_EXTEND", 69, "E"),
    rust("CALLS_SETTLE", "u8", 83, "S"),
];

pub(super) const CALL: &[Number] = &[
    bytes("CALL_INSTANCE", 1, 8, "the instance of the shard"),
    lua("CALL_REST", 9, "where the rest begins"),
];

pub(super) const ENQUEUE_CALL: &[Number] = &[
    lua("ENQUEUE_FLAGS_AT", 9, "its flags"),
    lua("ENQUEUE_COUNT_AT", 10, "how many jobs"),
    lua(
        "ENQUEUE_JOBS_AT",
        12,
        "where the jobs begin, or what all share: the kind of their due first",
    ),
    bytes("ENQUEUE_DUE", 13, 20, "the due that all share"),
    lua("ENQUEUE_PRIORITY_AT", 21, "the priority that all share"),
    lua(
        "ENQUEUE_QUEUE_AT",
        22,
        "the length of the name of their queue",
    ),
    lua("ENQUEUE_NAME_AT", 23, "where that name begins"),
    bytes("FIRST_LENGTH", 12, 15, "else: bytes of the first job"),
    bytes("FIRST_ID", 16, 31, "its id"),
    lua("FIRST_DUE_KIND", 32, "the kind of its due"),
    bytes("FIRST_DUE", 33, 40, "its due"),
    bytes("FIRST_TAIL", 41, 52, "its hash to its sflags"),
    lua("FIRST_PRIORITY", 51, "its priority"),
    lua("FIRST_QUEUE_AT", 53, "the length of the name of its queue"),
    lua("FIRST_NAME_AT", 54, "where that name begins"),
];

pub(super) const CLAIM_CALL: &[Number] = &[
    bytes("CLAIM_NONCE", 9, 16, "its nonce"),
    bytes("CLAIM_WORKER", 17, 32, "the id of the worker"),
    bytes(
        "CLAIM_HEAD",
        33,
        48,
        "its numbers, from the lease duration on",
    ),
    lua("CLAIM_HEAD_AT", 33, "where they begin"),
    lua("CLAIM_LIMIT_AT", 41, "where the number of jobs stands"),
    lua("CLAIM_COUNT_AT", 48, "how many queues"),
    lua(
        "CLAIM_QUEUE_AT",
        49,
        "the length of the name of the first queue",
    ),
    lua("CLAIM_NAME_AT", 50, "where that name begins"),
];

pub(super) const LEASES_CALL: &[Number] = &[
    bytes("LEASES_COUNT", 9, 10, "how many leases"),
    lua("LEASES_COUNT_AT", 9, "where that begins"),
    lua("LEASES_AT", 11, "where the first lease begins: its token"),
    bytes("LEASES_TOKEN", 11, 26, "the token of the first lease"),
    lua(
        "LEASES_LATE_AT",
        27,
        "where the histogram of its lateness begins",
    ),
];

pub(super) const VERDICTS: &[Number] = &[
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
