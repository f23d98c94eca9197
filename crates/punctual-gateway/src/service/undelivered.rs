//! Claimed jobs whose answer is not delivered yet; dropping them releases the jobs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use punctual::engine::{Claimed, Lease, LeaseReport, Settle, Settlement};
use punctual::{Engine, JobRecord, Namespace, Outcome};
use tokio::runtime::Handle;

/// Hands its jobs back when it is dropped before they were delivered: they would else wait for the
/// end of their lease, and count a crash.
pub(crate) struct Undelivered {
    engine: Arc<dyn Engine>,
    namespace: Namespace,
    leases: Vec<LeaseReport>,
}

impl Undelivered {
    /// All that was claimed.
    pub(crate) fn of(engine: Arc<dyn Engine>, namespace: Namespace, claimed: &Claimed) -> Self {
        let released = |job: &JobRecord| Settlement::new(job.id, job.attempt, Outcome::Released);
        let report = |lease: &Lease| {
            let ends = lease.jobs.iter().map(released);
            LeaseReport::new(lease.token, ends.collect())
        };
        Self {
            engine,
            namespace,
            leases: claimed.leases.iter().map(report).collect(),
        }
    }

    /// They are on their way to the caller.
    pub(crate) fn delivered(mut self) {
        self.leases.clear();
    }

    /// Goes with an answer until that is taken to be written.
    pub(crate) fn along(self, answer: Response) -> Response {
        answer.map(|body| {
            let undelivered = Some(self);
            Body::new(Along { body, undelivered })
        })
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        let leases = std::mem::take(&mut self.leases);
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if leases.is_empty() {
            return;
        }
        let (engine, namespace) = (self.engine.clone(), self.namespace.clone());
        runtime.spawn(async move {
            if let Err(error) = engine.settle(&namespace, Settle::new(leases)).await {
                tracing::debug!(%error, "a client disconnected; its claimed jobs wait until their lease expires");
            }
        });
    }
}

/// The body of an answer with what was claimed.
struct Along {
    body: Body,
    undelivered: Option<Undelivered>,
}

impl HttpBody for Along {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let is_taken = matches!(frame, Poll::Ready(None)) || self.body.is_end_stream();
        if is_taken && let Some(undelivered) = self.undelivered.take() {
            undelivered.delivered();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
