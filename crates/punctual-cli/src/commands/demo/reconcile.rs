//! The reconciliation: the ledger, read from its file as an outsider would, against the orders.

use std::io;
use std::path::Path;

use punctual::time::{Timestamp, format_span, millis};

use super::ledger::{Account, Book};
use super::orders::Order;
use crate::output::{Histogram, Object, count, ms, object};

/// What became of the orders.
pub(super) struct Reconciliation {
    pub(super) orders: u64,
    pub(super) paid: u64,
    pub(super) cancelled: u64,
    pub(super) both: u64,
    pub(super) neither: u64,
    pub(super) early: u64,
    refunds: u64,
    acknowledged: u64,
    runs: u64,
    /// Due while no run was there to cancel them: late by the outage, not by the queue.
    overdue: u64,
    /// Orders whose payment came within a few milliseconds of the due, and how many of them the
    /// payment won.
    races: (u64, u64),
    lateness: Histogram,
}

/// Payment and cancellation this close to each other count as a race.
const RACE: std::time::Duration = millis(25);

impl Reconciliation {
    pub(super) fn of_file(path: &Path, orders: &[Order], speed: f64) -> io::Result<Self> {
        let (book, _) = Book::read(&std::fs::read(path)?)?;
        Ok(Self::of(&book, orders, speed))
    }

    pub(super) fn of(book: &Book, orders: &[Order], speed: f64) -> Self {
        let mut sum = Self {
            orders: orders.len() as u64,
            paid: 0,
            cancelled: 0,
            both: 0,
            neither: 0,
            early: 0,
            refunds: 0,
            acknowledged: 0,
            runs: book.runs.len() as u64,
            overdue: 0,
            races: (0, 0),
            lateness: Histogram::new(),
        };
        let nothing = Account::default();
        for order in orders {
            let account = book.accounts.get(&order.number).unwrap_or(&nothing);
            sum.take(account, &book.runs);
            let near = |after: &std::time::Duration| {
                after.abs_diff(order.pay_within).div_f64(speed) <= RACE
            };
            if order.payments.iter().any(near) {
                sum.races.0 += 1;
                sum.races.1 += u64::from(account.paid.is_some());
            }
        }
        sum
    }

    fn take(&mut self, account: &Account, runs: &[Timestamp]) {
        let (paid, cancelled) = (account.paid.is_some(), account.cancelled.is_some());
        self.paid += u64::from(paid);
        self.cancelled += u64::from(cancelled);
        self.both += u64::from(paid && cancelled);
        self.neither += u64::from(!paid && !cancelled);
        self.refunds += account.refunded.len() as u64;
        self.acknowledged += u64::from(account.placed.is_some());
        let (Some(at), Some((_, due))) = (account.cancelled, account.placed) else {
            return;
        };
        if at < due {
            self.early += 1;
        } else if runs.iter().any(|run| due < *run && *run <= at) {
            self.overdue += 1;
        } else {
            self.lateness.record((at - due).as_micros() as u64);
        }
    }

    /// Whether every promise was kept.
    pub(super) fn is_good(&self) -> bool {
        self.both == 0 && self.neither == 0 && self.early == 0 && self.acknowledged == self.orders
    }

    pub(super) fn as_json(&self) -> Object {
        object!({
            "orders": self.orders,
            "paid": self.paid,
            "cancelled": self.cancelled,
            "both": self.both,
            "neither": self.neither,
            "early": self.early,
            "lateness_ms": object!({
                "p50": self.lateness.ms_at(0.5),
                "p99": self.lateness.ms_at(0.99),
                "max": self.lateness.ms_max(),
            }),
        })
    }

    /// At most 80 columns.
    pub(super) fn lines(&self) -> Vec<String> {
        let number = |name: &str, n: u64, note: &str| {
            let line = format!("  {name:<20}{:>7}   {note}", count(n));
            line.trim_end().to_owned()
        };
        let acknowledged = format!("{} acknowledged by the queue", count(self.acknowledged));
        let lateness = format!(
            "lateness p50 {}, p99 {}, max {}",
            ms(self.lateness.at(0.5)),
            ms(self.lateness.at(0.99)),
            ms(self.lateness.max())
        );
        let races = format!(
            "payment within {} of the due; it won {}",
            format_span(RACE),
            count(self.races.1)
        );
        let mut lines = vec![
            number("orders", self.orders, &acknowledged),
            number("paid", self.paid, ""),
            number("cancelled", self.cancelled, &lateness),
            number("paid and cancelled", self.both, "must be 0"),
            number("neither", self.neither, "must be 0"),
            number("cancelled early", self.early, "must be 0"),
            number(
                "payments refunded",
                self.refunds,
                "too late, or the second for an order",
            ),
            number("races", self.races.0, &races),
        ];
        if self.runs > 1 {
            let overdue = format!("{} fell due while nothing ran", count(self.overdue));
            lines.push(number("restarts", self.runs - 1, &overdue));
        }
        lines
    }

    pub(super) fn bars(&self) -> Vec<String> {
        self.lateness.bars(30)
    }
}

#[cfg(test)]
mod tests;
