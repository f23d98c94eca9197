//! Claims, and the leases that answer them.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual::engine::{
    Claim, ClaimMode, ClaimOrder, Claimed, LimitedQueue, WorkerId, WorkerPlace, WorkerRecord,
};
use punctual::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::token::hex;
use crate::bounded::{bounded, in_range};
use crate::decode::shown;
use crate::http::{Problem, Result};
use crate::job_json::{JobJson, SpanText};
use crate::words::{Id, Name};

/// A claim; only `queues` is needed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimRequest {
    /// 1 to 64, in this order.
    #[serde(deserialize_with = "bounded")]
    #[schema(value_type = Vec<Name>, min_items = 1, max_items = 64)]
    queues: Vec<String>,
    /// 1 to 1,000, 1 by default.
    #[schema(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// How long to wait for a job, at most 60s, not at all by default.
    pub(crate) wait: Option<String>,
    /// 10s by default.
    lease_duration: Option<SpanText>,
    #[serde(default)]
    worker: WorkerLine,
    #[serde(default)]
    order: OrderLine,
    max_bytes: Option<usize>,
    /// Whether the worker runs nothing else.
    #[serde(default)]
    alone: bool,
    /// 16 hexadecimal digits; the same again answers the same lease.
    #[schema(pattern = "^[0-9a-f]{16}$")]
    nonce: Option<String>,
}

impl ClaimRequest {
    /// Whether the same worker can send it again under the same nonce; one without an id cannot.
    pub(crate) fn may_come_again(&self) -> bool {
        self.nonce.is_some() && self.worker.id.is_some()
    }

    pub(crate) fn claim(self) -> Result<Claim> {
        let id = match &self.worker.id {
            Some(text) => {
                let id = uuid::Uuid::try_parse(text)
                    .map_err(|_| not(text, "worker.id", "a UUID, random per process"))?;
                WorkerId(id.as_u128())
            }
            // Two of them may not mean the same claim by the same nonce.
            None if self.nonce.is_some() => WorkerId::random(),
            None => self.worker.id_of_many(&self.queues),
        };
        let limit = in_range("limit", self.limit.unwrap_or(1), 1_000)?;
        let mut claim = Claim::new(id, "", limit);
        if let Some(nonce) = &self.nonce {
            claim.nonce = hex(nonce).ok_or_else(|| not(nonce, "nonce", "16 hexadecimal digits"))?;
        }
        let mut worker = WorkerRecord::new(id);
        worker.host = self.worker.host;
        worker.version = self.worker.version;
        worker.queues = self.queues.clone();
        worker.kinds = self.worker.kinds;
        // The engine takes the limit of the claim then.
        worker.slots = self.worker.slots.unwrap_or(0);
        worker.busy = self.worker.busy;
        claim.worker = worker;
        claim.queues = self.queues;
        claim.order = match self.order {
            OrderLine::Strict => ClaimOrder::Strict,
            OrderLine::Turns => ClaimOrder::Turns,
        };
        claim.max_bytes = self.max_bytes.unwrap_or(claim.max_bytes);
        claim.lease_duration = self
            .lease_duration
            .map_or(claim.lease_duration, |span| span.0);
        if self.alone {
            claim.mode = ClaimMode::Alone;
        }
        claim.place = WorkerPlace::Elsewhere;
        Ok(claim)
    }
}

fn not(text: &str, name: &str, takes: &str) -> Problem {
    Problem::invalid(format!("{name} is \"{}\"", shown(text))).hint(format!("use {takes}"))
}

/// A worker as it describes itself.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = Worker)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WorkerLine {
    /// A UUID, random per process.
    #[schema(value_type = Option<Id>)]
    id: Option<String>,
    host: String,
    version: String,
    /// The kinds it has handlers for; empty if it takes any.
    kinds: Vec<String>,
    /// Jobs it can run at the same time; by default the `limit` of the claim.
    #[schema(value_type = Option<u64>, maximum = 4294967295i64)]
    slots: Option<u32>,
    /// Jobs it runs now; what it has leased counts all the same.
    #[schema(value_type = u64, maximum = 4294967295i64)]
    busy: u32,
}

impl WorkerLine {
    /// The id of all who give none and say the same of themselves: one of their own for each claim
    /// would be a crowd, which engines keep in mind for a minute.
    fn id_of_many(&self, queues: &[String]) -> WorkerId {
        let said = (&self.host, &self.version, &self.kinds, queues);
        let digest = Sha256::digest(format!("{said:?}"));
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        WorkerId(u128::from_be_bytes(id))
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OrderLine {
    #[default]
    Strict,
    Turns,
}

/// The answer to a claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimAnswer {
    leases: Vec<LeaseLine>,
    now: String,
    /// Microseconds from the sending of the claim that is answered to its answer, without the wait
    /// before it. `now` is an instant between the two.
    took_us: u64,
    /// The earliest instant at which a claim could answer more by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_at: Option<String>,
    /// Whether jobs wait for a claim that is `alone`.
    suspects_wait: bool,
    /// The queues of this claim that have limits: lateness counts from `open_since`, if that is
    /// after the due.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    limited: Vec<LimitedLine>,
}

/// A queue that has limits.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LimitedQueue)]
struct LimitedLine {
    queue: String,
    /// Since when they let jobs start, before this claim.
    open_since: String,
    /// The same by share, where the limits of a share kept a job of this claim for longer.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    shares: BTreeMap<String, String>,
    /// The same by named limit, where one opened after the due of a job of this claim.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<String, String>,
}

impl ClaimAnswer {
    /// The answer of an engine, which took so long.
    pub(crate) fn new(claimed: &Claimed, took: Duration) -> Self {
        let leases = claimed.leases.iter().map(|lease| LeaseLine {
            token: lease.token.to_string(),
            deadline: lease.deadline.to_string(),
            jobs: lease.jobs.iter().map(JobJson::document).collect(),
        });
        Self {
            leases: leases.collect(),
            now: claimed.now.to_string(),
            took_us: took.as_micros() as u64,
            wake_at: claimed.wake_at.map(|at| at.to_string()),
            suspects_wait: claimed.suspects_wait,
            limited: claimed.limited.iter().map(LimitedLine::of).collect(),
        }
    }
}

impl LimitedLine {
    fn of(limited: &LimitedQueue) -> Self {
        let by_name = |all: &[(String, Timestamp)]| {
            let all = all.iter();
            all.map(|(name, at)| (name.clone(), at.to_string()))
                .collect()
        };
        Self {
            queue: limited.queue.clone(),
            open_since: limited.open_since.to_string(),
            shares: by_name(&limited.shares),
            limits: by_name(&limited.limits),
        }
    }
}

/// Jobs under one lease.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lease)]
struct LeaseLine {
    token: String,
    /// The instant the lease ends unless it is extended.
    deadline: String,
    jobs: Vec<JobJson>,
}
