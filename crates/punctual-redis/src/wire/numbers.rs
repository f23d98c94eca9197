//! Numbers of the packed forms of `docs/wire-protocol.md`.
//!
//! Generated from `punctual-contract`; change the tables there and run `cargo run -p
//! punctual-contract`.

use std::ops::Range;

/// Due and hash.
pub(crate) const REC_CORE: Range<usize> = 11..27;
/// Hashes that the records of a shard are cut into, and the heads and payloads of bundles.
pub(crate) const PARTS: u8 = 32;
/// The byte of an id that has its part, in bits 1 to 5.
pub(crate) const PART_OF_ID: u8 = 5;
/// The byte of a bundle's number that has its part, in bits 3 to 7.
pub(crate) const PART_OF_NUMBER: u8 = 6;
/// Waits, without an ext.
pub(crate) const TAG_PLAIN: u8 = 1;
/// Waits, with an ext.
pub(crate) const TAG_WAITING: u8 = 2;
/// Dead; up to here it is a record.
pub(crate) const TAG_DEAD: u8 = 6;
/// A tombstone; from here on the job is settled or stored elsewhere.
pub(crate) const TAG_TOMBSTONE: u8 = 7;
/// Opts follow.
pub(crate) const SPEC_OPTS: u8 = 1;
/// The functions look into opts.
pub(crate) const SPEC_EXAMINED: u8 = 2;
/// Times the number of the content type.
pub(crate) const SPEC_CONTENT_TYPE: u8 = 4;
/// At once.
pub(crate) const DUE_NOW: u8 = 0;
/// After a span.
pub(crate) const DUE_AFTER: u8 = 1;
/// At an instant.
pub(crate) const DUE_AT: u8 = 2;
/// Some id appears twice in this call.
pub(crate) const ENQUEUE_TWICE: u8 = 1;
/// *uniform*: due, priority and queue of all jobs are the same.
pub(crate) const ENQUEUE_UNIFORM: u8 = 2;
/// The jobs come in bundles.
pub(crate) const ENQUEUE_BUNDLES: u8 = 4;
/// *linked*: jobs of flows, or that wait for others; their links are a second argument.
pub(crate) const ENQUEUE_LINKED: u8 = 8;
/// The worker runs nothing else now.
pub(crate) const CLAIM_ALONE: u8 = 1;
/// Queues in turns.
pub(crate) const CLAIM_TURNS: u8 = 2;
/// A wakeup caused this claim.
pub(crate) const CLAIM_WOKEN: u8 = 4;
/// The claimer can read records itself.
pub(crate) const CLAIM_READS: u8 = 8;
/// The claimer comes again at `wake_at` by itself.
pub(crate) const CLAIM_RETURNS: u8 = 16;
/// The claimer can read bundles too.
pub(crate) const CLAIM_BUNDLES: u8 = 32;
/// The claimer can read records with an ext too (see *unseen*).
pub(crate) const CLAIM_READS_EXT: u8 = 128;
/// Suspects wait.
pub(crate) const CLAIMED_SUSPECTS: u8 = 1;
/// *unseen*: the lease ends after its ids, and the client reads the records with `HMGET BASE:b:PART
/// id...`.
pub(crate) const CLAIMED_UNSEEN: u8 = 2;
/// Only after flag 16: another worker claims at `wake_at`, so this one may sleep on and `listen` at
/// times.
pub(crate) const CLAIMED_ANOTHER: u8 = 4;
/// Only with 2 and after flag 32: all jobs of the lease are in bundles.
pub(crate) const CLAIMED_BUNDLES: u8 = 8;
/// Only after flag 128: *limited queues* stand at the end.
pub(crate) const CLAIMED_LIMITED: u8 = 32;
/// Only with 32: *shares* that were closed stand behind them.
pub(crate) const CLAIMED_SHARES: u8 = 64;
/// Only with 32: *named limits* that were closed stand behind those.
pub(crate) const CLAIMED_NAMED: u8 = 128;
/// `span u64`.
pub(crate) const HAS_SPAN: u8 = 1;
/// `len u32, result`.
pub(crate) const HAS_RESULT: u8 = 2;
/// `len u32, error`.
pub(crate) const HAS_ERROR: u8 = 4;
/// `stopped u8`.
pub(crate) const HAS_STOPPED: u8 = 8;
/// `effects u16`, each `kind u8`, `len u32, bytes`.
pub(crate) const HAS_EFFECTS: u8 = 16;
/// `len u32`, a mp list of lines to log.
pub(crate) const HAS_LOG: u8 = 32;
/// `len u32`, a mp list of the names that a hold waits for.
pub(crate) const HAS_NAMES: u8 = 64;
/// `len u8, record`, `version u64` that the record must have.
pub(crate) const HAS_GUARD: u8 = 128;
/// An enqueue of a job.
pub(crate) const EFFECT_JOB: u8 = 0;
/// A name that a job waits for is cleared.
pub(crate) const EFFECT_CLEAR: u8 = 1;
/// An enqueue of a job in another shard.
pub(crate) const EFFECT_POST: u8 = 2;
/// As 1, in whatever shard the job is.
pub(crate) const EFFECT_CLEAR_ANYWHERE: u8 = 3;
/// An enqueue of a job with its link.
pub(crate) const EFFECT_LINKED: u8 = 4;
/// A cancel of the job that holds a unique key.
pub(crate) const EFFECT_CANCEL: u8 = 5;
/// A signal of a job.
pub(crate) const EFFECT_SIGNAL: u8 = 6;
/// Pause a queue.
pub(crate) const CONTROL_PAUSE: u8 = 0;
/// Resume it.
pub(crate) const CONTROL_RESUME: u8 = 1;
/// Purge it; up to here a queue is named.
pub(crate) const CONTROL_PURGE: u8 = 2;
/// Read a record.
pub(crate) const CONTROL_READ: u8 = 3;
/// Names of records.
pub(crate) const CONTROL_NAMES: u8 = 4;
/// Write a record.
pub(crate) const CONTROL_WRITE: u8 = 5;
/// Bounds that the functions obey.
pub(crate) const CONTROL_BOUNDS: u8 = 6;
/// Delete a queue in steps.
pub(crate) const CONTROL_DELETE: u8 = 7;
/// Set engine time back.
pub(crate) const CONTROL_CLOCK: u8 = 8;
/// Block or pause a share.
pub(crate) const CONTROL_BLOCK_SHARE: u8 = 9;
/// Block a named limit.
pub(crate) const CONTROL_BLOCK_LIMIT: u8 = 10;
/// How a named limit stands.
pub(crate) const CONTROL_LIMIT: u8 = 11;
/// Named limits after a name.
pub(crate) const CONTROL_LIMITS: u8 = 12;
/// Shares that are blocked or paused.
pub(crate) const CONTROL_BLOCKED_SHARES: u8 = 13;
/// Schedules after a name; from here on those of schedules.
pub(crate) const CONTROL_SCHEDULES: u8 = 20;
/// What `ac` says of one.
pub(crate) const CONTROL_SCHEDULE: u8 = 21;
/// Lists of next instants.
pub(crate) const CONTROL_REFILL: u8 = 22;
/// How many there are.
pub(crate) const CONTROL_COUNT_SCHEDULES: u8 = 23;
/// Flows after a name; from here on those of flows.
pub(crate) const CONTROL_FLOWS: u8 = 30;
/// What `fa` says of one.
pub(crate) const CONTROL_FLOW: u8 = 31;
/// Jobs that wait for some.
pub(crate) const CONTROL_DEPENDANTS: u8 = 32;
/// Effects under the version of a record.
pub(crate) const CONTROL_GUARDED: u8 = 40;
/// A version of a record of another shard.
pub(crate) const CONTROL_COPY: u8 = 41;
/// The version of a record.
pub(crate) const CONTROL_VERSION: u8 = 42;
/// Cancel.
pub(crate) const EDIT_CANCEL: u8 = 0;
/// Another due.
pub(crate) const EDIT_RESCHEDULE: u8 = 1;
/// Run now.
pub(crate) const EDIT_RUN_NOW: u8 = 2;
/// Another priority.
pub(crate) const EDIT_REPRIORITISE: u8 = 3;
/// Redrive.
pub(crate) const EDIT_REDRIVE: u8 = 4;
/// Delete.
pub(crate) const EDIT_DELETE: u8 = 5;
/// Another payload.
pub(crate) const EDIT_PAYLOAD: u8 = 6;
/// A signal.
pub(crate) const EDIT_SIGNAL: u8 = 7;
/// How it stands.
pub(crate) const FLOW_READ: u8 = 0;
/// Seal it.
pub(crate) const FLOW_SEAL: u8 = 1;
/// Let a step wait for more.
pub(crate) const FLOW_WAIT_MORE: u8 = 2;
/// Cancel it.
pub(crate) const FLOW_CANCEL: u8 = 3;
/// Retry steps.
pub(crate) const FLOW_RETRY: u8 = 4;
/// Steps by number.
pub(crate) const FLOW_STEPS: u8 = 5;
/// Steps by the ids of their jobs.
pub(crate) const FLOW_STEPS_OF: u8 = 6;
/// Edges.
pub(crate) const FLOW_EDGES: u8 = 7;
/// Recount it.
pub(crate) const FLOW_RECOUNT: u8 = 8;
/// Restore it.
pub(crate) const FLOW_RESTORE: u8 = 9;
/// How it stands.
pub(crate) const SCHEDULE_READ: u8 = 0;
/// A run now.
pub(crate) const SCHEDULE_RUN: u8 = 1;
/// Skip the next run.
pub(crate) const SCHEDULE_SKIP: u8 = 2;
/// Runs of the instants `at`.
pub(crate) const SCHEDULE_BACKFILL: u8 = 3;
/// The last success `su` of an import.
pub(crate) const SCHEDULE_RESTORE: u8 = 4;
/// All completed.
pub(crate) const FORM_COMPLETED: u8 = 1;
/// Each has its own outcome.
pub(crate) const FORM_EACH: u8 = 2;
/// All completed; with what their tombstones need.
pub(crate) const FORM_CORES: u8 = 3;
/// All completed; with their kinds.
pub(crate) const FORM_KINDS: u8 = 4;
/// All completed; with both.
pub(crate) const FORM_CORES_KINDS: u8 = 5;
/// The same, with unique keys and expiries.
pub(crate) const FORM_HOLDS: u8 = 6;
/// Base, factor, cap, jitter.
pub(crate) const RETRY_EXPONENTIAL: u8 = 1;
/// Span, jitter.
pub(crate) const RETRY_FIXED: u8 = 2;
/// Base, cap, jitter.
pub(crate) const RETRY_LINEAR: u8 = 3;
/// Spans.
pub(crate) const RETRY_LIST: u8 = 4;
/// C.
pub(crate) const CALLS_CLAIM: u8 = 67;
/// E.
pub(crate) const CALLS_EXTEND: u8 = 69;
/// S.
pub(crate) const CALLS_SETTLE: u8 = 83;
/// A clear of a job that this shard does not know.
pub(crate) const VERDICT_NOT_HERE: u8 = 253;
/// It is in the outbox for another shard.
pub(crate) const VERDICT_POSTED: u8 = 254;
/// A clear.
pub(crate) const VERDICT_CLEARED: u8 = 255;
/// Settings of a queue.
pub(crate) const VALUE_SETTINGS: u8 = 0;
/// Opaque bytes.
pub(crate) const VALUE_OPAQUE: u8 = 1;
/// A schedule.
pub(crate) const VALUE_SCHEDULE: u8 = 2;
/// Settings of a named limit.
pub(crate) const VALUE_LIMIT: u8 = 3;
/// Starts that are a step apart, and a burst.
pub(crate) const RATE_SMOOTH: u64 = 0;
/// Starts in any span of a length.
pub(crate) const RATE_WINDOW: u64 = 1;
/// The least jobs that are stored as a bundle.
pub(crate) const BUNDLE_MIN: usize = 8;
/// Jobs of one bundle at most.
pub(crate) const BUNDLE_JOBS_MAX: usize = 100;
/// Bytes of one bundle at most: a job that runs for long keeps the payloads of its bundle.
pub(crate) const BUNDLE_BYTES_MAX: usize = 65_535;
/// Content types that have a number in `sflags`, from 1 on.
pub(crate) const CONTENT_TYPES: &[&str] = &[
    "text/plain",
    "application/octet-stream",
    "application/x-protobuf",
    "application/protobuf",
    "application/msgpack",
    "application/x-msgpack",
    "application/vnd.msgpack",
    "application/cbor",
    "application/avro",
    "application/xml",
    "application/x-ndjson",
    "application/x-www-form-urlencoded",
    "application/cloudevents+json",
    "application/json; charset=utf-8",
    "text/plain; charset=utf-8",
    "text/plain;charset=UTF-8",
    "text/html",
    "text/csv",
    "text/xml",
];
/// Failures after which a job that names no number is dead.
pub(crate) const MAX_ATTEMPTS_DEFAULT: u32 = 20;
/// What a payload is if the job does not say.
pub(crate) const CONTENT_TYPE_DEFAULT: &str = "application/json";
