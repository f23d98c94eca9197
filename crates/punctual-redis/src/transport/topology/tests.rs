//! Unit tests of `topology`.

use super::*;

#[test]
fn a_slot_is_as_the_cluster_specification_says() {
    assert_eq!(Slot::of_tag("123456789"), Slot(0x31c3));
    assert_eq!(Slot::of_tag("foo"), Slot(12_182));
}

fn host(port: u16) -> Host {
    let name = "h".into();
    Host { name, port }
}

fn range(first: u16, last: u16, port: u16) -> Range {
    let host = host(port);
    Range { first, last, host }
}

#[test]
fn a_moved_slot_is_asked_of_its_new_node() {
    let mut topology = Topology::of(&Place::Cluster(vec![host(1)]));
    assert_eq!(topology.owner(Slot(5)), None);
    topology.learn(vec![range(0, 8_191, 1), range(8_192, 16_383, 2)]);
    topology.moved(Slot(5), host(2));
    assert_eq!(topology.owner(Slot(5)), Some(host(2)));
    assert_eq!(topology.owner(Slot(6)), Some(host(1)));
}

#[test]
fn a_failed_node_puts_what_it_answers_for_in_doubt_and_nothing_else() {
    let mut topology = Topology::of(&Place::Cluster(vec![host(1)]));
    topology.learn(vec![range(0, 8_191, 1), range(8_192, 16_383, 2)]);
    topology.doubt(&host(9));
    assert!(topology.is_complete(), "an outsider");
    topology.doubt(&host(1));
    assert!(!topology.is_complete());
    assert_eq!(topology.owner(Slot(5)), None);
    assert_eq!(topology.owner(Slot(9_000)), Some(host(2)));
    topology.learn(vec![range(0, 16_383, 1)]);
    assert_eq!(topology.owner(Slot(5)), Some(host(1)), "asked since");
}

#[test]
fn one_server_answers_for_all_whatever_happens() {
    let mut topology = Topology::of(&Place::Standalone(host(1)));
    topology.doubt(&host(1));
    topology.moved(Slot(5), host(2));
    assert_eq!(topology.owner(Slot(5)), Some(host(1)));
}
