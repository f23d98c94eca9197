//! Unit tests of `output::table`.

use super::*;

const ID: &str = "01994f2e-8a51-7c3e-8000-3f0f4c1d2b7a";
const JOBS: Columns<'_> = Columns {
    names: &["id", "queue", "kind", "state", "due", "attempt", "about"],
    numbers: &["attempt"],
    cut: "about",
    optional: &["kind", "attempt"],
};

fn row(queue: &str, kind: &str, about: &str) -> Vec<String> {
    [ID, queue, kind, "scheduled", "in 1h30m", "0", about]
        .map(str::to_owned)
        .into()
}

fn widest(lines: &[String]) -> usize {
    lines.iter().map(|line| line.width()).max().unwrap_or(0)
}

#[test]
fn a_table_without_a_terminal_has_one_line_per_row() {
    let about = "a long text ".repeat(20);
    let lines = JOBS.lines(&[row("mail", "mail", &about)], None);
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("ID ") && lines[0].ends_with("ABOUT"));
    assert!(lines[1].ends_with(about.trim_end()), "{lines:?}");
}

#[test]
fn columns_that_say_nothing_are_left_out_where_room_is_short() {
    let rows = [row(
        "mail",
        "mail",
        "{\"to\":\"ann\",\"subject\":\"a word\"}",
    )];
    let lines = JOBS.lines(&rows, Some(80));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(!lines[0].contains("KIND") && !lines[0].contains("ATTEMPT"));
    assert!(lines[1].ends_with('…') && lines[1].starts_with(ID));
    assert_eq!(widest(&lines), 80);
    let wide = JOBS.lines(&rows, Some(160));
    assert!(
        wide[0].contains("KIND") && wide[1].ends_with('}'),
        "{wide:?}"
    );
}

#[test]
fn columns_that_do_not_fit_go_to_a_further_line_unbroken() {
    let queue = "a-queue-with-a-long-name/of-40-characters";
    let kind = "a-kind-with-a-name-that-is-long-too";
    let rows = [row(
        queue,
        kind,
        "订单订单订单订单订单订单订单订单订单订单订单订单",
    )];
    for width in [40, 60, 80, 100, 120] {
        let lines = JOBS.lines(&rows, Some(width));
        assert!(
            widest(&lines) <= width.max(queue.len() + INDENT),
            "{lines:?}"
        );
        let text = lines.join("\n");
        for word in [ID, queue, kind, "scheduled", "in 1h30m", "ABOUT", "QUEUE"] {
            assert!(text.contains(word), "{word} is broken at {width}: {text}");
        }
    }
}

#[test]
fn text_is_cut_by_the_cells_that_it_takes() {
    assert_eq!(cut_to("订单订单", 5), "订单…");
    assert_eq!(cut_to("订单订单", 4), "订…");
    assert_eq!(cut_to("abc", 3), "abc");
}
