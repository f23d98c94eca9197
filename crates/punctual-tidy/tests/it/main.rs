//! The rules, each beside a test that plants what it forbids.

mod tidy;
