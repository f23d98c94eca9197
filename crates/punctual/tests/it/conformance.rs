//! The memory engine keeps the law.

mod harness;

use harness::Memory;

punctual::conformance::suite!(Memory);
