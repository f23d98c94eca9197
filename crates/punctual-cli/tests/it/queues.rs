use serde_json::json;

use crate::support::Punctual;

#[test]
fn queues_are_counted_paused_resumed_and_purged() {
    let punctual = Punctual::with_data();
    assert!(
        punctual
            .run(&["queues", "list"])
            .exits(0)
            .stderr
            .contains("no queues")
    );
    punctual.enqueue(&["mail", "{}"]);
    punctual.enqueue(&["mail", "{}", "--delay", "1h"]);
    punctual.enqueue(&["orders", "{}"]);
    let mail = punctual.one(&["queues", "list", "mail"]);
    assert_eq!(
        (&mail["ready"], &mail["scheduled"], &mail["paused"]),
        (&json!(1), &json!(1), &json!(false))
    );

    let mistyped = punctual
        .run(&["queues", "pause", "mial", "orders"])
        .exits(0);
    assert_eq!(mistyped.stdout, "mial is paused\norders is paused\n");
    let note = "no job was ever in mial";
    assert_eq!(mistyped.stderr.matches("no job was ever").count(), 1);
    assert!(mistyped.stderr.contains(note), "{mistyped:?}");
    let again = ["queues", "resume", "mial", "orders"];
    punctual.run(&again).exits(0);

    assert_eq!(punctual.one(&["queues", "pause", "mail"])["changed"], true);
    assert_eq!(punctual.one(&["queues", "pause", "mail"])["changed"], false);
    let table = punctual.run(&["queues", "list"]).exits(0).stdout;
    assert!(table.contains("mail (paused)"), "{table}");
    let rests = punctual
        .run(&["work", "mail", "--exec", "true", "--until-idle"])
        .exits(0);
    assert!(
        rests.stderr.contains("mail is paused with 1 ready job"),
        "{rests:?}"
    );
    assert_eq!(
        punctual.one(&["queues", "list", "mail"])["ready"],
        1,
        "a paused queue rests"
    );
    assert_eq!(punctual.one(&["queues", "resume", "mail"])["changed"], true);

    assert_eq!(punctual.one(&["queues", "purge", "mail"])["pending"], 2);
    assert_eq!(
        punctual.one(&["queues", "purge", "mail", "--yes"])["cancelled"],
        2
    );
    let mail = punctual.one(&["queues", "list", "mail"]);
    assert_eq!(
        (&mail["ready"], &mail["scheduled"], &mail["cancelled"]),
        (&json!(0), &json!(0), &json!(2))
    );
    assert_eq!(punctual.one(&["queues", "list", "orders"])["ready"], 1);
}

#[test]
fn the_doctor_finds_what_waits_for_a_person() {
    let punctual = Punctual::with_data();
    let well = punctual.one(&["doctor"]);
    assert_eq!(well["ok"], true, "{well}");
    punctual.enqueue(&["mail", "{}", "--attempts", "1"]);
    punctual
        .run(&["work", "mail", "--exec", "false", "--until-idle"])
        .exits(0);
    punctual.enqueue(&["mail", "{}"]);
    punctual.run(&["queues", "pause", "mail"]).exits(0);
    let told = punctual.run(&["doctor"]).exits(0).stdout;
    assert!(told.contains("1 dead job"), "{told}");
    assert!(told.contains("punctual queues resume mail"), "{told}");
    // The doctor's own job leaves no trace where the user looks.
    assert_eq!(punctual.json(&["queues", "list"]).len(), 1);
}
