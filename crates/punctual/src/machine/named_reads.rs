//! What is read of named limits: how they stand, and why a job waits.

use std::ops::Bound;

use super::Machine;
use super::jobs::Loaded;
use super::named::limit_key;
use crate::engine::{Controlled, NamedLimit, Namespace, Reason};
use crate::error::Result;

impl Machine {
    /// How a limit stands.
    pub(super) fn read_limit(&self, namespace: &Namespace, name: String) -> Result<Controlled> {
        let stands = match self.namespace(namespace) {
            Some(namespace) => self.limit_stands(namespace, name)?,
            None => NamedLimit::new(name),
        };
        Ok(Controlled::Limit(Box::new(stands)))
    }

    /// Limits after a name, in order: those with settings, and those with something to know.
    pub(super) fn read_limits(
        &self,
        namespace: &Namespace,
        after: &str,
        limit: usize,
    ) -> Result<Controlled> {
        let Some(namespace) = self.namespace(namespace) else {
            return Ok(Controlled::Limits(Vec::new()));
        };
        let (start, end) = (limit_key(namespace, after), limit_key(namespace + 1, ""));
        let bounds = (Bound::Excluded(&start), Bound::Excluded(&end));
        let rows = (self.rows.named).scan(bounds.0, bounds.1, false, limit)?;
        let mut names: Vec<String> = rows.into_iter().map(|(key, _)| key.name).collect();
        if let Some(all) = self.derived.named.settings.get(&namespace) {
            let later = (Bound::Excluded(after), Bound::Unbounded);
            let set = all.range::<str, _>(later).take(limit);
            names.extend(set.map(|(name, _)| name.clone()));
        }
        names.sort_unstable();
        names.dedup();
        names.truncate(limit);
        let stands = names
            .into_iter()
            .map(|name| self.limit_stands(namespace, name));
        Ok(Controlled::Limits(stands.collect::<Result<_>>()?))
    }

    fn limit_stands(&self, namespace: u32, name: String) -> Result<NamedLimit> {
        let found = self.limit_settings(namespace, &name);
        let settings = found.map(|(settings, _)| settings);
        let set_by = found.map(|(_, by)| by.to_owned());
        let row = self.named_row(namespace, &name)?;
        let closed = row.closed(&settings.unwrap_or_default(), 1, self.now);
        Ok(NamedLimit {
            settings,
            set_by,
            active: row.active,
            waiting: row.waiting,
            closed: closed.map(|closed| closed.by),
            opens_at: closed.and_then(|closed| closed.until),
            ..NamedLimit::new(name)
        })
    }

    /// The named limits that keep a ready job from starting.
    pub(super) fn why_named(&self, job: &Loaded) -> Result<Vec<Reason>> {
        let namespace = job.key.namespace;
        let units = u64::from(job.spec.rare.cost());
        let mut reasons = Vec::new();
        for name in job.limits() {
            let limits = self.limits_of(namespace, name);
            let row = self.named_row(namespace, name)?;
            let name = name.clone();
            if let Some(until) = row.blocked_until.filter(|until| *until > self.now) {
                let name = name.clone();
                reasons.push(Reason::LimitBlocked { name, until });
            }
            let active = row.active;
            if let Some(limit) = limits.concurrency.filter(|most| active >= *most) {
                reasons.push(Reason::LimitConcurrencyReached {
                    name: name.clone(),
                    limit,
                    active,
                    when_full: limits.when_full,
                });
            }
            if let Some(rate) = limits.rate
                && let Some(until) = row.rate_opens(&rate, self.now, units)
            {
                reasons.push(Reason::LimitRateReached { name, rate, until });
            }
        }
        Ok(reasons)
    }
}
