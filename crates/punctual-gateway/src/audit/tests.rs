//! Unit tests of `audit`.

use punctual::engine::Select;
use punctual::engine::{Action, Filter};

use super::*;
use crate::http::Caller;

fn cancel(text: &str) -> Entry {
    let filter = Filter::default()
        .queue("mail".to_owned())
        .text(text.to_owned());
    let select = Select::Filter {
        filter,
        cursor: None,
        limit: 10,
    };
    let edit = Edit::new(select, Action::Cancel);
    Entry::of_edit(&Caller::local(Namespace::default()), &edit)
}

#[test]
fn an_entry_names_caller_and_action_but_no_text_of_payloads() {
    let entry = cancel("hunter2");
    let reported = (&*entry.who, &*entry.action, &*entry.on, &*entry.phase);
    let on = "jobs queue=mail text=(not shown)";
    assert_eq!(reported, ("local", "cancel", on, "begun"));
}

#[test]
fn the_record_outlives_its_process_and_a_torn_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.jsonl");
    let audit = Audit::in_file(&path).expect("a file");
    let mut entry = cancel("a");
    audit.write(&entry);
    entry.done(3);
    audit.write(&entry);
    let cut_off = cancel("b");
    audit.write(&cut_off);
    let mut bytes = std::fs::read(&path).expect("lines");
    bytes.extend(b"{\"id\":\"torn");
    std::fs::write(&path, bytes).expect("written");
    let again = Audit::in_file(&path).expect("it goes on");
    let later = cancel("c");
    again.write(&later);
    let again = Audit::in_file(&path).expect("once more");
    let expected = vec![later, cut_off, entry];
    assert_eq!(again.of(&Namespace::default(), 10), expected);
    assert_eq!(again.of(&Namespace::default(), 1), expected[..1]);
    let other = Namespace::new("other").expect("a name");
    assert_eq!(again.of(&other, 10), []);
}

#[test]
fn the_record_is_bounded_in_memory_and_on_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("audit.jsonl");
    let audit = Audit::in_file(&path).expect("a file");
    let mut large = cancel("a");
    large.on = "x".repeat(1 << 20);
    for number in 0..14 {
        large.id = number.to_string();
        audit.write(&large);
    }
    for number in 0..=ENTRIES_MAX {
        let mut small = cancel("a");
        small.id = format!("small {number}");
        audit.write(&small);
    }
    assert_eq!(audit.of(&Namespace::default(), 10_000).len(), ENTRIES_MAX);
    let bytes = |name: &str| {
        std::fs::metadata(dir.path().join(name))
            .expect("a file")
            .len()
    };
    assert!(bytes("audit.jsonl") < 6 << 20);
    assert!(bytes("audit.jsonl.1") < 6 << 20);
    assert_eq!(std::fs::read_dir(dir.path()).expect("two").count(), 2);
}

/// A change in a namespace, made, that matched so many jobs.
fn done(namespace: &str, number: usize, matched: u64) -> Entry {
    let mut entry = cancel("a");
    entry.namespace = namespace.to_owned();
    entry.id = format!("{namespace} {number}");
    entry.done(matched);
    entry
}

fn count(audit: &Audit, namespace: &str) -> usize {
    let namespace = Namespace::new(namespace).expect("a name");
    audit.of(&namespace, usize::MAX).len()
}

#[test]
fn a_namespace_pushes_out_none_but_its_own_changes() {
    let audit = Audit::default();
    audit.write(&done("quiet", 0, 1));
    for number in 0..2 * ENTRIES_MAX {
        audit.write(&done("loud", number, 1));
    }
    assert_eq!(count(&audit, "loud"), ENTRIES_MAX);
    assert_eq!(count(&audit, "quiet"), 1);
    // However many namespaces there are.
    for name in 0..40 {
        for number in 0..ENTRIES_MAX {
            audit.write(&done(&format!("many{name}"), number, 1));
        }
    }
    assert_eq!(count(&audit, "quiet"), 1);
    assert_eq!(audit.kept().count, ALL_ENTRIES_MAX);
    let all = audit.0.into_inner().expect("no panic").into_entries();
    assert_eq!(all.len(), ALL_ENTRIES_MAX);
    assert_eq!(all[0].id, "many39 999", "the latest first");
    // Nor is one kept of which there is nothing.
    let audit = Audit::default();
    for number in 0..ALL_ENTRIES_MAX + 10 {
        audit.write(&done(&format!("one{number}"), 0, 1));
    }
    assert_eq!(audit.kept().entries.len(), ALL_ENTRIES_MAX);
}

#[test]
fn what_changed_nothing_gives_way_to_changes_and_hides_none() {
    let audit = Audit::default();
    for number in 0..ENTRIES_MAX / 2 {
        audit.write(&done("shop", number, 1));
    }
    for number in 0..2 * ENTRIES_MAX {
        let mut entry = done("shop", ENTRIES_MAX + number, 0);
        (entry.phase, entry.matched) = ("begun".to_owned(), None);
        audit.write(&entry);
        entry.done(0);
        audit.write(&entry);
    }
    let kept = audit.of(&Namespace::new("shop").expect("a name"), usize::MAX);
    assert_eq!(kept.len(), ENTRIES_MAX);
    let changes = kept.iter().filter(|entry| entry.matched == Some(1));
    assert_eq!(changes.count(), ENTRIES_MAX / 2);
}
