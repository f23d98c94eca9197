//! Unit tests of `error_mapping`.

use super::*;

fn read(message: &str) -> (String, Vec<(&'static str, String)>) {
    let error = of_library(
        "PUNCTUAL",
        &format!("not_found {message} script: 0, on @user"),
    );
    let values = error.context();
    let values = values.map(|(name, value)| (name, value.to_owned()));
    (error.message().to_owned(), values.collect())
}

#[test]
fn values_behind_a_message_are_no_part_of_it() {
    let of = |name, value: &str| (name, value.to_owned());
    for (message, bare, values) in [
        (
            "no flow; list them (flow: \"a\")",
            "no flow; list them",
            vec![of("flow", "a")],
        ),
        (
            "no step; list them (flow: \"a\", step: \"b\")",
            "no step; list them",
            vec![of("flow", "a"), of("step", "b")],
        ),
        (
            "no job; send it (job: 0199) index=3",
            "no job; send it",
            vec![of("job", "0199"), of("index", "3")],
        ),
        // What a caller sent stays one value, whatever it holds.
        (
            "wrong; mend it (name: \"x), y (flow: z\")",
            "wrong; mend it",
            vec![of("name", "\"x), y (flow: z\"")],
        ),
        ("as it is (really)", "as it is (really)", Vec::new()),
        ("cut off (flow: \"a", "cut off (flow: \"a", Vec::new()),
    ] {
        assert_eq!(read(message), (bare.to_owned(), values), "{message}");
    }
}
