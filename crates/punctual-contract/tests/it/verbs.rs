//! The table of verbs is that of the trait, the wire and the library on Redis.

use std::collections::BTreeSet;
use std::fs;

use punctual_contract::verbs::{FUNCTIONS, Form, VERBS};

use super::root;

fn source(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

fn names() -> Vec<&'static str> {
    VERBS.iter().map(|verb| verb.name).collect()
}

/// The methods of the trait, in their order.
fn methods(source: &str) -> Vec<&str> {
    let (_, inside) = source.split_once("pub trait Engine").expect("a trait");
    let (inside, _) = inside.split_once("\n}").expect("its end");
    let starts = inside.split("async fn ").skip(1);
    starts
        .map(|method| method.split('(').next().unwrap_or_default())
        .collect()
}

#[test]
fn verbs_are_the_methods_of_an_engine() {
    let engine = source("crates/punctual/src/engine.rs");
    assert_eq!(methods(&engine), names());
    let more = engine.replace(
        "async fn info(",
        "async fn more(&self);\n    async fn info(",
    );
    assert_ne!(methods(&more), names(), "an injected verb is found");
}

#[test]
fn calls_on_the_wire_are_the_verbs() {
    let wire = source("crates/punctual/src/wire.rs");
    let (_, inside) = wire.split_once("pub enum Call {").expect("an enum");
    let (inside, _) = inside.split_once('}').expect("its end");
    let calls: Vec<String> = (inside.lines())
        .filter_map(|line| line.trim().split(['(', ',']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_lowercase)
        .collect();
    assert_eq!(calls, names());
}

#[test]
fn metrics_have_a_label_for_every_verb_but_a_wait() {
    let measured = source("crates/punctual-gateway/src/metrics/measured_engine.rs");
    for name in names().into_iter().filter(|name| *name != "wait") {
        assert!(measured.contains(&format!("\"{name}\"")), "{name}");
    }
}

/// What the library registers: name, flags, whether it takes words.
fn registered(source: &str) -> Vec<(String, String, bool)> {
    let sets = [
        ("READS", "no-writes"),
        ("FREES", "allow-oom"),
        (
            "{'no-writes', 'allow-stale', 'allow-oom'}",
            "no-writes, allow-stale, allow-oom",
        ),
        ("{}", ""),
    ];
    let flags = |text: &str| {
        let of = |(set, _): &&(&str, &str)| text.starts_with(set);
        let found = sets.iter().find(of).expect(text);
        found.1.to_owned()
    };
    let mut found = Vec::new();
    for line in source.lines().filter(|line| !line.starts_with("--")) {
        let of = |start: &str| line.strip_prefix(start)?.split_once('\'');
        if let Some((name, rest)) = of("verb('").or_else(|| of("several('")) {
            let mut rest = rest.splitn(3, ", ").skip(2);
            let rest = rest.next().expect("flags");
            found.push((name.into(), flags(rest), rest.contains('\'')));
        } else if let Some((name, rest)) = of("redis.register_function{function_name = PREFIX .. '")
        {
            let rest = rest.trim_start_matches(", flags = ");
            found.push((name.into(), flags(rest), false));
        }
    }
    found
}

#[test]
fn functions_are_those_that_the_library_registers() {
    let library = source("crates/punctual-redis/functions/register.lua");
    let table = || {
        let row = |function: &punctual_contract::verbs::Function| {
            let flags = function.flags.join(", ");
            (function.name.to_owned(), flags, function.takes_words)
        };
        FUNCTIONS.iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(registered(&library), table());
    for (there, injected) in [
        (
            "verb('list', Inspect.list, READS)",
            "verb('list', Inspect.list, FREES)",
        ),
        ("verb('info', Stats.info, READS)", ""),
        ("READS, 'stats', 9)", "READS)"),
    ] {
        assert!(library.contains(there), "{there}");
        let other = library.replace(there, injected);
        assert_ne!(registered(&other), table(), "{injected:?} is found");
    }
}

#[test]
fn every_verb_on_a_shard_has_a_function() {
    let called: BTreeSet<_> = FUNCTIONS.iter().flat_map(|it| it.verbs).copied().collect();
    assert_eq!(called, names().into_iter().collect());
    let of_words = FUNCTIONS.iter().filter(|it| it.form == Form::Words);
    assert!(of_words.into_iter().all(|it| it.verbs.is_empty()));
}
