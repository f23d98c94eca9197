//! Limits: bounds of an engine that `Limits` can change, and fixed bounds.

/// One limit.
#[derive(Debug)]
pub struct Limit {
    /// The name: a field of `Limits`, or a constant.
    pub name: &'static str,
    /// How much.
    pub value: u64,
    /// How a page writes it.
    pub text: &'static str,
    /// The type of the constant in Rust; empty if Rust does not need it.
    pub rust: &'static str,
    /// Whether `Limits` has it, so that an engine can change it.
    pub is_adjustable: bool,
    /// The name in Lua and how the value stands there, if the functions need it.
    pub lua: Option<(&'static str, &'static str)>,
    /// What it bounds.
    pub gloss: &'static str,
}

const fn adjustable(
    name: &'static str,
    value: u64,
    text: &'static str,
    lua: Option<(&'static str, &'static str)>,
    gloss: &'static str,
) -> Limit {
    Limit {
        name,
        value,
        text,
        rust: "usize",
        is_adjustable: true,
        lua,
        gloss,
    }
}

/// A span of `Limits`, in milliseconds.
const fn span(
    name: &'static str,
    value: u64,
    text: &'static str,
    lua: Option<(&'static str, &'static str)>,
    gloss: &'static str,
) -> Limit {
    let rust = "span";
    Limit {
        name,
        value,
        text,
        rust,
        is_adjustable: true,
        lua,
        gloss,
    }
}

const fn fixed(
    name: &'static str,
    rust: &'static str,
    value: u64,
    text: &'static str,
    lua: Option<(&'static str, &'static str)>,
    gloss: &'static str,
) -> Limit {
    Limit {
        name,
        value,
        text,
        rust,
        is_adjustable: false,
        lua,
        gloss,
    }
}

/// Every limit.
pub const LIMITS: &[Limit] = &[
    adjustable(
        "payload_bytes",
        256 << 10,
        "256 KiB",
        Some(("PAYLOAD_BYTES_MAX", "262144")),
        "bytes of one payload: keep blobs elsewhere and send a reference",
    ),
    adjustable(
        "header_bytes",
        8 << 10,
        "8 KiB",
        Some(("HEADER_BYTES_MAX", "8192")),
        "bytes of all header names and values of one job",
    ),
    adjustable(
        "result_bytes",
        8 << 10,
        "8 KiB",
        Some(("RESULT_BYTES_MAX", "8192")),
        "bytes of a result, a progress note or an error text that the engine keeps",
    ),
    adjustable(
        "batch_items",
        1_000,
        "1,000",
        Some(("BATCH_ITEMS_MAX", "1000")),
        "items of one call: jobs, targets, leases, settlements, samples of each kind",
    ),
    adjustable(
        "batch_bytes",
        4 << 20,
        "4 MiB",
        None,
        "bytes of all payloads of one call, those of effects too",
    ),
    adjustable(
        "wait_for_names",
        64,
        "64",
        Some(("WAIT_FOR_MAX", "64")),
        "names that one held job may wait for",
    ),
    adjustable("effects", 64, "64", None, "effects of one settlement"),
    adjustable(
        "sweep",
        500,
        "500",
        Some(("LIMIT_SWEEP", "500")),
        "waiting jobs that one call moves, rescues, expires or prunes besides its own work",
    ),
    adjustable(
        "tombstone_bytes",
        256 << 20,
        "256 MiB",
        Some(("LIMIT_TOMBSTONE_BYTES", "268435456")),
        "bytes of tombstones, each counted as 256 and its result",
    ),
    adjustable(
        "retained",
        10_000,
        "10,000",
        Some(("LIMIT_RETAINED", "10000")),
        "settled jobs kept per queue and state, besides their retention in time",
    ),
    adjustable(
        "retained_bytes",
        64 << 20,
        "64 MiB",
        Some(("LIMIT_RETAINED_BYTES", "67108864")),
        "bytes of settled jobs kept per queue and state",
    ),
    adjustable(
        "namespace_retained_bytes",
        512 << 20,
        "512 MiB",
        Some(("LIMIT_NAMESPACE_RETAINED_BYTES", "536870912")),
        "bytes of settled jobs kept in all queues of a namespace, on Redis of a shard",
    ),
    adjustable(
        "feed",
        16_384,
        "16,384",
        Some(("LIMIT_FEED", "16384")),
        "changes that the feed remembers",
    ),
    adjustable(
        "schedules",
        100_000,
        "100,000",
        Some(("LIMIT_SCHEDULES", "100000")),
        "schedules of a namespace",
    ),
    span(
        "settled_window",
        120_000,
        "2 minutes",
        Some(("LIMIT_SETTLED_WINDOW", "120e6")),
        "how long a tombstone is kept, so that a resend is recognised",
    ),
    span(
        "cancelled_retention",
        86_400_000,
        "1 day",
        Some(("LIMIT_CANCELLED_RETENTION", "86400e6")),
        "how long a cancelled job is kept",
    ),
    span(
        "dead_retention",
        2_592_000_000,
        "30 days",
        Some(("LIMIT_DEAD_RETENTION", "2592000e6")),
        "how long a dead job is kept",
    ),
    fixed(
        "CLAIM_QUEUES_MAX",
        "usize",
        64,
        "64",
        Some(("CLAIM_QUEUES_MAX", "64")),
        "queues that one claim or wait may name",
    ),
    fixed(
        "WAIT_JOBS_MAX",
        "usize",
        1_000,
        "1,000",
        None,
        "jobs that one wait may name",
    ),
    fixed(
        "RECORD_BYTES_MAX",
        "usize",
        64 << 10,
        "64 KiB",
        None,
        "bytes of one opaque record",
    ),
    fixed(
        "FLOW_EDGES_MAX",
        "",
        10_000,
        "10,000",
        Some(("FLOW_EDGES_MAX", "10000")),
        "jobs that one call may say a job waits for",
    ),
    fixed(
        "WEIGHTS_MAX",
        "",
        1_000,
        "1,000",
        Some(("WEIGHTS_MAX", "1000")),
        "shares of a queue that have a weight of their own",
    ),
    fixed(
        "BLOCKED_SHARES_MAX",
        "",
        10_000,
        "10,000",
        Some(("BLOCKED_SHARES_MAX", "10000")),
        "shares of a queue that are blocked at one time",
    ),
    fixed(
        "BLOCK_MAX_US",
        "",
        31_536_000_000_000,
        "365 days",
        Some(("BLOCK_MAX_US", "31536000000000")),
        "microseconds that a share is blocked at most",
    ),
    fixed(
        "TOP_SHARES_MAX",
        "",
        100,
        "100",
        Some(("TOP_SHARES_MAX", "100")),
        "shares of each queue that one `stats` answers",
    ),
    fixed(
        "CALL_JOBS_MAX",
        "",
        10_000,
        "10,000",
        Some(("CALL_JOBS_MAX", "10000")),
        "jobs, ids or settlements that the functions take in one call, or in several at once",
    ),
    fixed(
        "WORKER_BYTES_MAX",
        "",
        64 << 10,
        "64 KiB",
        Some(("WORKER_BYTES_MAX", "65536")),
        "bytes of what a worker says of itself",
    ),
    fixed(
        "INSTANT_MAX_US",
        "",
        253_402_300_799_999_999,
        "the end of the year 9999",
        Some(("INSTANT_MAX_US", "253402300799999999")),
        "the last instant, in microseconds since 1970",
    ),
    fixed(
        "NAME_BYTES_MAX",
        "usize",
        128,
        "128",
        Some(("NAME_BYTES_MAX", "128")),
        "bytes of a name of a namespace, queue, kind, worker or record",
    ),
    fixed(
        "KEY_BYTES_MAX",
        "usize",
        256,
        "256",
        Some(("KEY_BYTES_MAX", "256")),
        "bytes of a unique key, a group key or a name that a held job waits for",
    ),
    fixed(
        "RETRY_SPANS_MAX",
        "usize",
        64,
        "64",
        None,
        "spans of one `list` retry policy",
    ),
    fixed(
        "RETRY_SPAN_MAX_MS",
        "u64",
        7_776_000_000,
        "90 days",
        Some(("RETRY_SPAN_MAX_MS", "7776000000")),
        "milliseconds that a retry policy waits at most",
    ),
    fixed(
        "TIMEOUT_MAX_MS",
        "u64",
        31_536_000_000,
        "365 days",
        Some(("TIMEOUT_MAX_MS", "31536000000")),
        "milliseconds of the longest timeout of an attempt",
    ),
    fixed(
        "LEASE_MIN_MS",
        "u64",
        1,
        "1 ms",
        Some(("LEASE_MIN_MS", "1")),
        "milliseconds of the shortest lease",
    ),
    fixed(
        "LEASE_MAX_MS",
        "u64",
        86_400_000,
        "1 day",
        Some(("LEASE_MAX_MS", "86400000")),
        "milliseconds of the longest lease",
    ),
    fixed(
        "LOG_LINES_KEPT",
        "usize",
        100,
        "100",
        Some(("LOG_LINES_KEPT", "100")),
        "log lines of one job that are kept, and that one call brings",
    ),
    fixed(
        "LOG_BYTES_KEPT",
        "usize",
        16 << 10,
        "16 KiB",
        Some(("LOG_BYTES_KEPT", "16384")),
        "bytes of these lines",
    ),
    fixed(
        "MEMOS_MAX",
        "usize",
        64,
        "64",
        Some(("MEMOS_MAX", "64")),
        "memos of the steps of one job, and again of its signals and waits",
    ),
    fixed(
        "MEMO_BYTES_MAX",
        "usize",
        8 << 10,
        "8 KiB",
        Some(("MEMO_BYTES_MAX", "8192")),
        "bytes of the value of one memo",
    ),
    fixed(
        "MEMOS_BYTES_MAX",
        "usize",
        64 << 10,
        "64 KiB",
        Some(("MEMOS_BYTES_MAX", "65536")),
        "bytes of all names and values of the memos of one job's steps, and again of its signals",
    ),
    fixed(
        "ATTEMPTS_KEPT",
        "usize",
        10,
        "10",
        Some(("ATTEMPTS_KEPT", "10")),
        "past attempts of one job that are kept: the first and the last ones",
    ),
    fixed(
        "ATTEMPT_ERROR_BYTES",
        "usize",
        1_024,
        "1 KiB",
        Some(("ATTEMPT_ERROR_BYTES", "1024")),
        "bytes of the error of a past attempt",
    ),
];
