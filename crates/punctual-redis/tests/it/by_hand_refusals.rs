//! What the verbs in words refuse.

use punctual::JobId;

use crate::hand::{Hand, SHARD};

const ID: &[u8] = b"01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
const TOKEN: &[u8] = b"00000000000000000000000000000000";

/// Function, words, the code of the refusal, and what it must name.
type Case<'a> = (&'a str, &'a [&'a [u8]], &'a str, &'a str);

const PUSHES: &[Case<'_>] = &[
    ("push", &[], "invalid_input", "push takes QUEUE and PAYLOAD"),
    (
        "push",
        &[b"mail"],
        "invalid_input",
        "1 arguments were given",
    ),
    ("push", &[b"", b"1"], "invalid_name", "queue name is empty"),
    ("push", &[b"a b", b"1"], "invalid_name", "\"a b\""),
    ("push", &[b"a\r\nb", b"1"], "invalid_name", r"a\x0d\x0ab"),
    ("push", &[b"\0\xff", b"1"], "invalid_name", r"\x00\xff"),
    ("push", &[b"a{b}", b"1"], "invalid_name", "not allowed"),
    ("push", &[b"../a", b"1"], "invalid_name", "path step"),
    ("push", &[&[b'q'; 129], b"1"], "invalid_name", "too long"),
    (
        "push",
        &[b"mail", b"1", b"DELAI", b"5"],
        "invalid_input",
        "no option \"DELAI\"; it takes KIND, DELAY",
    ),
    (
        "push",
        &[b"mail", b"1", b"DELAY"],
        "invalid_input",
        "write DELAY MS",
    ),
    (
        "push",
        &[b"mail", b"1", b"DELAY", b"-1"],
        "invalid_delay",
        "DELAY is out of range",
    ),
    (
        "push",
        &[b"mail", b"1", b"DELAY", b"1e3"],
        "invalid_delay",
        "\"1e3\"",
    ),
    (
        "push",
        &[b"mail", b"1", b"DELAY", b"253402300799999"],
        "invalid_delay",
        "9999",
    ),
    (
        "push",
        &[b"mail", b"1", b"DELAY", b"1", b"AT", b"1"],
        "invalid_input",
        "exclude each other",
    ),
    (
        "push",
        &[b"mail", b"1", b"DELAY", b"1", b"delay", b"1"],
        "invalid_input",
        "stands twice",
    ),
    (
        "push",
        &[b"mail", b"1", b"PRIORITY", b"10"],
        "invalid_input",
        "from 0 to 9",
    ),
    (
        "push",
        &[b"mail", b"1", b"ID", b"7"],
        "invalid_input",
        "job id is not a UUID",
    ),
    (
        "push",
        &[b"mail", b"1", b"ID", &[0; 16]],
        "invalid_input",
        "job id is not a UUID",
    ),
    (
        "push",
        &[b"mail", b"1", b"UNIQUE", b"a\nb"],
        "invalid_name",
        "unique key has",
    ),
    (
        "push",
        &[b"mail", b"1", b"UNIQUE", b"\xc3"],
        "invalid_name",
        "unique key has",
    ),
    (
        "push",
        &[b"mail", b"1", b"UNIQUE", b"k", b"POLICY", b"drop"],
        "invalid_input",
        "keep, replace, after",
    ),
    (
        "push",
        &[b"mail", b"1", b"POLICY", b"keep"],
        "invalid_input",
        "give UNIQUE too",
    ),
    (
        "push",
        &[b"mail", b"1", b"KIND", b""],
        "invalid_name",
        "kind name is empty",
    ),
    (
        "push",
        &[b"mail", b"1", b"HEADER", b"a"],
        "invalid_input",
        "NAME=VALUE",
    ),
    (
        "push",
        &[b"mail", b"!", b"BASE64"],
        "invalid_input",
        "base64",
    ),
    (
        "push",
        &[b"mail", &[b'x'; 262_145]],
        "payload_too_large",
        "262144",
    ),
    (
        "enqueue",
        &[b"mail", b"1"],
        "invalid_input",
        "punctual_1_help",
    ),
];

const LEASES: &[Case<'_>] = &[
    ("claim", &[], "invalid_input", "claim takes QUEUE"),
    ("claim", &[b"m\xc3\xa4il"], "invalid_name", r"m\xc3\xa4il"),
    (
        "claim",
        &[b"mail", b"LIMIT", b"101"],
        "invalid_input",
        "from 1 to 100",
    ),
    (
        "claim",
        &[b"mail", b"LEASE_MS", b"0"],
        "invalid_input",
        "LEASE_MS is out of range",
    ),
    (
        "claim",
        &[b"mail", b"mail"],
        "invalid_input",
        "no option \"mail\"",
    ),
    ("claim", &[&[0; 60]], "invalid_input", "1 to 64 queues"),
    ("extend", &[], "invalid_input", "extend takes TOKEN"),
    (
        "extend",
        &[b"abc"],
        "invalid_input",
        "32 hexadecimal digits",
    ),
    (
        "extend",
        &[TOKEN, b"PROGRESS", b"x"],
        "invalid_input",
        "ID=TEXT",
    ),
    (
        "settle",
        &[TOKEN],
        "invalid_input",
        "settle takes TOKEN, then ID OUTCOME",
    ),
    (
        "settle",
        &[TOKEN, b"x", b"completed"],
        "invalid_input",
        "job id is not a UUID",
    ),
    (
        "settle",
        &[TOKEN, ID, b"done"],
        "invalid_input",
        "use completed, retry",
    ),
    (
        "settle",
        &[TOKEN, ID, b"snooze"],
        "invalid_input",
        "snooze AFTER MS",
    ),
    (
        "settle",
        &[TOKEN, ID, b"completed", ID],
        "invalid_input",
        "the last job has no outcome",
    ),
    (
        "settle",
        &[TOKEN, ID, b"dead", ID, b"dead"],
        "invalid_input",
        "a job stands twice",
    ),
    (
        "settle",
        &[TOKEN, ID, b"dead", b"ERROR", b"\xff"],
        "invalid_input",
        "no UTF-8",
    ),
    (
        "settle",
        &[TOKEN, ID, b"completed", b"RESULT", &[b'x'; 8_193]],
        "payload_too_large",
        "8 KiB",
    ),
];

const REST: &[Case<'_>] = &[
    ("get", &[], "invalid_input", "ID, or QUEUE and UNIQUE_KEY"),
    ("get", &[b"7"], "invalid_input", "job id is not a UUID"),
    (
        "get",
        &[b"mail", b"k", b"more"],
        "invalid_input",
        "3 arguments were given",
    ),
    (
        "explain",
        &[b"mail", b""],
        "invalid_name",
        "unique key is empty",
    ),
    ("cancel", &[b"\0"], "invalid_input", "job id is not a UUID"),
    ("stats", &[b"a b"], "invalid_name", "\"a b\""),
    (
        "list",
        &[b"mail", b"ready"],
        "invalid_input",
        "punctual_1_help",
    ),
    ("maintain", &[], "invalid_input", "one packed argument"),
];

#[tokio::test]
async fn what_is_refused_is_named_and_changes_nothing() {
    let hand = Hand::new().await;
    hand.call("push", &["mail", "1", "DELAY", "600000"]);
    let before = hand.digest();
    for (function, words, code, named) in PUSHES.iter().chain(LEASES).chain(REST) {
        let said = hand.refused(SHARD, function, words);
        let start = format!("PUNCTUAL {code} ");
        assert!(said.starts_with(&start), "{function} {words:?}: {said}");
        assert!(said.contains(named), "{function} {words:?}: {said}");
        assert_eq!(
            hand.digest(),
            before,
            "{function} {words:?} changed something"
        );
    }
}

#[tokio::test]
async fn a_key_that_is_no_shard_is_named() {
    let hand = Hand::new().await;
    for shard in [
        "mail",
        "punctual:{default}",
        "punctual:{default/1024}",
        "punctual:{a b/0}",
    ] {
        let said = hand.refused(shard, "push", &[b"mail", b"1"]);
        assert!(said.starts_with("PUNCTUAL invalid_"), "{said}");
        assert!(
            said.contains("; write punctual:{") || said.contains("namespace name"),
            "{said}"
        );
    }
    hand.server.cli(&["SET", "punctual:{foreign/0}:s", "1"]);
    for function in ["push", "explain", "claim", "stats"] {
        let words: &[&[u8]] = match function {
            "push" => &[b"mail", b"1"],
            "explain" => &[ID],
            _ => &[b"mail"],
        };
        let said = hand.refused("punctual:{foreign/0}", function, words);
        assert!(said.starts_with("PUNCTUAL data_damaged"), "{said}");
        assert!(said.contains("rename or delete it"), "{said}");
    }
}

/// A packed settle of one job with a result and an error, in the form that has each.
fn packed_settle() -> Vec<u8> {
    let id = JobId::new();
    let parts: [&[u8]; 9] = [
        &[0; 8],             // instance
        &[0, 1],             // leases
        &[7; 16],            // token
        &[0, 0, 0, 0, 2],    // nothing measured, form
        &[0, 1],             // jobs
        id.as_bytes(),       // which
        &[0, 0, 0, 1, 0, 6], // attempt, completed, with a result and an error
        b"\0\0\0\x05found",
        b"\0\0\0\x03odd",
    ];
    parts.concat()
}

#[tokio::test]
async fn a_packed_settle_that_is_cut_anywhere_is_named_and_changes_nothing() {
    let hand = Hand::new().await;
    let whole = packed_settle();
    let before = hand.digest();
    for length in 11..whole.len() {
        let refused = hand.refused(SHARD, "settle", &[&whole[..length]]);
        assert!(
            refused.starts_with("PUNCTUAL invalid_input the call is cut short"),
            "{length} bytes of {}: {refused}",
            whole.len()
        );
    }
    assert_eq!(hand.digest(), before);
}
