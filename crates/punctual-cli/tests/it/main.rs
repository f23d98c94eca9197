//! The command and the whole repository, from outside.

/// What no compiler checks about this repository.
mod tidy;
