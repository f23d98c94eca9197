//! Handlers: async functions that run jobs of one kind.

use std::future::Future;
use std::marker::PhantomData;

use futures_util::future::BoxFuture;

use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, JobRecord};
use crate::worker::{Context, FromContext, IntoVerdict, States, Verdict};

/// An async function that runs jobs of one kind: the payload first, then up to four of
/// [`Context`] and [`State`](crate::worker::State) in any order; what it returns is the verdict.
///
/// Implemented for every such function and closure; `Args` only distinguishes them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no handler",
    note = "a handler is an `async fn(payload: impl Job, ..)` whose other arguments are `Context` or `State<T>`",
    note = "it returns `()`, `Outcome`, or a `Result` of one of them with an error that is `Send + Sync`",
    note = "write `Box<dyn std::error::Error + Send + Sync>` for `Box<dyn std::error::Error>`"
)]
pub trait Handler<Args>: Send + Sync + 'static {
    /// The payload that it takes.
    type Job: Job;

    /// Starts it.
    fn start(&self, job: Self::Job, ctx: &Context) -> Result<BoxFuture<'static, Verdict>>;

    /// Says whether the worker has the states that it asks for.
    fn check(states: &States) -> Result<()>;
}

macro_rules! handler {
    ($($arg:ident),*) => {
        impl<F, Fut, J, $($arg),*> Handler<(J, $($arg,)*)> for F
        where
            F: Fn(J, $($arg),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output: IntoVerdict> + Send + 'static,
            J: Job,
            $($arg: FromContext,)*
        {
            type Job = J;

            #[allow(unused_variables, reason = "a handler may take its payload alone")]
            fn start(&self, job: J, ctx: &Context) -> Result<BoxFuture<'static, Verdict>> {
                let running = self(job, $($arg::from_context(ctx)?),*);
                Ok(Box::pin(async { running.await.into_verdict() }))
            }

            #[allow(unused_variables, reason = "a handler may take its payload alone")]
            fn check(states: &States) -> Result<()> {
                $($arg::check(states)?;)*
                Ok(())
            }
        }
    };
}
handler!();
handler!(A);
handler!(A, B);
handler!(A, B, C);
handler!(A, B, C, D);

/// A handler without its types: takes everything from the context.
pub(super) trait AnyHandler: Send + Sync + 'static {
    fn run(&self, ctx: Context) -> BoxFuture<'static, Verdict>;
    fn check(&self, states: &States) -> Result<()>;
}

/// A typed handler; decodes the payload.
pub(super) struct Typed<H, Args>(H, PhantomData<fn(Args)>);

impl<H, Args> Typed<H, Args> {
    pub(super) fn new(handler: H) -> Self {
        Self(handler, PhantomData)
    }
}

impl<H: Handler<Args>, Args: 'static> AnyHandler for Typed<H, Args> {
    fn run(&self, ctx: Context) -> BoxFuture<'static, Verdict> {
        let started = decode::<H::Job>(ctx.job()).and_then(|job| self.0.start(job, &ctx));
        started.unwrap_or_else(|error| Box::pin(std::future::ready(Verdict::failed(error))))
    }

    fn check(&self, states: &States) -> Result<()> {
        H::check(states).map_err(|error| error.with("kind", H::Job::KIND))
    }
}

/// A payload that does not fit is a failure, retried by policy: during a rolling deploy a newer
/// worker may understand it.
pub(super) fn decode<J: Job>(job: &JobRecord) -> Result<J> {
    serde_json::from_slice(&job.payload).map_err(|cause| {
        let message = "payload does not fit the type of its handler";
        Error::new(ErrorKind::Codec, message)
            .with("kind", &job.kind)
            .source(cause)
    })
}

/// A handler of undecoded jobs.
pub(super) struct Raw<F>(pub(super) F);

impl<F, Fut> AnyHandler for Raw<F>
where
    F: Fn(JobRecord, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoVerdict> + Send + 'static,
{
    fn run(&self, ctx: Context) -> BoxFuture<'static, Verdict> {
        let running = (self.0)(ctx.job().clone(), ctx);
        Box::pin(async { running.await.into_verdict() })
    }

    fn check(&self, _: &States) -> Result<()> {
        Ok(())
    }
}
