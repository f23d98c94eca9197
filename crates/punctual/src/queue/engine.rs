//! What queues and workers accept as an engine.

use std::sync::Arc;

use crate::engine::Engine;

/// What a [`Queue`](crate::Queue), a [`Worker`](crate::Worker) and the test helpers take for an
/// engine: one by value, shared, or borrowed from its owner, who shares it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no engine that can be shared",
    note = "wrap it in `Arc`: `let engine = std::sync::Arc::new(engine);`, then pass `&engine`"
)]
pub trait IntoEngine {
    /// The engine, shared.
    fn into_engine(self) -> Arc<dyn Engine>;
}

#[diagnostic::do_not_recommend]
impl<E: Engine> IntoEngine for E {
    fn into_engine(self) -> Arc<dyn Engine> {
        Arc::new(self)
    }
}

impl<E: Engine> IntoEngine for Arc<E> {
    fn into_engine(self) -> Arc<dyn Engine> {
        self
    }
}

impl IntoEngine for Arc<dyn Engine> {
    fn into_engine(self) -> Arc<dyn Engine> {
        self
    }
}

impl<E: Engine> IntoEngine for &Arc<E> {
    fn into_engine(self) -> Arc<dyn Engine> {
        self.clone()
    }
}

impl IntoEngine for &Arc<dyn Engine> {
    fn into_engine(self) -> Arc<dyn Engine> {
        self.clone()
    }
}
