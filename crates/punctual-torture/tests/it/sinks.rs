//! Tests of the databases that effects go to.

use crate::support::run;

#[test]
fn effects_in_mariadb_are_single_like_those_in_a_file() {
    let run = run(&[
        "--engine",
        "embedded",
        "--sink",
        "mariadb",
        "--minutes",
        "0.1",
        "--seed",
        "2",
    ]);
    assert!(run.is_clean(), "{}", run.said());
    let effects = |round: &serde_json::Value| {
        let verdicts = round["findings"]["verdicts"]
            .as_array()
            .expect("verdicts")
            .clone();
        let named = verdicts
            .iter()
            .find(|verdict| verdict["name"] == "I4 effect once");
        named.and_then(|verdict| verdict["checked"].as_u64())
    };
    assert!(effects(&run.rounds()[0]) > Some(100), "{}", run.said());
}
