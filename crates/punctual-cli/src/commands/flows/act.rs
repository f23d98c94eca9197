//! Cancels, retries and recounts flows.

use punctual::ErrorKind;

use super::show::{counts_object, object_of};
use super::{missing, queue};
use crate::args::Session;
use crate::failure::{Exit, Failure, Result};
use crate::output::{counted, object};

pub(super) async fn cancel(session: &Session, name: &str) -> Result<()> {
    let cancelled = queue(session).flows().cancel(name).await;
    let status = cancelled.map_err(|error| with_flow(error, name))?;
    if session.out.is_json() {
        return session.out.json(&object_of(&status));
    }
    let open = status.counts.open;
    session.out.line(match open {
        0 => format!("{name} is {}", status.state),
        _ => format!("{name} is asked to stop: {} to end", counted(open, "step")),
    })?;
    session.announce_durability(session.durability().await?);
    Ok(())
}

pub(super) async fn retry(session: &Session, name: &str, from: Option<&str>) -> Result<()> {
    let retried = queue(session).flows().retry(name, from).await;
    let retried = retried.map_err(|error| with_flow(error, name))?;
    if session.out.is_json() {
        return session
            .out
            .json(&object!({ "name": name, "retried": retried }));
    }
    session.out.line(match retried {
        0 => format!("no step of {name} failed"),
        _ => format!("{} again", counted(retried, "step")),
    })?;
    session.announce_durability(session.durability().await?);
    Ok(())
}

pub(super) async fn recount(session: &Session, name: &str) -> Result<()> {
    let recounted = queue(session).flows().recount(name).await;
    let recounted = recounted.map_err(|error| with_flow(error, name))?;
    let agrees = recounted.agrees();
    if session.out.is_json() {
        session.out.json(&object!({
            "name": name, "agrees": agrees, "counted": counts_object(&recounted.counted),
            "kept": counts_object(&recounted.kept), "differ": recounted.differ,
            "moved": recounted.moved,
        }))?;
    } else if agrees {
        let steps = counted(recounted.counted.steps, "step");
        session
            .out
            .line(format!("{name} has counted right: {steps}"))?;
    }
    match agrees {
        true => Ok(()),
        false => {
            let (counted, kept) = (recounted.counted, recounted.kept);
            let message = format!("{name} has counted {kept:?}, its jobs say {counted:?}");
            Err(Failure::new(Exit::Failed, "internal", message).hint("report it"))
        }
    }
}

fn with_flow(error: punctual::Error, name: &str) -> Failure {
    let is_step = error.message().contains("step");
    match error.kind() {
        ErrorKind::NotFound if !is_step => missing(name),
        _ => error.into(),
    }
}
