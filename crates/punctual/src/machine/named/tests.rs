//! Goal: whatever is done, the rows of named limits say what a recount says, no more jobs are
//! active than may be, and no claim leaves a job that all of its limits let start. Method: random
//! calls, a recount after each, and at the end nothing is left.

use proptest::prelude::*;

use super::*;
use crate::engine::{
    Action, Claim, ClaimMode, Control, Edit, Lease, LeaseReport, RecordValue, Select, Settle,
    Settlement, Target, WorkerId,
};
use crate::job::{Due, Group, JobId, JobState, Limits, NewJob, OnRetry, Outcome};
use crate::time::{days, hours, millis, seconds};

const QUEUES: [&str; 2] = ["mail", "alerts"];
const NAMES: [&str; 4] = ["a", "a:1", "a:2", "b"];

struct Store {
    machine: Machine,
    now: Timestamp,
    nonce: u64,
    jobs: Vec<JobId>,
    leases: Vec<Lease>,
}

impl Store {
    fn new() -> Self {
        Self {
            machine: Machine::in_memory(Limits::default()),
            now: Timestamp::from_millis(1_790_000_000_000),
            nonce: 0,
            jobs: Vec::new(),
            leases: Vec::new(),
        }
    }

    fn enqueue(&mut self, one: u16, other: u16) {
        let mut job = NewJob::new(QUEUES[usize::from(one) % 2], "{}");
        let chosen = one >> 1;
        job.limits = (0..4)
            .filter(|nth| chosen >> nth & 1 == 1)
            .take(3)
            .map(|nth| NAMES[nth].to_owned())
            .collect();
        if !job.limits.is_empty() {
            job.cost = u32::from(other % 4) + 1;
        }
        job.priority = (other >> 2) as u8 % 3;
        job.share = (other >> 4 & 3 == 0).then(|| format!("s{}", other >> 6 & 1));
        job.group = (other >> 7 & 3 == 0).then(|| Group {
            key: format!("g{}", other >> 9 & 1),
            on_retry: OnRetry::Hold,
        });
        if other >> 10 & 7 == 0 {
            job.due = Due::After(seconds(3));
        }
        if other >> 13 & 7 == 0 {
            job.expires_at = Some(self.now + seconds(20));
        }
        self.jobs.push(job.id);
        let namespace = Namespace::default();
        self.machine
            .enqueue(self.now, &namespace, vec![job])
            .unwrap();
    }

    fn claim(&mut self, queue: &str, limit: usize, mode: ClaimMode) {
        self.nonce += 1;
        let mut claim = Claim::new(WorkerId(7), queue, limit).mode(mode);
        claim.nonce = self.nonce;
        claim.lease_duration = seconds(30);
        let namespace = Namespace::default();
        let claimed = self.machine.claim(self.now, &namespace, &claim).unwrap();
        let taken: usize = claimed.leases.iter().map(|lease| lease.jobs.len()).sum();
        for lease in &claimed.leases {
            self.check_concurrency(lease);
        }
        self.leases.extend(claimed.leases);
        if taken < limit && claimed.wake_at != Some(self.machine.now) {
            self.check_none_is_left(queue);
        }
    }

    /// Of each limit of a job that has just started no more are active than may be.
    fn check_concurrency(&self, lease: &Lease) {
        for name in lease.jobs.iter().flat_map(|job| &job.limits) {
            let limits = self.machine.limits_of(self.namespace(), name);
            let row = self.machine.named_row(self.namespace(), name).unwrap();
            let most = limits.concurrency.unwrap_or(u64::MAX);
            assert!(row.active <= most, "{name}: {row:?}");
        }
    }

    /// Each ready job of a queue that is in no group waits at one of its limits.
    fn check_none_is_left(&self, queue: &str) {
        let id = self.machine.queue(self.namespace(), queue).unwrap();
        for job in self.loaded(JobState::Ready) {
            if job.spec.queue != id || job.group().is_some() {
                continue;
            }
            let place = self
                .machine
                .place_of(&job)
                .unwrap()
                .expect("it has a place");
            let closed = self.machine.closed_limit(&job, &place).unwrap();
            assert!(closed.is_some(), "{:?} could start", job.spec);
        }
    }

    fn namespace(&self) -> u32 {
        let namespace = self.machine.namespace(&Namespace::default());
        namespace.expect("it has jobs")
    }

    fn loaded(&self, state: JobState) -> Vec<Loaded> {
        let Some(namespace) = self.machine.namespace(&Namespace::default()) else {
            return Vec::new();
        };
        let load = |id: &JobId| {
            let id = *id;
            let job = self.machine.load(&JobKey { namespace, id }).unwrap()?;
            (job.status.state(self.machine.now) == state).then_some(job)
        };
        self.jobs.iter().filter_map(load).collect()
    }

    fn settle(&mut self, nth: usize, how: u16) {
        if self.leases.is_empty() {
            return;
        }
        let lease = self.leases.remove(nth % self.leases.len());
        let outcomes = [
            Outcome::Completed,
            Outcome::Released,
            Outcome::Retry {
                after: Some(seconds(2)),
            },
            Outcome::Snooze { after: seconds(1) },
            Outcome::Dead,
        ];
        let outcome = &outcomes[usize::from(how) % outcomes.len()];
        let end =
            |job: &crate::job::JobRecord| Settlement::new(job.id, job.attempt, outcome.clone());
        let settlements = lease.jobs.iter().map(end).collect();
        let leases = vec![LeaseReport::new(lease.token, settlements)];
        let settle = Settle { leases };
        let namespace = Namespace::default();
        self.machine.settle(self.now, &namespace, settle).unwrap();
    }

    fn edit(&mut self, nth: usize, how: u16) {
        if self.jobs.is_empty() {
            return;
        }
        let id = self.jobs[nth % self.jobs.len()];
        let action = match how % 3 {
            0 => Action::Cancel,
            1 => Action::Reprioritise(how as u8 % 10),
            _ => Action::Reschedule(Due::After(millis(u64::from(how)))),
        };
        let edit = Edit {
            select: Select::Targets(vec![Target::Id(id)]),
            action,
            dry_run: false,
        };
        let namespace = Namespace::default();
        self.machine.edit(self.now, &namespace, edit).unwrap();
    }

    fn control(&mut self, control: Control) {
        let namespace = Namespace::default();
        self.machine.control(self.now, &namespace, control).unwrap();
    }

    fn set(&mut self, name: &str, settings: Option<LimitSettings>) {
        let record = format!("limit/{name}");
        let namespace = self.machine.namespace_or_new(&Namespace::default());
        let key = limit_key(namespace, &record);
        let known = self.machine.rows.records.get(&key).unwrap();
        self.control(Control::Write {
            name: record,
            expected: known.map_or(0, |known| known.version),
            value: settings.map(RecordValue::Limit),
        });
    }

    fn set_any(&mut self, nth: usize, how: u16) {
        let most = u64::from(how >> 3 & 3) + 1;
        let new = LimitSettings::new();
        let settings = match how % 5 {
            0 => None,
            1 | 2 => Some(new.concurrency(most)),
            3 => Some(new.rate(Rate::window(most, seconds(4)))),
            _ => Some(new.concurrency(2).rate(Rate::smooth(most, seconds(4)))),
        };
        self.set(NAMES[nth % 4], settings);
    }

    fn block(&mut self, nth: usize, span: std::time::Duration) {
        let name = NAMES[nth % 4].to_owned();
        self.control(Control::BlockLimit { name, span });
    }

    fn step(&mut self, (what, one, other): (u8, u16, u16)) {
        match what % 10 {
            0..=2 => self.enqueue(one, other),
            3 | 4 => {
                let queue = QUEUES[usize::from(one) % 2];
                self.claim(queue, usize::from(other) % 8 + 1, ClaimMode::Shared);
            }
            5 | 6 => self.settle(usize::from(one), other),
            7 => self.edit(usize::from(one), other),
            8 if other % 3 == 0 => self.block(usize::from(one), seconds(u64::from(other) % 7)),
            8 => self.set_any(usize::from(one), other),
            _ => self.now = self.now + millis(u64::from(one) % 9_000),
        }
    }

    /// What the rows say is what jobs and places say.
    fn recount(&self) {
        let rows = &self.machine.rows;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let named = rows.named.scan(all.0, all.1, false, usize::MAX).unwrap();
        let active = self.loaded(JobState::Active);
        let kept = rows
            .kept_back
            .scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX);
        let kept = kept.unwrap();
        let by = rows
            .kept_by
            .scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX);
        assert_eq!(by.unwrap().len(), kept.len());
        for (key, _) in &kept {
            let by = rows.kept_by.get(&key.place()).unwrap();
            assert_eq!(by.map(|by| by.limit).as_deref(), Some(key.limit.as_str()));
        }
        for name in NAMES {
            let row = named.iter().find(|(key, _)| key.name == name);
            let (known, waits) = row.map_or((0, 0), |(_, row)| (row.active, row.waiting));
            let of_name = |job: &&Loaded| job.limits().iter().any(|one| one == name);
            let count = active.iter().filter(of_name).count() as u64;
            assert_eq!(known, count, "active with {name}");
            let count = kept.iter().filter(|(key, _)| key.limit == name).count() as u64;
            assert_eq!(waits, count, "kept back by {name}");
        }
        let lines = rows
            .limit_lines
            .scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX);
        let lines = lines.unwrap();
        for (key, line) in &lines {
            let own = |one: &&(KeptBackKey, KeptBack)| {
                one.0.queue == key.queue && one.0.limit == key.text
            };
            assert_eq!(
                line.places,
                kept.iter().filter(own).count() as u64,
                "{key:?}"
            );
            let opens = OpensKey {
                queue: key.queue,
                until: line.until,
                limit: key.text.clone(),
            };
            assert!(rows.limit_opens.get(&opens).unwrap().is_some(), "{key:?}");
        }
        let opens = rows
            .limit_opens
            .scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX);
        assert_eq!(opens.unwrap().len(), lines.len());
        let idle = rows
            .idle_limits
            .scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX);
        let idle = idle.unwrap().len();
        assert_eq!(idle, self.machine.derived.named.idle);
        assert_eq!(
            idle,
            named.iter().filter(|(_, row)| row.idle.is_some()).count()
        );
    }

    /// Lets everything end; nothing is left of any limit.
    fn drain(&mut self) {
        for name in NAMES {
            self.set(name, None);
        }
        for nth in 0..4 {
            self.block(nth, std::time::Duration::ZERO);
        }
        for _ in 0..200 {
            for queue in QUEUES {
                self.claim(queue, 100, ClaimMode::Shared);
                // A suspect, which may be the first of its group.
                self.claim(queue, 100, ClaimMode::Alone);
            }
            while !self.leases.is_empty() {
                self.settle(0, 0);
            }
            self.now = self.now + seconds(31);
            self.machine.maintain(self.now).unwrap();
        }
        self.now = self.now + days(2) + hours(1);
        self.machine.maintain(self.now).unwrap();
        let ready = self.loaded(JobState::Ready);
        assert!(ready.is_empty(), "{ready:?}");
        let named = &self.machine.rows.named;
        let named = named.scan(Bound::Unbounded, Bound::Unbounded, false, usize::MAX);
        assert_eq!(named.unwrap(), []);
        assert_eq!(self.machine.derived.named.queues, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn rows_of_named_limits_say_what_a_recount_says(
        steps in prop::collection::vec(any::<(u8, u16, u16)>(), 1..120)
    ) {
        let mut store = Store::new();
        store.set("a", Some(LimitSettings::new().concurrency(1)));
        store.set("b", Some(LimitSettings::new().rate(Rate::window(2, seconds(5)))));
        for step in steps {
            store.step(step);
            store.recount();
        }
        store.drain();
        store.recount();
    }
}
