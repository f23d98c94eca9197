use super::line;
use crate::cell::CellKind;
use crate::check::{Case, Verdict, judge};
use crate::look::Look;
use crate::run::Round;
use crate::sums::Sums;

/// A round in which one verdict is broken.
fn round(cell: CellKind, broken: &str) -> Round {
    let mut findings = judge(&Case::new(Vec::new(), Look::default()));
    findings.verdicts = vec![Verdict {
        name: broken.into(),
        checked: 3,
        broken: 2,
        examples: vec!["that is why".into()],
    }];
    Round {
        cell,
        seed: 1,
        round: 0,
        took: 1_000,
        drained: 0,
        hash: "0".into(),
        findings,
    }
}

#[test]
fn a_cell_that_may_lose_names_what_it_promises_all_the_same() {
    let sure = [
        "W every wait ended",
        "B looked at",
        "L no more is lost than said",
    ];
    for name in sure {
        let told = line(&round(CellKind::EmbeddedInterval, name));
        assert!(
            told.contains(&format!("{name}: BROKEN by 2 of 3")),
            "{told}"
        );
    }
    let told = line(&round(CellKind::EmbeddedInterval, "I1 nothing lost"));
    assert!(!told.contains("BROKEN"), "{told}");
    let told = line(&round(CellKind::Embedded, "I1 nothing lost"));
    assert!(told.contains("I1 nothing lost: BROKEN by 2 of 3"), "{told}");
}

#[test]
fn the_table_of_cells_has_what_was_broken_and_what_nobody_judged() {
    let mut sums = Sums::default();
    let mut blind = round(CellKind::Embedded, "B looked at");
    (
        blind.findings.tally.acknowledged,
        blind.findings.tally.unjudged,
    ) = (5, 7);
    sums.add("commit", &blind);
    sums.add("commit", &round(CellKind::RedisRdb, "I1 nothing lost"));
    let page = sums.fill("<!-- torture -->\n<!-- end of torture -->");
    let row = |name: &str| page.lines().find(|line| line.contains(name)).expect(name);
    assert_eq!(
        row("embedded"),
        "| `embedded` | `fsync` | 0 | 5 | 7 | 0 | 0 | 0 | 0 | 2 |"
    );
    assert!(row("redis-rdb").ends_with("| 0 |"), "it may lose: {page}");
    assert!(row("| all").ends_with("| 2 |"), "{page}");
}
