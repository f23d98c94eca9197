//! A call of many jobs does to each what a call of that job alone does: two namespaces, asked the
//! same, in calls of many and of one, are never distinguished.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::conformance::START;
use punctual::engine::{
    Action, Claim, Edit, EditVerdict, Got, Lease, LeaseReport, QueueStats, Receipt, Select, Settle,
    SettleVerdict, Settlement, StatsRequest, Target, WorkerId,
};
use punctual::time::{ManualClock, days, hours, minutes, seconds};
use punctual::{
    Due, Effect, Engine, Hold, JobId, Namespace, NewJob, Outcome, Unique, UniquePolicy,
};
use punctual_redis::testing::TestServer;
use punctual_redis::{Options, RedisEngine};

use crate::client::QUEUE;

/// Who claims on both sides.
const WORKER: WorkerId = WorkerId(7);

/// Numbers that are the same on every run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % most
    }

    fn one_of<T: Clone>(&mut self, these: &[T]) -> T {
        these[self.below(these.len() as u64) as usize].clone()
    }

    fn job(&mut self) -> NewJob {
        let mut job = NewJob::new(self.one_of(&[QUEUE, QUEUE, "mail"]), "{}");
        job.kind = self.one_of(&[job.queue.as_str(), "one", "other"]).into();
        job.priority = self.one_of(&[5, 5, 5, 0]);
        let dues = [
            Due::Now,
            Due::Now,
            Due::Now,
            Due::After(seconds(10)),
            Due::After(minutes(30)),
            Due::After(days(3)),
            Due::At(punctual::time::Timestamp::ZERO + seconds(1)),
        ];
        job.due = self.one_of(&dues);
        if self.below(2) == 0 {
            use UniquePolicy::{After, Keep, Replace};
            let holds = [
                Hold::UntilSettled,
                Hold::UntilSettled,
                Hold::UntilStarted,
                Hold::For(minutes(1)),
            ];
            let mut unique = Unique::new(format!("key {}", self.below(40)));
            unique.policy = self.one_of(&[Keep, Keep, Replace, After]);
            unique.hold = self.one_of(&holds);
            job.unique = Some(unique);
        }
        if self.below(4) == 0 {
            let spans = [minutes(20), hours(2)];
            job.expires_at = Some(START + self.one_of(&spans));
        }
        if self.below(4) == 0 {
            job.retention = self.one_of(&[seconds(1), hours(1)]);
        }
        if self.below(8) == 0 {
            job.wait_for = self
                .one_of(&[vec!["paid"], vec!["paid", "packed"]])
                .into_iter()
                .map(String::from)
                .collect();
        }
        if self.below(8) == 0 {
            job.max_crashes = Some(self.one_of(&[1, 2, 5]));
        }
        if self.below(8) == 0 {
            job.max_attempts = 2;
        }
        job
    }
}

/// One of the two namespaces, and how many a call of it carries.
struct Side<'a> {
    engine: &'a RedisEngine,
    namespace: Namespace,
    most: usize,
}

impl Side<'_> {
    async fn enqueue(&self, jobs: &[NewJob]) -> Vec<Receipt> {
        let mut receipts = Vec::new();
        for some in jobs.chunks(self.most) {
            let sent = self.engine.enqueue(&self.namespace, some.to_vec()).await;
            receipts.extend(sent.expect("enqueue").receipts);
        }
        receipts
    }

    async fn edit(&self, action: &Action, targets: &[Target]) -> Vec<(Option<JobId>, EditVerdict)> {
        let mut verdicts = Vec::new();
        for some in targets.chunks(self.most) {
            let edit = Edit::new(Select::Targets(some.to_vec()), action.clone());
            let edited = self.engine.edit(&self.namespace, edit).await;
            verdicts.extend(edited.expect("edit").verdicts);
        }
        verdicts
    }

    async fn claim(&self) -> Vec<Lease> {
        let mut leases = Vec::new();
        for queue in [QUEUE, "mail"] {
            loop {
                let claim = Claim::new(WORKER, queue, 100).lease_duration(hours(1));
                let claimed = self.engine.claim(&self.namespace, claim).await;
                let claimed = claimed.expect("claim");
                let is_all = claimed.leases.is_empty();
                leases.extend(claimed.leases);
                if is_all {
                    break;
                }
            }
        }
        leases
    }

    async fn settle(&self, lease: &Lease, ends: &[Settlement]) -> Vec<SettleVerdict> {
        let mut verdicts = Vec::new();
        for some in ends.chunks(self.most) {
            let settle = Settle::new(vec![LeaseReport::new(lease.token, some.to_vec())]);
            let settled = self.engine.settle(&self.namespace, settle).await;
            verdicts.extend(settled.expect("settle").verdicts.remove(0));
        }
        verdicts
    }

    /// Everything that can be asked of these jobs and their queues.
    async fn reported(&self, ids: &[JobId]) -> (Vec<Option<Got>>, Vec<QueueStats>) {
        let targets = ids.iter().map(|id| Target::Id(*id)).collect();
        let jobs = self.engine.get(&self.namespace, targets, false).await;
        // Not the ends: a call settles together what it can, and so in another order.
        let request = StatsRequest::default()
            .queues(vec![QUEUE.into(), "mail".into()])
            .history(true)
            .due(true);
        let stats = self.engine.stats(&self.namespace, request).await;
        (jobs.expect("get"), stats.expect("stats").queues)
    }

    /// What time has caused, to its end.
    async fn maintain(&self) {
        for _ in 0..200 {
            let claim = Claim::new(WORKER, "nothing", 1);
            self.engine
                .claim(&self.namespace, claim)
                .await
                .expect("claim");
            let ahead = self.engine.maintain().await.expect("maintain");
            if ahead.moved + ahead.expired + ahead.rescued + ahead.pruned == 0 {
                return;
            }
        }
        panic!("it does not end");
    }

    /// Names of all keys of it, without its own.
    fn keys(&self, server: &TestServer) -> BTreeSet<String> {
        let mine = format!("punctual:{{{}/0}}", self.namespace.as_str());
        let keys = server.cli(&["KEYS", &format!("{}*", mine.replace('{', "\\{"))]);
        keys.lines()
            .map(|key| key.replace(&mine, ""))
            .filter(|key| !key.starts_with(":d:"))
            .collect()
    }
}

/// How the attempt of a job ends.
fn end(draws: &mut Draws, id: JobId, attempt: u32, held: &[JobId]) -> Settlement {
    let outcomes = [
        Outcome::Completed,
        Outcome::Completed,
        Outcome::Completed,
        Outcome::Retry { after: None },
        Outcome::Retry {
            after: Some(seconds(3)),
        },
        Outcome::Retry {
            after: Some(Duration::ZERO),
        },
        Outcome::Snooze { after: seconds(1) },
        Outcome::Cancelled,
        Outcome::Dead,
        Outcome::Released,
    ];
    let mut end = Settlement::new(id, attempt, draws.one_of(&outcomes));
    if draws.below(8) == 0 && end.outcome == Outcome::Completed {
        end.result = Some("done".into());
    }
    if matches!(end.outcome, Outcome::Retry { .. }) {
        end.error = draws.one_of(&[
            None,
            Some("no connection".into()),
            Some("rd\u{a2}rd".into()),
        ]);
    }
    if draws.below(10) == 0 {
        let clear = |id: &JobId| Effect::Clear {
            job: *id,
            name: "paid".into(),
        };
        end.effects = held.iter().take(20).map(clear).collect();
    }
    end
}

/// Whether both sides say the same of all jobs and queues.
async fn same(many: &Side<'_>, one: &Side<'_>, ids: &[JobId], when: &str) {
    let ((first, queues), (second, others)) = (many.reported(ids).await, one.reported(ids).await);
    for (job, other) in first.iter().zip(&second) {
        assert_eq!(job, other, "{when}");
    }
    assert_eq!(queues, others, "{when}");
}

/// Both sides edit the same targets and answer the same.
async fn edits(many: &Side<'_>, one: &Side<'_>, draws: &mut Draws, ids: &[JobId], when: &str) {
    let target = |draws: &mut Draws| match draws.below(2) {
        0 => Target::Id(draws.one_of(ids)),
        _ => Target::Unique {
            queue: QUEUE.into(),
            key: format!("key {}", draws.below(40)),
        },
    };
    let actions = [
        Action::Cancel,
        Action::Reprioritise(5),
        Action::Reschedule(Due::After(seconds(4))),
        Action::RunNow,
    ];
    for action in actions {
        let targets: Vec<Target> = (0..16).map(|_| target(draws)).collect();
        let (first, second) = (
            many.edit(&action, &targets).await,
            one.edit(&action, &targets).await,
        );
        assert_eq!(first, second, "{when}: {action:?} {targets:?}");
    }
}

/// Both sides claim the same jobs in the same order and settle them alike.
async fn settles(many: &Side<'_>, one: &Side<'_>, draws: &mut Draws, held: &[JobId], when: &str) {
    let (first, second) = (many.claim().await, one.claim().await);
    let order = |leases: &[Lease]| -> Vec<(JobId, u32)> {
        let jobs = leases.iter().flat_map(|lease| &lease.jobs);
        jobs.map(|job| (job.id, job.attempt)).collect()
    };
    assert_eq!(order(&first), order(&second), "{when}: claim");
    for (lease, other) in first.iter().zip(&second) {
        let jobs = lease.jobs.iter();
        let ends: Vec<Settlement> = jobs
            .map(|job| end(draws, job.id, job.attempt, held))
            .collect();
        let (first, second) = (
            many.settle(lease, &ends).await,
            one.settle(other, &ends).await,
        );
        // A lease of many settles those that completed first; the state after effects may
        // differ.
        let ended = |verdicts: &[SettleVerdict]| verdicts.len();
        assert_eq!(ended(&first), ended(&second));
    }
}

async fn both_answer_the_same(seed: u64) {
    let server = TestServer::start();
    let clock = ManualClock::new(START);
    let options: Options = server.address().parse().expect("a good address");
    let engine = RedisEngine::connect_with_clock(options, clock.clone()).await;
    let engine = engine.expect("the server is there");
    let side = |name: &str, most| Side {
        engine: &engine,
        namespace: Namespace::new(name).expect("a good name"),
        most,
    };
    let (many, one) = (side("many", 100), side("one", 1));
    let mut draws = Draws(seed);
    let mut now = START;
    let (mut ids, mut held) = (Vec::new(), Vec::new());
    for round in 0..6 {
        let mut jobs: Vec<NewJob> = (0..60).map(|_| draws.job()).collect();
        for _ in 0..3 {
            let again = draws.one_of(&jobs);
            jobs.push(again);
        }
        ids.extend(jobs.iter().map(|job| job.id));
        held.extend(
            jobs.iter()
                .filter(|job| !job.wait_for.is_empty())
                .map(|job| job.id),
        );
        let (first, second) = (many.enqueue(&jobs).await, one.enqueue(&jobs).await);
        let when = format!("seed {seed} round {round}");
        assert_eq!(first, second, "{when}: enqueue");
        edits(&many, &one, &mut draws, &ids, &when).await;
        same(&many, &one, &ids, &format!("{when}: edited")).await;
        settles(&many, &one, &mut draws, &held, &when).await;
        same(&many, &one, &ids, &format!("{when}: settled")).await;
        now = now + draws.one_of(&[seconds(5), minutes(1), minutes(25), days(2)]);
        engine.set_time(now).await.expect("a clock");
        clock.set(now);
        many.maintain().await;
        one.maintain().await;
        same(&many, &one, &ids, &format!("{when}: later")).await;
    }
    assert_eq!(
        many.keys(&server),
        one.keys(&server),
        "seed {seed}: what is left"
    );
}

#[tokio::test]
async fn calls_of_many_do_what_calls_of_one_do() {
    for seed in 1..=4 {
        both_answer_the_same(seed).await;
    }
}
