//! Values that handlers take from their worker.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::worker::Context;

/// A value that a handler takes from its worker: what [`Worker::state`](crate::Worker::state) was
/// given.
///
/// ```
/// use punctual::{Outcome, worker::State};
/// # #[derive(serde::Serialize, serde::Deserialize)] struct CancelUnpaid { order: u64 }
/// #[derive(Clone)]
/// struct Db { url: String }
///
/// async fn cancel_unpaid(job: CancelUnpaid, State(db): State<Db>) -> Outcome {
///     println!("cancel order {} in {}", job.order, db.url);
///     Outcome::Completed
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State<T>(
    /// The worker's value, cloned.
    pub T,
);

/// The values that a worker's handlers share, one per type.
#[derive(Clone, Default)]
pub struct States(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

/// An argument of a handler behind its payload: [`Context`], [`State`], or one of your own.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument of a handler",
    note = "a handler takes its payload first, then any of `Context` and `State<T>`"
)]
pub trait FromContext: Sized + Send {
    /// Takes the argument; an error fails the attempt.
    fn from_context(ctx: &Context) -> Result<Self>;

    /// Says at the worker's start whether the argument can be had.
    fn check(states: &States) -> Result<()> {
        let _ = states;
        Ok(())
    }
}

impl FromContext for Context {
    fn from_context(ctx: &Context) -> Result<Self> {
        Ok(ctx.clone())
    }
}

impl<T: Clone + Send + Sync + 'static> FromContext for State<T> {
    fn from_context(ctx: &Context) -> Result<Self> {
        let value = ctx.states().get::<T>().cloned();
        value.map(Self).ok_or_else(missing::<T>)
    }

    fn check(states: &States) -> Result<()> {
        states.get::<T>().map(drop).ok_or_else(missing::<T>)
    }
}

fn missing<T>() -> Error {
    let message = format!(
        "worker has no state of type {}; give it one with `.state(..)`",
        type_name::<T>()
    );
    Error::new(ErrorKind::InvalidInput, message)
}

impl States {
    /// The value of that type, if there is one.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// These and one more; of a type that is there already the new value stays.
    pub(crate) fn with<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), Arc::new(value));
        self
    }
}

impl std::fmt::Debug for States {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "States({})", self.0.len())
    }
}
