//! Makes a history from a seed.

use std::time::Duration;

use crate::job::{Hold, JobState, OnRetry, Outcome, Stop, UniquePolicy};
use crate::retry::RetryPolicy;
use crate::time::{days, hours, millis, minutes, seconds};

use super::Histories;
use super::action::*;
use super::random::Random;

/// The history of a seed.
pub(super) fn history(seed: u64, histories: &Histories) -> Vec<Step> {
    let steps = histories.steps;
    let mut generator = Generator {
        random: Random::new(seed),
        later: has_later_kinds(seed).then(|| Random::new(!seed)),
        guards: has_guards(seed).then(|| Random::new(seed.rotate_left(32))),
        sent: Vec::new(),
        nonces: 0,
        durable: histories.durable,
        alike: histories.alike,
    };
    let mut history = Vec::with_capacity(steps);
    while history.len() < steps {
        if generator.random.percent(6) {
            history.extend(generator.together());
        } else if generator.random.percent(2) {
            history.extend(generator.scene());
        } else {
            history.push(generator.step());
        }
        if let Some(last) = history.last_mut() {
            generator.guard(last);
        }
        history.extend(generator.guarded());
    }
    history.truncate(steps);
    history
}

/// Whether the history of a seed has the kinds of steps that came later. The first seeds and even
/// ones have none: those that are kept for what they once found go on to find it.
fn has_later_kinds(seed: u64) -> bool {
    seed > 8 && seed % 2 == 1
}

/// Whether the history of a seed has guards and topics, for the same reason.
fn has_guards(seed: u64) -> bool {
    seed > 8 && seed % 5 == 4
}

/// Few queues, keys, groups and names, so that jobs meet.
pub(super) const QUEUES: u8 = 4;
/// The last one is for jobs that are alike: nothing else stands between them.
pub(super) const ALIKE: u8 = 3;
pub(super) const KEYS: u8 = 3;
const GROUPS: u8 = 3;
pub(super) const NAMES: u8 = 3;
const WORKERS: u8 = 3;

const SPANS: [Duration; 9] = [
    Duration::from_micros(1),
    millis(1),
    millis(400),
    seconds(1),
    seconds(3),
    seconds(10),
    minutes(1),
    minutes(5),
    hours(1),
];
const LEASE_DURATIONS: [Duration; 5] =
    [millis(1), seconds(1), seconds(10), seconds(10), minutes(1)];

/// One over the last: the call that carries it is refused whole.
const MALFORMED_PRIORITY: u8 = 10;

pub(super) struct Generator {
    pub(super) random: Random,
    /// Of draws that came later: they move none of the others.
    later: Option<Random>,
    /// Of guards and topics, which came later still.
    pub(super) guards: Option<Random>,
    pub(super) sent: Vec<JobPlan>,
    nonces: u16,
    durable: bool,
    /// The most jobs of one call that are alike.
    pub(super) alike: u8,
}

#[derive(Clone, Copy)]
enum Draw {
    Enqueue,
    Claim,
    Extend,
    Settle,
    Edit,
    EditWhere,
    Queue,
    Time,
    Maintain,
    List,
    GetKey,
    Restart,
}

impl Generator {
    fn step(&mut self) -> Step {
        Step {
            space: u8::from(self.random.percent(8)),
            action: self.action(),
        }
    }

    fn action(&mut self) -> Action {
        let restart = if self.durable { 3 } else { 0 };
        let draw = self.random.weighted(&[
            (26, Draw::Enqueue),
            (22, Draw::Claim),
            (6, Draw::Extend),
            (22, Draw::Settle),
            (12, Draw::Edit),
            (3, Draw::EditWhere),
            (4, Draw::Queue),
            (20, Draw::Time),
            (2, Draw::Maintain),
            (4, Draw::List),
            (1, Draw::GetKey),
            (restart, Draw::Restart),
        ]);
        match draw {
            Draw::Enqueue if self.random.percent(25) => Action::Enqueue(self.alike()),
            Draw::Enqueue => {
                let most = self.one_in(3, 5, 2);
                let jobs = 1 + self.random.below(most);
                Action::Enqueue((0..jobs).map(|_| self.job()).collect())
            }
            Draw::Claim if self.random.percent(20) => Action::Claim(self.claim_alike()),
            Draw::Claim => Action::Claim(self.claim()),
            Draw::Extend => Action::Extend(self.extend()),
            Draw::Settle if self.random.percent(30) => Action::Settle(vec![self.all_done()]),
            Draw::Settle => {
                let leases = self.one_in(4, 2, 1);
                Action::Settle((0..leases).map(|_| self.lease()).collect())
            }
            Draw::Edit => {
                let most = self.one_in(3, 3, 1);
                let targets = 1 + self.random.below(most);
                Action::Edit {
                    targets: (0..targets).map(|_| self.target()).collect(),
                    edit: self.edit(),
                    dry_run: self.random.percent(10),
                }
            }
            Draw::EditWhere => {
                let mut filter = self.filter();
                let edit = match self.edit() {
                    EditPlan::UpdatePayload(_) => EditPlan::Cancel,
                    edit => edit,
                };
                if edit == EditPlan::Redrive {
                    // Redis edits in several steps, each with an instant of its own as the due.
                    filter.state = Some(JobState::Dead);
                }
                Action::EditWhere {
                    filter,
                    edit,
                    limit: self.limit(),
                    dry_run: self.random.percent(30),
                }
            }
            Draw::Queue => self.queue(),
            Draw::Time => self.time(),
            Draw::Maintain => Action::Maintain,
            Draw::List => Action::List {
                by: self.list(),
                filter: if self.random.percent(30) {
                    self.filter()
                } else {
                    FilterPlan::default()
                },
                limit: self.limit(),
                payloads: self.random.percent(50),
            },
            Draw::GetKey => Action::GetKey(self.random.small(QUEUES), self.random.small(KEYS)),
            Draw::Restart if self.random.percent(50) => Action::Reopen,
            Draw::Restart => Action::Crash,
        }
    }

    /// `rare` once in `n`, else `often`.
    fn one_in(&mut self, n: u64, rare: u64, often: u64) -> u64 {
        if self.random.below(n) == 0 {
            rare
        } else {
            often
        }
    }

    fn limit(&mut self) -> usize {
        self.random.one(&[1, 2, 3, 7, 1_000])
    }

    fn job(&mut self) -> JobPlan {
        if !self.sent.is_empty() && self.random.percent(12) {
            let mut again = self.random.one(&self.sent);
            if self.random.percent(30) {
                again.content += 1;
            }
            if self.random.percent(30) {
                again.due = self.when();
            }
            return again;
        }
        let no = self.sent.len() as u16;
        let random = &mut self.random;
        let mut job = JobPlan {
            queue: random.weighted(&[(6, 0), (3, 1), (1, 2)]),
            kind: u8::from(random.percent(20)),
            content: random.weighted(&[(6, 0), (2, 1), (1, 2)]),
            priority: random.weighted(&[(6, 5), (1, 0), (1, 4), (1, 9)]),
            max_attempts: random.weighted(&[(4, 20), (2, 1), (2, 2), (2, 3)]),
            ..JobPlan::plain(no)
        };
        job.unique = random.maybe(30, |random| {
            let policy = random.one(&[
                UniquePolicy::Keep,
                UniquePolicy::Replace,
                UniquePolicy::After,
                UniquePolicy::Refresh {
                    max_wait: minutes(15),
                },
            ]);
            let holds = [
                (6, Hold::UntilSettled),
                (2, Hold::UntilStarted),
                (1, Hold::For(seconds(10))),
                (1, Hold::For(minutes(10))),
                (1, Hold::For(Duration::ZERO)),
            ];
            (random.small(KEYS), policy, random.weighted(&holds))
        });
        job.group = random.maybe(30, |random| {
            (
                random.small(GROUPS),
                random.one(&[OnRetry::Hold, OnRetry::Hold, OnRetry::Pass]),
            )
        });
        job.names = random.weighted(&[(10, 0), (1, 1), (1, 2)]);
        job.retention = random.weighted(&[(6, Duration::ZERO), (1, seconds(1)), (2, hours(1))]);
        // No draw of its own: known seeds go on telling the stories they were kept for.
        let is_short = job.retention == seconds(1);
        job.remember = (is_short || job.content == 2).then_some(minutes(10));
        job.retry = random.one(&[
            RetryPolicy::default(),
            RetryPolicy::fixed(Duration::ZERO),
            RetryPolicy::fixed(seconds(2)),
            RetryPolicy::List(vec![millis(5), seconds(5)]),
        ]);
        if random.percent(45) {
            job.due = self.when();
        }
        if self.random.percent(12) {
            job.expires = Some(self.when());
        }
        if self.random.percent(8) {
            job.past = Some(self.past());
        }
        let limit = self.later(10, |later| later.one(&[1, 2, 3, 5]));
        job.max_crashes = limit;
        self.sent.push(job.clone());
        if self.random.percent(1) {
            job.priority = MALFORMED_PRIORITY;
        }
        job
    }

    fn past(&mut self) -> PastPlan {
        let finished = self.when();
        let random = &mut self.random;
        PastPlan {
            state: random.one(&JobState::ALL),
            attempt: random.small(4),
            failures: random.small(2),
            crashes: random.weighted(&[(6, 0), (1, 1), (2, 2)]),
            age: random.span(&SPANS),
            finished,
        }
    }

    fn when(&mut self) -> When {
        let span = self.random.span(&SPANS);
        match self.random.below(8) {
            0 => When::Now,
            1 => When::Ago(span),
            2 | 3 => When::At(span),
            _ => When::After(span),
        }
    }

    pub(super) fn nonce(&mut self) -> u16 {
        self.nonces += 1;
        self.nonces - 1
    }

    /// A job like no other.
    pub(super) fn fresh(&mut self) -> JobPlan {
        self.fresh_like(&JobPlan::plain(0))
    }

    /// One more like a job, under an id of its own.
    pub(super) fn fresh_like(&mut self, like: &JobPlan) -> JobPlan {
        let no = self.sent.len() as u16;
        let job = JobPlan { no, ..like.clone() };
        self.sent.push(job.clone());
        job
    }

    /// One that was sent before, most often of late.
    pub(super) fn sent_before(&mut self) -> JobPlan {
        let no = self.number();
        self.sent[usize::from(no)].clone()
    }

    fn claim(&mut self) -> ClaimPlan {
        let random = &mut self.random;
        let queues = random.one(&[
            vec![0],
            vec![0],
            vec![1],
            vec![0, 1],
            vec![1, 0],
            vec![2, 1, 0],
            vec![0, 1, 2, 3],
        ]);
        let again = self.nonces > 0 && random.percent(10);
        let nonce = if again {
            self.nonces - 1 - random.below(u64::from(self.nonces.min(4))) as u16
        } else {
            self.nonce()
        };
        let random = &mut self.random;
        ClaimPlan {
            worker: random.small(WORKERS),
            queues,
            turns: random.percent(40),
            limit: random.one(&[1, 1, 2, 3, 5, 64]),
            max_bytes: random.weighted(&[(6, 4 << 20), (1, 1), (1, 60)]),
            lease_duration: random.span(&LEASE_DURATIONS),
            alone: random.percent(25),
            remote: random.percent(40),
            nonce,
        }
    }

    /// Mostly a lease of late.
    pub(super) fn lease_back(&mut self) -> u8 {
        self.random
            .weighted(&[(8, 0), (4, 1), (3, 2), (2, 3), (1, 6)])
    }

    fn extend(&mut self) -> ExtendPlan {
        ExtendPlan {
            lease: self.lease_back(),
            lease_duration: self.random.span(&LEASE_DURATIONS),
            forged: self.random.percent(5),
            progress: self.random.maybe(50, |random| random.small(200)),
            others: (0..self.random.below(3)).map(|_| self.number()).collect(),
        }
    }

    fn number(&mut self) -> u16 {
        let sent = self.sent.len() as u64;
        if sent > 12 && self.random.percent(70) {
            return (sent - 1 - self.random.below(12)) as u16;
        }
        self.random.below(sent) as u16
    }

    fn lease(&mut self) -> LeasePlan {
        let settlements = self.random.one(&[1, 1, 2, 3, 6]);
        LeasePlan {
            lease: self.lease_back(),
            forged: self.random.percent(4),
            settlements: (0..settlements).map(|nth| self.settlement(nth)).collect(),
        }
    }

    fn settlement(&mut self, nth: u8) -> SettlePlan {
        let span = self.random.span(&SPANS);
        let outcome = match self.random.below(16) {
            0..=4 => Outcome::Completed,
            5..=7 => Outcome::Retry { after: None },
            8 => Outcome::Retry { after: Some(span) },
            9 => Outcome::Retry {
                after: Some(Duration::ZERO),
            },
            10 => Outcome::Snooze { after: span },
            11 => Outcome::Snooze {
                after: Duration::ZERO,
            },
            12 => Outcome::Cancelled,
            13 => Outcome::Dead,
            _ => Outcome::Released,
        };
        SettlePlan {
            nth: if self.random.percent(10) {
                self.random.small(4)
            } else {
                nth
            },
            wrong_attempt: self.random.percent(3),
            outcome,
            result: self.random.percent(40),
            error: self.random.percent(40),
            stopped: self.random.maybe(20, |random| random.one(&Stop::ALL)),
            effects: (0..self.one_in(5, 2, 0)).map(|_| self.effect()).collect(),
            guard: None,
        }
    }

    fn effect(&mut self) -> EffectPlan {
        if self.random.percent(40) {
            EffectPlan::Enqueue(self.job())
        } else {
            EffectPlan::Clear {
                no: self.number(),
                name: self.random.small(NAMES),
            }
        }
    }

    fn target(&mut self) -> TargetPlan {
        if self.random.percent(15) {
            TargetPlan::Key {
                queue: self.random.small(2),
                key: self.random.small(KEYS),
            }
        } else {
            TargetPlan::Job(self.number())
        }
    }

    fn edit(&mut self) -> EditPlan {
        let drawn = match self.random.below(14) {
            0..=4 => EditPlan::Cancel,
            5..=6 => EditPlan::Reschedule(self.when()),
            7..=8 => EditPlan::RunNow,
            9 => EditPlan::Reprioritise(self.random.small(11)),
            10..=12 => EditPlan::Redrive,
            _ => EditPlan::Delete,
        };
        let content = self.later(15, |later| later.small(4));
        content.map_or(drawn, EditPlan::UpdatePayload)
    }

    /// What came later, so often of a hundred times.
    fn later<T>(&mut self, percent: u64, draw: impl FnOnce(&mut Random) -> T) -> Option<T> {
        self.later.as_mut()?.maybe(percent, draw)
    }

    fn filter(&mut self) -> FilterPlan {
        FilterPlan {
            queue: self.random.maybe(70, |random| random.small(QUEUES)),
            state: self.random.maybe(60, |random| random.one(&JobState::ALL)),
            kind: self.random.maybe(20, |random| random.small(2)),
            content: self.random.maybe(20, |random| random.small(2)),
            older_than: self.later(20, |later| later.span(&SPANS)),
        }
    }

    fn queue(&mut self) -> Action {
        let queue = self.random.weighted(&[(1, 0), (1, 1), (1, 2)]);
        if self.later(15, |_| ()).is_some() {
            return Action::DeleteQueue(queue);
        }
        match self.random.below(10) {
            0..=1 => Action::Pause(queue),
            2..=4 => Action::Resume(queue),
            5 => Action::Purge {
                queue,
                limit: self.limit(),
            },
            _ => Action::Settings {
                queue,
                max_pending: self.random.maybe(60, |random| random.small(8)),
                dead_letter: self.random.percent(60),
                limits: self.later(50, |later| 1 + later.small(5)).unwrap_or(0),
                stale: self.random.percent(10),
            },
        }
    }

    fn time(&mut self) -> Action {
        let walk = self.random.percent(60);
        match self.random.below(12) {
            0..=4 => Action::Advance {
                by: self.random.span(&SPANS),
                walk,
            },
            5 => Action::Advance {
                by: self.random.span(&[minutes(2), hours(5), days(1), days(31)]),
                walk: false,
            },
            6 => Action::Back(self.random.span(&SPANS)),
            _ => Action::Next {
                moment: self.random.weighted(&[
                    (4, Moment::Due),
                    (4, Moment::LeaseEnd),
                    (2, Moment::Expiry),
                    (1, Moment::KeyPeriodEnd),
                    (2, Moment::Forgetting),
                ]),
                off: self.random.one(&[-1, 0, 0, 1]),
                walk,
            },
        }
    }

    fn list(&mut self) -> ListPlan {
        let queue = self.random.small(QUEUES);
        match self.random.below(6) {
            0 => ListPlan::Unique(queue, self.random.small(KEYS)),
            1 => ListPlan::Group(queue, self.random.small(GROUPS)),
            2 => ListPlan::All,
            _ => ListPlan::State(queue, self.random.one(&JobState::ALL)),
        }
    }
}
