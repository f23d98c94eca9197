//! The handler that torture workers run.

use std::sync::Arc;

use punctual::time::{millis, pause};
use punctual::worker::Verdict;
use punctual::{Context, JobRecord};

use crate::call_log::History;
use crate::content;
use crate::event::Event;
use crate::recorder::scripted_of;
use crate::scripted_outcome::ScriptedOutcome;
use crate::sink::{Effect, Sink};
use crate::stamp::wall;

/// What handlers share.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) history: Arc<History>,
    pub(super) sink: Arc<dyn Sink>,
}

/// Runs one attempt as the job's scripted outcome says.
pub(super) async fn run(stage: Stage, job: JobRecord, context: Context) -> Verdict {
    let (id, attempt) = (job.id, job.attempt);
    let start = Event::Start {
        id,
        attempt,
        token: context.token(),
        wall: wall(),
        due: job.due.as_micros(),
        content: Some(content::of_record(&job)),
    };
    stage.history.note(start);
    let scripted = scripted_of(&job.headers).unwrap_or(ScriptedOutcome::Completes);
    let finish = |new: Option<bool>, how: &str| {
        stage.history.note(Event::Finish {
            id,
            attempt,
            new,
            how: how.into(),
        });
    };
    let failed_before = job.failures;
    match scripted {
        ScriptedOutcome::AbortsAlways => abort(&stage, &job),
        ScriptedOutcome::AbortsOnce if attempt == 1 => abort(&stage, &job),
        ScriptedOutcome::FailsBefore(times) if failed_before < times => {
            finish(None, "fails");
            return Verdict::retry("fails before its effect, as scripted");
        }
        ScriptedOutcome::Panics(times) if failed_before < times => {
            finish(None, "panics");
            panic!("panics, as scripted");
        }
        ScriptedOutcome::Dies => {
            finish(None, "dies");
            return Verdict::dead("cannot be mended, as scripted");
        }
        ScriptedOutcome::Snoozes if attempt == 1 => {
            finish(None, "snoozes");
            return Verdict::new(punctual::Outcome::Snooze { after: millis(200) });
        }
        ScriptedOutcome::IsSlow => pause(millis(1_500)).await,
        _ => {}
    }
    match write(&stage, &context).await {
        Err(error) => {
            finish(None, "fails");
            Verdict::retry(error)
        }
        Ok(new) => match scripted {
            ScriptedOutcome::FailsAfter(times) if failed_before < times => {
                finish(Some(new), "fails");
                Verdict::retry("fails after its effect, as scripted")
            }
            _ => {
                finish(Some(new), "completes");
                Verdict::completed()
            }
        },
    }
}

/// The effect, in a transaction of its own, not ended half by an abort of the handler.
async fn write(stage: &Stage, context: &Context) -> std::io::Result<bool> {
    let (sink, token) = (stage.sink.clone(), context.token());
    let effect = Effect {
        job: context.id(),
        step: 1,
        fence: token.fence,
        nonce: token.nonce,
    };
    let written = tokio::task::spawn_blocking(move || sink.write(effect));
    written.await?
}

fn abort(stage: &Stage, job: &JobRecord) -> ! {
    stage.history.note(Event::Abort {
        id: job.id,
        attempt: job.attempt,
    });
    std::process::abort();
}
