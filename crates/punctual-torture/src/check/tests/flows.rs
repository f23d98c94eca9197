//! Tests of the checker: flows.

use punctual::JobState;
use punctual::flow::{On, OnFailure};

use crate::call_log::Account;
use crate::check::{Case, flows};
use crate::event::{Event, Line};
use crate::flows::{Does, FlowPlan, Place, SeenFlow, StepPlan};
use crate::snapshot::{Seen, Snapshot};

const NOTHING: [&str; 0] = [];

/// A flow of two steps, one after the other, that came to its end.
struct Scenario {
    on: On,
    lines: Vec<Line>,
    snapshot: Snapshot,
}

fn place(step: Option<usize>) -> Place {
    let flow = "f".into();
    Place { flow, step }
}

const JOBS: [Option<usize>; 3] = [Some(0), Some(1), None];

impl Scenario {
    fn new(on: On) -> Self {
        let mut scenario = Self {
            on,
            lines: Vec::new(),
            snapshot: Snapshot::default(),
        };
        let seen = SeenFlow {
            state: "done".into(),
            fired: vec![true],
            differs: None,
        };
        scenario.snapshot.flows.insert("f".into(), seen);
        for (nth, step) in JOBS.into_iter().enumerate() {
            scenario.runs(step, 10 * nth as u64, 1, true);
            scenario.ends_as(step, JobState::Completed);
        }
        scenario
    }

    fn ends_as(&mut self, step: Option<usize>, state: JobState) {
        let seen = Seen {
            state,
            poison: false,
            attempt: None,
        };
        self.snapshot.jobs.insert(place(step).id(), seen);
    }

    fn says(&mut self, at: u64, event: Event) {
        self.lines.push(Line { at, event });
    }

    fn runs(&mut self, step: Option<usize>, at: u64, attempt: u32, completes: bool) {
        let place = place(step);
        let start = Event::StepStart {
            place: place.clone(),
            attempt,
        };
        self.says(at, start);
        let finish = Event::StepFinish {
            place,
            attempt,
            completes,
        };
        self.says(at + 5, finish);
    }

    fn flow(&mut self) -> &mut SeenFlow {
        self.snapshot.flows.get_mut("f").expect("it is seen")
    }

    /// The invariants that it breaks.
    fn broken(self) -> Vec<String> {
        let step = |after| StepPlan {
            after,
            does: Does::Completes,
        };
        let plan = FlowPlan {
            name: "f".into(),
            on_failure: OnFailure::CancelDependants,
            steps: vec![step(vec![]), step(vec![(0, self.on)])],
        };
        let sent = [
            Event::FlowInvoke { plan },
            Event::FlowOk { flow: "f".into() },
        ];
        let sent = sent.into_iter().map(|event| Line { at: 0, event });
        let account = Account {
            process: "worker".into(),
            lines: sent.chain(self.lines).collect(),
        };
        let verdicts = flows::judge(&Case::new(vec![account], self.snapshot));
        assert!(verdicts.iter().all(|verdict| verdict.checked > 0));
        let broken = verdicts.iter().filter(|verdict| !verdict.holds());
        broken.map(|verdict| verdict.name[..2].to_owned()).collect()
    }
}

#[test]
fn a_flow_that_came_to_its_end_breaks_nothing() {
    assert_eq!(Scenario::new(On::Completed).broken(), NOTHING);
    assert_eq!(Scenario::new(On::Settled).broken(), NOTHING);
}

#[test]
fn a_flow_that_goes_on_in_the_end_is_found() {
    for state in ["running", "open"] {
        let mut scenario = Scenario::new(On::Completed);
        scenario.flow().state = state.into();
        assert_eq!(scenario.broken(), ["G1"], "{state}");
    }
}

#[test]
fn a_flow_that_is_gone_or_counted_wrongly_is_found() {
    let mut scenario = Scenario::new(On::Completed);
    scenario.flow().differs = Some("2 open".into());
    assert_eq!(scenario.broken(), ["G1"]);
    let nothing = flows::judge(&Case::new(Vec::new(), Snapshot::default()));
    assert!(!nothing[0].holds(), "no flow was sent");
}

#[test]
fn a_callback_that_is_not_released_or_runs_twice_is_found() {
    let mut scenario = Scenario::new(On::Completed);
    scenario.flow().fired = vec![false];
    assert_eq!(scenario.broken(), ["G2"]);
    let mut scenario = Scenario::new(On::Completed);
    scenario.ends_as(None, JobState::Held);
    assert_eq!(scenario.broken(), ["G2"]);
    let mut scenario = Scenario::new(On::Completed);
    scenario.runs(None, 40, 1, true);
    assert_eq!(scenario.broken(), ["G2"]);
    // A worker that is killed in it is no second release.
    let mut scenario = Scenario::new(On::Completed);
    scenario.runs(None, 40, 2, true);
    assert_eq!(scenario.broken(), NOTHING);
}

#[test]
fn a_step_that_runs_after_the_callback_is_found() {
    let mut scenario = Scenario::new(On::Completed);
    scenario.runs(Some(1), 30, 2, true);
    assert_eq!(scenario.broken(), ["G2"]);
}

#[test]
fn a_step_that_does_not_wait_is_found() {
    // The one before it runs once more.
    let mut scenario = Scenario::new(On::Settled);
    scenario.runs(Some(0), 15, 2, true);
    assert_eq!(scenario.broken(), ["G3"]);
    // It waits for a failure, and there was none.
    assert_eq!(Scenario::new(On::Failed).broken(), ["G3"]);
    // It begins before the other one completes.
    let mut scenario = Scenario::new(On::Completed);
    for line in &mut scenario.lines {
        if let Event::StepFinish {
            place: Place { step: Some(0), .. },
            ..
        } = line.event
        {
            line.at = 12;
        }
    }
    assert_eq!(scenario.broken(), ["G3"]);
}
