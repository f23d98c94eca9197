//! Tests of how long flows stand still.

use punctual::time::{minutes, seconds};

use super::*;

#[test]
fn a_flow_stands_still_from_its_last_change_on() {
    let (seen, space) = (FlowsSeen::default(), Namespace::default());
    let start = Timestamp::from_millis(1_000_000);
    let mut flow = FlowStatus::new("a", start);
    flow.state = FlowState::Running;
    (flow.counts.steps, flow.counts.open) = (2, 1);
    let still =
        |flow: &FlowStatus, after| seen.still(&space, std::slice::from_ref(flow), start + after);
    assert_eq!(still(&flow, seconds(0)), seconds(0));
    assert_eq!(still(&flow, minutes(5)), minutes(5));
    flow.changes += 1;
    assert_eq!(still(&flow, minutes(6)), seconds(0));
    assert_eq!(still(&flow, minutes(7)), minutes(1));
    flow.state = FlowState::Done;
    assert_eq!(still(&flow, minutes(9)), seconds(0));
    // One that never moved since it was sealed, before this process began.
    let mut stuck = FlowStatus::new("b", start);
    stuck.state = FlowState::Running;
    stuck.sealed_at = Some(start);
    (stuck.counts.steps, stuck.counts.open) = (1, 1);
    assert_eq!(still(&stuck, minutes(10)), minutes(10));
}
