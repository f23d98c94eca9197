//! Runs the conformance suite on the embedded engine.

use crate::harness::Forgetful;

punctual::conformance::suite!(Forgetful, durable, by topic);
