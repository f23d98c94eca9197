//! Writes `examples/orders/orders.jsonl`, the input of `punctual demo`: the same bytes each time.
//!
//! ```text
//! cargo run -p punctual-cli --example orders > examples/orders/orders.jsonl
//! ```

use std::time::Duration;

use punctual::time::{Timestamp, millis, minutes, seconds};

const ORDERS: u64 = 3_000;

fn main() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    // Fifty minutes of a Friday evening, about one order a second.
    let mut created: Timestamp = "2026-11-20T18:00:00Z".parse().expect("an instant");
    for order in 1..=ORDERS {
        created = created + millis(dice.below(2_000));
        let pay_within = minutes(if dice.below(3) == 0 { 15 } else { 30 });
        let payments: Vec<String> = pay_after(&mut dice, pay_within)
            .iter()
            .map(|after| format!("\"{}\"", created + *after))
            .collect();
        println!(
            r#"{{"order":{order},"created_at":"{created}","pay_within":"{}m","cents":{},"payments":[{}]}}"#,
            pay_within.as_secs() / 60,
            500 + dice.below(20_000),
            payments.join(",")
        );
    }
}

/// How long after the order the customer pays: never, in time, twice, too late, or around the very
/// second in which the order is due to be cancelled.
fn pay_after(dice: &mut Dice, pay_within: Duration) -> Vec<Duration> {
    let customer = dice.below(100);
    let in_time = pay_within / 1_000 * (20 + dice.below(930)) as u32;
    match customer {
        0..26 => vec![],
        26..76 => vec![in_time],
        76..84 => vec![in_time, in_time + seconds(2 + dice.below(600))],
        84..91 => vec![pay_within + seconds(10 + dice.below(300))],
        _ => vec![pay_within - seconds(1) + millis(dice.below(2_000))],
    }
}

/// Marsaglia's xorshift generator, 64 bits: the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
