//! Goal: a claim reads as much with ten thousand shares as with ten; and what is counted of shares
//! is what their rows and places say, whatever was done. Method: a base that counts what is read of
//! it, and a recount after random calls.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::engine::{
    Claim, Control, Controlled, LeaseReport, Namespace, QueueSettings, Rate, RecordValue, Settle,
    Settlement, WorkerId, WorkerPlace,
};
use crate::job::{JobState, Limits, NewJob, Outcome};
use crate::machine::table::{Base, ScanVisitor};
use crate::time::{hours, millis, seconds};

/// Values by table and key.
type Rows = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

#[derive(Debug, Default)]
struct CountingBase {
    rows: Mutex<Rows>,
    reads: AtomicUsize,
}

impl Base for CountingBase {
    fn get(&self, table: u8, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(self
            .rows
            .lock()
            .unwrap()
            .get(&(table, key.to_vec()))
            .cloned())
    }

    fn scan(
        &self,
        table: u8,
        from: &[u8],
        to: &[u8],
        reverse: bool,
        visit: ScanVisitor<'_>,
    ) -> Result<()> {
        let (from, to) = ((table, from.to_vec()), (table, to.to_vec()));
        if from >= to {
            return Ok(());
        }
        let rows = self.rows.lock().unwrap();
        let mut range = rows.range(from..to);
        while let Some(((_, key), value)) = match reverse {
            true => range.next_back(),
            false => range.next(),
        } {
            self.reads.fetch_add(1, Ordering::Relaxed);
            if !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }
}

struct Store {
    machine: Machine,
    base: Arc<CountingBase>,
    now: Timestamp,
    nonce: u64,
}

impl Store {
    fn new() -> Self {
        let base = Arc::new(CountingBase::default());
        let mut machine = Machine::over(Limits::default(), base.clone());
        let now = Timestamp::from_millis(1_790_000_000_000);
        machine.recover(now).unwrap();
        Self {
            machine,
            base,
            now,
            nonce: 0,
        }
    }

    /// Writes everything to the base.
    fn checkpoint(&mut self) {
        self.machine.take_step().unwrap();
        let frozen = self.machine.freeze();
        let mut rows = self.base.rows.lock().unwrap();
        let mut write = |table, key: &[u8], value: Option<&[u8]>| {
            match value {
                Some(value) => rows.insert((table, key.to_vec()), value.to_vec()),
                None => rows.remove(&(table, key.to_vec())),
            };
            Ok(())
        };
        frozen.rows(&mut write).unwrap();
        drop(rows);
        self.machine.thaw();
    }

    /// What is in memory is lost.
    fn reopen(&mut self) {
        self.checkpoint();
        let mut machine = Machine::over(Limits::default(), self.base.clone());
        machine.recover(self.now).unwrap();
        self.machine = machine;
    }

    fn enqueue(&mut self, jobs: Vec<NewJob>) {
        let namespace = Namespace::default();
        self.machine.enqueue(self.now, &namespace, jobs).unwrap();
    }

    fn claim(&mut self, limit: usize) -> Vec<crate::engine::Lease> {
        self.nonce += 1;
        let mut claim = Claim::new(WorkerId(7), "mail", limit);
        claim.nonce = self.nonce;
        claim.lease_duration = hours(1);
        claim.place = WorkerPlace::Elsewhere;
        let namespace = Namespace::default();
        let claimed = self.machine.claim(self.now, &namespace, &claim);
        claimed.unwrap().leases
    }

    fn settle(&mut self, lease: &crate::engine::Lease, outcome: &Outcome) {
        let end =
            |job: &crate::job::JobRecord| Settlement::new(job.id, job.attempt, outcome.clone());
        let settlements = lease.jobs.iter().map(end).collect();
        let leases = vec![LeaseReport::new(lease.token, settlements)];
        let namespace = Namespace::default();
        let settle = Settle { leases };
        self.machine.settle(self.now, &namespace, settle).unwrap();
    }

    fn control(&mut self, control: Control) {
        let namespace = Namespace::default();
        let _ = self.machine.control(self.now, &namespace, control);
    }
}

fn of(share: usize) -> NewJob {
    NewJob::new("mail", "{}").share(format!("share {share}"))
}

/// What ten claims of ten jobs read of the base, of that many shares.
fn reads_of(shares: usize) -> usize {
    let mut store = Store::new();
    for start in (0..shares).step_by(500) {
        let part = start..(start + 500).min(shares);
        store.enqueue(part.flat_map(|share| [of(share), of(share)]).collect());
    }
    store.enqueue((0..200).map(|_| of(0)).collect());
    let settings = QueueSettings::new().shares(ShareSettings::new().concurrency(1));
    store.control(Control::Write {
        name: "queue/mail".into(),
        expected: 0,
        value: Some(RecordValue::Queue(settings)),
    });
    for _ in 0..2 * shares.div_ceil(EXAMINED_MAX) {
        store.claim(1);
    }
    store.checkpoint();
    let before = store.base.reads.load(Ordering::Relaxed);
    for _ in 0..10 {
        for lease in store.claim(5) {
            store.settle(&lease, &Outcome::Completed);
        }
    }
    store.base.reads.load(Ordering::Relaxed) - before
}

#[test]
fn a_claim_reads_as_much_with_ten_thousand_shares() {
    let (few, many) = (reads_of(100), reads_of(10_000));
    assert!(few > 50, "the base is read: {few}");
    assert!(
        many <= few * 5 / 4,
        "{many} of ten thousand, {few} of a hundred"
    );
}

/// The row of the queue says what the rows of its shares and their places say.
fn check(machine: &Machine) {
    let (queue, state) = machine.derived.queues.iter().next().expect("a queue");
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let rows = machine
        .rows
        .shares
        .scan(everything.0, everything.1, false, 9_999)
        .unwrap();
    let mut expected = SharesRow::new();
    let mut turns = Vec::new();
    for (key, row) in &rows {
        expected.shares += 1;
        expected.active += row.active;
        expected.blocked += u64::from(row.blocked_until.is_some());
        expected.count(row, true);
        turns.extend(row.turns(*queue, &key.text));
        let open = row.round.is_some() || row.ready() == 0 || row.parked.is_some();
        assert!(open || row.active > 0, "nothing opens {row:?}");
        for (lane, (_, places)) in &row.lanes {
            let start = SharePlaceKey::start_of(*queue, *lane, &key.text);
            let end = SharePlaceKey::start_of(*queue, *lane + 1, &key.text);
            let all = machine.rows.share_places.scan(
                Bound::Included(&start),
                Bound::Excluded(&end),
                false,
                9_999,
            );
            let own = all
                .unwrap()
                .into_iter()
                .filter(|(place, _)| place.lane == *lane);
            let own = own.filter(|(place, _)| place.share == key.text);
            assert_eq!(own.count() as u64, *places);
        }
    }
    turns.sort();
    let filed = machine
        .rows
        .turns
        .scan(Bound::Unbounded, Bound::Unbounded, false, 9_999)
        .unwrap();
    assert_eq!(
        filed.into_iter().map(|(key, ())| key).collect::<Vec<_>>(),
        turns
    );
    let Some(all) = &state.shares else {
        assert_eq!(rows.len(), 0);
        return;
    };
    let sums = |row: &SharesRow| {
        let mut lanes: Vec<_> = row
            .lanes
            .iter()
            .map(|(lane, all)| (*lane, all.places, all.parked))
            .collect();
        lanes.sort_unstable();
        (row.shares, row.active, row.blocked, lanes)
    };
    let mut blocked = all.row.clone();
    // A block that is over is forgotten when its share is looked at.
    blocked.blocked = expected.blocked;
    assert_eq!(sums(&blocked), sums(&expected));
    assert!(state.row.counts[JobState::Active as usize] >= all.row.active);
}

#[derive(Debug, Clone)]
enum Step {
    Enqueue {
        share: usize,
        group: bool,
        delay: u64,
        priority: u8,
    },
    Claim(usize),
    Settle(usize, u8),
    Block(usize, u64),
    Limit(u64, u64, u32),
    Advance(u64),
    Cancel(usize),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let share = 0..5_usize;
    let step = prop_oneof![
        6 => (share.clone(), any::<bool>(), 0..3_u64, 4..6_u8).prop_map(
            |(share, group, delay, priority)| Step::Enqueue { share, group, delay, priority }
        ),
        5 => (1..6_usize).prop_map(Step::Claim),
        5 => (0..4_usize, 0..4_u8).prop_map(|(lease, outcome)| Step::Settle(lease, outcome)),
        1 => (share, 0..4_u64).prop_map(|(share, span)| Step::Block(share, span)),
        1 => (0..3_u64, 0..3_u64, 1..6_u32).prop_map(|(c, r, w)| Step::Limit(c, r, w)),
        3 => (0..3_000_u64).prop_map(Step::Advance),
        1 => (0..9_usize).prop_map(Step::Cancel),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..80)
}

/// A store, and what its steps left open.
struct Run {
    store: Store,
    leases: Vec<crate::engine::Lease>,
    ids: Vec<crate::job::JobId>,
    limit: u64,
}

impl Run {
    fn step(&mut self, step: Step) {
        let store = &mut self.store;
        match step {
            Step::Enqueue {
                share,
                group,
                delay,
                priority,
            } => {
                let mut job = of(share).priority(priority).delay(seconds(delay));
                if share == 4 {
                    job.share = None;
                }
                if group {
                    job = job.group("g");
                }
                self.ids.push(job.id);
                store.enqueue(vec![job]);
            }
            Step::Claim(limit) => self.leases.extend(store.claim(limit)),
            Step::Settle(nth, outcome) if nth < self.leases.len() => {
                let after = Some(seconds(1));
                let outcomes = [
                    Outcome::Completed,
                    Outcome::Released,
                    Outcome::Retry { after },
                    Outcome::Dead,
                ];
                let lease = self.leases.remove(nth);
                store.settle(&lease, &outcomes[usize::from(outcome)]);
            }
            Step::Settle(..) => {}
            Step::Block(share, span) => store.control(Control::BlockShare {
                queue: "mail".into(),
                share: format!("share {share}"),
                span: seconds(span),
            }),
            Step::Limit(concurrency, rate, weight) => self.limits(concurrency, rate, weight),
            Step::Advance(span) => store.now = store.now + millis(span),
            Step::Cancel(nth) if nth < self.ids.len() => {
                let targets = vec![self.ids.remove(nth).into()];
                let select = crate::engine::Select::Targets(targets);
                let edit = crate::engine::Edit::new(select, crate::engine::Action::Cancel);
                let edited = store.machine.edit(store.now, &Namespace::default(), edit);
                edited.unwrap();
            }
            Step::Cancel(_) => {}
            Step::Reopen => store.reopen(),
        }
        check(&self.store.machine);
    }

    fn limits(&mut self, concurrency: u64, rate: u64, weight: u32) {
        let mut shares = ShareSettings::new().weight("share 1", weight);
        shares.concurrency = (concurrency > 0).then_some(concurrency);
        shares.rate = (rate > 0).then(|| Rate::window(rate, seconds(2)));
        self.limit = concurrency;
        let (store, name) = (&mut self.store, String::from("queue/mail"));
        let read = Control::Read { name: name.clone() };
        let read = store
            .machine
            .control(store.now, &Namespace::default(), read);
        let expected = match read.unwrap() {
            Controlled::Record(Some(record)) => record.version,
            _ => 0,
        };
        store.control(Control::Write {
            name,
            expected,
            value: Some(RecordValue::Queue(QueueSettings::new().shares(shares))),
        });
    }

    /// In the end everything can run.
    fn drain(mut self) {
        let store = &mut self.store;
        store.control(Control::Resume {
            queue: "mail".into(),
        });
        for lease in self.leases {
            store.settle(&lease, &Outcome::Completed);
        }
        let mut idle = 0;
        while idle < 5 {
            store.now = store.now + seconds(3);
            let claimed = store.claim(100);
            idle = if claimed.is_empty() { idle + 1 } else { 0 };
            for lease in claimed {
                let most = lease
                    .jobs
                    .iter()
                    .filter(|job| job.share.as_deref() == Some("share 0"));
                assert!(self.limit == 0 || most.count() as u64 <= self.limit);
                store.settle(&lease, &Outcome::Completed);
            }
            check(&store.machine);
        }
        let state = store.machine.derived.queues.values().next().unwrap();
        let left: u64 = state.row.counts[..4].iter().sum();
        assert_eq!(left, 0, "all has run");
        let shares = &state.shares;
        assert!(shares.is_none(), "nothing is left: {shares:?}");
    }
}

fn run(steps: Vec<Step>) {
    let mut store = Store::new();
    store.enqueue(vec![NewJob::new("mail", "{}")]);
    let (leases, ids, limit) = (Vec::new(), Vec::new(), 0);
    let mut run = Run {
        store,
        leases,
        ids,
        limit,
    };
    steps.into_iter().for_each(|step| run.step(step));
    run.drain();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn counts_of_shares_are_those_of_a_recount(steps in steps()) {
        run(steps);
    }
}
