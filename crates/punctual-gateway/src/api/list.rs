//! `GET /v1/jobs`: lists, a page at a time.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use punctual::engine::{Cursor, List, ListBy};
use punctual::time::{Stopwatch, millis};
use punctual::{JobId, JobRecord, JobState};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::auth::{Allowed, Reading};
use crate::bounded::in_range;
use crate::decode::shown;
use crate::follow_ups::is_of;
use crate::http::{ErrorAnswer, Problem, Result};
use crate::job_json::{InstantText, SpanText};
use crate::json::edit::FilterLine;
use crate::json::job::JobList;
use crate::json::listed::ListedJob;
use crate::request::{Answer, Asked};
use crate::shared::Shared;
use crate::words::{Id, Name};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    #[param(value_type = Option<Name>)]
    queue: Option<String>,
    state: Option<String>,
    #[param(value_type = Option<Name>)]
    kind: Option<String>,
    /// Text that the payload contains.
    text: Option<String>,
    /// Text that the last error contains.
    error: Option<String>,
    #[param(value_type = Option<String>)]
    due_from: Option<InstantText>,
    #[param(value_type = Option<String>)]
    due_before: Option<InstantText>,
    /// Of at least this age, such as `7d`: a settled job counts from its end, any other from its
    /// enqueue.
    #[param(value_type = Option<String>)]
    older_than: Option<SpanText>,
    /// The unique key, with `queue`.
    unique: Option<String>,
    /// The group key, with `queue`.
    group: Option<String>,
    /// Only jobs that hold this named limit or wait at it, such as `smtp:gmail.com`; not with
    /// `unique` or `group`.
    limit_name: Option<String>,
    /// The job whose settle enqueued them, as their header `punctual-parent` names it.
    #[param(value_type = Option<Id>)]
    parent: Option<String>,
    /// 1 to 200, or 1,000 without payloads; 50 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    payloads: Option<bool>,
    /// Shows that many characters of each payload instead of the whole, 1 to 400.
    #[param(minimum = 1, maximum = 400)]
    preview: Option<usize>,
    cursor: Option<String>,
}

/// Jobs in one answer, with their payloads and without.
const JOBS_MAX: usize = 200;
const BARE_JOBS_MAX: usize = 1_000;
/// Characters of a payload that a list shows.
const PREVIEW_MAX: usize = 400;
/// Jobs that one answer examines, and a call of the engine while it searches.
const SCAN: usize = 1_000;
const SCAN_STEP: usize = 200;
/// How long a search goes on for one answer that has examined some job: who waits for it wants to
/// see that it moves.
const SEARCH: Duration = millis(25);

/// Lists jobs, a page at a time
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", params(ListQuery),
    responses((status = 200, body = JobList), (status = 304, description = "the `ETag` of an earlier answer"), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    Asked(query): Asked<ListQuery>,
) -> Answer<JobList> {
    let preview = query.preview;
    let preview = preview
        .map(|characters| in_range("preview", characters, PREVIEW_MAX))
        .transpose()?;
    let payloads = preview.is_some() || query.payloads.unwrap_or(true);
    let (most, hint) = match payloads {
        true => (
            JOBS_MAX,
            "use 1 to 200, or to 1000 with payloads=false and without preview",
        ),
        false => (BARE_JOBS_MAX, "use 1 to 1000"),
    };
    let limit = query.limit.unwrap_or(50);
    if !(1..=most).contains(&limit) {
        return Err(Problem::invalid(format!("limit is {limit}")).hint(hint));
    }
    let filter = FilterLine {
        queue: query.queue,
        state: query.state,
        kind: query.kind,
        text: query.text,
        error: query.error,
        due_from: query.due_from,
        due_before: query.due_before,
        older_than: query.older_than,
    }
    .filter()?;
    let parent = query.parent.as_deref().map(parent_of).transpose()?;
    let mut place = Place::begin(
        filter.queue.clone(),
        filter.state,
        query.unique,
        query.group,
        query.limit_name,
    )?;
    if let Some(text) = query.cursor {
        place.goes_on_at(cursor_of(&text)?)?;
    }
    let searches = matches!(place.walk, Walk::One(ListBy::All | ListBy::Limit { .. }))
        || filter.kind.is_some()
        || filter.text.is_some()
        || filter.error.is_some()
        || filter.due_from.is_some()
        || filter.due_before.is_some()
        || filter.older_than.is_some()
        || parent.is_some();
    let step = if searches { SCAN_STEP } else { limit };
    let watch = Stopwatch::start();
    let mut before = Duration::ZERO;
    let mut listing = JobList {
        jobs: Vec::new(),
        examined: 0,
        cursor: None,
        now: String::new(),
    };
    loop {
        let list = List::new(place.by())
            .filter(filter.clone())
            .cursor(place.cursor.take())
            .limit(step.min(limit - listing.jobs.len()))
            .payloads(payloads);
        let found = shared.engine.list(&caller.namespace, list).await?;
        let asked = |job: &&JobRecord| parent.is_none_or(|parent| is_of(job, parent));
        let jobs = found.jobs.iter().filter(asked);
        listing.jobs.extend(jobs.map(|job| match preview {
            Some(characters) => ListedJob::with_preview(job, characters),
            None => ListedJob::whole(job),
        }));
        listing.examined += found.examined;
        listing.now = found.now.to_string();
        let is_over = !place.moves_on(found.cursor);
        // Another step would take about as long as this one.
        let elapsed = watch.elapsed();
        let next_end = elapsed + elapsed.saturating_sub(before);
        before = elapsed;
        // Half a page is better than many steps for the last few.
        let enough = listing.jobs.len() * 2 >= limit
            || listing.examined >= SCAN
            || searches && listing.examined > 0 && next_end >= SEARCH;
        if enough || is_over {
            listing.cursor = (!is_over).then(|| text_of_cursor(&place.cursor_after()));
            return Ok(Json(listing));
        }
    }
}

/// Where a list stands. A queue of which no state was named is walked state by state: each is an
/// index.
struct Place {
    walk: Walk,
    cursor: Option<Cursor>,
}

enum Walk {
    One(ListBy),
    /// The queue, and which of `State::ALL` it is at.
    States(String, usize),
}

impl Place {
    fn begin(
        queue: Option<String>,
        state: Option<JobState>,
        unique: Option<String>,
        group: Option<String>,
        limit: Option<String>,
    ) -> Result<Self> {
        if let Some(name) = limit {
            if unique.is_some() || group.is_some() {
                let message = "limit_name goes without unique and group";
                return Err(Problem::invalid(message).hint("ask for one of them at a time"));
            }
            let walk = Walk::One(ListBy::Limit { name });
            return Ok(Self { walk, cursor: None });
        }
        let walk = match (queue, unique, group, state) {
            (Some(queue), Some(key), None, _) => Walk::One(ListBy::Unique { queue, key }),
            (Some(queue), None, Some(key), _) => Walk::One(ListBy::Group { queue, key }),
            (Some(queue), None, None, Some(state)) => Walk::One(ListBy::State { queue, state }),
            (Some(queue), None, None, None) => Walk::States(queue, 0),
            (None, None, None, _) => Walk::One(ListBy::All),
            _ => {
                let message = "unique and group need queue, and only one of them";
                return Err(Problem::invalid(message));
            }
        };
        Ok(Self { walk, cursor: None })
    }

    fn by(&self) -> ListBy {
        match &self.walk {
            Walk::One(by) => by.clone(),
            Walk::States(queue, at) => ListBy::State {
                queue: queue.clone(),
                state: JobState::ALL[*at],
            },
        }
    }

    /// Takes up what [`reported`](Self::reported) answered.
    fn goes_on_at(&mut self, cursor: Cursor) -> Result<()> {
        let Walk::States(_, at) = &mut self.walk else {
            self.cursor = Some(cursor);
            return Ok(());
        };
        let whole = || no_cursor(&text_of_cursor(&cursor));
        let (first, rest) = cursor.0.split_first().ok_or_else(whole)?;
        *at = usize::from(*first);
        if *at >= JobState::ALL.len() {
            return Err(whole());
        }
        self.cursor = (!rest.is_empty()).then(|| Cursor(rest.to_vec().into()));
        Ok(())
    }

    /// What the engine answered to go on with; whether there is more.
    fn moves_on(&mut self, cursor: Option<Cursor>) -> bool {
        let has_ended = cursor.is_none();
        self.cursor = cursor;
        match &mut self.walk {
            Walk::States(_, at) if has_ended => {
                *at += 1;
                *at < JobState::ALL.len()
            }
            _ => !has_ended,
        }
    }

    fn cursor_after(&self) -> Cursor {
        let own = self.cursor.as_ref().map_or(&[][..], |cursor| &cursor.0);
        match &self.walk {
            Walk::One(_) => Cursor(own.to_vec().into()),
            Walk::States(_, at) => Cursor([&[*at as u8], own].concat().into()),
        }
    }
}

fn parent_of(text: &str) -> Result<JobId> {
    text.parse().map_err(|_| {
        Problem::invalid(format!("parent is \"{}\"", shown(text)))
            .hint("send the id of a job, a UUID")
    })
}

fn no_cursor(text: &str) -> Problem {
    Problem::invalid(format!(
        "cursor is \"{}\", which is not a cursor",
        shown(text)
    ))
    .hint("send the cursor of the last answer, or omit it to start over")
}

/// A cursor as text, and back.
pub(super) fn text_of_cursor(cursor: &Cursor) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(&cursor.0)
}

pub(super) fn cursor_of(text: &str) -> Result<Cursor> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text);
    Ok(Cursor(bytes.map_err(|_| no_cursor(text))?.into()))
}
