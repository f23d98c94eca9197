//! Durable delayed jobs, on time.
