//! Every line arrives once, or twice if an answer was lost; never more than a job keeps.

use super::*;

#[test]
fn lines_go_once_unless_a_heartbeat_is_lost() {
    let mut log = Unsent::default();
    log.add("a\nb");
    assert_eq!(log.send(), ["a", "b"]);
    log.add("c");
    assert_eq!(log.send(), [""; 0], "one heartbeat is on its way");
    log.arrived();
    assert_eq!(log.send(), ["c"]);
    log.repeat();
    log.add("d");
    assert_eq!(log.send(), ["c", "d"]);
    assert_eq!(log.take(), ["c", "d"], "it is unknown whether they arrived");
    assert_eq!(log.take(), [""; 0]);
}

#[test]
fn the_oldest_lines_give_way() {
    let mut log = Unsent::default();
    for nth in 0..LOG_LINES_KEPT + 5 {
        log.add(&nth.to_string());
    }
    let sent = log.send();
    assert_eq!((sent.len(), sent[0].as_str()), (LOG_LINES_KEPT, "5"));
    log.add(&"\u{e4}".repeat(LOG_BYTES_KEPT));
    log.arrived();
    let left = log.take();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].len(), LOG_BYTES_KEPT);
}
