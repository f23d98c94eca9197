//! The model checked to its end, its planted bugs found, and its walks played on engines.

mod exhaustive;
mod harness;
mod walks;
