//! Tests of the checker: processes that end.

use super::scenario::{CLAIMED, JOB, MS, Scenario};
use crate::event::Event;

const NOTHING: [&str; 0] = [];

fn ended(how: &str) -> Scenario {
    let mut scenario = Scenario::one_job();
    scenario.says_ended("gateway.3", how);
    scenario
}

impl Scenario {
    fn says_ended(&mut self, process: &str, how: &str) {
        let (process, how) = (process.to_owned(), how.to_owned());
        self.say("nemesis", CLAIMED + 20 * MS, Event::Ended { process, how });
    }
}

#[test]
fn a_process_that_ends_by_itself_is_found() {
    for how in [
        "signal: 6 (SIGABRT) (core dumped)",
        "exit status: 101",
        "exit status: 0",
        "exit status: 5",
    ] {
        assert_eq!(ended(how).broken(), ["E"], "{how}");
    }
}

#[test]
fn a_caller_that_begins_anew_after_a_loss_ends_as_reported() {
    let mut scenario = ended("exit status: 5");
    scenario.may_lose = true;
    assert_eq!(scenario.broken(), NOTHING);
    assert_eq!(scenario.checked("E"), 1);
}

#[test]
fn a_process_that_is_asked_to_end_or_cannot_begin_claimed_nothing() {
    for how in ["signal: 15 (SIGTERM)", "exit status: 2"] {
        assert_eq!(ended(how).broken(), NOTHING);
        let mut scenario = Scenario::one_job();
        scenario.says_ended("worker", how);
        assert_eq!(scenario.broken(), ["E"]);
    }
}

#[test]
fn a_relay_says_that_its_engine_was_away_and_no_other_end_is_allowed() {
    for (how, wanted) in [
        ("signal: 15 (SIGTERM)", &NOTHING[..]),
        ("exit status: 5", &NOTHING),
        ("exit status: 2", &["E"]),
        ("exit status: 1", &["E"]),
    ] {
        let mut scenario = Scenario::one_job();
        scenario.says_ended("relay-list-0.3", how);
        assert_eq!(scenario.broken(), wanted, "{how}");
    }
}

#[test]
fn a_handler_ends_its_own_process_and_no_other() {
    let mut scenario = Scenario::a_crash();
    let abort = Event::Abort {
        id: JOB,
        attempt: 1,
    };
    scenario.say("worker", CLAIMED + 2 * MS, abort);
    scenario.says_ended("worker", "signal: 6 (SIGABRT)");
    assert_eq!(scenario.broken(), NOTHING);
    scenario.says_ended("worker", "signal: 11 (SIGSEGV)");
    assert_eq!(scenario.broken(), ["E"]);
    let mut scenario = ended("signal: 6 (SIGABRT)");
    let abort = Event::Abort {
        id: JOB,
        attempt: 1,
    };
    scenario.say("worker", CLAIMED + 2 * MS, abort);
    assert_eq!(scenario.broken(), ["E"]);
}
