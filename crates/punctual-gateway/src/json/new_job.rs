//! Checks of a new job that was sent.

use axum::http::StatusCode;
use punctual::push::AmqpTarget;
use punctual::{NewJob, push};
use punctual_push::Guard;

use crate::decode::shown;
use crate::http::{Problem, Result};
use crate::job_json::JobJson;

/// The job that a line describes, with an id of its own unless it brings one; refused if the guard
/// forbids its target.
pub(crate) fn new_job(line: JobJson, guard: &Guard) -> Result<NewJob> {
    if line.queue.is_none() && line.target.is_none() {
        let hint = "send queue, 1 to 128 of a-z A-Z 0-9 . _ - : /, or a target";
        return Err(Problem::invalid("queue is missing").hint(hint));
    }
    if line.has_history() {
        return Err(Problem::invalid("the job has a state, so it is not new")
            .hint("send only what a new job may have"));
    }
    let job = line
        .into_new_job(&NewJob::new("", ""))
        .map_err(|why| Problem::of_line(&format!("the job {why}")))?;
    let target = push::target(&job.headers);
    let is_of_broker = target.is_some_and(AmqpTarget::is);
    if target.is_none_or(|_| is_of_broker) && push::is_queue(&job.queue) {
        let message = format!("queue {} is for jobs with a target", shown(&job.queue));
        let hint = "give it the URL of a target, or name another queue";
        return Err(Problem::invalid(message).hint(hint));
    }
    if !is_of_broker && push::is_amqp_queue(&job.queue) {
        let message = format!("queue {} is for jobs with a target", shown(&job.queue));
        let hint = "give it a target amqp:EXCHANGE/KEY, or name another queue";
        return Err(Problem::invalid(message).hint(hint));
    }
    let said = |error: punctual::Error| refused(error.message());
    if let Some(target) = target {
        guard.check_target(target).map_err(said)?;
    }
    if let Some(url) = push::header(&job.headers, push::CALLBACK) {
        guard.check(url).map_err(said)?;
    }
    Ok(job)
}

fn refused(message: &str) -> Problem {
    let text = message.split_once(": ").map_or(message, |(_, text)| text);
    let (what, remedy) = text.split_once("; ").unwrap_or((text, ""));
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    let problem = Problem::new(status, "target_refused", what);
    match remedy {
        "" => problem,
        remedy => problem.hint(remedy),
    }
}
