//! Every pattern loses or doubles messages as it says, and the same work on Punctual does not.

use futures_util::future::join_all;
use patterns::Pattern;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_pattern_fails_as_it_says_and_punctual_does_not() {
    let mut patterns = Pattern::all(100);
    assert_eq!(patterns.len(), 14);
    patterns.retain(|pattern| !pattern.needs_broker());
    let outcomes = join_all(patterns.iter().map(Pattern::run)).await;
    for (pattern, outcome) in patterns.iter().zip(outcomes) {
        let (by_hand, ours) = (outcome.by_hand, outcome.ours);
        let doubles = [
            "reliable list",
            "pending list, doing hash, scan",
            "zset polled by workers",
            "cron scan of a table",
        ];
        match pattern.name {
            // It removes 200 of 50,000 keys a second, and so publishes few of these in time.
            "key expiry" => assert!(
                by_hand.lost > pattern.work.messages / 2 || by_hand.late_p99_ms > 5_000,
                "{pattern:?} {by_hand:?}"
            ),
            name if doubles.contains(&name) => {
                assert!(by_hand.doubled > 0, "{pattern:?} {by_hand:?}")
            }
            _ => assert!(by_hand.lost > 0, "{pattern:?} {by_hand:?}"),
        }
        // Done and not yet settled when its worker dies: a job runs at least once.
        let doubled_most = pattern.work.deaths();
        assert!(
            ours.lost == 0 && ours.doubled <= doubled_most,
            "{pattern:?} {ours:?}"
        );
    }
}

/// What needs a broker: `scripts/test-relay` starts one.
mod servers {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_time_to_live_per_message_makes_short_delays_wait() {
        let broker = patterns::broker();
        broker.expect("PUNCTUAL_AMQP is not set; run scripts/test-relay, which starts the server");
        let mut patterns = Pattern::all(100);
        patterns.retain(Pattern::needs_broker);
        let outcome = patterns[0].run().await;
        println!("{outcome:?}");
        let (by_hand, ours) = (outcome.by_hand, outcome.ours);
        assert_eq!((by_hand.lost, ours.lost, ours.doubled), (0, 0, 0));
        // The first one in the queue is due last, and holds back all others.
        assert!(by_hand.late_p99_ms > 1_000, "{by_hand:?}");
    }
}
