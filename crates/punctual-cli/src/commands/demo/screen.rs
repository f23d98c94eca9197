//! What the demo shows while it runs: a table that is drawn again and again, or now and then a
//! line.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::time::{Stopwatch, millis, seconds};

use super::ledger::Book;
use super::shop::Shop;
use crate::output::{Format, Output, count, cut, ms, width};

/// How often the table is drawn.
pub(super) const FRAME: Duration = millis(100);
/// How often a line is printed where there is no terminal.
const LINE: Duration = seconds(2);

pub(super) struct Screen {
    mode: Mode,
    title: Vec<String>,
    orders: u64,
    watch: Stopwatch,
    shown: bool,
    lines_drawn: usize,
    next: Duration,
}

enum Mode {
    Table,
    Lines,
    Silent,
}

/// The numbers of one frame.
struct Tally {
    placed: u64,
    paid: u64,
    cancelled: u64,
    refunds: u64,
    waiting: u64,
}

impl Tally {
    fn of(book: &Book) -> Self {
        let accounts = || book.accounts.values();
        let placed = accounts()
            .filter(|account| account.placed.is_some())
            .count() as u64;
        let ended = accounts().filter(|account| account.is_final()).count() as u64;
        Self {
            placed,
            paid: accounts().filter(|account| account.paid.is_some()).count() as u64,
            cancelled: accounts()
                .filter(|account| account.cancelled.is_some())
                .count() as u64,
            refunds: accounts()
                .map(|account| account.refunded.len() as u64)
                .sum(),
            waiting: placed.saturating_sub(ended),
        }
    }
}

impl Screen {
    pub(super) fn new(out: Output, follow: bool, title: Vec<String>, orders: u64) -> Self {
        let mode = match out.format {
            Format::Json => Mode::Silent,
            Format::Table if follow => Mode::Silent,
            Format::Table if io::stdout().is_terminal() => Mode::Table,
            Format::Table => Mode::Lines,
        };
        Self {
            mode,
            title,
            orders,
            watch: Stopwatch::start(),
            shown: false,
            lines_drawn: 0,
            next: Duration::ZERO,
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Shows where the shop stands, if it is time to.
    pub(super) fn show(&mut self, shop: &Shop) -> io::Result<()> {
        let pause = match self.mode {
            Mode::Silent => return Ok(()),
            Mode::Table => FRAME,
            Mode::Lines => LINE,
        };
        if self.elapsed() < self.next {
            return Ok(());
        }
        let is_first = !self.shown;
        self.shown = true;
        self.next = self.elapsed() + pause;
        if let Mode::Table = self.mode {
            let frame = self.frame(shop);
            return self.draw(&frame);
        }
        let mut out = io::stdout().lock();
        if is_first {
            writeln!(out, "{}\n", self.title.join("\n"))?;
        }
        let tally = Tally::of(&shop.ledger.book());
        writeln!(
            out,
            "{:>5.1} s  {} of {} placed, {} wait, {} paid, {} cancelled",
            self.elapsed().as_secs_f64(),
            count(tally.placed),
            count(self.orders),
            count(tally.waiting),
            count(tally.paid),
            count(tally.cancelled),
        )
    }

    /// Makes room for what comes last: of the table only its title stays.
    pub(super) fn end(&mut self) -> io::Result<()> {
        match self.mode {
            Mode::Silent => Ok(()),
            Mode::Table => {
                let mut title = self.title.clone();
                title.push(String::new());
                self.draw(&title)
            }
            Mode::Lines => writeln!(io::stdout().lock()),
        }
    }

    fn frame(&self, shop: &Shop) -> Vec<String> {
        let tally = Tally::of(&shop.ledger.book());
        let lateness = shop.lateness();
        let collisions = shop.collisions.load(Ordering::Relaxed);
        let mut frame = self.title.clone();
        frame.extend([
            String::new(),
            format!(
                "  placed {:>6} of {}  {}",
                count(tally.placed),
                count(self.orders),
                gauge(tally.placed, self.orders, 36)
            ),
            format!(
                "  waiting {:>5}    paid {:>5}    cancelled {:>5}    payments refunded {:>4}",
                count(tally.waiting),
                count(tally.paid),
                count(tally.cancelled),
                count(tally.refunds)
            ),
            String::new(),
            format!(
                "  cancelled after the due by     p50 {}   p99 {}   max {}",
                ms(lateness.at(0.5)),
                ms(lateness.at(0.99)),
                ms(lateness.max())
            ),
        ]);
        frame.extend(lateness.bars(30).into_iter().map(|bar| format!("  {bar}")));
        frame.push(String::new());
        frame.push(format!(
            "  {:>4.1} s   payments that met a running cancellation: {collisions}",
            self.elapsed().as_secs_f64()
        ));
        frame.push("  kill -9 me and start me again: nothing is lost".into());
        frame
    }

    fn draw(&mut self, frame: &[String]) -> io::Result<()> {
        let mut text = String::new();
        if self.lines_drawn > 0 {
            text += &format!("\u{1b}[{}A\r\u{1b}[J", self.lines_drawn);
        }
        for line in frame {
            // A line that wraps would be two, and the next frame would miss one.
            text += &cut(line, usize::from(width()));
            text.push('\n');
        }
        self.lines_drawn = frame.len();
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

fn gauge(done: u64, all: u64, cells: u64) -> String {
    let full = done * cells / all.max(1);
    "█".repeat(full as usize) + &"░".repeat((cells - full) as usize)
}
