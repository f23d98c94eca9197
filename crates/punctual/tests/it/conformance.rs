//! The memory engine keeps the law.

pub(crate) mod harness;

use harness::Memory;

punctual::conformance::suite!(Memory);
