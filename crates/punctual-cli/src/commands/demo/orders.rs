//! The input: orders as a shop wrote them down.

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual::time::{Timestamp, parse_span};
use serde::Deserialize;

use crate::failure::{Exit, Failure, Result};
use crate::lines::Lines;

/// The orders that came with this build, for when the repository is not at hand.
const BUILT_IN: &str = include_str!("../../../orders.jsonl");
/// Where they are in the repository.
const IN_REPOSITORY: &str = "examples/orders/orders.jsonl";

/// One order, with every instant counted from its creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) number: u64,
    /// After the first order of the file.
    pub(super) created: Duration,
    pub(super) pay_within: Duration,
    /// After its creation, in order.
    pub(super) payments: Vec<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderLine {
    order: u64,
    created_at: String,
    pay_within: String,
    #[allow(dead_code, reason = "a shop's order has a price; the demo needs none")]
    cents: u64,
    payments: Vec<String>,
}

/// Reads the first orders of a file; of the repository's or the built-in one if none is named.
pub(super) fn read(path: Option<&Path>, limit: Option<usize>) -> Result<(String, Vec<Order>)> {
    let named = path.map(Path::to_owned);
    let found = named.or_else(|| Some(PathBuf::from(IN_REPOSITORY)).filter(|path| path.is_file()));
    let (name, text) = match found {
        Some(path) => {
            let text =
                std::fs::read(&path).map_err(|error| Failure::file("read", &path, &error))?;
            (path.display().to_string(), text)
        }
        None => ("the built-in file".into(), BUILT_IN.into()),
    };
    let orders = parse(&text, limit.unwrap_or(usize::MAX)).map_err(|(line, why)| {
        Failure::new(Exit::Usage, "bad_lines", format!("a line of {name} is not an order"))
            .lines(vec![(line, why)])
            .hint("a line is like {\"order\":7,\"created_at\":\"2026-11-20T18:00:07Z\",\"pay_within\":\"30m\",\"cents\":1299,\"payments\":[]}")
    })?;
    if orders.is_empty() {
        return Err(Failure::usage(format!("{name} has no orders")));
    }
    Ok((name, orders))
}

fn parse(text: &[u8], limit: usize) -> Result<Vec<Order>, (u64, String)> {
    let mut orders: Vec<Order> = Vec::new();
    let mut first = None;
    for line in Lines::new(text).take(limit) {
        let line = line.map_err(|error| (0, error.to_string()))?;
        let order = line.read(|text| order(text, &mut first));
        orders.push(order.map_err(|why| (line.number, why))?);
    }
    let mut numbers: Vec<u64> = orders.iter().map(|order| order.number).collect();
    numbers.sort_unstable();
    if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err((0, format!("order {} is there twice", twice[0])));
    }
    Ok(orders)
}

fn order(text: &str, first: &mut Option<Timestamp>) -> Result<Order, String> {
    let line: OrderLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let instant = |text: &str| text.parse::<Timestamp>().map_err(|error| error.to_string());
    let created_at = instant(&line.created_at)?;
    let first = *first.get_or_insert(created_at);
    if created_at < first {
        return Err("was created before the first order of the file".into());
    }
    let mut payments = Vec::with_capacity(line.payments.len());
    for text in &line.payments {
        let at = instant(text)?;
        if at < created_at {
            return Err("is paid before it was created".into());
        }
        payments.push(at - created_at);
    }
    payments.sort_unstable();
    Ok(Order {
        number: line.order,
        created: created_at - first,
        pay_within: parse_span(&line.pay_within).map_err(|error| error.to_string())?,
        payments,
    })
}

#[cfg(test)]
mod tests;
