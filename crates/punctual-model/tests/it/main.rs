//! The model checked to its end, its injected bugs found, and its walks played on engines.

mod exhaustive;
mod harness;
mod walks;
