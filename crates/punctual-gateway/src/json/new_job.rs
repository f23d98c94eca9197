//! Checks of a new job that was sent.

use axum::http::StatusCode;
use punctual::{NewJob, push};
use punctual_push::Guard;

use crate::decode::shown;
use crate::http::{Problem, Result};
use crate::job_json::JobJson;

/// The job that a line describes, with an id of its own unless it brings one; refused if it is to
/// be posted to where the guard lets nobody.
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
        .map_err(|why| Problem::invalid(format!("the job {why}")))?;
    let target = push::target(&job.headers);
    if target.is_none() && push::is_queue(&job.queue) {
        let message = format!("queue {} is for jobs with a target", shown(&job.queue));
        return Err(Problem::invalid(message).hint("give it a target, or name another queue"));
    }
    let callback = push::header(&job.headers, push::CALLBACK);
    for url in target.into_iter().chain(callback) {
        guard.check(url).map_err(|error| refused(error.message()))?;
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
