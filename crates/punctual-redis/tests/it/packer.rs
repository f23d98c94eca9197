//! Packed calls as bytes, made by hand from `docs/wire-protocol.md`.

use std::cell::RefCell;

use punctual::Namespace;
use punctual_redis::testing::TestServer;

use crate::client::QUEUE;
use crate::hand::Line;

/// A call of no known instance.
pub(crate) const ANY: [u8; 8] = [0; 8];

/// `id | due kind | due | spec` of a job that is due at once, without the length.
pub(crate) fn packed_job(id: u128, front: &[u8], payload: &[u8]) -> Vec<u8> {
    let due = [0; 9];
    let parts: [&[u8]; 6] = [&id.to_be_bytes(), &due, &[7; 8], &[0, 0], front, payload];
    parts.concat()
}

/// From the priority to the payload: opts if there are any.
pub(crate) fn front(sflags: u8, kind: &str, opts: &[u8]) -> Vec<u8> {
    let mut out = vec![5, sflags, QUEUE.len() as u8];
    out.extend(QUEUE.bytes());
    out.push(kind.len() as u8);
    out.extend(kind.bytes());
    if !opts.is_empty() {
        out.extend((opts.len() as u32).to_be_bytes());
        out.extend(opts);
    }
    out
}

pub(crate) fn with_length(job: &[u8]) -> Vec<u8> {
    [&(job.len() as u32).to_be_bytes()[..], job].concat()
}

/// A call of jobs, each with all that is said of it.
pub(crate) fn enqueue(jobs: &[Vec<u8>]) -> Vec<u8> {
    let mut out = [&ANY[..], &[0], &(jobs.len() as u16).to_be_bytes()].concat();
    jobs.iter().for_each(|job| out.extend(with_length(job)));
    out
}

/// A call whose jobs are of one due, priority and queue.
pub(crate) fn uniform(jobs: u16, opts: &[u8]) -> Vec<u8> {
    let mut out = [&ANY[..], &[2], &jobs.to_be_bytes(), &[0; 9], &[5]].concat();
    out.push(QUEUE.len() as u8);
    out.extend(QUEUE.bytes());
    let sflags = u8::from(!opts.is_empty());
    for id in 1..=jobs {
        let job = packed_job(id.into(), &front(sflags, "mail", opts), b"{}");
        out.extend(with_length(&[&job[..16], &job[25..]].concat()));
    }
    out
}

/// A call of one bundle of two jobs: its three arguments.
pub(crate) fn bundle() -> [Vec<u8>; 3] {
    let mut head = [&ANY[..], &[6], &[0, 2], &[0; 9], &[5]].concat();
    head.push(QUEUE.len() as u8);
    head.extend(QUEUE.bytes());
    head.push(1);
    let ids = [1_u128.to_be_bytes(), 2_u128.to_be_bytes()].concat();
    let shared = front(0, "mail", &[]);
    let first = 12 + shared.len() as u16;
    let numbers = [0, 2, 2, first, first + 2, first + 4];
    let numbers: Vec<u8> = numbers
        .iter()
        .flat_map(|it: &u16| it.to_be_bytes())
        .collect();
    let payloads = [&numbers[..], &shared, b"{}[]"].concat();
    [head, [&ids[..], &[9; 16]].concat(), payloads]
}

/// A map of MessagePack whose values are packed already.
pub(crate) fn map(fields: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = vec![0x80 + fields.len() as u8];
    for (name, value) in fields {
        out.push(0xa0 + name.len() as u8);
        out.extend(name.bytes());
        out.extend(*value);
    }
    out
}

/// Opts of which every field is there.
pub(crate) fn every_option() -> Vec<u8> {
    map(&[
        ("ct", b"\xaatext/plain"),
        ("hd", b"\x92\xa1a\xa1b"),
        ("ma", &[3]),
        ("rt", &[0x95, 1, 100, 2, 100, 1]),
        ("to", &[0xcd, 3, 0xe8]),
        ("ex", &[0xa8, 0, 6, 0x7f, 0, 0, 0, 0, 0]),
        ("u", b"\xa3key"),
        ("up", &[2]),
        ("uh", &[100]),
        ("g", b"\xa5group"),
        ("gp", &[1]),
        ("rn", &[0xcd, 3, 0xe8]),
        ("w", b"\x91\xa4name"),
    ])
}

/// Opts of a job with named limits.
pub(crate) fn limits() -> Vec<u8> {
    map(&[("li", b"\x92\xa3api\xa6smtp:a"), ("co", &[3])])
}

/// A job that is a step of a flow, without a link.
pub(crate) fn step(id: u128, name: &[u8]) -> Vec<u8> {
    let head = [0xa0 + name.len() as u8];
    let place = [b"\x92\xa5night".as_slice(), &head, name].concat();
    packed_job(id, &front(3, "mail", &map(&[("fl", &place)])), b"{}")
}

/// Three steps that differ in nothing but their ids and names.
fn steps() -> Vec<u8> {
    enqueue(&[step(1, b"s1"), step(2, b"s2"), step(3, b"s3")])
}

/// A history of which every field is there.
pub(crate) fn history() -> Vec<u8> {
    let instant = [0xa8, 0, 5, 0x7f, 0, 0, 0, 0, 0];
    let past = map(&[
        ("st", &[1]),
        ("du", &instant),
        ("en", &instant),
        ("a", &[2]),
        ("f", &[1]),
        ("c", &[1]),
        ("s", &[9]),
        ("er", b"\xa3bad"),
        ("po", b"\xa1p"),
        ("at", &[0x91, 0x95, 1, 8, 9, 6, 0xa0]),
    ]);
    map(&[("hi", &past)])
}

/// One job with these opts, its id 1.
pub(crate) fn one_job(opts: &[u8], sflags: u8) -> Vec<u8> {
    enqueue(&[packed_job(1, &front(sflags, "mail", opts), b"{}")])
}

/// A filter of which every key is there, and that the job of [`history`] passes.
pub(crate) fn every_filter() -> Vec<u8> {
    map(&[
        ("q", b"\xa6orders"),
        ("s", &[2]),
        ("k", b"\xa4mail"),
        ("te", b"\xa2{}"),
        ("df", b"\xa8\0\0\0\0\0\0\0\0"),
        ("db", b"\xa8\x7f\0\0\0\0\0\0\0"),
        ("er", b"\xa0"),
        ("ol", &[1]),
    ])
}

/// A claim of at most so many jobs, by a worker of that record whose id is all ones.
pub(crate) fn claim_of(limit: u8, record: &[u8]) -> Vec<u8> {
    let mut out = [&ANY[..], &[1; 24], &10_000_000_u64.to_be_bytes()].concat();
    out.extend([0, limit, 0, 1, 0, 0, 0, 1, QUEUE.len() as u8]);
    out.extend(QUEUE.bytes());
    [&out, record].concat()
}

/// A settle of one lease in a form: a token, no measurement, and the rest of the form.
fn settle_in_form(form: u8, rest: &[u8]) -> Vec<u8> {
    [&ANY[..], &[0, 1], &[7; 16], &[0, 0, 0, 0, form], rest].concat()
}

/// Settles in the forms in which all jobs completed.
fn completed() -> Vec<Vec<u8>> {
    let ids = [&[0, 0, 0, 1, 0, 1][..], &1_u128.to_be_bytes()].concat();
    let cores = [&ids[..], &[0, 5, 0x7f, 0, 0, 0, 0, 0], &[9; 8]].concat();
    let kinds = b"\x01\0\x01\x04mail";
    vec![
        settle_in_form(1, &ids),
        settle_in_form(3, &cores),
        settle_in_form(4, &[&ids[..], kinds].concat()),
        settle_in_form(5, &[&cores[..], kinds].concat()),
        settle_in_form(6, &[&cores[..], kinds, b"\x01\x01\0\x02k1"].concat()),
    ]
}

/// Two effects that were posted elsewhere: a job, and a name to clear.
fn deliver() -> Vec<u8> {
    let job = packed_job(3, &front(0, "mail", &[]), b"{}");
    let job = [
        &[0x93, 0xb0][..],
        &[3; 16],
        &[0, 0xd9, job.len() as u8],
        &job,
    ]
    .concat();
    let clear = [&[1; 16][..], b"paid"].concat();
    let clear = [&[0x93, 0xb0][..], &[4; 16], &[1, 0xb4], &clear].concat();
    let effects = [&[0x92][..], &job, &clear].concat();
    map(&[
        ("f", b"\xa6good/1"),
        ("t", &[9]),
        ("k", &[0x92, 8, 7]),
        ("e", &effects),
    ])
}

/// The arguments of a call with a body.
fn of(body: Vec<u8>) -> Vec<Vec<u8>> {
    vec![[&ANY[..], &body].concat()]
}

fn id(last: u8) -> Vec<u8> {
    [&[0; 15][..], &[last]].concat()
}

fn target() -> Vec<u8> {
    [&[0x91, 0x91, 0xb0][..], &id(1)].concat()
}

/// Calls by their function and arguments, that are good as they are.
pub(crate) fn good_calls() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let claim = claim_of(1, &map(&[("h", b"\xa1h"), ("s", &[1]), ("b", &[0])]));
    let target = target();
    let effect = packed_job(3, &front(0, "", &[]), b"{}");
    let mut settle = [&ANY[..], &[0, 1], &[7; 16], &[0, 0, 0, 0, 2, 0, 1], &id(1)].concat();
    settle.extend([0, 0, 0, 1, 1, 31, 0, 0, 0, 0, 0, 0, 0, 1]);
    settle.extend([0, 0, 0, 1, b'r', 0, 0, 0, 1, b'e', 1, 0, 1, 0, 0, 0, 0]);
    settle.push(effect.len() as u8);
    settle.extend(effect);
    let process: &[u8] = b"\xa8\x01\x02\x03\x04\x05\x06\x07\x08";
    let mut calls = vec![
        ("enqueue", vec![one_job(&[], 0)]),
        ("enqueue", vec![one_job(&every_option(), 3)]),
        ("enqueue", vec![one_job(&[], 4)]),
        ("enqueue", vec![one_job(&every_option(), 79)]),
        ("enqueue", vec![one_job(&history(), 3)]),
        ("enqueue", vec![one_job(&limits(), 3)]),
        ("enqueue", vec![steps()]),
        ("enqueue", vec![uniform(2, &[])]),
        ("enqueue", vec![uniform(2, &map(&[("ma", &[3])]))]),
        ("enqueue", bundle().to_vec()),
        ("claim", vec![claim]),
        ("settle", vec![settle]),
        (
            "extend",
            vec![
                [
                    &ANY[..],
                    &[0, 1],
                    &[7; 16],
                    &10_000_u64.to_be_bytes(),
                    &[0; 4],
                ]
                .concat(),
            ],
        ),
        ("get", of(map(&[("t", &target), ("x", &[1])]))),
        (
            "list",
            of(map(&[
                ("by", &[1]),
                ("q", b"\xa6orders"),
                ("s", &[2]),
                ("li", &[9]),
            ])),
        ),
        ("edit", of(map(&[("t", &target), ("a", &[3]), ("v", &[9])]))),
        (
            "edit",
            of(map(&[
                ("f", &map(&[("q", b"\xa6orders")])),
                ("a", &[0]),
                ("li", &[9]),
            ])),
        ),
        (
            "watch",
            of(map(&[
                ("t", &[&[0x91, 0xb0][..], &id(1)].concat()),
                ("p", process),
                ("un", &[9]),
            ])),
        ),
        ("deliver", of(deliver())),
        (
            "list",
            of(map(&[("by", &[4]), ("f", &every_filter()), ("li", &[9])])),
        ),
        (
            "edit",
            of(map(&[
                ("f", &every_filter()),
                ("a", &[0]),
                ("d", &[1]),
                ("li", &[9]),
            ])),
        ),
        ("changes", of(map(&[("p", process)]))),
        (
            "stats",
            of(map(&[
                ("q", b"\x91\xa6orders"),
                ("h", &[1]),
                ("du", &[1]),
                ("en", &[1]),
            ])),
        ),
        ("listen", of(map(&[("q", b"\x91\xa6orders")]))),
        (
            "outbox",
            of(map(&[
                ("st", &[&[0x91, 0xb0][..], &id(1)].concat()),
                ("li", &[9]),
            ])),
        ),
    ];
    calls.extend(good_controls().into_iter().map(|call| ("control", call)));
    calls.extend(completed().into_iter().map(|call| ("settle", vec![call])));
    calls
}

/// Arguments of controls that are good as they are.
fn good_controls() -> Vec<Vec<Vec<u8>>> {
    vec![
        of(map(&[("c", &[2]), ("q", b"\xa6orders"), ("li", &[9])])),
        of(map(&[
            ("c", &[5]),
            ("na", b"\xacqueue/orders"),
            ("ex", &[0]),
            ("v", b"\xa6\x00\x81\xa2mp\x09"),
        ])),
        of(map(&[
            ("c", &[5]),
            ("na", b"\xa9limit/api"),
            ("ex", &[0]),
            (
                "v",
                b"\xb0\x03\x82\xa2lc\x01\xa2lr\x94\x00\x02\xcd\x10\x00\x01",
            ),
        ])),
        of(map(&[("c", &[10]), ("na", b"\xa3api"), ("sp", &[9])])),
        of(map(&[("c", &[11]), ("na", b"\xa3api")])),
        of(map(&[("c", &[12]), ("af", b"\xa1a"), ("li", &[9])])),
        of(map(&[
            ("c", &[7]),
            ("q", b"\xa6orders"),
            ("st", &[1]),
            ("cu", b"\xa10"),
        ])),
    ]
}

/// A function's answer, its first line.
pub(crate) fn call(
    server: &TestServer,
    base: &str,
    function: &str,
    arguments: &[Vec<u8>],
) -> String {
    thread_local! {
        static LINE: RefCell<Option<(u16, Line)>> = const { RefCell::new(None) };
    }
    let function = format!("punctual_1_{function}");
    let mut parts: Vec<&[u8]> = vec![b"FCALL", function.as_bytes(), b"1", base.as_bytes()];
    parts.extend(arguments.iter().map(Vec::as_slice));
    let port = server.port();
    let said = LINE.with_borrow_mut(|line| {
        let (_, line) = match line {
            Some(open) if open.0 == port => open,
            _ => line.insert((port, Line::to(port))),
        };
        line.ask(&parts)
    });
    String::from_utf8_lossy(&said).into_owned()
}

pub(crate) fn base_of(namespace: &Namespace) -> String {
    format!("punctual:{{{namespace}/0}}")
}
