//! Unit tests of `log_throttle`.

use punctual::time::{ManualClock, Timestamp, seconds};
use tokio::task::yield_now;

use super::*;
use crate::log::Log;

/// The only line that is logged next.
async fn line(log: &Log) -> String {
    loop {
        let mut lines = log.lines();
        assert!(lines.len() <= 1, "{lines:?}");
        match lines.pop() {
            Some(line) => return line,
            None => yield_now().await,
        }
    }
}

#[tokio::test]
async fn of_an_episode_the_first_is_logged_then_a_count_and_its_end() {
    let log = Log::default();
    let _keeps = log.keep();
    let clock = ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000));
    let log_throttle = LogThrottle::by(Arc::new(clock.clone()));
    let fail = |code: &str, times: usize| {
        let away = "no answer from the first server";
        let reported = (0..times)
            .filter(|_| log_throttle.is_first(code, away))
            .count();
        assert!(reported <= 1);
        reported == 1
    };
    let pass = async |span| {
        // The task that follows the episode sleeps.
        while clock.next_sleeper().is_none() {
            yield_now().await;
        }
        clock.advance(seconds(span));
    };
    assert!(fail("engine_full", 5_000));
    assert!(!fail("engine_full", 1));
    pass(60).await;
    let reported = line(&log).await;
    let counted = reported.starts_with("ERROR") && reported.contains("requests=5000");
    assert!(counted && reported.contains("engine_full"), "{reported}");
    assert!(
        reported.contains("no answer from the first server"),
        "{reported}"
    );

    assert!(!fail("engine_full", 7));
    pass(60).await;
    assert!(line(&log).await.contains("requests=7"));
    // A quiet minute ends it, and says how many there were in all.
    pass(60).await;
    let reported = line(&log).await;
    let counted = reported.starts_with("WARN") && reported.contains("requests=5008");
    assert!(
        counted && reported.contains("no request has failed"),
        "{reported}"
    );
    assert_eq!(clock.next_sleeper(), None, "no episode follows it any more");

    assert!(
        fail("engine_full", 1),
        "the next one begins another episode"
    );
    assert!(fail("engine_unavailable", 3), "each code has its own");
}

#[tokio::test]
async fn each_cause_of_a_code_is_logged_and_too_many_share_one_episode() {
    let log_throttle = LogThrottle::default();
    let away = |cause: &str| log_throttle.is_first("engine_unavailable", cause);
    assert!(away("the first server is gone"));
    assert!(away("the second server is gone"));
    assert!(!away("the first server is gone") && !away("the first server is gone"));
    let reported = (0..10_000)
        .filter(|nth| away(&format!("cause {nth}")))
        .count();
    assert_eq!(
        reported,
        CAUSES_MAX - 2 + 1,
        "the last one stands for the others"
    );
    assert!(
        log_throttle.is_first("engine_full", "the disk"),
        "of another code"
    );
    assert_eq!(log_throttle.open.lock().len(), CAUSES_MAX + 2);
    assert!(
        !away("the second server is gone"),
        "what is known is counted on"
    );
    let long = "x".repeat(10_000);
    let log_throttle = LogThrottle::default();
    assert!(
        log_throttle.is_first("engine_full", &long) && !log_throttle.is_first("engine_full", &long)
    );
    let kept = log_throttle.open.lock();
    assert!(
        kept.keys()
            .all(|reason| reason.cause.len() == CAUSE_CHARS_MAX)
    );
    drop(kept);
}
