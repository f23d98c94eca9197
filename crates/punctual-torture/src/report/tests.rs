//! Unit tests of `report`.

use super::{html, line, markdown};
use crate::cell::CellKind;
use crate::check::{Case, Second, Span, Spread, Verdict, judge};
use crate::plan::Kind;
use crate::run::{Found, Round};
use crate::snapshot::Snapshot;
use crate::totals::{Run, Totals};

/// A round in which one verdict is broken.
pub(crate) fn round(cell: CellKind, broken: &str) -> Round {
    let mut findings = judge(&Case::new(Vec::new(), Snapshot::default()));
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
        "B engine answered",
        "L no more is lost than said",
        "I3 stale holders are powerless",
        "I5 not early",
        "I6 alive again",
    ];
    for name in sure {
        let text = line(&round(CellKind::EmbeddedInterval, name));
        assert!(
            text.contains(&format!("{name}: BROKEN by 2 of 3")),
            "{text}"
        );
    }
    for name in ["I1 nothing lost", "I9 back to base"] {
        let text = line(&round(CellKind::EmbeddedInterval, name));
        assert!(!text.contains("BROKEN"), "{text}");
    }
    let text = line(&round(CellKind::Embedded, "I1 nothing lost"));
    assert!(text.contains("I1 nothing lost: BROKEN by 2 of 3"), "{text}");
}

#[test]
fn the_table_of_cells_has_what_was_broken_and_not_judged() {
    let mut totals = Totals::default();
    let mut blind = round(CellKind::Embedded, "B engine answered");
    (
        blind.findings.tally.acknowledged,
        blind.findings.tally.unjudged,
    ) = (5, 7);
    blind.findings.tally.second_tries = 3;
    totals.add("commit", &blind);
    totals.add("commit", &round(CellKind::RedisRdb, "I1 nothing lost"));
    let page = totals.fill("<!-- torture -->\n<!-- end of torture -->");
    let row = |name: &str| page.lines().find(|line| line.contains(name)).expect(name);
    assert_eq!(
        row("embedded"),
        "| `embedded` | `fsync` | 0 | 0 | 5 | 7 | 0 | 0 | 3 | 0 | 0 | 2 |"
    );
    assert!(!page.contains("redis-rdb"), "it may lose: {page}");
    assert!(row("| all").ends_with("| 2 |"), "{page}");
}

#[test]
fn the_table_of_losses_has_what_settings_lost_that_may_lose_and_by_what() {
    let mut lossy = round(CellKind::RedisRdb, "I1 nothing lost");
    let tally = &mut lossy.findings.tally;
    (tally.acknowledged, tally.lost, tally.oldest_lost) = (2_000, 30, 1_200_000);
    tally.second_tries = 4;
    tally.lost_by = [("F02".to_owned(), 30)].into();
    tally.faults = [("F02".to_owned(), 7), ("F30".to_owned(), 1)].into();
    tally.effective = [("F02".to_owned(), (7, 6)), ("F30".to_owned(), (1, 1))].into();
    let mut totals = Totals::default();
    totals.add("commit", &lossy);
    totals.add("commit", &round(CellKind::Embedded, "I1 nothing lost"));
    let page = totals.fill("<!-- torture-lossy -->\n<!-- end of torture-lossy -->");
    let rows: Vec<&str> = page.lines().filter(|line| line.contains('`')).collect();
    assert_eq!(
        rows,
        ["| `redis-rdb` | `memory` | 8 | 7 | 2,000 | 30 | 1.5 % | F02 30 | 1.2 s | 4 | 0 | 0 |"]
    );
}

/// So many quiet periods, in each of which a worker claimed after 2^(bucket / 4) us, and half of
/// the time a fault held.
fn rested(cell: CellKind, quiet_periods: &[(u32, u64)]) -> Round {
    let mut rested = round(cell, "I1 nothing lost");
    rested.findings.tally.quiet_periods = Spread(quiet_periods.iter().copied().collect());
    rested.findings.tally.held = (20_000_000, 40_000_000);
    rested
}

#[test]
fn the_first_claim_of_quiet_periods_is_reported_or_unknown() {
    let new = rested(CellKind::Embedded, &[(40, 3), (80, 1)]);
    let text = line(&new);
    assert!(
        text.contains("4 quiet periods, a claim in each after 1.0 s at most"),
        "{text}"
    );
    let mut old = round(CellKind::RedisHttp, "I1 nothing lost");
    old.findings.tally.held = (0, 0);
    let mut totals = Totals::default();
    totals.add("commit", &new);
    totals.add("commit", &old);
    let page = totals.fill("<!-- torture-quiet-periods -->\n<!-- end of torture-quiet-periods -->");
    let report = markdown(&[new, old]);
    for row in [
        "| cell | quiet periods | first claim after p50 | p99 | max | a fault held |",
        "| embedded | 4 | 1.0 ms | 1.0 s | 1.0 s | 50 % |",
        "| redis-http | – | – | – | – | – |",
    ] {
        assert!(report.lines().any(|line| line == row), "{row}: {report}");
        let is_of_page = |line: &str| line.replace('`', "") == row;
        assert!(page.lines().any(is_of_page), "{row}: {page}");
    }
}

#[test]
fn kinds_that_share_a_number_are_counted_apart() {
    let mut totals = Totals::default();
    let row = |totals: &Totals, of: &str| {
        let page = totals.fill("<!-- torture-kinds -->\n<!-- end of torture-kinds -->");
        let mut lines = page.lines();
        let row = lines.find(|line| line.contains(of)).expect(of);
        row.to_owned()
    };
    let mut add = |cell, kinds: &[(Kind, u64)]| {
        let mut round = round(cell, "I1 nothing lost");
        let kinds = kinds
            .iter()
            .map(|(kind, count)| (kind.what().to_owned(), *count));
        round.findings.tally.kinds = kinds.collect();
        totals.add("commit", &round);
        totals.add("commit", &round);
        row(&totals, "no byte passes")
    };
    let old = add(CellKind::RedisHttp, &[]);
    assert_eq!(old, "| F12 | no byte passes | – | 200 |");
    let new = add(
        CellKind::EmbeddedDisk,
        &[(Kind::BlackHole, 3), (Kind::FullDisk, 4)],
    );
    assert_eq!(new, "| F12 | no byte passes | 6 | 200 |");
    add(CellKind::Cluster, &[(Kind::KillEngine, 2)]);
    for text in [
        "| F12 | few bytes | 0 | 200 |",
        "| F20 | full: embedded | 8 | 50 |",
        "| F20 | full: Redis, `always` | – | 50 |",
        "| F20 | full: Redis, `everysec` | 0 | 50 |",
        "| F20 | full: MariaDB | 0 | 50 |",
        "| F23 | bare node added | 0 | 20 |",
        "| F23 | master killed | 4 | 50 |",
    ] {
        assert_eq!(row(&totals, text), text);
    }
}

#[test]
fn quiet_periods_add_up_and_older_rows_stay() {
    let mut totals = Totals::default();
    totals.add("old", &round(CellKind::Embedded, "I1 nothing lost"));
    let row = serde_json::to_string(&totals.runs[0]).expect("JSON");
    assert!(
        !row.contains("quiet_periods") && !row.contains("held"),
        "{row}"
    );
    totals.add("new", &rested(CellKind::Embedded, &[(40, 3)]));
    totals.add("new", &rested(CellKind::Embedded, &[(40, 1), (80, 1)]));
    let row = serde_json::to_string(&totals.runs[1]).expect("JSON");
    let read: Run = serde_json::from_str(&row).expect("a run");
    assert_eq!(read.tally.quiet_periods.0, [(40, 4), (80, 1)].into());
    assert_eq!(read.tally.held, (40_000_000, 80_000_000));
}

#[test]
fn faults_of_runs_that_did_not_check_are_not_effective() {
    let mut totals = Totals::default();
    let mut old = round(CellKind::Embedded, "I1 nothing lost");
    old.findings.tally.faults = [("F07".to_owned(), 40)].into();
    totals.add("commit", &old);
    let row = |totals: &Totals| {
        let page = totals.fill("<!-- torture -->\n<!-- end of torture -->");
        let mut lines = page.lines();
        let row = lines.find(|line| line.contains("`embedded`"));
        row.expect("a row").to_owned()
    };
    assert!(row(&totals).contains("| 40 | – |"), "{}", row(&totals));
    let mut new = old.clone();
    new.findings.tally.effective = [("F07".to_owned(), (40, 38))].into();
    totals.add("another", &new);
    assert!(
        row(&totals).contains("| 80 | 38 of 40 |"),
        "{}",
        row(&totals)
    );
}

#[test]
fn the_table_of_faults_has_how_many_were_asked_for() {
    let mut totals = Totals::default();
    let mut some = round(CellKind::Embedded, "I1 nothing lost");
    some.findings.tally.faults = [("F07".to_owned(), 40), ("F28".to_owned(), 2)].into();
    some.findings.tally.effective = [("F07".to_owned(), (30, 20))].into();
    totals.add("commit", &some);
    let page = totals.fill("<!-- torture-faults -->\n<!-- end of torture-faults -->");
    assert!(page.contains("| F07 | 40 | 1,000 | 30 | 20 |"), "{page}");
    assert!(page.contains("| F28 | 2 | – | 0 | 0 |"), "{page}");
}

#[test]
fn the_short_table_has_cells_that_may_lose_nothing() {
    let mut totals = Totals::default();
    let mut late = |cell, seed, faults: u64, micros: &[(&str, u32)]| {
        let mut round = round(cell, "I1 nothing lost");
        round.seed = seed;
        round.findings.tally.faults = [("F08".to_owned(), faults), ("F35".to_owned(), 1)].into();
        for (fault, bucket) in micros {
            let spread = round.findings.lateness.0.entry((*fault).to_owned());
            spread.or_default().0.insert(*bucket, 1);
        }
        totals.add(&format!("c{seed}"), &round);
    };
    // Buckets: 2^(40/4) us, 2^(80/4) us and so on.
    late(CellKind::Embedded, 7, 1_000, &[("F08", 40), ("quiet", 36)]);
    late(CellKind::RedisHttp, 7, 5, &[("F08", 80)]);
    late(CellKind::RedisHttp, 3, 0, &[]);
    late(CellKind::RedisRdb, 9, 6, &[("F08", 100)]);
    let page = totals.fill(
        "<!-- torture-by-fault -->\n<!-- end of torture-by-fault -->\n\
         <!-- torture-seeds -->\n<!-- end of torture-seeds -->",
    );
    let rows: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with('|') && !line.contains("--"))
        .collect();
    assert_eq!(
        rows,
        [
            "| | fault | times | late by p50 | p99 | max |",
            "| F08 | a worker stopped | 1,005 | 1.0 ms | 1.0 s | 1.0 s |",
            "| F35 | a call given up | 3 | – | – | – |",
            "|  | none |  | 512 us | 512 us | 512 us |",
            "| commit | seeds |",
            "| `c3` | 3 |",
            "| `c7` | 7 |",
        ]
    );
}

#[test]
fn totals_name_whole_hashes_by_which_histories_are_known() {
    let mut totals = Totals::default();
    let mut one = round(CellKind::Embedded, "I1 nothing lost");
    one.hash = "0123456789abcdef".repeat(4);
    totals.add("commit", &one);
    assert_eq!(totals.runs[0].hashes, [one.hash]);
}

#[test]
fn second_tries_are_reported() {
    let mut tried = round(CellKind::Embedded, "I1 nothing lost");
    tried.findings.tally.second_tries = 3;
    assert!(line(&tried).contains("3 second tries"), "{}", line(&tried));
    let table = markdown(&[tried]);
    let cells = |line: usize| table.lines().nth(line).expect("a row").split('|');
    let place = cells(0).position(|cell| cell.trim() == "second tries");
    let text = cells(2).nth(place.expect("a column"));
    assert_eq!(text.map(str::trim), Some("3"));
}

#[test]
fn a_run_that_the_totals_have_is_refused_and_another_one_is_not() {
    let mut totals = Totals::default();
    totals.add("commit", &round(CellKind::Embedded, "I1 nothing lost"));
    let takes = |commit, cell, seed| totals.take_new(commit, &[CellKind::RedisRdb, cell], seed);
    let why = takes("commit", CellKind::Embedded, 1).expect_err("it is there");
    assert!(why.contains("embedded under seed 1 at commit"), "{why}");
    assert_eq!(takes("commit", CellKind::Embedded, 2), Ok(()));
    assert_eq!(takes("another", CellKind::Embedded, 1), Ok(()));
    assert_eq!(takes("commit", CellKind::RedisHttp, 1), Ok(()));
}

/// A fault of a kind, in milliseconds.
fn held(id: &str, what: &str, from: u64, until: u64) -> Span {
    let (id, what) = (id.into(), what.into());
    Span {
        id,
        what,
        from,
        until,
    }
}

/// A second with so many starts, the worst of them so many milliseconds late.
fn second(started: u64, worst: u64) -> Second {
    Second {
        acknowledged: 9,
        started,
        worst: worst * 1_000,
    }
}

#[test]
fn the_page_draws_faults_throughput_and_lateness_of_every_round() {
    let mut drawn = round(CellKind::Embedded, "I1 <nothing> lost");
    drawn.findings.timeline.faults = vec![
        held("F07", "kill & 'open'", 0, 1_000),
        held("F09", "stop", 500, 2_000),
        held("F07", "kill", 1_500, 1_501),
    ];
    drawn.findings.timeline.seconds = vec![second(40, 1), second(0, 60_000)];
    drawn.findings.timeline.quiet_periods = vec![(1_600, 2_000)];
    let page = html(&[drawn, round(CellKind::RedisRdb, "I1 nothing lost")]);
    assert_eq!(
        page.matches("<svg").count(),
        2,
        "a drawing per round: {page}"
    );
    assert_eq!(page.matches("<h2").count(), 2, "{page}");
    assert!(
        page.contains("<h2 class=bad>embedded, round 0</h2>"),
        "{page}"
    );
    assert!(
        page.contains("<h2>redis-rdb, round 0</h2>"),
        "it may lose: {page}"
    );
    // A line per kind; the two seconds take the 960 that are beside their names.
    let texts = ["<text x=0 y=10>F07</text>", "<text x=0 y=22>F09</text>"];
    for text in texts {
        assert_eq!(page.matches(text).count(), 1, "{text}: {page}");
    }
    let bars = [
        "<rect x=808.0 y=0 width=192.0 height=154 fill=#27ae60",
        "<rect x=40.0 y=2 width=480.0 height=9",
        "<rect x=280.0 y=14 width=720.0 height=9",
        "<rect x=760.0 y=2 width=1.5 height=9",
    ];
    for bar in bars {
        assert_eq!(page.matches(bar).count(), 1, "{bar}: {page}");
    }
    assert!(page.contains("kill &amp; &#39;open&#39; at 0 ms"), "{page}");
    assert!(page.contains("I1 &lt;nothing&gt; lost: BROKEN"), "{page}");
    assert!(!page.contains("<nothing>"), "{page}");
    // The most starts in a second are as tall as a drawing, none are nothing.
    assert!(page.contains(">40/s</text>"), "{page}");
    let text = [
        "height=110.0 fill=#2e86de opacity=.45><title>second 0: 40 started, 9 acknowledged, worst 1 ms late",
        "height=0.0 fill=#2e86de opacity=.45><title>second 1: 0 started, 9 acknowledged, worst 60000 ms late",
    ];
    for second in text {
        assert!(page.contains(second), "{second}: {page}");
    }
    // From 1 ms at the bottom to 60 s at the top.
    assert!(
        page.contains("<polyline points='280.0,149.0 760.0,39.0 '"),
        "{page}"
    );
}

#[test]
fn rounds_that_are_only_late_differ_from_those_that_lost() {
    let found = |names: &[&str]| {
        let rounds = names.iter().map(|name| round(CellKind::Embedded, name));
        Found::of(&rounds.collect::<Vec<_>>())
    };
    assert_eq!(found(&[]), Found::Nothing);
    assert_eq!(
        found(&["I6 alive again", "W every wait ended"]),
        Found::Late
    );
    assert_eq!(found(&["I6 alive again", "I1 nothing lost"]), Found::Broken);
    let mut early = round(CellKind::Embedded, "I6 alive again");
    early.findings.tally.early = 1;
    assert_eq!(Found::of(&[early]), Found::Broken);
}
