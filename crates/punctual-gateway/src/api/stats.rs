//! `/v1/stats`: counts, the due histogram, the history by minutes, workers.

use axum::Json;
use axum::extract::State;
use punctual::engine::{STATS_PAGE_MAX, Stats, StatsRequest};

use crate::auth::{Allowed, Reading};
use crate::decode::shown;
use crate::http::Caller;
use crate::http::{ErrorAnswer, Problem, Result};
use crate::json::queue::StatsAnswer;
use crate::json::total::{Sum, minutes_before};
use crate::request::{Answer, Pairs};
use crate::shared::Shared;

/// The minutes that engines remember.
const MINUTES_MAX: u64 = 1_440;
/// Queues whose past is in memory at the same time while it is summed.
const QUEUES_AT_ONCE: usize = 50;

/// Counts, the due histogram, the history by minutes, and workers
#[utoipa::path(
    get, path = "/v1/stats", tag = "queues",
    params(
        ("queue" = Option<Vec<String>>, Query, description = "only these; all if omitted"),
        ("history" = Option<bool>, Query), ("due" = Option<bool>, Query),
        ("ends" = Option<bool>, Query, description = "the last 100 jobs of each queue that ended, the newest first, without payloads"),
        ("total" = Option<bool>, Query, description = "history and due of all these queues as one, and the recent past of each"),
        ("limit" = Option<usize>, Query, description = "a page of so many queues by name; all in one answer if omitted", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "with `limit`: the `next` of the page before"),
        ("minutes" = Option<u64>, Query, description = "how far the history goes back, all it has by default", minimum = 1, maximum = 1440)
    ),
    responses((status = 200, body = StatsAnswer), (status = 304, description = "the `ETag` of an earlier answer"), (status = "4XX", body = ErrorAnswer), (status = "5XX", body = ErrorAnswer))
)]
pub(super) async fn stats(
    State(shared): State<Shared>,
    Allowed(caller, _): Allowed<Reading>,
    pairs: Pairs,
) -> Answer<StatsAnswer> {
    pairs.only(&[
        "queue", "history", "due", "ends", "total", "minutes", "limit", "after",
    ])?;
    let minutes_reported = minutes_of(&pairs)?;
    let total = pairs.is_true("total")?;
    let request = StatsRequest::default()
        .queues(pairs.all("queue"))
        .history(pairs.is_true("history")? && !total)
        .due(pairs.is_true("due")? || total)
        .ends(pairs.is_true("ends")?)
        .limit(page_of(&pairs)?)
        .after(pairs.all("after").pop());
    let mut stats = shared.engine.stats(&caller.namespace, request).await?;
    if total {
        return sum(&shared, &caller, stats, minutes_reported)
            .await
            .map(Json);
    }
    let since = minutes_before(stats.now, minutes_reported);
    for queue in &mut stats.queues {
        queue.history.retain(|minute| minute.minute >= since);
    }
    Ok(Json(StatsAnswer::from(&stats)))
}

fn minutes_of(pairs: &Pairs) -> Result<u64> {
    let Some(text) = pairs.all("minutes").pop() else {
        return Ok(MINUTES_MAX);
    };
    let found = text.parse().ok().filter(|n| (1..=MINUTES_MAX).contains(n));
    found.ok_or_else(|| {
        Problem::invalid(format!("minutes is \"{}\"", shown(&text))).hint("use 1 to 1440")
    })
}

/// Queues of a page; 0 if no `limit` is given.
pub(super) fn page_of(pairs: &Pairs) -> Result<usize> {
    let Some(text) = pairs.all("limit").pop() else {
        return Ok(0);
    };
    let found = text.parse().ok();
    let found = found.filter(|n| (1..=STATS_PAGE_MAX).contains(n));
    found.ok_or_else(|| {
        Problem::invalid(format!("limit is \"{}\"", shown(&text))).hint("use 1 to 1000")
    })
}

/// The queues as they stand, and their past and future as one.
async fn sum(
    shared: &Shared,
    caller: &Caller,
    mut stats: Stats,
    minutes_reported: u64,
) -> Result<StatsAnswer> {
    let mut sum = Sum::new(stats.now, minutes_reported);
    for queue in &mut stats.queues {
        sum.due(std::mem::take(&mut queue.due));
    }
    let mut answer = StatsAnswer::from(&stats);
    for (at, some) in stats.queues.chunks(QUEUES_AT_ONCE).enumerate() {
        let request = StatsRequest::default()
            .queues(some.iter().map(|queue| queue.queue.clone()).collect())
            .history(true);
        let past = shared.engine.stats(&caller.namespace, request).await?;
        for reported in past.queues {
            // The same queues in the same order, unless one went meanwhile.
            let here = some.iter().position(|queue| queue.queue == reported.queue);
            let recent = sum.history(&reported.history);
            if let Some(here) = here {
                answer.announce_recent(at * QUEUES_AT_ONCE + here, recent);
            }
        }
    }
    answer.announce_total(sum.total());
    Ok(answer)
}
