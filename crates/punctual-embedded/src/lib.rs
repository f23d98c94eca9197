//! The durable engine in one directory.
