//! Numbers of the forms on Redis: flags, tags, verdicts, and places of fields in bytes.

mod places;
mod sent;
mod stored;

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
    /// Bytes, as Lua writes them in quotes.
    Text(&'static str),
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

/// A number of 64 bits, for both.
const fn number(name: &'static str, value: u64, gloss: &'static str) -> Number {
    Number {
        rust: Some("u64"),
        ..both(name, value, gloss)
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
        stored::RECORD,
    ),
    plain("Where records and bundles are.", stored::PARTS),
    table(
        "The first byte of what stands under an id.",
        "tags",
        stored::TAGS,
    ),
    plain("A tombstone.", stored::TOMBSTONE),
    plain("A reference to a tombstone.", stored::TOMBSTONE_REF),
    plain("A chunk of a list of ready jobs.", stored::CHUNK),
    plain("Flags of a job as sent, `sflags`.", sent::SPEC),
    plain("Kinds of a due.", sent::DUE),
    table("Flags of an enqueue.", "enqueue-flags", sent::ENQUEUE),
    table("Flags of a claim.", "claim-flags", sent::CLAIM),
    table(
        "Flags of the reply to a claim.",
        "claimed-flags",
        sent::CLAIMED,
    ),
    table(
        "What a settlement of form 2 has, in this order.",
        "settlement-flags",
        sent::HAS,
    ),
    plain("Kinds of effects.", sent::EFFECTS),
    plain("What `control` is asked, `c`.", sent::CONTROL),
    plain("What `edit` is asked, `a`.", sent::EDIT),
    plain("What is asked of a flow, `fa`.", sent::FLOW),
    plain("What is asked of a schedule, `ac`.", sent::SCHEDULE),
    plain("Forms of the settlements of a lease.", sent::FORM),
    plain("Kinds of a retry policy.", sent::RETRY),
    plain("Letters of calls that are sent together.", sent::CALLS),
    plain("Every call: bytes of its first argument.", sent::CALL),
    plain(
        "An enqueue: bytes of its first argument.",
        sent::ENQUEUE_CALL,
    ),
    plain("A claim: bytes of its argument.", sent::CLAIM_CALL),
    plain(
        "A settle or an extend: bytes of its argument.",
        sent::LEASES_CALL,
    ),
    plain("Verdicts of effects that no enqueue has.", sent::VERDICTS),
    plain("Flags of a queue's row.", stored::ROW),
    plain("Flags of a lease.", stored::LEASE),
    plain("A lease as it is stored: bytes.", stored::LEASE_BYTES),
    plain("The last byte of a shard.", stored::SHARD),
    plain(
        "The first byte of the value of a `control` record.",
        stored::VALUES,
    ),
    plain(
        "The kind of a rate in the settings of a queue.",
        stored::RATES,
    ),
    plain("Bundles.", stored::BUNDLE),
    plain("Ids and tokens: bytes.", places::IDS),
    plain("A job as it is sent: bytes.", places::JOB_BYTES),
    plain(
        "Replies that the functions read themselves: bytes.",
        places::REPLIES,
    ),
    plain("Members of sorted sets: bytes.", places::MEMBERS),
    plain("Rows and values: bytes.", places::ROWS),
    plain("Cursors: bytes.", places::CURSORS),
    plain(
        "Names of records: the bytes of a prefix, and where the name behind it begins.",
        places::PREFIXES,
    ),
];
