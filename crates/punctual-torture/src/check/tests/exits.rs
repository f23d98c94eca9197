//! Tests of the checker: processes that end.

use super::told::{CLAIMED, JOB, MS, Told};
use crate::event::Event;

const NOTHING: [&str; 0] = [];

fn ended(how: &str) -> Told {
    let mut told = Told::one_job();
    told.says_ended("gateway.3", how);
    told
}

impl Told {
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
fn who_begins_anew_where_something_may_be_lost_ends_as_told() {
    let mut told = ended("exit status: 5");
    told.may_lose = true;
    assert_eq!(told.broken(), NOTHING);
    assert_eq!(told.looked_at("E"), 1);
}

#[test]
fn who_is_asked_to_end_or_cannot_begin_has_claimed_nothing() {
    for how in ["signal: 15 (SIGTERM)", "exit status: 2"] {
        assert_eq!(ended(how).broken(), NOTHING);
        let mut told = Told::one_job();
        told.says_ended("worker", how);
        assert_eq!(told.broken(), ["E"]);
    }
}

#[test]
fn a_handler_ends_its_own_process_and_no_other() {
    let mut told = Told::a_crash();
    let abort = Event::Abort {
        id: JOB,
        attempt: 1,
    };
    told.say("worker", CLAIMED + 2 * MS, abort);
    told.says_ended("worker", "signal: 6 (SIGABRT)");
    assert_eq!(told.broken(), NOTHING);
    told.says_ended("worker", "signal: 11 (SIGSEGV)");
    assert_eq!(told.broken(), ["E"]);
    let mut told = ended("signal: 6 (SIGABRT)");
    let abort = Event::Abort {
        id: JOB,
        attempt: 1,
    };
    told.say("worker", CLAIMED + 2 * MS, abort);
    assert_eq!(told.broken(), ["E"]);
}
