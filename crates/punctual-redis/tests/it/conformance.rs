use crate::harness::OnServer;

punctual::conformance::suite!(OnServer::default());
