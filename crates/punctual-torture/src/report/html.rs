//! The report as a page: for every round its faults, throughput and lateness on one line of time.

use std::fmt::Write;

use super::{line, markdown};
use crate::check::Timeline;
use crate::run::Round;

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;\
color:#1c1f23;background:#fff}pre{white-space:pre-wrap}h2{font-size:1rem;margin:2rem 0 .3rem}svg{width:100%;height:auto;display:block}\
.bad{color:#b00020}text{font:9px system-ui,sans-serif;fill:currentColor}\
@media(prefers-color-scheme:dark){body{color:#e6e8ea;background:#15171a}}";

/// One page, without anything from elsewhere.
pub(crate) fn html(rounds: &[Round]) -> String {
    let mut page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Torture</title><style>{STYLE}</style>\
         <h1>Torture</h1><pre>{}</pre><p>Per round: faults as bars (one line per kind), handler starts per second in \
         blue, quiet_periods in green, the worst lateness of a first attempt per second in orange (logarithmic, 1 ms to 60 s).</p>",
        escaped(&markdown(rounds))
    );
    for round in rounds {
        let class = if round.is_clean() { "" } else { " class=bad" };
        let (cell, number, said) = (round.cell.name(), round.round, escaped(&line(round)));
        let drawing = drawing(&round.findings.timeline);
        write!(
            page,
            "<h2{class}>{cell}, round {number}</h2>{drawing}<pre{class}>{said}</pre>"
        )
        .expect("a string takes any text");
    }
    page.push_str("</html>\n");
    page
}

const WIDTH: f64 = 1_000.0;
const LEFT: f64 = 40.0;

fn drawing(timeline: &Timeline) -> String {
    let mut kinds: Vec<&str> = timeline.faults.iter().map(|fault| &*fault.id).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let tracks = 12.0 * kinds.len() as f64;
    let height = tracks + 130.0;
    let span = (timeline.seconds.len().max(1) * 1_000) as f64;
    let x = |millis: f64| LEFT + millis / span * (WIDTH - LEFT);
    let mut svg = format!(
        "<svg viewBox='0 0 {WIDTH} {height:.0}' role=img aria-label='faults, starts and lateness over time'>"
    );
    let mut draw = |text: String| svg.push_str(&text);
    for (from, until) in &timeline.quiet_periods {
        let (left, right) = (x(*from as f64), x(*until as f64));
        draw(format!(
            "<rect x={left:.1} y=0 width={:.1} height={height:.0} fill=#27ae60 opacity=.12><title>a quiet period from {from} to {until} ms</title></rect>",
            right - left
        ));
    }
    for (track, kind) in kinds.iter().enumerate() {
        let y = 12.0 * track as f64;
        draw(format!("<text x=0 y={:.0}>{kind}</text>", y + 10.0));
        for fault in timeline.faults.iter().filter(|fault| fault.id == *kind) {
            let (from, until) = (x(fault.from as f64), x(fault.until as f64));
            let width = (until - from).max(1.5);
            let what = escaped(&fault.what);
            draw(format!(
                "<rect x={from:.1} y={:.0} width={width:.1} height=9 fill=#c0392b opacity=.7><title>{what} at {} ms</title></rect>",
                y + 2.0,
                fault.from
            ));
        }
    }
    let most = timeline
        .seconds
        .iter()
        .map(|second| second.started)
        .max()
        .unwrap_or(0)
        .max(1);
    draw(format!("<text x=0 y={:.0}>{most}/s</text>", tracks + 20.0));
    let mut worst = String::new();
    for (number, second) in timeline.seconds.iter().enumerate() {
        let (from, width) = (x(number as f64 * 1_000.0), x(1_000.0) - x(0.0));
        let tall = 110.0 * second.started as f64 / most as f64;
        draw(format!(
            "<rect x={from:.1} y={:.1} width={:.1} height={tall:.1} fill=#2e86de opacity=.45><title>second {number}: {} started, \
             {} acknowledged, worst {} ms late</title></rect>",
            tracks + 125.0 - tall,
            (width - 0.5).max(0.5),
            second.started,
            second.acknowledged,
            second.worst / 1_000
        ));
        let share = ((second.worst.max(1_000) as f64 / 1e3).log10() / 60_000_f64.log10()).min(1.0);
        write!(
            worst,
            "{:.1},{:.1} ",
            from + width / 2.0,
            tracks + 125.0 - 110.0 * share
        )
        .expect("a string takes any text");
    }
    draw(format!(
        "<polyline points='{worst}' fill=none stroke=#e67e22 stroke-width=1.5 />"
    ));
    svg.push_str("</svg>");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('\'', "&#39;")
}
