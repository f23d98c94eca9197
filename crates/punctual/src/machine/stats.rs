//! Stats: counts, the due histogram, the history, workers seen, liveness.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use super::Machine;
use super::jobs::Loaded;
use super::rows::*;
use crate::engine::{
    Counts, DueBucket, Namespace, NamespaceProblem, QueueStats, ShareSettings, Stats, StatsRequest,
    WorkerSeen, free_workers,
};
use crate::error::Result;
use crate::time::{Timestamp, days, format_span, hours, minutes, seconds};

/// Health is red when the oldest due job of a queue waits longer while workers are free.
const WAITS_MAX: Duration = seconds(5);

/// Shares of a lane among which statistics find the oldest job: those whose turn is next.
const SHARES_MAX: usize = 64;

/// Jobs that one due histogram reads, per queue.
const DUE_JOBS_MAX: usize = 10_000;

impl Machine {
    /// Counts; see [`Engine::stats`](crate::Engine::stats).
    pub fn stats(
        &mut self,
        now: Timestamp,
        namespace: &Namespace,
        request: &StatsRequest,
    ) -> Result<Stats> {
        self.checks(now).stats(request)?;
        self.begin(now)?;
        let namespace = self.namespace(namespace);
        let (ids, next) = match namespace {
            Some(namespace) => self.queues_asked(namespace, request),
            None => (Vec::new(), None),
        };
        let exact = self
            .derived
            .due_heads
            .first()
            .is_none_or(|(head, _)| *head > self.now);
        let queues = ids
            .into_iter()
            .map(|(name, id)| self.queue_stats(name, id, request))
            .collect::<Result<_>>()?;
        let workers = namespace
            .map(|namespace| self.workers(namespace))
            .unwrap_or_default();
        let is_first = request.after.is_none();
        let overdue = namespace
            .filter(|_| is_first)
            .map(|id| self.derived.expected.overdue(id, self.now));
        Ok(Stats {
            queues,
            workers,
            exact,
            overdue: overdue.unwrap_or_default(),
            next,
            now: self.now,
        })
    }

    /// The queues of a request by name, and the last of them if it is a page and more follow.
    fn queues_asked(
        &self,
        namespace: u32,
        request: &StatsRequest,
    ) -> (Vec<(String, u32)>, Option<String>) {
        let ids = &self.derived.queue_ids;
        if !request.queues.is_empty() {
            let named: BTreeSet<&String> = request.queues.iter().collect();
            let found = named.into_iter().filter_map(|name| {
                let id = self.queue(namespace, name)?;
                Some((name.clone(), id))
            });
            return (found.collect(), None);
        }
        let after = request.after.clone().unwrap_or_default();
        // No name is empty: the empty one comes before all.
        let from = (Excluded((namespace, after)), Unbounded);
        let of_namespace = ids.range(from).take_while(|(key, _)| key.0 == namespace);
        let mut found = of_namespace.map(|((_, name), id)| (name.clone(), *id));
        if request.limit == 0 {
            return (found.collect(), None);
        }
        let page: Vec<(String, u32)> = found.by_ref().take(request.limit).collect();
        let next = found.next().and(page.last().map(|(name, _)| name.clone()));
        (page, next)
    }

    /// Workers of the last minute, with what each has leased.
    fn workers(&self, namespace: u32) -> Vec<WorkerSeen> {
        let mut leased: HashMap<u128, usize> = HashMap::new();
        for open in self.derived.leases.values() {
            if open.namespace == namespace {
                *leased.entry(open.worker).or_default() += open.remaining as usize;
            }
        }
        let mut workers = self.history.workers(namespace, self.now);
        for seen in &mut workers {
            seen.leased = leased.get(&seen.worker.id.0).copied().unwrap_or(0);
        }
        workers
    }

    fn queue_stats(
        &mut self,
        queue: String,
        id: u32,
        request: &StatsRequest,
    ) -> Result<QueueStats> {
        let oldest = self.oldest_ready_due(id)?;
        let limits = self.limit_stats(id, oldest)?;
        let state = self.queue_state(id)?;
        let (is_closed, open_since) = (state.closed(self.now).is_some(), state.open_since());
        let row = &state.row;
        let mut counts = Counts::default();
        counts.0.copy_from_slice(&row.counts);
        let paused = row.paused;
        Ok(QueueStats {
            queue,
            counts,
            paused,
            oldest_due: oldest
                .filter(|_| !is_closed)
                .map(|due| self.now - due.max(open_since)),
            due: if request.due {
                self.due_histogram(id)?
            } else {
                Vec::new()
            },
            history: if request.history {
                self.history.minutes(id, self.now)
            } else {
                Vec::new()
            },
            ends: if request.ends {
                self.ends_of(id)?
            } else {
                Vec::new()
            },
            limits,
            shares: self.top_shares(id, request.shares)?,
        })
    }

    /// The earliest due among the heads of the lanes.
    fn oldest_ready_due(&mut self, queue: u32) -> Result<Option<Timestamp>> {
        let namespace = self.queue_state(queue)?.namespace;
        let mut oldest = self
            .queue_state(queue)?
            .due_head
            .filter(|head| *head <= self.now);
        for lane in 0..20 {
            if self.queue_state(queue)?.row.lanes[usize::from(lane)] == 0 {
                continue;
            }
            if let Some((key, place)) = self.places(queue, lane, 1)?.pop() {
                let id = self.candidate(&key, &place)?;
                let due = self.load_indexed(&JobKey { namespace, id })?.status.due;
                oldest = Some(oldest.map_or(due, |oldest| oldest.min(due)));
            }
            if self.lane_shares(queue, lane).is_none() {
                continue;
            }
            for (key, place, since) in self.share_heads(queue, lane, SHARES_MAX)? {
                let id = self.candidate(&key, &place)?;
                let due = self.load_indexed(&JobKey { namespace, id })?.status.due;
                let due = due.max(since);
                oldest = Some(oldest.map_or(due, |oldest| oldest.min(due)));
            }
        }
        Ok(oldest.into_iter().chain(self.oldest_opened(queue)?).min())
    }

    /// The earliest since when a job may start that the next claim puts back into its lane: time
    /// has opened its share or its limit.
    fn oldest_opened(&mut self, queue: u32) -> Result<Option<Timestamp>> {
        let namespace = self.queue_state(queue)?.namespace;
        let mut opened = self.opened_shares(queue, SHARES_MAX)?;
        opened.extend(self.opened_lines(queue)?);
        let mut oldest = None;
        for (id, since) in opened {
            let job = self.load_indexed(&JobKey { namespace, id })?;
            if let Some(since) = self.open_since(&job, since)? {
                oldest = Some(oldest.map_or(since, |oldest: Timestamp| oldest.min(since)));
            }
        }
        Ok(oldest)
    }

    /// Since when a job may start that one of its limits lets start since an instant; `None` while
    /// another one does not.
    fn open_since(&self, job: &Loaded, since: Timestamp) -> Result<Option<Timestamp>> {
        let (namespace, now) = (job.key.namespace, self.now);
        let mut since = since.max(job.status.due);
        for name in job.limits() {
            let row = self.named_row(namespace, name)?;
            let limits = self.limits_of(namespace, name);
            let units = u64::from(job.spec.rare.cost());
            if row.closed(&limits, units, now).is_some() {
                return Ok(None);
            }
            since = since.max(row.open_since.min(now));
        }
        let queue = job.spec.queue;
        if let Some(share) = job.share()
            && let Some(row) = self.share_row(queue, share)?
        {
            let none = ShareSettings::new();
            let limits = self.queue_state(queue)?.settings.shares.as_deref();
            if row.closed(limits.unwrap_or(&none), now).is_some() {
                return Ok(None);
            }
            since = since.max(row.open_since.min(now));
        }
        Ok(Some(since))
    }

    /// What is wrong with the engine's liveness: due jobs that wait while workers are free.
    pub fn problems(&mut self) -> Result<Vec<NamespaceProblem>> {
        let now = self.now;
        let open = |(id, queue): (&u32, &super::Queue)| {
            let ready = queue.has_open_places(false);
            let may_go = !queue.row.paused && queue.closed(now).is_none();
            let since = queue.open_since();
            (ready && may_go).then(|| (*id, since, queue.namespace, queue.name.clone()))
        };
        let waiting: Vec<_> = self.derived.queues.iter().filter_map(open).collect();
        let mut problems = Vec::new();
        let mut known: HashMap<u32, HashMap<String, usize>> = HashMap::new();
        for (id, since, namespace, name) in waiting {
            let Some(due) = self.oldest_ready_due(id)? else {
                continue;
            };
            let waits = self.now - due.max(since);
            if waits <= WAITS_MAX {
                continue;
            }
            let free = known
                .entry(namespace)
                .or_insert_with(|| free_workers(&self.workers(namespace), self.now));
            if let Some(free) = free.get(&*name) {
                let waits = format_span(waits);
                let text = format!(
                    "queue {name}: the oldest due job has waited {waits} while {free} workers are free; \
                     restart the workers, and ask `punctual jobs explain` about the job"
                );
                let whose = &self.derived.namespace_names[&namespace];
                let namespace = Namespace::new(whose.clone())?;
                problems.push(NamespaceProblem { namespace, text });
            }
        }
        Ok(problems)
    }

    /// Future jobs in buckets of a minute, ten minutes, an hour and a day, counted up to a bound.
    fn due_histogram(&mut self, queue: u32) -> Result<Vec<DueBucket>> {
        let spans = [
            (minutes(1), 10),
            (minutes(10), 5),
            (hours(1), 23),
            (days(1), 30),
        ];
        let mut buckets = Vec::new();
        let mut from = self.now;
        for (span, times) in spans {
            for _ in 0..times {
                buckets.push(DueBucket {
                    from,
                    until: from + span,
                    jobs: 0,
                });
                from = from + span;
            }
        }
        buckets.push(DueBucket {
            from,
            until: Timestamp::MAX,
            jobs: 0,
        });
        let mut at = 0;
        for (key, _) in self.rows.due.page(queue, None, DUE_JOBS_MAX)? {
            while at + 1 < buckets.len() && key.due >= buckets[at].until {
                at += 1;
            }
            buckets[at].jobs += 1;
        }
        buckets.retain(|bucket| bucket.jobs > 0);
        Ok(buckets)
    }
}
