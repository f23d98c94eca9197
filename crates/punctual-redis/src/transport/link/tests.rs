//! Unit tests of `link`.

use super::*;

#[tokio::test]
async fn a_server_elsewhere_that_another_one_names_is_refused_in_the_clear() {
    let elsewhere = Host {
        // There is no such name: to be refused it must not be looked for.
        name: "jobs.invalid".into(),
        port: 6_379,
    };
    let options: Options = "redis+sentinel://127.0.0.1/main".parse().expect("here");
    let dialer = Dialer::new(&options).expect("a dialer");
    for dialer in [dialer.to_sentinels(), dialer] {
        let refused = dialer.dial(&elsewhere).await.expect_err("a refusal");
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        let said = refused.to_string();
        assert!(
            said.contains("jobs.invalid:6379") && said.contains("?plaintext=allow"),
            "{said}"
        );
    }
    let allowed = "redis://127.0.0.1?plaintext=allow".parse().expect("here");
    let dialer = Dialer::new(&allowed).expect("a dialer");
    let unreached = within(seconds(20), dialer.dial(&elsewhere)).await;
    let unreached = unreached.expect("in time").expect_err("no server is there");
    assert_eq!(unreached.kind(), ErrorKind::EngineUnavailable);
}
