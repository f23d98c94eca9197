/// A measured number of one side: the median of its runs, or a dash.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The median of one number of each run.
pub(crate) fn median_of<T>(runs: &[T], number: impl Fn(&T) -> f64) -> Option<f64> {
    median(runs.iter().map(number).collect())
}

/// The least and the most of one number of each run.
pub(crate) fn spread<T>(runs: &[T], number: impl Fn(&T) -> f64) -> String {
    let mut values: Vec<f64> = runs.iter().map(number).collect();
    values.sort_by(f64::total_cmp);
    match (values.first(), values.last()) {
        (Some(least), Some(most)) => format!("{} to {}", short(*least), short(*most)),
        _ => "-".into(),
    }
}

/// Three digits, with k and M as the field writes rates.
pub(crate) fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

pub(crate) fn cell(value: Option<f64>) -> String {
    value.map_or("-".into(), short)
}

/// `value` in units of `unit`.
pub(crate) fn ratio(value: Option<f64>, unit: Option<f64>) -> String {
    cell(value.zip(unit).map(|(value, unit)| value / unit))
}

/// Prints a table that a page can take as it is.
pub(crate) fn print(title: &str, heads: &[&str], rows: &[Vec<String>]) {
    println!("\n### {title}\n");
    println!("| {} |", heads.join(" | "));
    let rules = heads
        .iter()
        .enumerate()
        .map(|(nth, _)| if nth == 0 { "---" } else { "--:" });
    println!("| {} |", rules.collect::<Vec<_>>().join(" | "));
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}
