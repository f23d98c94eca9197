//! Texts of refusals: those of a job's fields, and those that Rust and the functions share.

/// One text.
#[derive(Debug)]
pub struct Text {
    /// The name in Rust, and in Lua (`%NAME%`).
    pub name: &'static str,
    /// What it says: all of it, or with a name before it.
    pub text: &'static str,
    /// When it is said.
    pub gloss: &'static str,
    /// The fields of a job that it refuses; none if it is said of something else.
    pub fields: &'static [&'static str],
    /// The code of the error.
    pub code: &'static str,
    /// Whether it is the end of a message that begins with what is refused.
    pub is_end: bool,
    /// Whether the functions say it too.
    pub is_shared: bool,
}

const fn of(
    fields: &'static [&'static str],
    code: &'static str,
    name: &'static str,
    text: &'static str,
    gloss: &'static str,
) -> Text {
    Text {
        name,
        text,
        gloss,
        fields,
        code,
        is_end: false,
        is_shared: false,
    }
}

const fn shared(text: Text) -> Text {
    Text {
        is_shared: true,
        ..text
    }
}

const fn end(text: Text) -> Text {
    Text {
        is_end: true,
        ..text
    }
}

/// Every text, in the order of a job's fields.
pub const TEXTS: &[Text] = &[
    of(
        &["id"],
        "reserved_id",
        "TEXT_RESERVED_ID",
        "id has the form of a schedule's runs, which only the engine enqueues, or of a flow's steps; use another id",
        "an id is kept for the engine",
    ),
    shared(end(of(
        &["queue", "kind", "limits"],
        "invalid_name",
        "TEXT_NAME_RULE",
        "use 1 to 128 of a-z A-Z 0-9 . _ - : /",
        "a name breaks the rule of names",
    ))),
    of(
        &["payload"],
        "payload_too_large",
        "TEXT_PAYLOAD",
        "payload is over the limit; store the blob elsewhere and send a reference",
        "a payload is over `payload_bytes`",
    ),
    of(
        &["content_type"],
        "invalid_input",
        "TEXT_CONTENT_TYPE",
        "content type is out of range; use 1 to 128 bytes",
        "a content type is empty or too long",
    ),
    of(
        &["headers"],
        "invalid_name",
        "TEXT_HEADER_NAME",
        "header name is not allowed; use 1 to 128 of a-z A-Z 0-9 . _ -",
        "a header's name is empty, too long or has another character",
    ),
    of(
        &["headers", "content_type"],
        "invalid_input",
        "TEXT_HEADER_VALUE",
        "header value has a control character",
        "a header's value cannot stand in one line",
    ),
    of(
        &["headers"],
        "payload_too_large",
        "TEXT_HEADERS",
        "headers are over the limit",
        "all headers are over `header_bytes`",
    ),
    end(of(
        &["due", "unique", "retention"],
        "invalid_delay",
        "TEXT_BEYOND_TIME",
        "reaches beyond the year 9999",
        "a span ends after the last instant; behind the name of the field",
    )),
    shared(of(
        &["priority"],
        "invalid_input",
        "TEXT_PRIORITY",
        "priority is out of range; use 0 (first) to 9 (last)",
        "a priority is over the last one",
    )),
    shared(end(of(
        &["unique", "group", "share", "wait_for"],
        "invalid_name",
        "TEXT_KEY_RULE",
        "use 1 to 256 bytes of printable text",
        "a key or a name to wait for breaks the rule of keys",
    ))),
    of(
        &["unique"],
        "invalid_input",
        "TEXT_MAX_WAIT",
        "unique.max_wait is out of range; use over 0 to 365 days",
        "a refreshed job would wait too long, or not at all",
    ),
    of(
        &["unique"],
        "invalid_input",
        "TEXT_MAX_WAIT_DELAY",
        "unique.max_wait is shorter than the delay; use at least the delay",
        "a refreshed job would be late from the start",
    ),
    of(
        &["limits"],
        "invalid_input",
        "TEXT_LIMITS_COUNT",
        "job has too many named limits; use at most 3",
        "a job names too many limits",
    ),
    of(
        &["limits"],
        "invalid_input",
        "TEXT_LIMIT_TWICE",
        "job names a limit twice; name it once, and give the job a cost",
        "a limit is named again",
    ),
    end(of(
        &["limits"],
        "invalid_name",
        "TEXT_LIMIT_NAME",
        "name is too long; use at most 122 characters",
        "the name of a limit's record would be too long; behind its place in the field",
    )),
    of(
        &["cost"],
        "invalid_input",
        "TEXT_COST",
        "cost is out of range; use 1 to 1,000",
        "a cost is zero or too high",
    ),
    of(
        &["cost"],
        "invalid_input",
        "TEXT_COST_WITHOUT_LIMIT",
        "job has a cost, but no named limit that counts it; name one in `limits`",
        "a cost counts nowhere",
    ),
    of(
        &["max_attempts"],
        "invalid_input",
        "TEXT_MAX_ATTEMPTS",
        "max_attempts is out of range; use at least 1",
        "no attempt is allowed",
    ),
    of(
        &["max_crashes"],
        "invalid_input",
        "TEXT_MAX_CRASHES",
        "max_crashes is out of range; use at least 1",
        "no crash is allowed",
    ),
    of(
        &["retry"],
        "invalid_input",
        "TEXT_RETRY_FACTOR",
        "retry.factor is out of range; use 1 to 100",
        "a factor makes waits shorter, or too long",
    ),
    of(
        &["retry"],
        "invalid_input",
        "TEXT_RETRY_LIST",
        "retry.spans is out of range; use 1 to 64 spans",
        "a list of spans is empty or too long",
    ),
    end(of(
        &["retry"],
        "invalid_input",
        "TEXT_RETRY_SPAN",
        "is out of range; use at most 90 days",
        "a span of a retry policy is too long; behind `retry.base`, `retry.cap`, `retry.span` or `retry.spans`",
    )),
    of(
        &["timeout"],
        "invalid_input",
        "TEXT_TIMEOUT",
        "timeout is out of range; use over 0 to 365 days",
        "a timeout is zero or too long",
    ),
    of(
        &["remember"],
        "invalid_input",
        "TEXT_REMEMBER",
        "remember is out of range; use over 0 to 7 days",
        "a resend would be recognised for no time, or too long",
    ),
    of(
        &["wait_for"],
        "invalid_input",
        "TEXT_WAIT_FOR",
        "wait_for is out of range; use at most 64 names",
        "a job waits for too many names",
    ),
    of(
        &["after"],
        "batch_too_large",
        "TEXT_AFTER_COUNT",
        "job waits for too many others in one call; add the rest by a flow's wait",
        "a job waits for too many jobs",
    ),
    of(
        &["after"],
        "invalid_input",
        "TEXT_AFTER_ITSELF",
        "job waits for itself, and a cycle never runs; leave its own id out of `after`",
        "a job would never run",
    ),
    of(
        &["after"],
        "invalid_input",
        "TEXT_AFTER_TWICE",
        "job waits for another one twice; name each once",
        "a job is waited for again",
    ),
    of(
        &["flow"],
        "reserved_id",
        "TEXT_STEP_ID",
        "id is not that of the step; leave it out",
        "the id of a step does not come from its names",
    ),
    of(
        &["flow", "after"],
        "invalid_input",
        "TEXT_AFTER_CALLBACK",
        "a step waits for a callback of its flow, which waits for the step; let it wait for steps",
        "a step names a callback of its own flow",
    ),
    of(
        &["flow", "after"],
        "invalid_input",
        "TEXT_CALLBACK_AFTER",
        "a callback waits for its flow and for no other job",
        "a callback names jobs to wait for",
    ),
    of(
        &["flow", "history"],
        "invalid_input",
        "TEXT_STEP_PAST",
        "a step is imported with both its past and that of its job, and sent with neither; export its flow again",
        "an import has half of a step",
    ),
    end(of(
        &["history"],
        "payload_too_large",
        "TEXT_PAST_BYTES",
        "of the history is over the limit",
        "a result, progress or error of an import is over `result_bytes`",
    )),
    of(
        &["history"],
        "payload_too_large",
        "TEXT_LOG",
        "log lines of a job are over the limit; send the last ones",
        "an import, or an extension, has more log than a job keeps",
    ),
    of(
        &["history"],
        "payload_too_large",
        "TEXT_MEMO_BYTES",
        "result of a step is over the limit; store it elsewhere and keep a reference",
        "a memo of an import, or of an extension, is too large",
    ),
    of(
        &["history"],
        "payload_too_large",
        "TEXT_MEMOS",
        "steps of the job keep more than 64 results or 64 KiB; keep references, or let a follow-up do the rest",
        "the memos of a job are too many or too large",
    ),
    of(
        &["history"],
        "invalid_input",
        "TEXT_PAST_ATTEMPTS",
        "number of attempts of the history is out of range; use at most 10",
        "an import has more past attempts than a job keeps",
    ),
    of(
        &["history"],
        "payload_too_large",
        "TEXT_PAST_ERROR",
        "error of an attempt of the history is over the limit",
        "the error of a past attempt is longer than a job keeps",
    ),
    of(
        &["history"],
        "invalid_input",
        "TEXT_PAST_COUNT",
        "counter of the history is out of range; use at most 1,000,000,000",
        "a counter of an import is near its overflow",
    ),
    shared(of(
        &[],
        "invalid_input",
        "TEXT_LEASE_DURATION",
        "lease_duration is out of range; use 1 ms to 1 day",
        "a lease is too short or too long",
    )),
    shared(of(
        &[],
        "invalid_input",
        "TEXT_JOB_ID",
        "job id is not a UUID; write it like 01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a",
        "an id has another form",
    )),
    shared(of(
        &[],
        "not_found",
        "TEXT_NO_FLOW",
        "there is no such flow; list the flows to see their names",
        "no flow has that name",
    )),
    shared(of(
        &[],
        "not_found",
        "TEXT_NO_STEP",
        "flow has no such step; list its steps to see their names",
        "no step of the flow has that name",
    )),
    shared(of(
        &[],
        "conflict",
        "TEXT_NEVER_SEALED",
        "flow was never sealed, so nothing of it has run; seal it, or send it under another name",
        "a flow that is still being sent is retried",
    )),
    shared(of(
        &[],
        "conflict",
        "TEXT_NOT_SEALED",
        "flow was cancelled before it was sealed; send it under another name",
        "a flow that was cancelled before its seal is sealed or retried",
    )),
    shared(of(
        &[],
        "conflict",
        "TEXT_STEP_GONE",
        "step is not kept any more, so it cannot run again; send it in another flow, and give steps a retention",
        "the job of a step that is retried is gone",
    )),
    shared(of(
        &[],
        "invalid_input",
        "TEXT_WAITS_LATER",
        "a step can wait only for steps that came before it, so that no two wait for each other; name an earlier one",
        "a step is to wait for a later one",
    )),
    shared(of(
        &[],
        "conflict",
        "TEXT_WAITS_CLOSED",
        "flow is sealed or cancelled, so its steps wait for no more jobs; send the plan under another name",
        "a step is to wait for more jobs than its plan said",
    )),
];
