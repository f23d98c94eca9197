use punctual::conformance::{Histories, check_histories};

use crate::harness::OnServer;

#[test]
fn redis_engine_agrees_with_the_model() {
    let histories = Histories {
        seeds: 0..30,
        namespaces: 1,
        ..Histories::default()
    };
    check_histories(OnServer::default(), histories.or_from_env());
}
