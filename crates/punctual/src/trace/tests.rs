//! Unit tests of `trace`.

use super::*;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-00000000000000000000000000000001-0000000000000002-00";

fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn follow_up(cause: &[(&str, &str)], own: &[(&str, &str)], most: usize) -> Vec<(String, String)> {
    let mut job = NewJob {
        headers: headers(own),
        ..NewJob::new("mail", "{}")
    };
    inherit(&headers(cause), &mut job, most);
    job.headers
}

#[test]
fn a_trace_is_taken_from_a_well_formed_header() {
    let later = format!("cc{}-what-comes-then", &TRACE[2..]);
    for good in [TRACE, OTHER, &later, &later[..55]] {
        assert_eq!(parent(&headers(&[("traceparent", good)])), Some(good));
        assert_eq!(parent(&headers(&[("TraceParent", good)])), Some(good));
    }
    let zero_trace = TRACE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
    let zero_span = TRACE.replace("00f067aa0ba902b7", &"0".repeat(16));
    for bad in [
        "",
        "00-",
        &TRACE[..54],
        &format!("{TRACE}-"),
        &format!("{TRACE}0"),
        &format!("cc{}0", &TRACE[2..]),
        &format!("ff{}", &TRACE[2..]),
        &TRACE.to_uppercase(),
        &TRACE.replace('-', "_"),
        &TRACE.replace("-00f067aa0ba902b7-01", "-00f067aa0ba902b-701"),
        &TRACE.replace('4', "ü"),
        &zero_trace,
        &zero_span,
    ] {
        assert_eq!(parent(&headers(&[("traceparent", bad)])), None, "{bad}");
    }
}

#[test]
fn of_two_traces_none_is_taken() {
    let two = headers(&[("traceparent", TRACE), ("traceparent", OTHER)]);
    assert_eq!(parent(&two), None);
}

#[test]
fn a_follow_up_goes_on_with_the_trace_of_its_cause() {
    let cause = [
        ("a", "1"),
        ("Traceparent", TRACE),
        ("tracestate", "x=1"),
        ("tracestate", "y=2"),
    ];
    let inherited = [
        ("b", "2"),
        ("traceparent", TRACE),
        ("tracestate", "x=1"),
        ("tracestate", "y=2"),
    ];
    let of_itself = follow_up(&cause, &[("b", "2")], 8_192);
    assert_eq!(of_itself, headers(&inherited));
}

#[test]
fn a_follow_up_with_a_trace_of_its_own_keeps_it() {
    let cause = [("traceparent", TRACE), ("tracestate", "x=1")];
    let own = [("TRACEPARENT", OTHER)];
    assert_eq!(follow_up(&cause, &own, 8_192), headers(&own));
    let own = [("tracestate", "z=3")];
    let with_parent = [("tracestate", "z=3"), ("traceparent", TRACE)];
    assert_eq!(follow_up(&cause, &own, 8_192), headers(&with_parent));
}

#[test]
fn a_state_without_a_trace_is_not_passed_on() {
    assert_eq!(follow_up(&[("tracestate", "x=1")], &[], 8_192), []);
    let bad = [("traceparent", "00-1-2-3"), ("tracestate", "x=1")];
    assert_eq!(follow_up(&bad, &[], 8_192), []);
}

#[test]
fn a_trace_without_room_is_left_out() {
    let cause = [("traceparent", TRACE), ("tracestate", "x=1")];
    let parent_only = headers(&[("traceparent", TRACE)]);
    assert_eq!(follow_up(&cause, &[], 11 + 55 + 10 + 3), headers(&cause));
    assert_eq!(follow_up(&cause, &[], 11 + 55 + 10 + 2), parent_only);
    assert_eq!(follow_up(&cause, &[], 11 + 55), parent_only);
    assert_eq!(follow_up(&cause, &[], 11 + 54), []);
}

#[test]
fn a_follow_up_names_its_parent_once_and_where_there_is_room() {
    let by = JobId::new();
    let named = |own: &[(&str, &str)], room| {
        let mut job = NewJob {
            headers: headers(own),
            ..NewJob::new("mail", "{}")
        };
        name_parent(by, &mut job, room);
        job.headers
    };
    let text = by.to_string();
    assert_eq!(named(&[], 15 + 36), headers(&[("punctual-parent", &text)]));
    assert_eq!(named(&[], 15 + 35), []);
    let own = [("Punctual-Parent", "mine")];
    assert_eq!(named(&own, 8_192), headers(&own));
}
