//! The context of a request: what the log finds it by, and what is held until it is answered.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use axum::http::Method;
use bytes::Bytes;
use punctual::sync::Lock;

use super::BodyOwner;
use crate::decode::LOOKUP_BYTES_MAX;

/// What a request is found by in the log; goes with it.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub(crate) id: Arc<str>,
    pub(crate) method: Method,
    pub(crate) path: Arc<str>,
    /// Whether the caller may know what the engine says; set once its token is checked.
    is_operators: Arc<AtomicBool>,
    /// Whose bytes its body are; set once its token is checked.
    owner: Arc<OnceLock<BodyOwner>>,
    /// What its body takes until it is answered.
    body: Arc<Mutex<Option<Box<dyn Any + Send>>>>,
    /// A short body, from which an error shows values as they were sent.
    sent: Arc<OnceLock<Bytes>>,
}

impl RequestContext {
    pub(crate) fn new(id: String, method: Method, path: &str) -> Self {
        Self {
            id: id.into(),
            method,
            path: path.into(),
            is_operators: Arc::default(),
            owner: Arc::default(),
            body: Arc::default(),
            sent: Arc::default(),
        }
    }

    /// The caller is known.
    pub(crate) fn set_caller(&self, sees_engine: bool, owner: BodyOwner) {
        self.is_operators.store(sees_engine, Ordering::Relaxed);
        let _ = self.owner.set(owner);
    }

    /// Whose bytes its body are.
    pub(crate) fn owner(&self) -> BodyOwner {
        self.owner.get().cloned().unwrap_or_default()
    }

    /// Its body is counted until it is answered.
    pub(crate) fn keeps(&self, body: impl Send + 'static) {
        *self.body.locked() = Some(Box::new(body));
    }

    /// Its body has been read.
    pub(crate) fn was_sent(&self, body: &Bytes) {
        if body.len() <= LOOKUP_BYTES_MAX {
            let _ = self.sent.set(body.clone());
        }
    }

    /// Its body, if it is short and was read as a whole.
    pub(crate) fn sent(&self) -> &[u8] {
        self.sent.get().map_or(&[], |body| body)
    }

    pub(super) fn is_operators(&self) -> bool {
        self.is_operators.load(Ordering::Relaxed)
    }
}
