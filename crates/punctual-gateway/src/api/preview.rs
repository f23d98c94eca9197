//! `/v1/schedules/{name}/preview`: the next runs of a schedule that nothing writes.

use axum::Json;
use axum::extract::{Path, State};
use punctual::schedule::{ClockNote, Run, tz_database_version};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::{Administering, Allowed};
use crate::http::{ErrorAnswer, Problem};
use crate::job_json::InstantText;
use crate::json::schedule::ScheduleLine;
use crate::request::{Answer, Read};
use crate::shared::Shared;
use crate::words::Name;

/// The most runs of a preview. Each is a search, so who writes schedules may ask, and others not.
const RUNS_MAX: usize = 100;

/// A schedule to preview.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PreviewRequest {
    /// What `PUT` would send.
    schedule: ScheduleLine,
    /// The first instant that counts; now if omitted.
    #[serde(default)]
    from: Option<InstantText>,
    /// How many runs, 1 to 100; 5 if omitted.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    count: Option<usize>,
}

/// The next runs of a schedule.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Preview {
    zone: String,
    /// The version of the tz database that names them.
    tz_database: &'static str,
    instants: Vec<InstantText>,
    runs: Vec<PreviewRun>,
}

/// One run of a preview.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PreviewRun {
    at: InstantText,
    /// Later by the jitter, whose draw depends on the name.
    due: InstantText,
    /// The instant in the zone of the schedule.
    local: String,
    /// What a change of the clock does to it: `moved_by_gap`, `first_pass` or `second_pass`.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<&'static str>,
}

impl From<Run> for PreviewRun {
    fn from(run: Run) -> Self {
        Self {
            at: run.at.into(),
            due: run.due.into(),
            local: run.local,
            clock: run.note.map(|note| match note {
                ClockNote::MovedByGap => "moved_by_gap",
                ClockNote::FirstPass => "first_pass",
                ClockNote::SecondPass => "second_pass",
                _ => "other",
            }),
        }
    }
}

/// Shows the next runs of a schedule, and writes nothing
#[utoipa::path(
    post, path = "/v1/schedules/{name}/preview", operation_id = "preview_schedule", tag = "schedules", params(("name" = Name, Path)),
    request_body = PreviewRequest,
    responses((status = 200, body = Preview), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn preview(
    State(shared): State<Shared>,
    Allowed(_, _): Allowed<Administering>,
    Path(name): Path<String>,
    Read(request): Read<PreviewRequest>,
) -> Answer<Preview> {
    punctual::job::check_name("schedule", &name)?;
    let count = request.count.unwrap_or(5);
    if !(1..=RUNS_MAX).contains(&count) {
        return Err(Problem::invalid("count is out of range").hint("use 1 to 100"));
    }
    let schedule = request.schedule.into_schedule(&shared.guard)?;
    let spec = schedule.spec.build()?;
    let from = match request.from {
        Some(from) => from.0,
        None => shared.engine.info().await?.now,
    };
    let runs = spec.preview(&name, from, count);
    Ok(Json(Preview {
        zone: spec.parts().zone.clone(),
        tz_database: tz_database_version(),
        instants: runs.iter().map(|run| run.at.into()).collect(),
        runs: runs.into_iter().map(Into::into).collect(),
    }))
}
