//! Measurements beside rivals. See `bench/README.md`.
