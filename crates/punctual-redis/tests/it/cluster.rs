use punctual::conformance::{LAWS, first_broken};

use crate::harness::OnCluster;

#[test]
fn every_law_holds_on_a_cluster() {
    let broken = first_broken(LAWS, OnCluster::default());
    assert!(broken.is_none(), "{}", broken.expect("it is some"));
}
