//! What no compiler checks: who may know whom, sizes, links, words, leftovers.
//!
//! A rule is a function from the tree to complaints. Each test holds its rule against the
//! repository, then plants what the rule is for and sees it caught.

mod code;
mod lua;
mod pages;
mod readability;
mod sentences;
mod tree;
mod vocabulary;
mod workspace;

use tree::Tree;

type Rule = fn(&Tree) -> Vec<String>;

/// The repository keeps the rule.
fn holds(rule: Rule) {
    let complaints = rule(&Tree::of_repository());
    assert!(
        complaints.is_empty(),
        "{} complaint(s):\n{}",
        complaints.len(),
        complaints.join("\n")
    );
}

/// The rule finds this text when it is added to the end of this file, which may be new.
fn finds(rule: Rule, path: &str, text: &str) {
    let complaints = rule(&Tree::of_repository().with(path, text));
    assert!(
        complaints.iter().any(|complaint| complaint.contains(path)),
        "not found in {path}: {text:?}; complaints: {complaints:?}"
    );
}

/// The rule finds each of these texts in its file. One pass over the tree finds all of them, where
/// a rule takes its time.
fn finds_each(rule: Rule, planted: &[(String, String)]) {
    let repository = Tree::of_repository();
    let tree = (planted.iter()).fold(repository, |tree, (path, text)| tree.with(path, text));
    let complaints = rule(&tree);
    for (path, text) in planted {
        assert!(
            complaints.iter().any(|complaint| complaint.contains(path)),
            "not found in {path}: {text:?}; complaints: {complaints:?}"
        );
    }
}

#[test]
fn crates_import_only_what_the_map_allows() {
    holds(workspace::imports);
    let embedded = "crates/punctual-embedded/Cargo.toml";
    finds(
        workspace::imports,
        embedded,
        "\n[dev-dependencies]\npunctual-cli.workspace = true",
    );
    finds(
        workspace::imports,
        embedded,
        "\n[build-dependencies]\npunctual-redis = \"0.1\"",
    );
    finds(
        workspace::imports,
        "crates/punctual/Cargo.toml",
        "\n[dependencies.punctual-embedded]",
    );
    finds(
        workspace::imports,
        "crates/punctual-unheard/Cargo.toml",
        "[package]",
    );
}

#[test]
fn modules_import_only_what_lies_below() {
    holds(code::layers);
    let rule = code::layers;
    finds(
        rule,
        "crates/punctual/src/time.rs",
        "use crate::engine::Claim;",
    );
    finds(
        rule,
        "crates/punctual/src/engine/claim.rs",
        "use crate::{machine::Machine, Error};",
    );
    finds(
        rule,
        "crates/punctual/src/machine/claim.rs",
        "use crate::memory::MemoryEngine;",
    );
    finds(
        rule,
        "crates/punctual/src/machine/claim.rs",
        "use crate::MemoryEngine;",
    );
    finds(
        rule,
        "crates/punctual/src/queue/planted.rs",
        "let now = crate::memory::planted();",
    );
    finds(
        rule,
        "crates/punctual/src/worker/planted.rs",
        "use crate::machine::Wakeups;",
    );
}

#[test]
fn modules_of_the_redis_engine_import_only_what_lies_below() {
    holds(code::redis_layers);
    let rule = code::redis_layers;
    let stats = "crates/punctual-redis/src/wire/stats.rs";
    finds(rule, stats, "use crate::session::shards::Shard;");
    let servers = "crates/punctual-redis/src/servers.rs";
    finds(rule, servers, "use crate::session::calls::Calls;");
}

#[test]
fn no_two_modules_of_the_gateway_depend_on_each_other() {
    holds(code::circles);
    let rule = code::circles;
    let path = "crates/punctual-gateway/src/decode.rs";
    finds(rule, path, "use crate::http::Problem;");
    finds(rule, path, "use super::{api::open_api, json};");
    finds(
        rule,
        "crates/punctual-gateway/src/words.rs",
        "use crate::json::job::JobAnswer;",
    );
    finds(
        rule,
        "crates/punctual-gateway/src/known_leases.rs",
        "use crate::{shared::Shared, words};",
    );
}

#[test]
fn the_library_has_nine_public_modules() {
    holds(code::public_modules);
    let root = "crates/punctual/src/lib.rs";
    finds(code::public_modules, root, "pub mod another;");
}

#[test]
fn machine_has_no_clock_thread_or_file() {
    holds(code::machine);
    let rule = code::machine;
    finds(
        rule,
        "crates/punctual/src/machine.rs",
        "fn read() { std::fs::read(\"x\"); }",
    );
    finds(
        rule,
        "crates/punctual/src/machine/settle.rs",
        "std::thread::spawn(|| ());",
    );
    finds(
        rule,
        "crates/punctual/src/machine/settle.rs",
        "use crate::time::{Clock, Timestamp};",
    );
    finds(
        rule,
        "crates/punctual/src/machine/settle.rs",
        "let id = JobId::new();",
    );
    finds(
        rule,
        "crates/punctual/src/machine/settle.rs",
        "pub async fn settle() {}",
    );
}

#[test]
fn calendars_have_no_clock_and_no_zone_of_the_host() {
    holds(code::calendars);
    let rule = code::calendars;
    finds(
        rule,
        "crates/punctual/src/schedule/spec.rs",
        "let zone = jiff::tz::TimeZone::system();",
    );
    finds(
        rule,
        "crates/punctual/src/schedule.rs",
        "let now = jiff::Timestamp::now();",
    );
}

#[test]
fn wheel_is_plain_integers() {
    holds(code::wheel);
    finds(
        code::wheel,
        "crates/punctual/src/memory/wheel.rs",
        "use std::sync::Mutex;",
    );
    finds(
        code::wheel,
        "crates/punctual/src/memory/wheel/slots.rs",
        "use std::time::Duration;",
    );
    finds(
        code::wheel,
        "crates/punctual/src/memory/wheel/slots.rs",
        "use crate::job::JobId;",
    );
}

#[test]
fn only_time_reads_a_clock() {
    holds(code::clocks);
    let rule = code::clocks;
    finds(
        rule,
        "crates/punctual/src/memory.rs",
        "let now = Instant::now();",
    );
    finds(
        rule,
        "crates/punctual-cli/src/main.rs",
        "std::thread::sleep(span);",
    );
    finds(
        rule,
        "crates/punctual-embedded/tests/it/crash.rs",
        "tokio::time::sleep(span).await;",
    );
    finds(
        rule,
        "crates/punctual/src/queue.rs",
        "#[allow(clippy::disallowed_methods)]",
    );
}

#[test]
fn only_connect_knows_addresses() {
    holds(code::addresses);
    finds(
        code::addresses,
        "crates/punctual-cli/src/main.rs",
        "let to = \"file:./data\";",
    );
    finds(
        code::addresses,
        "crates/punctual/src/queue.rs",
        "connect(\"redis://localhost\")",
    );
}

#[test]
fn model_of_the_law_does_not_know_the_machine() {
    holds(code::independent_model);
    let model = "crates/punctual/src/conformance/model/planted.rs";
    finds(
        code::independent_model,
        model,
        "use crate::machine::Machine;",
    );
}

#[test]
fn files_stay_readable() {
    holds(code::sizes);
    finds(
        code::sizes,
        "crates/punctual-cli/src/long.rs",
        &"fn line() {}\n".repeat(601),
    );
    finds(
        code::sizes,
        "crates/punctual-redis/functions/long.lua",
        &"end\n".repeat(601),
    );
}

#[test]
fn nothing_is_left_over() {
    holds(code::leftovers);
    let markers = code::leftover_markers();
    let planted = markers.iter().enumerate().flat_map(|(number, marker)| {
        let code = format!("crates/punctual/src/planted_{number}.rs");
        let page = format!("docs/planted-{number}.md");
        [code, page].map(|path| (path, format!("    {marker} later")))
    });
    finds_each(code::leftovers, &planted.collect::<Vec<_>>());
}

#[test]
fn tests_are_facts_in_one_binary_per_crate() {
    holds(code::tests);
    finds(
        code::tests,
        "crates/punctual/src/retry/tests.rs",
        "fn test_retry() {}",
    );
    finds(code::tests, "crates/punctual/tests/second.rs", "");
}

#[test]
fn public_structs_of_the_library_may_grow() {
    holds(readability::open_structs);
    let injected = "\n/// Jobs.\n#[derive(Debug)]\npub struct Injected {\n    pub a: u8,\n}\n";
    finds(
        readability::open_structs,
        "crates/punctual/src/flow.rs",
        injected,
    );
    finds(
        readability::open_structs,
        "crates/punctual-gateway/src/relays.rs",
        injected,
    );
}

#[test]
fn each_thing_has_one_word() {
    holds(pages::words);
    let planted = pages::REMOVED
        .iter()
        .enumerate()
        .map(|(number, (removed, _))| {
            let page = format!("docs/planted-{number}.md");
            (page, format!("A {removed}."))
        });
    let others = [
        ("crates/punctual/src/queue.rs", "/// Dequeues a job."),
        ("docs/planted.md", "the deduplication\nkey"),
        (
            "crates/punctual-redis/functions/planted.lua",
            "local bell = 1",
        ),
    ];
    let others = others.map(|(path, text)| (path.to_owned(), text.to_owned()));
    finds_each(pages::words, &planted.chain(others).collect::<Vec<_>>());
}

#[test]
fn first_lines_say_what_a_file_is_for() {
    holds(readability::first_lines);
    let rule = readability::first_lines;
    finds(rule, "crates/punctual/src/new.rs", "use std::fmt;\n");
    finds(
        rule,
        "crates/punctual-redis/functions/new.lua",
        "local a = 1\n",
    );
}

#[test]
fn comments_end_at_100_columns() {
    holds(readability::comment_widths);
    let rule = readability::comment_widths;
    let long = "word ".repeat(20);
    finds(rule, "crates/punctual/src/queue.rs", &format!("/// {long}"));
    finds(
        rule,
        "crates/punctual-redis/functions/new.lua",
        &format!("-- {long}"),
    );
}

#[test]
fn functions_have_at_most_100_lines() {
    holds(readability::function_lengths);
    let rule = readability::function_lengths;
    let long = "    step();\n".repeat(99);
    finds(
        rule,
        "crates/punctual/src/queue.rs",
        &format!("pub(crate) async fn long(\n) {{\n{long}}}\n"),
    );
    finds(
        rule,
        "crates/punctual-torture/src/plan.rs",
        &format!("fn long() {{\n{long}}}\n"),
    );
    for path in [
        "crates/punctual/src/retry/tests.rs",
        "crates/punctual-gateway/tests/it/jobs.rs",
        "examples/patterns/src/by_hand.rs",
        "bench/src/bin/worker.rs",
    ] {
        finds(rule, path, &format!("fn cases() {{\n{long}}}\n"));
    }
    let short = "    step();\n".repeat(98);
    let short = format!("fn short() {{\n{short}}}\n");
    let kept = Tree::of_repository().with("crates/punctual/src/queue.rs", &short);
    assert!(rule(&kept).is_empty(), "{:?}", rule(&kept));
}

#[test]
fn names_of_tests_have_at_most_70_characters() {
    holds(readability::test_names);
    let name = "a".repeat(71);
    finds(
        readability::test_names,
        "crates/punctual/src/queue.rs",
        &format!("#[tokio::test]\nasync fn {name}() {{}}\n"),
    );
}

#[test]
fn the_readme_has_at_most_170_lines() {
    holds(sentences::readme_lines);
    let lines = "line\n".repeat(171);
    finds(sentences::readme_lines, "README.md", &lines);
}

#[test]
fn sentences_of_pages_have_at_most_40_words() {
    holds(sentences::sentences);
    let rule = sentences::sentences;
    let long = "word ".repeat(41);
    finds(rule, "docs/planted.md", &long);
    finds(rule, "README.md", &format!("\n- {long}"));
    finds(rule, "docs/planted.md", &long.replacen(' ', "\n", 20));
    finds(rule, "docs/planted.md", &format!("Short. {long}\n\nShort."));
    let short = "Forty words end here. ".repeat(11) + "`a span of code` [link](to.md)";
    let kept = Tree::of_repository().with("docs/planted.md", &short);
    assert!(rule(&kept).is_empty(), "{:?}", rule(&kept));
}

#[test]
fn lines_of_pages_have_at_most_160_columns() {
    holds(sentences::widths);
    let rule = sentences::widths;
    finds(rule, "docs/planted.md", &"a wide line. ".repeat(13));
    let table = format!("| {} |\n", "a wide line. ".repeat(13));
    let code = format!("```\n{}\n```\n", "a wide line. ".repeat(13));
    let kept = Tree::of_repository().with("docs/planted.md", &(table + &code));
    assert!(rule(&kept).is_empty(), "{:?}", rule(&kept));
}

#[test]
fn links_lead_somewhere() {
    holds(pages::links);
    finds(pages::links, "docs/planted.md", "[gone](engines/gone.md)");
    finds(
        pages::links,
        "docs/planted.md",
        "[gone](../README.md#no-such-heading)",
    );
    finds(pages::links, "README.md", "![gone](docs/gone.png)");
}

#[test]
fn tests_that_the_list_of_bad_input_names_are_there() {
    holds(pages::proofs);
    let page = "docs/serving.md";
    for planted in ["limits::no_such_test", "no_such_file::", "nowhere::tests"] {
        finds(pages::proofs, page, &format!("| x | y | `{planted}` |"));
    }
    finds(pages::proofs, page, "| x | y | by hand |");
}

#[test]
fn decisions_are_numbered_questions_in_the_index() {
    holds(pages::decisions);
    let rule = pages::decisions;
    finds(rule, "docs/decisions/9999-because.md", "# Why?\n");
    finds(rule, "docs/decisions/0001-why-twice.md", "# Why twice?\n");
    finds(
        rule,
        "docs/decisions/9999-why-unlisted.md",
        "# Why unlisted?\n",
    );
    finds(
        rule,
        "docs/decisions/9999-why-no-question.md",
        "# Unlisted\n",
    );
    finds(
        rule,
        "docs/decisions/9999-why-long.md",
        &format!("# Why?\n{}", "\n".repeat(100)),
    );
}

#[test]
fn both_readmes_say_the_same() {
    holds(pages::twins);
    finds(pages::twins, "README.zh-CN.md", "\n## Another heading\n");
    finds(
        pages::twins,
        "README.zh-CN.md",
        "\n```sh\npunctual something-else\n```\n",
    );
}

#[test]
fn page_of_transitions_is_the_table_in_code() {
    holds(pages::transitions);
    finds(
        pages::transitions,
        pages::TRANSITIONS_PAGE,
        "| completed | claim | active | |\n",
    );
}

#[test]
fn contributing_lists_every_recipe() {
    holds(pages::recipes);
    finds(pages::recipes, "justfile", "\nunlisted:\n    true\n");
}

#[test]
fn machines_run_only_what_the_readme_names() {
    holds(workspace::ci_runs_readme);
    finds(
        workspace::ci_runs_readme,
        ".ci/run",
        "\ncargo run --bin something-else\n",
    );
}

#[test]
fn machines_await_only_what_the_server_prints() {
    holds(workspace::ci_reads_the_banner);
    for line in ["grep -q 'Ready.'", "sed -n 's/^ *secret  *//p'"] {
        finds(workspace::ci_reads_the_banner, ".ci/run", line);
    }
}

#[test]
fn every_crate_keeps_the_workspace_habits() {
    holds(workspace::habits);
    finds(
        workspace::habits,
        "crates/punctual-unheard/Cargo.toml",
        "[package]\nversion = \"1\"\n",
    );
}

#[test]
fn lock_file_has_no_second_tls_stack() {
    holds(workspace::lock);
    finds(
        workspace::lock,
        "Cargo.lock",
        "\n[[package]]\nname = \"openssl-sys\"\n",
    );
    finds(
        workspace::lock,
        "Cargo.lock",
        "\n[[package]]\nname = \"aws-lc-sys\"\n",
    );
}
