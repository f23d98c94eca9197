use crate::harness::InDirectory;

punctual::conformance::suite!(InDirectory);
