//! Verbs: the twelve of every engine, and the functions that are their calls on Redis.

/// A verb of every engine.
#[derive(Debug)]
pub struct Verb {
    /// Its name: the method of `Engine`, and its part in metrics and errors.
    pub name: &'static str,
    /// What it takes besides the namespace; empty for nothing.
    pub takes: &'static str,
    /// What it answers.
    pub answers: &'static str,
    /// What it does.
    pub gloss: &'static str,
}

const fn verb(
    name: &'static str,
    takes: &'static str,
    answers: &'static str,
    gloss: &'static str,
) -> Verb {
    Verb {
        name,
        takes,
        answers,
        gloss,
    }
}

/// The verbs, in the order of `Engine`.
pub const VERBS: &[Verb] = &[
    verb(
        "enqueue",
        "`NewJob`s",
        "`Enqueued`",
        "stores jobs, one receipt each",
    ),
    verb(
        "claim",
        "`Claim`",
        "`Claimed`",
        "takes due jobs under leases",
    ),
    verb(
        "extend",
        "`Extend`s",
        "`Extended`",
        "prolongs leases, keeps progress, reports cancels",
    ),
    verb(
        "settle",
        "`Settle`",
        "`Settled`",
        "ends attempts, with their effects",
    ),
    verb(
        "wait",
        "`WaitFor`, an instant",
        "`Waited`",
        "waits for work, for ends of jobs, or for changes",
    ),
    verb(
        "get",
        "`Target`s",
        "`Got`s",
        "reads jobs, with the reason why each has not run",
    ),
    verb(
        "list",
        "`List`",
        "`Listing`",
        "reads a page of jobs by state or key",
    ),
    verb(
        "edit",
        "`Edit`",
        "`Edited`",
        "cancels, reschedules, redrives, deletes, signals",
    ),
    verb(
        "stats",
        "`StatsRequest`",
        "`Stats`",
        "counts jobs of queues, and lists workers",
    ),
    verb(
        "control",
        "`Control`",
        "`Controlled`",
        "pauses, resumes, purges; reads and writes records",
    ),
    verb(
        "maintain",
        "",
        "`Maintained`",
        "moves what is due, expires, rescues, prunes",
    ),
    verb(
        "info",
        "",
        "`Info`",
        "returns capabilities, durability, limits, health",
    ),
];

/// How a function takes its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One packed string, or several where the call has more parts; the reply is packed too.
    Packed,
    /// One map of MessagePack, and the reply is another.
    Map,
    /// Several packed strings at once: an array answers.
    Several,
    /// Words only.
    Words,
}

impl Form {
    /// How the page writes it: arguments, then the reply.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Packed => ("packed", "packed"),
            Self::Map => ("mp map", "mp map"),
            Self::Several => ("packed calls", "array"),
            Self::Words => ("words", "text"),
        }
    }
}

/// A function of the library on Redis, without its prefix.
#[derive(Debug)]
pub struct Function {
    /// Its name behind `punctual_1_`.
    pub name: &'static str,
    /// The verbs that call it; none for calls between shards and for people.
    pub verbs: &'static [&'static str],
    /// Its flags.
    pub flags: &'static [&'static str],
    /// How it takes its arguments.
    pub form: Form,
    /// Whether it takes words too, from people.
    pub takes_words: bool,
    /// What is not as in others; empty for nothing.
    pub note: &'static str,
}

/// It only reads: FCALL_RO.
const READS: &[&str] = &["no-writes"];
/// It may be called while memory is full: it frees some, or takes little.
const FREES: &[&str] = &["allow-oom"];
/// It answers whatever the state of the server.
const ALWAYS: &[&str] = &["no-writes", "allow-stale", "allow-oom"];

const fn function(
    name: &'static str,
    verbs: &'static [&'static str],
    flags: &'static [&'static str],
    form: Form,
) -> Function {
    Function {
        name,
        verbs,
        flags,
        form,
        takes_words: false,
        note: "",
    }
}

const fn with_words(function: Function) -> Function {
    Function {
        takes_words: true,
        ..function
    }
}

const fn noted(function: Function, note: &'static str) -> Function {
    Function { note, ..function }
}

/// Every function, in the order of `functions/register.lua`.
pub const FUNCTIONS: &[Function] = &[
    noted(
        function("version", &[], ALWAYS, Form::Words),
        "no key; the reply is a number",
    ),
    noted(
        function("enqueue", &["enqueue"], &[], Form::Packed),
        "more arguments with bundles",
    ),
    with_words(function("claim", &["claim"], FREES, Form::Packed)),
    with_words(function("extend", &["extend"], FREES, Form::Packed)),
    with_words(function("settle", &["settle"], FREES, Form::Packed)),
    function("enqueues", &["enqueue"], &[], Form::Several),
    function(
        "calls",
        &["claim", "extend", "settle"],
        FREES,
        Form::Several,
    ),
    with_words(function("get", &["get"], READS, Form::Map)),
    function("list", &["list"], READS, Form::Map),
    function("edit", &["edit"], FREES, Form::Map),
    with_words(function("stats", &["stats"], READS, Form::Map)),
    function("control", &["control"], FREES, Form::Map),
    noted(
        function("guarded", &["control"], &[], Form::Map),
        "as control, for [guarded](#guards) jobs, which a full server refuses",
    ),
    function("maintain", &["maintain"], FREES, Form::Map),
    noted(
        function("outbox", &[], FREES, Form::Map),
        "effects for other shards, read",
    ),
    noted(
        function("deliver", &[], FREES, Form::Map),
        "effects of another shard, stored",
    ),
    function("info", &["info"], READS, Form::Map),
    noted(function("listen", &["wait"], READS, Form::Map), "for work"),
    noted(
        function("watch", &["wait"], FREES, Form::Map),
        "for ends of jobs",
    ),
    noted(
        function("changes", &["wait"], FREES, Form::Map),
        "for changes",
    ),
    with_words(function("push", &[], &[], Form::Words)),
    with_words(function("cancel", &[], FREES, Form::Words)),
    with_words(function("explain", &[], FREES, Form::Words)),
    noted(
        function("help", &[], ALWAYS, Form::Words),
        "any number of keys",
    ),
];
