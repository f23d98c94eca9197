//! Limits, defaults of a job's fields, and texts of refusals.
//!
//! Generated from `punctual-contract`; change the tables there and run `cargo run -p
//! punctual-contract`.

/// Bytes of one payload: keep blobs elsewhere and send a reference.
pub(crate) const PAYLOAD_BYTES: usize = 262_144;
/// Bytes of all header names and values of one job.
pub(crate) const HEADER_BYTES: usize = 8192;
/// Bytes of a result, a progress note or an error text that the engine keeps.
pub(crate) const RESULT_BYTES: usize = 8192;
/// Items of one call: jobs, targets, leases, settlements, samples of each kind.
pub(crate) const BATCH_ITEMS: usize = 1000;
/// Bytes of all payloads of one call, those of effects too.
pub(crate) const BATCH_BYTES: usize = 4_194_304;
/// Names that one held job may wait for.
pub(crate) const WAIT_FOR_NAMES: usize = 64;
/// Effects of one settlement.
pub(crate) const EFFECTS: usize = 64;
/// Waiting jobs that one call moves, rescues, expires or prunes besides its own work.
pub(crate) const SWEEP: usize = 500;
/// Bytes of tombstones, each counted as 256 and its result.
pub(crate) const TOMBSTONE_BYTES: usize = 268_435_456;
/// Settled jobs kept per queue and state, besides their retention in time.
pub(crate) const RETAINED: usize = 10_000;
/// Bytes of settled jobs kept per queue and state.
pub(crate) const RETAINED_BYTES: usize = 67_108_864;
/// Bytes of settled jobs kept in all queues of a namespace; each shard counts its own.
pub(crate) const NAMESPACE_RETAINED_BYTES: usize = 536_870_912;
/// Changes that the feed remembers.
pub(crate) const FEED: usize = 16_384;
/// Schedules of a namespace.
pub(crate) const SCHEDULES: usize = 100_000;
/// Clears of a namespace that came before their jobs; of more the oldest go.
pub(crate) const EARLY_CLEARS: usize = 10_000;
/// How long a tombstone is kept, so that a resend is recognised.
pub(crate) const SETTLED_WINDOW_MS: u64 = 120_000;
/// How long a cancelled job is kept.
pub(crate) const CANCELLED_RETENTION_MS: u64 = 86_400_000;
/// How long a dead job is kept.
pub(crate) const DEAD_RETENTION_MS: u64 = 2_592_000_000;
/// Queues that one claim or wait may name.
pub const CLAIM_QUEUES_MAX: usize = 64;
/// Jobs that one wait may name.
pub const WAIT_JOBS_MAX: usize = 1000;
/// Bytes of one opaque record.
pub const RECORD_BYTES_MAX: usize = 65_536;
/// How long a clear waits for its job.
pub(crate) const EARLY_CLEAR_MS: u64 = 3_600_000;
/// Named limits of one job.
pub const NAMED_LIMITS_MAX: usize = 3;
/// Units of the rates of its named limits that one job may cost.
pub const COST_MAX: u32 = 1000;
/// Bytes of a name of a namespace, queue, kind, worker or record.
pub const NAME_BYTES_MAX: usize = 128;
/// Bytes of a unique key, a group key or a name that a held job waits for.
pub const KEY_BYTES_MAX: usize = 256;
/// Spans of one `list` retry policy.
pub const RETRY_SPANS_MAX: usize = 64;
/// Milliseconds that a retry policy waits at most.
pub(crate) const RETRY_SPAN_MAX_MS: u64 = 7_776_000_000;
/// How long a resend is recognised at most.
pub(crate) const REMEMBER_MAX_MS: u64 = 604_800_000;
/// How long refreshes may delay a job at most.
pub(crate) const MAX_WAIT_MAX_MS: u64 = 31_536_000_000;
/// Milliseconds of the longest timeout of an attempt.
pub(crate) const TIMEOUT_MAX_MS: u64 = 31_536_000_000;
/// Milliseconds of the shortest lease.
pub(crate) const LEASE_MIN_MS: u64 = 1;
/// Milliseconds of the longest lease.
pub(crate) const LEASE_MAX_MS: u64 = 86_400_000;
/// Log lines of one job that are kept, and that one call brings.
pub const LOG_LINES_KEPT: usize = 100;
/// Bytes of these lines.
pub const LOG_BYTES_KEPT: usize = 16_384;
/// Memos of the steps of one job, and again of its signals and waits.
pub const MEMOS_MAX: usize = 64;
/// Bytes of the value of one memo.
pub const MEMO_BYTES_MAX: usize = 8192;
/// Bytes of all names and values of the memos of one job's steps, and again of its signals.
pub const MEMOS_BYTES_MAX: usize = 65_536;
/// Past attempts of one job that are kept: the first and the last ones.
pub const ATTEMPTS_KEPT: usize = 10;
/// Bytes of the error of a past attempt.
pub const ATTEMPT_ERROR_BYTES: usize = 1024;
/// The last priority.
pub const PRIORITY_MAX: u8 = 9;
/// The priority of a job that names none.
pub(crate) const PRIORITY_DEFAULT: u8 = 5;
/// Failures after which a job that names no number is dead.
pub(crate) const MAX_ATTEMPTS_DEFAULT: u32 = 20;
/// What a payload is if the job does not say.
pub(crate) const CONTENT_TYPE_DEFAULT: &str = "application/json";
/// Milliseconds before the first retry.
pub(crate) const RETRY_BASE_MS: u64 = 1_000;
/// By what each next wait is longer.
pub(crate) const RETRY_FACTOR: f64 = 2.0;
/// Milliseconds of the longest wait by default.
pub(crate) const RETRY_CAP_MS: u64 = 3_600_000;
/// An id is kept for the engine.
pub(crate) const TEXT_RESERVED_ID: &str = "id has the form of a schedule's runs, which only the engine enqueues, or of a flow's steps; use another id";
/// A name breaks the rule of names.
pub(crate) const TEXT_NAME_RULE: &str = "use 1 to 128 of a-z A-Z 0-9 . _ - : /";
/// A payload is over `payload_bytes`.
pub(crate) const TEXT_PAYLOAD: &str =
    "payload is over the limit; store the blob elsewhere and send a reference";
/// A content type is empty or too long.
pub(crate) const TEXT_CONTENT_TYPE: &str = "content type is out of range; use 1 to 128 bytes";
/// A header's name is empty, too long or has another character.
pub(crate) const TEXT_HEADER_NAME: &str =
    "header name is not allowed; use 1 to 128 of a-z A-Z 0-9 . _ -";
/// A header's value cannot stand in one line.
pub(crate) const TEXT_HEADER_VALUE: &str = "header value has a control character";
/// All headers are over `header_bytes`.
pub(crate) const TEXT_HEADERS: &str = "headers are over the limit";
/// A span ends after the last instant; behind the name of the field.
pub(crate) const TEXT_BEYOND_TIME: &str = "reaches beyond the year 9999";
/// A priority is over the last one.
pub(crate) const TEXT_PRIORITY: &str = "priority is out of range; use 0 (first) to 9 (last)";
/// A key or a name to wait for breaks the rule of keys.
pub(crate) const TEXT_KEY_RULE: &str = "use 1 to 256 bytes of printable text";
/// A refreshed job would wait too long, or not at all.
pub(crate) const TEXT_MAX_WAIT: &str = "unique.max_wait is out of range; use over 0 to 365 days";
/// A refreshed job would be late from the start.
pub(crate) const TEXT_MAX_WAIT_DELAY: &str =
    "unique.max_wait is shorter than the delay; use at least the delay";
/// A job names too many limits.
pub(crate) const TEXT_LIMITS_COUNT: &str = "job has too many named limits; use at most 3";
/// A limit is named again.
pub(crate) const TEXT_LIMIT_TWICE: &str =
    "job names a limit twice; name it once, and give the job a cost";
/// The name of a limit's record would be too long; behind its place in the field.
pub(crate) const TEXT_LIMIT_NAME: &str = "name is too long; use at most 122 characters";
/// A cost is zero or too high.
pub(crate) const TEXT_COST: &str = "cost is out of range; use 1 to 1,000";
/// A cost counts nowhere.
pub(crate) const TEXT_COST_WITHOUT_LIMIT: &str =
    "job has a cost, but no named limit that counts it; name one in `limits`";
/// No attempt is allowed.
pub(crate) const TEXT_MAX_ATTEMPTS: &str = "max_attempts is out of range; use at least 1";
/// No crash is allowed.
pub(crate) const TEXT_MAX_CRASHES: &str = "max_crashes is out of range; use at least 1";
/// A factor makes waits shorter, or too long.
pub(crate) const TEXT_RETRY_FACTOR: &str = "retry.factor is out of range; use 1 to 100";
/// A list of spans is empty or too long.
pub(crate) const TEXT_RETRY_LIST: &str = "retry.spans is out of range; use 1 to 64 spans";
/// A span of a retry policy is too long; behind `retry.base`, `retry.cap`, `retry.span` or
/// `retry.spans`.
pub(crate) const TEXT_RETRY_SPAN: &str = "is out of range; use at most 90 days";
/// A timeout is zero or too long.
pub(crate) const TEXT_TIMEOUT: &str = "timeout is out of range; use over 0 to 365 days";
/// A resend would be recognised for no time, or too long.
pub(crate) const TEXT_REMEMBER: &str = "remember is out of range; use over 0 to 7 days";
/// A job waits for too many names.
pub(crate) const TEXT_WAIT_FOR: &str = "wait_for is out of range; use at most 64 names";
/// A job waits for too many jobs.
pub(crate) const TEXT_AFTER_COUNT: &str =
    "job waits for too many others in one call; add the rest by a flow's wait";
/// A job would never run.
pub(crate) const TEXT_AFTER_ITSELF: &str =
    "job waits for itself, and a cycle never runs; leave its own id out of `after`";
/// A job is waited for again.
pub(crate) const TEXT_AFTER_TWICE: &str = "job waits for another one twice; name each once";
/// The id of a step does not come from its names.
pub(crate) const TEXT_STEP_ID: &str = "id is not that of the step; leave it out";
/// A step names a callback of its own flow.
pub(crate) const TEXT_AFTER_CALLBACK: &str =
    "a step waits for a callback of its flow, which waits for the step; let it wait for steps";
/// A callback names jobs to wait for.
pub(crate) const TEXT_CALLBACK_AFTER: &str = "a callback waits for its flow and for no other job";
/// An import has half of a step.
pub(crate) const TEXT_STEP_PAST: &str = "a step is imported with both its past and that of its job, and sent with neither; export its flow again";
/// A result, progress or error of an import is over `result_bytes`.
pub(crate) const TEXT_PAST_BYTES: &str = "of the history is over the limit";
/// An import, or an extension, has more log than a job keeps.
pub(crate) const TEXT_LOG: &str = "log lines of a job are over the limit; send the last ones";
/// A memo of an import, or of an extension, is too large.
pub(crate) const TEXT_MEMO_BYTES: &str =
    "result of a step is over the limit; store it elsewhere and keep a reference";
/// The memos of a job are too many or too large.
pub(crate) const TEXT_MEMOS: &str = "steps of the job keep more than 64 results or 64 KiB; keep references, or let a follow-up do the rest";
/// An import has more past attempts than a job keeps.
pub(crate) const TEXT_PAST_ATTEMPTS: &str =
    "number of attempts of the history is out of range; use at most 10";
/// The error of a past attempt is longer than a job keeps.
pub(crate) const TEXT_PAST_ERROR: &str = "error of an attempt of the history is over the limit";
/// A counter of an import is near its overflow.
pub(crate) const TEXT_PAST_COUNT: &str =
    "counter of the history is out of range; use at most 1,000,000,000";
/// A lease is too short or too long.
pub(crate) const TEXT_LEASE_DURATION: &str = "lease_duration is out of range; use 1 ms to 1 day";
/// An id has another form.
pub(crate) const TEXT_JOB_ID: &str =
    "job id is not a UUID; write it like 01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
/// No flow has that name.
pub(crate) const TEXT_NO_FLOW: &str = "there is no such flow; list the flows to see their names";
/// No step of the flow has that name.
pub(crate) const TEXT_NO_STEP: &str = "flow has no such step; list its steps to see their names";
/// A flow that is still being sent is retried.
pub(crate) const TEXT_NEVER_SEALED: &str =
    "flow was never sealed, so nothing of it has run; seal it, or send it under another name";
/// A flow that was cancelled before its seal is sealed or retried.
pub(crate) const TEXT_NOT_SEALED: &str =
    "flow was cancelled before it was sealed; send it under another name";
/// The job of a step that is retried is gone.
pub(crate) const TEXT_STEP_GONE: &str = "step is not kept any more, so it cannot run again; send it in another flow, and give steps a retention";
/// A step is to wait for a later one.
pub(crate) const TEXT_WAITS_LATER: &str = "a step can wait only for steps that came before it, so that no two wait for each other; name an earlier one";
/// A step is to wait for more jobs than its plan said.
pub(crate) const TEXT_WAITS_CLOSED: &str = "flow is sealed or cancelled, so its steps wait for no more jobs; send the plan under another name";
