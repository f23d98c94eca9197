//! Unit tests of `http::problem`.

use punctual_contract::errors::ERRORS;

use super::*;

#[test]
fn full_is_not_stored_and_away_is_unknown_and_worth_another_try() {
    let response = |kind| Problem::from(Error::new(kind, "no; later")).into_response();
    let full = response(ErrorKind::EngineFull);
    assert_eq!(full.status(), StatusCode::INSUFFICIENT_STORAGE);
    assert!(!full.headers().contains_key(header::RETRY_AFTER));
    for kind in [
        ErrorKind::EngineUnavailable,
        ErrorKind::DurabilityUnavailable,
        ErrorKind::ShuttingDown,
    ] {
        let away = response(kind);
        assert_eq!(away.status(), StatusCode::SERVICE_UNAVAILABLE, "{kind:?}");
        assert_eq!(away.headers()[header::RETRY_AFTER], "1");
    }
}

#[test]
fn what_went_wrong_inside_is_not_shown_outside() {
    use ErrorKind::*;
    for kind in [
        Io,
        DataMissing,
        DataDamaged,
        Internal,
        EngineUnavailable,
        DurabilityUnavailable,
        DataLocked,
        EngineFull,
    ] {
        let error = Error::new(kind, "redis at 10.7.7.7:6379 is secret; look at 10.7.7.7")
            .with("path", "/var/lib/secret");
        let reported = serde_json::to_string(&Problem::from(error).answer(None)).expect("JSON");
        let code = format!("\"code\":\"{}\"", kind.code());
        assert!(reported.contains(&code), "{reported}");
        assert!(
            !reported.contains("secret") && !reported.contains("10.7"),
            "{reported}"
        );
        assert!(reported.contains("gateway's log"), "{reported}");
    }
}

#[test]
fn statuses_are_those_of_the_contract() {
    for kind in ErrorKind::ALL {
        let mut reported = ERRORS.iter().filter(|error| error.code == kind.code());
        let reported = reported.next().expect("a code of the table").http;
        assert_eq!(
            status_of(kind).as_u16(),
            reported.unwrap_or(500),
            "{kind:?}"
        );
    }
}
