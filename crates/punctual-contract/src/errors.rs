//! Codes of errors, with their status over HTTP.

/// One code.
#[derive(Debug)]
pub struct Code {
    /// The code, as programs compare it.
    pub code: &'static str,
    /// The status over HTTP; none if no request gets it.
    pub http: Option<u16>,
    /// Where it comes from.
    pub origin: Origin,
    /// What a page adds to it; often nothing.
    pub note: &'static str,
}

/// Who makes an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A kind of `punctual::Error`.
    Kind,
    /// A kind of `punctual::Error` that the functions on Redis answer too.
    KindAndFunctions,
    /// Only the functions on Redis.
    Functions,
    /// Only the gateway.
    Gateway,
}

use Origin::{Functions, Gateway, Kind, KindAndFunctions};

const fn code(code: &'static str, http: u16, origin: Origin, note: &'static str) -> Code {
    let http = Some(http);
    Code {
        code,
        http,
        origin,
        note,
    }
}

const fn inner(code: &'static str, origin: Origin, note: &'static str) -> Code {
    let http = None;
    Code {
        code,
        http,
        origin,
        note,
    }
}

/// Every code, by status.
pub const ERRORS: &[Code] = &[
    code("invalid_json", 400, Gateway, ""),
    code("invalid_request", 400, Gateway, ""),
    code("unauthorized", 401, Gateway, ""),
    code("forbidden", 403, Gateway, "names the scope"),
    code("namespace_mismatch", 403, Gateway, ""),
    code("host_not_allowed", 403, Gateway, ""),
    code("origin_not_allowed", 403, Gateway, ""),
    code("not_found", 404, KindAndFunctions, ""),
    code("method_not_allowed", 405, Gateway, ""),
    code(
        "request_timeout",
        408,
        Gateway,
        "the body did not arrive within 30 s",
    ),
    code("id_conflict", 409, Gateway, ""),
    code("unique_active", 409, Gateway, ""),
    code("unique_held", 409, Gateway, ""),
    code("job_active", 409, Gateway, ""),
    code("wrong_state", 409, Gateway, ""),
    code("wait_ended", 409, Gateway, ""),
    code("signals_full", 409, Gateway, ""),
    code("lease_lost", 409, Kind, ""),
    code(
        "version_conflict",
        409,
        KindAndFunctions,
        "on Redis with `version=N`",
    ),
    code("conflict", 409, KindAndFunctions, ""),
    code("payload_too_large", 413, KindAndFunctions, ""),
    code("batch_too_large", 413, KindAndFunctions, ""),
    code("body_too_large", 413, Gateway, ""),
    code("unsupported_media_type", 415, Gateway, ""),
    code("invalid_input", 422, KindAndFunctions, ""),
    code(
        "reserved_id",
        422,
        Kind,
        "ids of runs and steps follow from their names",
    ),
    code("invalid_name", 422, KindAndFunctions, ""),
    code("invalid_delay", 422, KindAndFunctions, ""),
    code("target_refused", 422, Gateway, ""),
    code("unsupported", 422, Kind, ""),
    code("too_many_requests", 429, Gateway, ""),
    code(
        "too_many_bodies",
        429,
        Gateway,
        "the bodies of the token or of its namespace take too many bytes at the same time; with `Retry-After`",
    ),
    code(
        "too_many_connections",
        429,
        Gateway,
        "names the setting; without `request_id`",
    ),
    code("internal", 500, Kind, ""),
    code("io", 500, Kind, ""),
    code(
        "codec",
        500,
        Kind,
        "a call of `/v1/calls` could not be written",
    ),
    code("data_damaged", 500, KindAndFunctions, ""),
    code("data_newer", 500, Kind, "a newer version wrote the data"),
    code("engine_data_missing", 500, KindAndFunctions, ""),
    code("too_many_bodies", 503, Gateway, "those of all callers do"),
    code("engine_unavailable", 503, Kind, ""),
    code("engine_stopped", 503, Kind, ""),
    code("durability_unavailable", 503, Kind, ""),
    code("data_locked", 503, Kind, ""),
    code(
        "shutting_down",
        503,
        Kind,
        "with `Retry-After`; it is unknown whether a change took place: send the same ids again",
    ),
    code("engine_full", 507, KindAndFunctions, "not stored"),
    code(
        "full",
        507,
        Gateway,
        "the queue's `max_pending`; not stored",
    ),
    code(
        "share_full",
        507,
        Gateway,
        "the `max_pending` of the queue's shares; not stored",
    ),
    inner("handler", Kind, "a worker's handler failed"),
    inner("permanent", Kind, "a handler failed for good"),
    inner(
        "shards_differ",
        Functions,
        "the namespace has another number of shards",
    ),
    inner("touch", Functions, "call `maintain`, then the read again"),
];
