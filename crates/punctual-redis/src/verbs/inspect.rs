//! Get, list and stats over the shards of a namespace.

use std::collections::BTreeMap;

use punctual::engine::{
    Counts, ENDS_KEPT, Got, List, Listing, MinuteStats, QueueStats, Reason, ShareStats, Stats,
    StatsRequest, Target, WorkerSeen, job_named,
};
use punctual::schedule::OVERDUE_MAX;
use punctual::time::Timestamp;
use punctual::{Namespace, Result};

use super::{Walk, by_shard, in_slices};
use crate::session::calls::Calls;
use crate::session::shards::of_target;
use crate::wire::{inspect, stats};

/// Jobs of which one call says why they wait: it reads those before each.
const EXPLAINED: usize = 10;

impl Calls {
    /// Asks where a target must be, and for those that are not there, everywhere else.
    pub(crate) async fn get(
        &self,
        namespace: &Namespace,
        targets: &[Target],
        explain: bool,
    ) -> Result<Vec<Option<Got>>> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        let mut found: Vec<Option<Got>> = vec![None; targets.len()];
        for step in 0..count {
            let open: Vec<usize> = (0..targets.len())
                .filter(|at| found[*at].is_none())
                .collect();
            let shard = |at: &usize| (of_target(&targets[*at], count) + step) % count;
            let mut parts = by_shard(open.clone(), count, shard);
            if parts.is_empty() && step == 0 {
                // An empty call is one all the same: the shard's time goes on.
                parts.push((0, Vec::new(), Vec::new()));
            }
            let slice = if explain { EXPLAINED } else { usize::MAX };
            for (index, places, part) in in_slices(parts, slice) {
                let asked: Vec<&Target> = part.iter().map(|at| &targets[*at]).collect();
                let map = || inspect::get_request(&asked, explain);
                let reply = self.read(&shards[index], "get", map).await?;
                let got = inspect::get_reply(&reply, asked.len(), explain)?;
                for (place, got) in places.into_iter().zip(got) {
                    found[open[place]] = got;
                }
            }
        }
        if explain && count > 1 {
            self.explain_ended_parents(namespace, &mut found).await?;
        }
        Ok(found)
    }

    /// Adds that nothing releases a held job whose parent has ended in another shard.
    async fn explain_ended_parents(
        &self,
        namespace: &Namespace,
        found: &mut [Option<Got>],
    ) -> Result<()> {
        let mut parents = Vec::new();
        for (place, got) in found.iter().enumerate() {
            let Some(Got::Job(_, Some(explanation))) = got else {
                continue;
            };
            let named = explanation
                .reasons
                .iter()
                .filter_map(|reason| match reason {
                    Reason::WaitsForNames { names } => Some(names),
                    _ => None,
                });
            let named = named.flatten().filter_map(|name| job_named(name));
            parents.extend(named.map(|id| (place, id)));
        }
        if parents.is_empty() {
            return Ok(());
        }
        let targets: Vec<Target> = parents.iter().map(|(_, id)| Target::Id(*id)).collect();
        let ended = Box::pin(self.get(namespace, &targets, false)).await?;
        for ((place, by), parent) in parents.into_iter().zip(ended) {
            let state = parent.map(|parent| parent.state());
            let state = state.filter(|state| state.is_settled());
            if let (Some(state), Some(Got::Job(_, Some(explanation)))) = (state, &mut found[place])
            {
                let never = Reason::NeverReleased { by, state };
                if !explanation.reasons.contains(&never) {
                    explanation.reasons.insert(0, never);
                }
            }
        }
        Ok(())
    }

    /// Walks shard after shard; one that has nothing is passed over at once.
    pub(crate) async fn list(&self, namespace: &Namespace, list: &List) -> Result<Listing> {
        let shards = self.shards_of(namespace).await?;
        let count = shards.len();
        let request = format!("list {namespace} {:?} {:?}", list.by, list.filter);
        let mut walk = Walk::from(list.cursor.as_ref(), &request, count)?;
        let mut listing = Listing::new(Vec::new(), Timestamp::ZERO);
        loop {
            let (inner, left) = (
                walk.inner.as_deref(),
                list.limit.saturating_sub(listing.examined),
            );
            let map = || inspect::list_request(list, inner, left);
            let reply = self.read(&shards[walk.index], "list", map).await;
            let part = match reply.and_then(|reply| inspect::list_reply(&reply)) {
                // What was found is answered; the next call meets the error.
                Err(_) if listing.examined > 0 => break,
                part => part?,
            };
            listing.jobs.extend(part.jobs);
            listing.examined += part.examined;
            listing.now = listing.now.max(part.now);
            let enough = walk.is_enough(&part.cursor, listing.examined, list.limit);
            if !walk.advance(part.cursor, count) {
                return Ok(listing);
            }
            if enough {
                break;
            }
        }
        listing.cursor = Some(walk.cursor());
        Ok(listing)
    }

    /// Adds up what each shard counts: of all queues, or of a page of them.
    pub(crate) async fn stats(
        &self,
        namespace: &Namespace,
        request: &StatsRequest,
    ) -> Result<Stats> {
        let shards = self.shards_of(namespace).await?;
        let mut sum = Stats::new(Timestamp::ZERO);
        let mut queues = BTreeMap::new();
        let is_page = request.limit > 0;
        // Whether a shard has queues after its page. The first names of all pages are the first of
        // all queues, for each shard answers its own first ones.
        let mut goes_on = false;
        for shard in shards.iter() {
            let mut after = request.after.clone();
            loop {
                let map = || stats::request(request, after.as_deref());
                let reply = self.read(shard, "stats", map).await?;
                let (part, next) = stats::reply(&reply)?;
                sum.exact &= part.exact;
                sum.now = sum.now.max(part.now);
                for queue in part.queues {
                    add_queue(&mut queues, queue, request.shares);
                }
                sum.overdue.extend(part.overdue);
                if next.is_none() || is_page {
                    // Those of the last page are the latest ones.
                    for seen in part.workers {
                        add_worker(&mut sum.workers, seen);
                    }
                    goes_on |= next.is_some();
                    break;
                }
                after = next;
            }
        }
        sum.queues = queues.into_values().collect();
        if is_page && (goes_on || sum.queues.len() > request.limit) {
            sum.queues.truncate(request.limit);
            sum.next = sum.queues.last().map(|last| last.queue.clone());
        }
        sum.overdue
            .sort_by(|a, b| (a.since, &a.schedule).cmp(&(b.since, &b.schedule)));
        sum.overdue.truncate(OVERDUE_MAX);
        Ok(sum)
    }
}

fn add_queue(queues: &mut BTreeMap<String, QueueStats>, part: QueueStats, shares: usize) {
    let Some(sum) = queues.get_mut(&part.queue) else {
        queues.insert(part.queue.clone(), part);
        return;
    };
    let added = |state: usize| sum.counts.0[state] + part.counts.0[state];
    sum.counts = Counts(std::array::from_fn(added));
    sum.paused |= part.paused;
    sum.oldest_due = sum.oldest_due.max(part.oldest_due);
    sum.due.extend(part.due);
    sum.due.sort_by_key(|bucket| (bucket.from, bucket.until));
    sum.due.dedup_by(|next, first| {
        let same = (first.from, first.until) == (next.from, next.until);
        if same {
            first.jobs += next.jobs;
        }
        same
    });
    let mut minutes: BTreeMap<Timestamp, MinuteStats> = BTreeMap::new();
    for minute in sum.history.drain(..).chain(part.history) {
        match minutes.get_mut(&minute.minute) {
            Some(known) => add_minute(known, &minute),
            None => drop(minutes.insert(minute.minute, minute)),
        }
    }
    sum.history = minutes.into_values().collect();
    sum.ends.extend(part.ends);
    sum.ends.sort_by_key(|end| std::cmp::Reverse(end.at));
    sum.ends.truncate(ENDS_KEPT);
    for share in part.shares {
        match sum
            .shares
            .iter_mut()
            .find(|known| known.share == share.share)
        {
            Some(known) => {
                known.ready += share.ready;
                known.active += share.active;
                known.closed = known.closed.or(share.closed);
                known.opens_at = known.opens_at.max(share.opens_at);
            }
            None => sum.shares.push(share),
        }
    }
    let most = |share: &ShareStats| std::cmp::Reverse((share.ready, share.active));
    sum.shares.sort_by_key(most);
    sum.shares.truncate(shares);
}

fn add_minute(sum: &mut MinuteStats, part: &MinuteStats) {
    sum.enqueued += part.enqueued;
    sum.claimed += part.claimed;
    sum.completed += part.completed;
    sum.failed += part.failed;
    sum.dead += part.dead;
    sum.cancelled += part.cancelled;
    // Of two medians the worse is answered: never better than it was.
    sum.lateness_us = sum.lateness_us.max(part.lateness_us);
    sum.run_time_us = sum.run_time_us.max(part.run_time_us);
}

fn add_worker(workers: &mut Vec<WorkerSeen>, part: WorkerSeen) {
    match workers
        .iter_mut()
        .find(|known| known.worker.id == part.worker.id)
    {
        Some(known) => {
            known.leased += part.leased;
            known.seen_at = known.seen_at.max(part.seen_at);
        }
        None => workers.push(part),
    }
}
