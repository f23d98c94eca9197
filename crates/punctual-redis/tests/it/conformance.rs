//! The engine keeps the law on one server.

use crate::harness::OnServer;

punctual::conformance::suite!(OnServer::default(), by topic);

/// So no law is passed over for want of what it needs.
#[test]
fn every_capability_is_claimed() {
    crate::harness::claims_all(&OnServer::default());
}
