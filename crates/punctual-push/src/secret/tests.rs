//! Unit tests of `secret`.

use super::*;

/// The example of the convention's own libraries, computed again by Python's `hmac`.
#[test]
fn the_signature_is_that_of_the_convention() {
    let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        .parse()
        .expect("a secret");
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    let body = br#"{"test": 2432232314}"#;
    let one = signatures(std::slice::from_ref(&secret), id, 1_614_265_330, body);
    assert_eq!(one, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");

    let next: Secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
        .parse()
        .expect("a secret");
    let both = signatures(&[next, secret], id, 1_614_265_330, body);
    assert_eq!(
        both,
        "v1,78nXHjpFP0tVJQW5D0SBwmVyyW87BV/rL6MgfM/Bw44= \
         v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    );
}

#[test]
fn what_is_no_secret_is_refused_and_never_shown() {
    for wrong in [
        "",
        "whsec_",
        "whsec_c2hvcnQ=",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_###",
    ] {
        let error = wrong.parse::<Secret>().expect_err(wrong);
        assert!(
            wrong.is_empty() || !error.to_string().contains(&format!("\"{wrong}\"")),
            "{error}"
        );
    }
    let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        .parse()
        .expect("a secret");
    assert_eq!(format!("{secret:?}"), "Secret(***)");
}
