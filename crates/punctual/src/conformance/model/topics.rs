//! The reference model: guards, subscriptions and the copies of a message.

use super::Space;
use crate::engine::{Controlled, Guard, RecordValue};
use crate::error::Result;
use crate::job::{Effect, JobId, NewJob};
use crate::time::Timestamp;
use crate::topic::{DEPTH_HEADER, SUBJECT_HEADER, Subscription};

/// Patterns of histories.
pub(crate) const PATTERNS: [&str; 5] = ["a.b", "a.*", "a.>", "*.b", ">"];
/// Subjects of histories.
pub(crate) const SUBJECTS: [&str; 4] = ["a.b", "a.b.c", "c.b", "d"];
/// Which of the patterns match each subject, written by hand.
const MATCHES: [[bool; 5]; 4] = [
    [true, true, true, true, true],
    [false, false, true, false, true],
    [false, false, false, true, true],
    [false, false, false, false, true],
];

impl Space {
    /// Causes effects if a record has a version, and writes it if asked. The version is the
    /// engine's where that answered one.
    pub(crate) fn guarded(
        &mut self,
        now: Timestamp,
        guard: &Guard,
        value: Option<RecordValue>,
        effects: &[Effect],
        answered: Option<u64>,
    ) -> Result<Controlled> {
        self.check_jobs_of(now, effects)?;
        if self.version_of(guard) != guard.version {
            let record = self.record(&guard.record).cloned();
            return Ok(Controlled::GuardConflict(record));
        }
        if value.is_some() {
            self.write(&guard.record, guard.version, value, answered);
        }
        let verdicts = effects.iter();
        let verdicts = verdicts.map(|effect| self.take_effect(now, effect, true));
        let verdicts = verdicts.collect();
        let version = self.version_of(guard);
        self.prune(now);
        Ok(Controlled::Guarded { version, verdicts })
    }

    /// The version that the record of a guard has; 0 if there is none.
    pub(super) fn version_of(&self, guard: &Guard) -> u64 {
        let record = self.record(&guard.record);
        record.map_or(0, |record| record.version)
    }

    /// A subscription comes, in the place of one of that name, or goes.
    pub(crate) fn subscribe(&mut self, name: &str, subscription: Option<Subscription>) {
        match (
            self.subscriptions.iter().position(|it| it.name == name),
            subscription,
        ) {
            (Some(at), Some(subscription)) => self.subscriptions[at] = subscription,
            (Some(at), None) => drop(self.subscriptions.remove(at)),
            (None, subscription) => self.subscriptions.extend(subscription),
        }
        self.subscriptions.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// The copies of a message, in the order of the names of their subscriptions.
    pub(crate) fn copies(&self, message: &NewJob, subject: &str) -> Vec<NewJob> {
        let subject_at = SUBJECTS.iter().position(|it| *it == subject);
        let receives = |subscription: &&Subscription| {
            let pattern = PATTERNS.iter().position(|it| *it == subscription.pattern);
            let both = subject_at.zip(pattern);
            both.is_some_and(|(subject, pattern)| MATCHES[subject][pattern])
        };
        let copy = |subscription: &Subscription| {
            let mut copy = message.clone();
            copy.id = JobId::derived(&message.id.to_string(), &subscription.name);
            copy.queue.clone_from(&subscription.queue);
            let subject = (SUBJECT_HEADER.to_owned(), subject.to_owned());
            let depth = (DEPTH_HEADER.to_owned(), "1".to_owned());
            copy.headers.extend([subject, depth]);
            copy
        };
        let all = self.subscriptions.iter();
        all.filter(receives).map(copy).collect()
    }
}
