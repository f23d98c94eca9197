//! Layers around handlers.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::handler::AnyHandler;
use crate::worker::{Context, IntoVerdict, Verdict};

/// The rest of the way to the handler, as a layer sees it.
pub struct Next {
    layers: Arc<[Arc<dyn Layer>]>,
    passed: usize,
    handler: Arc<dyn AnyHandler>,
}

impl Next {
    pub(super) fn new(layers: Arc<[Arc<dyn Layer>]>, handler: Arc<dyn AnyHandler>) -> Self {
        Self {
            layers,
            passed: 0,
            handler,
        }
    }

    /// Runs the layers that are left, then the handler.
    ///
    /// A payload that cannot be decoded and an error by `?` are verdicts here already; a panic
    /// goes through every layer and becomes a failure outside of them.
    pub fn run(mut self, ctx: Context) -> BoxFuture<'static, Verdict> {
        match self.layers.get(self.passed).cloned() {
            Some(layer) => {
                self.passed += 1;
                layer.call(ctx, self)
            }
            None => self.handler.run(ctx),
        }
    }
}

impl std::fmt::Debug for Next {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Next({} of {} passed)", self.passed, self.layers.len())
    }
}

/// Something done around every handler of a worker.
pub(super) trait Layer: Send + Sync + 'static {
    fn call(&self, ctx: Context, next: Next) -> BoxFuture<'static, Verdict>;
}

impl<F, Fut> Layer for F
where
    F: Fn(Context, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoVerdict> + Send + 'static,
{
    fn call(&self, ctx: Context, next: Next) -> BoxFuture<'static, Verdict> {
        let running = self(ctx, next);
        Box::pin(async { running.await.into_verdict() })
    }
}
