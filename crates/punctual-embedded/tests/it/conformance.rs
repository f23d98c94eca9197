use crate::harness::Forgetful;

punctual::conformance::suite!(Forgetful, durable);
