//! Fields of a job: what a client sends, and what an engine adds.

use crate::hints::Takes;

/// A field that a client sends.
#[derive(Debug)]
pub struct Field {
    /// Its name in Rust.
    pub name: &'static str,
    /// Its properties in JSON; none if only an import has it.
    pub json: &'static [&'static str],
    /// What each of them takes, for the hint of an error.
    pub takes: &'static [Takes],
    /// Its options of `punctual enqueue`.
    pub cli: &'static [&'static str],
    /// Its place in the packed form: a key of opts, or a part of the spec.
    pub packed: &'static [&'static str],
    /// Its words of `punctual_1_push`.
    pub words: &'static [&'static str],
    /// Whether the same id with another value is `id_conflict`.
    pub is_compared: bool,
    /// What an engine takes if it is left out.
    pub default: &'static str,
    /// The default as JSON, if it is one value.
    pub default_json: Option<&'static str>,
    /// Bounds, for people.
    pub bounds: &'static str,
    /// The least number.
    pub min: Option<u64>,
    /// The largest number.
    pub max: Option<u64>,
}

const NONE: Field = Field {
    name: "",
    json: &[],
    takes: &[],
    cli: &[],
    packed: &[],
    words: &[],
    is_compared: false,
    default: "",
    default_json: None,
    bounds: "",
    min: None,
    max: None,
};

/// A property of a field that is an object in JSON.
#[derive(Debug)]
pub struct Part {
    /// The field.
    pub field: &'static str,
    /// The property.
    pub json: &'static str,
    /// What an engine takes if it is left out, as JSON.
    pub default_json: &'static str,
    /// Bounds, for people.
    pub bounds: &'static str,
}

/// Properties that have a default.
pub const PARTS: &[Part] = &[
    Part {
        field: "unique",
        json: "policy",
        default_json: "\"keep\"",
        bounds: "`keep`, `replace`, `after`, or `refresh` with `max_wait`",
    },
    Part {
        field: "unique",
        json: "hold",
        default_json: "\"settled\"",
        bounds: "`settled`, `started` or a span",
    },
    Part {
        field: "group",
        json: "on_retry",
        default_json: "\"hold\"",
        bounds: "`hold` or `pass`",
    },
    Part {
        field: "after",
        json: "on",
        default_json: "\"completed\"",
        bounds: "`completed`, `failed` or `settled`",
    },
];

/// The largest `u32`.
const COUNT_MAX: Option<u64> = Some(4_294_967_295);

/// What a client sends, in the order of `NewJob`.
pub const SENT: &[Field] = &[
    Field {
        name: "id",
        json: &["id"],
        takes: &[Takes::Id],
        cli: &["--id"],
        packed: &["id"],
        words: &["ID"],
        default: "a new UUID v7, returned in the receipt",
        bounds: "any UUID; upper case is accepted and returned in lower case",
        ..NONE
    },
    Field {
        name: "queue",
        json: &["queue"],
        takes: &[Takes::Name],
        packed: &["queue"],
        words: &["QUEUE"],
        is_compared: true,
        default: "none: it must be named",
        bounds: "a name of 1 to 128 characters",
        ..NONE
    },
    Field {
        name: "kind",
        json: &["kind"],
        takes: &[Takes::Name],
        cli: &["--kind"],
        packed: &["kind"],
        words: &["KIND"],
        is_compared: true,
        default: "the queue's name",
        bounds: "a name of 1 to 128 characters",
        ..NONE
    },
    Field {
        name: "payload",
        json: &["payload", "payload_base64"],
        takes: &[Takes::Any, Takes::Text],
        cli: &["--text"],
        packed: &["payload"],
        words: &["PAYLOAD", "BASE64"],
        is_compared: true,
        default: "empty: GET shows `\"payload_base64\":\"\"`",
        bounds: "256 KiB",
        ..NONE
    },
    Field {
        name: "content_type",
        json: &["content_type"],
        takes: &[Takes::Text],
        cli: &["--content-type"],
        packed: &["ct"],
        words: &["CONTENT_TYPE"],
        is_compared: true,
        default: "`application/json`",
        default_json: Some("\"application/json\""),
        bounds: "1 to 128 bytes",
        ..NONE
    },
    Field {
        name: "headers",
        json: &["headers"],
        takes: &[Takes::Form(
            "an object of strings, or an array of pairs of strings",
        )],
        cli: &["--header"],
        packed: &["hd"],
        words: &["HEADER"],
        is_compared: true,
        default: "none",
        bounds: "8 KiB of names and values",
        ..NONE
    },
    Field {
        name: "due",
        json: &["delay", "at"],
        takes: &[Takes::Span, Takes::Instant],
        cli: &["--delay", "--at"],
        packed: &["due kind", "due"],
        words: &["DELAY", "AT"],
        default: "due at once",
        bounds: "one of the two, up to the year 9999",
        ..NONE
    },
    Field {
        name: "expires_at",
        json: &["expires_at"],
        takes: &[Takes::Instant],
        cli: &["--expires"],
        packed: &["ex"],
        words: &["EXPIRES_AT"],
        default: "never",
        bounds: "up to the year 9999",
        ..NONE
    },
    Field {
        name: "priority",
        json: &["priority"],
        takes: &[Takes::Integer],
        cli: &["--priority"],
        packed: &["priority"],
        words: &["PRIORITY"],
        default: "5",
        default_json: Some("5"),
        bounds: "0 (first) to 9 (last)",
        min: Some(0),
        max: Some(9),
        ..NONE
    },
    Field {
        name: "unique",
        json: &["unique"],
        takes: &[Takes::Form(
            "a string, or {\"key\", \"policy\": \"keep\", \"replace\", \"after\" or \"refresh\" (with \"max_wait\"), \"hold\": \"settled\", \"started\" or a span}",
        )],
        cli: &["--unique", "--unique-policy", "--max-wait", "--unique-hold"],
        packed: &["u", "up", "um", "uh"],
        words: &["UNIQUE", "POLICY", "MAX_WAIT", "HOLD"],
        default: "none",
        bounds: "a key of 1 to 256 bytes, as text or as `unique.key`",
        ..NONE
    },
    Field {
        name: "group",
        json: &["group"],
        takes: &[Takes::Form(
            "a string, or {\"key\", \"on_retry\": \"hold\" or \"pass\"}",
        )],
        cli: &["--group", "--group-on-retry"],
        packed: &["g", "gp"],
        words: &["GROUP", "ON_RETRY"],
        default: "none",
        bounds: "a key of 1 to 256 bytes, as text or as `group.key`",
        ..NONE
    },
    Field {
        name: "share",
        json: &["share"],
        takes: &[Takes::Key],
        cli: &["--share"],
        packed: &["sh"],
        words: &["SHARE"],
        default: "none: jobs without a share are one share of their own",
        bounds: "a key of 1 to 256 bytes",
        ..NONE
    },
    Field {
        name: "limits",
        json: &["limits"],
        takes: &[Takes::Form("an array of up to 3 names of limits")],
        cli: &["--limit"],
        packed: &["li"],
        words: &["LIMIT"],
        default: "none",
        bounds: "up to 3 names of limits, each once, of 1 to 122 characters",
        ..NONE
    },
    Field {
        name: "cost",
        json: &["cost"],
        takes: &[Takes::Integer],
        cli: &["--cost"],
        packed: &["co"],
        words: &["COST"],
        default: "1",
        default_json: Some("1"),
        bounds: "1 to 1,000 units of the rates of its `limits`",
        min: Some(1),
        max: Some(1_000),
        ..NONE
    },
    Field {
        name: "max_attempts",
        json: &["max_attempts"],
        takes: &[Takes::Integer],
        cli: &["--max-attempts"],
        packed: &["ma"],
        words: &["MAX_ATTEMPTS"],
        default: "20",
        default_json: Some("20"),
        bounds: "1 to 4294967295",
        min: Some(1),
        max: COUNT_MAX,
        ..NONE
    },
    Field {
        name: "max_crashes",
        json: &["max_crashes"],
        takes: &[Takes::Integer],
        cli: &["--max-crashes"],
        packed: &["mc"],
        words: &["MAX_CRASHES"],
        default: "3",
        default_json: Some("3"),
        bounds: "1 to 4294967295",
        min: Some(1),
        max: COUNT_MAX,
        ..NONE
    },
    Field {
        name: "retry",
        json: &["retry"],
        takes: &[Takes::Form(
            "{\"policy\": \"exponential\", \"base\", \"factor\", \"cap\", \"jitter\"}, {\"policy\": \"linear\", \"base\", \"cap\", \"jitter\"}, {\"policy\": \"fixed\", \"span\", \"jitter\"} or {\"policy\": \"list\", \"spans\"}",
        )],
        cli: &["--retry"],
        packed: &["rt"],
        default: "exponential from 1 s, doubling, at most 1 h, with jitter",
        default_json: Some(
            r#"{"policy":"exponential","base":"1s","factor":2.0,"cap":"1h","jitter":true}"#,
        ),
        bounds: "spans up to 90 days",
        ..NONE
    },
    Field {
        name: "timeout",
        json: &["timeout"],
        takes: &[Takes::Span],
        cli: &["--timeout"],
        packed: &["to"],
        words: &["TIMEOUT"],
        default: "none for the job; a worker may have one",
        bounds: "over 0 to 365 days",
        ..NONE
    },
    Field {
        name: "retention",
        json: &["retention"],
        takes: &[Takes::Span],
        cli: &["--retention"],
        packed: &["rn"],
        words: &["RETENTION"],
        default: "0: a completed job is dropped, only its tombstone stays for two minutes, or its `remember`",
        default_json: Some("\"0s\""),
        bounds: "up to the year 9999",
        ..NONE
    },
    Field {
        name: "remember",
        json: &["remember"],
        takes: &[Takes::Span],
        cli: &["--remember"],
        packed: &["rm"],
        words: &["REMEMBER"],
        default: "2m: how long a resend is a `duplicate` after the job settled",
        bounds: "over 0 to 7 days",
        ..NONE
    },
    Field {
        name: "wait_for",
        json: &["wait_for"],
        takes: &[Takes::Texts],
        cli: &["--wait-for"],
        packed: &["w"],
        words: &["WAIT_FOR"],
        default: "none",
        bounds: "64 names of 1 to 256 bytes",
        ..NONE
    },
    Field {
        name: "after",
        json: &["after"],
        takes: &[Takes::Form(
            "an array of {\"job\", \"on\"}, each a job to wait for",
        )],
        default: "none",
        is_compared: true,
        bounds: "10,000 in a call, each `{\"job\",\"on\"}`",
        ..NONE
    },
    Field {
        name: "flow",
        default: "none: `POST /v1/flows` sends steps",
        ..NONE
    },
    Field {
        name: "history",
        packed: &["hi"],
        default: "none: only an import has it",
        ..NONE
    },
];

/// Headers that have a property of their own in JSON: the gateway writes them.
pub const HEADERS: &[&str] = &["target", "callback"];

/// What an engine adds, in the order of `JobRecord`: properties in JSON.
pub const KEPT: &[&[&str]] = &[
    &["schedule"],
    &["flow"],
    &["state"],
    &["due"],
    &["attempt"],
    &["failures"],
    &["crashes"],
    &["enqueued_at"],
    &["started_at"],
    &["finished_at"],
    &["last_error"],
    &["result", "result_base64"],
    &["progress", "progress_base64"],
    &["cancel_requested"],
    &["cancelled"],
    &["dead"],
    &["stopped"],
    &["worker"],
    &["lease_until"],
    &["attempts"],
    &["log"],
    &["memos"],
];

/// The field of that name.
pub fn field(name: &str) -> Option<&'static Field> {
    SENT.iter().find(|field| field.name == name)
}

/// A default or a bound of a field that code needs as a constant.
#[derive(Debug)]
pub struct Constant {
    /// Its name in Lua and in Rust.
    pub name: &'static str,
    /// Its type in Rust.
    pub rust: &'static str,
    /// Its value, as Rust writes it.
    pub value: &'static str,
    /// Whether the packed forms need it in Rust.
    pub is_packed: bool,
    /// Whether a user of the library sees it.
    pub is_public: bool,
    /// What it is.
    pub gloss: &'static str,
}

const fn constant(
    name: &'static str,
    rust: &'static str,
    value: &'static str,
    gloss: &'static str,
) -> Constant {
    let (is_packed, is_public) = (false, false);
    Constant {
        name,
        rust,
        value,
        is_packed,
        is_public,
        gloss,
    }
}

/// Defaults and bounds of fields; those of numbers are checked against [`SENT`].
pub const CONSTANTS: &[Constant] = &[
    Constant {
        is_public: true,
        ..constant("PRIORITY_MAX", "u8", "9", "the last priority")
    },
    constant(
        "PRIORITY_DEFAULT",
        "u8",
        "5",
        "the priority of a job that names none",
    ),
    Constant {
        is_packed: true,
        ..constant(
            "MAX_ATTEMPTS_DEFAULT",
            "u32",
            "20",
            "failures after which a job that names no number is dead",
        )
    },
    Constant {
        is_packed: true,
        ..constant(
            "CONTENT_TYPE_DEFAULT",
            "&str",
            "\"application/json\"",
            "what a payload is if the job does not say",
        )
    },
    constant(
        "RETRY_BASE_MS",
        "u64",
        "1_000",
        "milliseconds before the first retry",
    ),
    constant(
        "RETRY_FACTOR",
        "f64",
        "2.0",
        "by what each next wait is longer",
    ),
    constant(
        "RETRY_CAP_MS",
        "u64",
        "3_600_000",
        "milliseconds of the longest wait by default",
    ),
];

/// Content types that a job on Redis has as a number in its flags, which is their place here from
/// 1 on; any other stands in its opts as text, and the default in neither. The order is part of
/// the stored form: add new ones at the end, at most 62 in all.
pub const CONTENT_TYPES: &[&str] = &[
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
