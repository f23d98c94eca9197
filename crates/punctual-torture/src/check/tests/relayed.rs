//! Tests of the checker: messages that come in by relays.

use punctual::{JobId, JobState};

use crate::call_log::Account;
use crate::check::{Case, relayed};
use crate::event::{Event, Line};
use crate::relayed::{QUEUE, SeenMessage, SeenRelayed, System, name_of};
use crate::snapshot::Snapshot;

const NOTHING: [&str; 0] = [];
const WALL: u64 = 1_000_000_000;
const DUE: u64 = WALL + 500;

/// A round in which all went as it should.
struct Scenario {
    lines: Vec<Line>,
    seen: SeenRelayed,
}

fn name(number: u64) -> String {
    name_of("round-000", "producer-0.0", System::Zset, number)
}

fn job(number: u8) -> JobId {
    JobId::from_bytes([number; 16])
}

impl Scenario {
    fn new() -> Self {
        let mut scenario = Self {
            lines: Vec::new(),
            seen: SeenRelayed::default(),
        };
        scenario.sends(1, false);
        scenario.accepts(1);
        scenario.starts(job(1), 1, DUE);
        scenario.sends(2, true);
        scenario.accepts(2);
        scenario.sees(2, "relay.zset.refused", JobState::Dead);
        scenario
    }

    fn says(&mut self, event: Event) {
        let at = self.lines.len() as u64;
        self.lines.push(Line { at, event });
    }

    fn sends(&mut self, number: u64, is_bad: bool) {
        self.says(Event::MessageSend {
            name: name(number),
            system: System::Zset,
            is_bad,
            due: Some(DUE),
        });
    }

    fn accepts(&mut self, number: u64) {
        self.says(Event::MessageOk { name: name(number) });
    }

    fn starts(&mut self, id: JobId, number: u64, started: u64) {
        self.says(Event::MessageStart {
            id,
            attempt: 1,
            name: name(number),
            due: DUE,
            enqueued: WALL + 10,
            started,
            wall: started,
        });
    }

    fn sees(&mut self, number: u64, queue: &str, state: JobState) {
        self.seen.jobs.push(SeenMessage {
            id: job(100 + number as u8),
            queue: queue.into(),
            state,
            name: Some(name(number)),
        });
    }

    /// The numbers of verdicts that are broken, and what was counted.
    fn judged(self) -> (Vec<String>, relayed::RelayTally) {
        let account = Account {
            process: "producer-0.0".into(),
            lines: self.lines,
        };
        let snapshot = Snapshot {
            relayed: Some(self.seen),
            ..Snapshot::default()
        };
        let case = Case::new(vec![account], snapshot);
        let (verdicts, tally) = relayed::judge(&case);
        let broken = verdicts.iter().filter(|verdict| !verdict.holds());
        (broken.map(|one| one.name[..2].to_owned()).collect(), tally)
    }

    fn broken(self) -> Vec<String> {
        self.judged().0
    }
}

#[test]
fn messages_that_became_one_job_or_are_in_quarantine_break_nothing() {
    let (broken, tally) = Scenario::new().judged();
    assert_eq!(broken, NOTHING);
    assert_eq!((tally.sent, tally.arrived, tally.refused), (1, 1, 1));
    assert_eq!((tally.lost, tally.doubled, tally.early), (0, 0, 0));
}

#[test]
fn a_message_without_a_job_is_lost_if_its_system_accepted_it() {
    let mut scenario = Scenario::new();
    scenario.sends(3, false);
    scenario.accepts(3);
    let (broken, tally) = scenario.judged();
    assert_eq!((broken, tally.lost), (vec!["R1".to_owned()], 1));
    let mut unknown = Scenario::new();
    unknown.sends(3, false);
    assert_eq!(unknown.broken(), NOTHING);
    let mut there = Scenario::new();
    there.sends(3, false);
    there.accepts(3);
    there.sees(3, QUEUE, JobState::Dead);
    assert_eq!(there.broken(), NOTHING);
}

#[test]
fn a_second_job_of_a_message_is_found_and_a_second_attempt_is_none() {
    let mut scenario = Scenario::new();
    scenario.starts(job(1), 1, DUE + 5);
    assert_eq!(scenario.broken(), NOTHING);
    let mut scenario = Scenario::new();
    scenario.starts(job(9), 1, DUE + 5);
    let (broken, tally) = scenario.judged();
    assert_eq!((broken, tally.doubled), (vec!["R2".to_owned()], 1));
}

#[test]
fn a_job_of_what_was_rolled_back_or_never_sent_is_found() {
    let mut scenario = Scenario::new();
    scenario.sends(3, false);
    scenario.says(Event::MessageNone { name: name(3) });
    assert_eq!(scenario.broken(), NOTHING);
    let mut scenario = Scenario::new();
    scenario.sends(3, false);
    scenario.says(Event::MessageNone { name: name(3) });
    scenario.starts(job(3), 3, DUE);
    assert_eq!(scenario.broken(), ["R2"]);
    let mut scenario = Scenario::new();
    scenario.starts(job(3), 3, DUE);
    assert_eq!(scenario.broken(), ["R2"]);
}

#[test]
fn a_start_before_the_instant_that_was_named_is_early() {
    let mut scenario = Scenario::new();
    scenario.starts(job(1), 1, DUE - 1);
    let (broken, tally) = scenario.judged();
    assert_eq!((broken, tally.early), (vec!["R3".to_owned()], 1));
}

#[test]
fn refused_messages_are_in_quarantine_once_and_no_other_is() {
    let mut scenario = Scenario::new();
    scenario.sends(3, true);
    scenario.accepts(3);
    assert_eq!(scenario.broken(), ["R4"], "it is gone");
    let mut scenario = Scenario::new();
    scenario.sees(2, "relay.zset.refused", JobState::Dead);
    assert_eq!(scenario.broken(), ["R4"], "it is there twice");
    let mut scenario = Scenario::new();
    scenario.sees(1, "relay.zset.refused", JobState::Dead);
    assert_eq!(scenario.broken(), ["R4"], "it was a job");
    let mut scenario = Scenario::new();
    scenario.starts(job(2), 2, DUE);
    assert_eq!(scenario.broken(), ["R4"], "it ran");
    let mut scenario = Scenario::new();
    scenario.seen.jobs[0].queue = "relay.list.refused".into();
    assert_eq!(scenario.broken(), ["R4"], "it is in that of another");
    let mut row = Scenario::new();
    row.seen.jobs.clear();
    row.seen.refused_rows.push(name(2));
    assert_eq!(row.broken(), NOTHING);
}
