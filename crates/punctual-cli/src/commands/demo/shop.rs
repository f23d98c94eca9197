//! The shop: places orders, takes payments, cancels what stays unpaid.
//!
//! Each order has one job, its cancellation, with the order as unique key. A payment cancels that
//! job by the key; whether payment or cancellation came first is what the queue says, not a clock
//! of the shop. The ledger lies outside of the queue, so a kill can fall between the two: every
//! step can be taken again and reads the ledger first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use punctual::engine::EditVerdict;
use punctual::sync::Lock;
use punctual::time::{Clock, SystemClock, Timestamp, hours, seconds};
use punctual::worker::State;
use punctual::{Context, Job, JobId, Outcome, Queue};
use serde::{Deserialize, Serialize};

use super::ledger::{Entry, Ledger, Written};
use super::orders::Order;
use crate::output::Histogram;

/// The job: cancel an order that was not paid in time.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CancelUnpaid {
    order: u64,
}

impl Job for CancelUnpaid {
    const KIND: &str = "orders.cancel_unpaid";
    const QUEUE: &str = "orders";
}

/// The handler: writes the cancellation, unless a payment stopped it before it began.
pub(super) async fn cancel_unpaid(
    job: CancelUnpaid,
    ctx: Context,
    State(shop): State<Arc<Shop>>,
) -> punctual::Result<Outcome> {
    if ctx.is_cancelled() {
        return Ok(Outcome::Cancelled);
    }
    let at = ctx.started_at();
    shop.saw_lateness(ctx.job().due, at);
    let order = job.order;
    shop.ledger.write(Entry::Cancelled { order, at }).await?;
    Ok(Outcome::Completed)
}

pub(super) struct Shop {
    pub(super) ledger: Ledger,
    queue: Queue,
    /// Seconds of the input that pass in one second here.
    speed: f64,
    /// When this run began to serve, in microseconds.
    opened_us: AtomicU64,
    lateness: Mutex<Histogram>,
    /// Payments that met a cancellation under way.
    pub(super) collisions: AtomicU64,
}

impl Shop {
    pub(super) fn new(queue: Queue, ledger: Ledger, speed: f64) -> Self {
        Self {
            ledger,
            queue,
            speed,
            opened_us: AtomicU64::new(0),
            lateness: Mutex::new(Histogram::new()),
            collisions: AtomicU64::new(0),
        }
    }

    /// Delivers the payments that came in time while nothing ran, before any cancellation starts.
    pub(super) async fn catch_up(&self, orders: &[Order]) -> punctual::Result<()> {
        let now = SystemClock.now();
        let mut overdue = Vec::new();
        for order in orders {
            let Some((placed_at, _)) = self.ledger.account(order.number).placed else {
                continue;
            };
            for (payment, after) in (1..).zip(&order.payments) {
                if *after < order.pay_within && placed_at + self.compress(*after) <= now {
                    overdue.push(self.pay(order.number, payment));
                }
            }
        }
        let mut paying = stream::iter(overdue).buffer_unordered(64);
        while let Some(paid) = paying.next().await {
            paid?;
        }
        Ok(())
    }

    /// Cancellations may start from now on.
    pub(super) fn open(&self) -> Timestamp {
        let now = SystemClock.now();
        self.opened_us.store(now.as_micros(), Ordering::Relaxed);
        now
    }

    /// One order from its creation to its last payment. What an earlier run did is not done again.
    pub(super) async fn live(&self, order: &Order, origin: Timestamp) -> punctual::Result<()> {
        let placed_at = match self.ledger.account(order.number).placed {
            Some((at, _)) => at,
            None => {
                SystemClock
                    .sleep_until(origin + self.compress(order.created))
                    .await;
                self.place(order).await?
            }
        };
        for (payment, after) in (1..).zip(&order.payments) {
            SystemClock
                .sleep_until(placed_at + self.compress(*after))
                .await;
            self.pay(order.number, payment).await?;
        }
        Ok(())
    }

    async fn place(&self, order: &Order) -> punctual::Result<Timestamp> {
        let order_number = order.number;
        let receipt = self
            .queue
            .enqueue(CancelUnpaid {
                order: order_number,
            })
            .id(job_id(order_number))
            .unique(key(order_number))
            .delay(self.compress(order.pay_within))
            .retention(hours(1))
            .await?;
        let at = SystemClock.now();
        let placed = Entry::Placed {
            order: order_number,
            at,
            due: receipt.due,
        };
        self.ledger.write(placed).await?;
        Ok(at)
    }

    /// Takes a payment, or sends it back if the order is cancelled or paid.
    async fn pay(&self, order: u64, payment: usize) -> punctual::Result<()> {
        let account = self.ledger.account(order);
        let delivered_before = account.paid.is_some_and(|(by, _)| by == payment)
            || account.refunded.contains(&payment);
        if delivered_before {
            return Ok(());
        }
        let at = SystemClock.now();
        if !account.is_final() && self.stop_cancellation(order).await? {
            let paid = Entry::Paid { order, payment, at };
            if self.ledger.write(paid).await? == Written::New {
                return Ok(());
            }
        }
        self.ledger
            .write(Entry::Refunded { order, payment, at })
            .await?;
        Ok(())
    }

    /// Cancels the cancellation by its unique key; whether the payment came first.
    async fn stop_cancellation(&self, order: u64) -> punctual::Result<bool> {
        let key = key(order);
        match self.queue.cancel((CancelUnpaid::QUEUE, &*key)).await? {
            EditVerdict::Done(_) => return Ok(true),
            EditVerdict::CancelRequested => {
                self.collisions.fetch_add(1, Ordering::Relaxed);
                self.queue.wait_settled(job_id(order), seconds(60)).await?;
            }
            _ => {}
        }
        // Settled: by an earlier delivery of this payment, or by the cancellation that won.
        let got = self.queue.get(job_id(order)).await?;
        Ok(got.is_some_and(|got| got.state() == punctual::JobState::Cancelled))
    }

    fn compress(&self, span: Duration) -> Duration {
        span.div_f64(self.speed)
    }

    /// For the screen; the reconciliation reads the ledger instead.
    fn saw_lateness(&self, due: Timestamp, started: Timestamp) {
        if due.as_micros() >= self.opened_us.load(Ordering::Relaxed) {
            let micros = (started - due).as_micros() as u64;
            self.lateness().record(micros);
        }
    }

    pub(super) fn lateness(&self) -> MutexGuard<'_, Histogram> {
        self.lateness.locked()
    }
}

fn key(order: u64) -> String {
    format!("order:{order}")
}

/// The same id on every run: an order placed twice is a duplicate.
fn job_id(order: u64) -> JobId {
    JobId::derived("punctual demo", &key(order))
}
