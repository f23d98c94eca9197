//! Unit tests of `verdict`.

use bytes::Bytes;
use hyper::header::HeaderValue;
use punctual::Outcome;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_790_000_000_000_000);

fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_str(value).expect("a value"));
    }
    Answer {
        status: StatusCode::from_u16(status).expect("a status"),
        headers: map,
        body: Some(Bytes::copy_from_slice(body.as_bytes())),
        start: Bytes::copy_from_slice(body.as_bytes()),
    }
}

fn of(status: u16) -> (Outcome, bool) {
    let (verdict, is_well) = verdict(answer(status, &[], "said"), NOW);
    (verdict.outcome, is_well)
}

#[test]
fn every_status_has_its_outcome() {
    for status in [200, 201, 202, 204, 226] {
        assert_eq!(of(status), (Outcome::Completed, true), "{status}");
    }
    assert_eq!(of(410), (Outcome::Dead, true));
    for status in [
        300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 409, 422, 451,
    ] {
        assert_eq!(
            of(status),
            (Outcome::Retry { after: None }, true),
            "{status}"
        );
    }
    for status in [429, 500, 501, 502, 503, 504, 599] {
        assert_eq!(
            of(status),
            (Outcome::Retry { after: None }, false),
            "{status}"
        );
    }
}

#[test]
fn retry_after_is_obeyed_within_bounds() {
    let after = |text: &str| {
        let (verdict, _) = verdict(answer(503, &[("retry-after", text)], ""), NOW);
        match verdict.outcome {
            Outcome::Retry { after } => after.map(|span| span.as_secs()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(after("120"), Some(120));
    assert_eq!(after(" 7 "), Some(7));
    assert_eq!(after("0"), Some(1));
    assert_eq!(after("99999999999999999999999"), Some(86_400));
    assert_eq!(after("Mon, 21 Sep 2026 14:18:20 GMT"), Some(300));
    assert_eq!(after("Mon, 21 Sep 2020 14:18:20 GMT"), Some(1));
    assert_eq!(after("Fri, 21 Sep 2040 14:18:20 GMT"), Some(86_400));
    for ignored in ["", "soon", "-5", "1.5", "Mon, 99 Sep 2026 14:18:20 GMT"] {
        assert_eq!(after(ignored), None, "{ignored:?}");
    }
    // A date before 1970 has passed too.
    assert_eq!(after("Thu, 01 Jan 1970 00:00:00 GMT"), Some(1));
}

#[test]
fn a_redirect_is_named_and_what_others_say_cannot_lie_in_a_log() {
    let inner = [("location", "http://169.254.169.254/")];
    let (verdict, _) = super::verdict(answer(302, &inner, ""), NOW);
    let text = verdict.error_text().expect("an error");
    assert!(
        text.starts_with("target_redirect_refused: target answered 302"),
        "{text}"
    );
    assert!(text.contains("http://169.254.169.254/"), "{text}");

    let (verdict, _) = super::verdict(answer(500, &[], "broken\r\n\u{1b}[31mred"), NOW);
    let text = verdict.error_text().expect("an error");
    assert_eq!(
        text,
        "target answered 500 Internal Server Error: broken   [31mred"
    );
}
