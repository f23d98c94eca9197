//! Tests of an engine on a directory of the operating system.

use crate::harness::InDirectory;

punctual::conformance::suite!(InDirectory, by topic, thirds);
