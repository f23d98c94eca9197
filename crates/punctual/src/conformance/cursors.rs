//! Laws of cursors: each is of one request of one namespace, and shows nothing of another one.

use super::case::*;
use crate::engine::{Action, Control, Cursor, Edit, Filter, List, ListBy, Select, WaitFor, Waited};
use crate::error::ErrorKind;
use crate::job::{Due, Group, JobId, JobState, NewJob, OnRetry, Outcome, Unique, UniquePolicy};
use crate::time::{hours, seconds};

/// A request that goes on at a cursor.
#[derive(Debug, Clone)]
enum Ask {
    List(ListBy, Filter),
    Edit(Filter, Action),
    Purge(String),
}

impl Ask {
    /// The answer as text, and the cursor to go on with.
    async fn of(&self, case: &Case, cursor: Option<Cursor>, limit: usize) -> Answer {
        let (engine, namespace) = (case.engine(), &case.namespace);
        let reported = match self.clone() {
            Self::List(by, filter) => {
                let payloads = true;
                let list = List {
                    by,
                    filter,
                    cursor,
                    limit,
                    payloads,
                };
                let listed = engine.list(namespace, list).await;
                listed.map(|listed| (format!("{listed:?}"), listed.cursor))
            }
            Self::Edit(filter, action) => {
                let edit = Edit {
                    select: Select::Filter {
                        filter,
                        cursor,
                        limit,
                    },
                    action,
                    dry_run: true,
                };
                let edited = engine.edit(namespace, edit).await;
                edited.map(|edited| (format!("{edited:?}"), edited.cursor))
            }
            Self::Purge(queue) => {
                let purge = Control::Purge {
                    queue,
                    cursor,
                    limit,
                };
                let purged = engine.control(namespace, purge).await;
                purged.map(|purged| match &purged {
                    crate::engine::Controlled::Purged { cursor, .. } => {
                        (format!("{purged:?}"), cursor.clone())
                    }
                    other => panic!("{other:?}"),
                })
            }
        };
        match reported {
            Ok((text, next)) => Answer { text, next },
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{self:?}: {error}");
                let (text, next) = (error.to_string(), None);
                Answer { text, next }
            }
        }
    }

    /// Whether it walks through all jobs, in an order of the engine's own.
    fn is_scan(&self) -> bool {
        match self {
            Self::List(by, _) => *by == ListBy::All,
            Self::Edit(filter, _) => filter.state.is_none(),
            Self::Purge(_) => false,
        }
    }

    /// Whether positions of it hold fences, which count the leases of all tenants.
    fn has_fences(&self) -> bool {
        let active = JobState::Active;
        matches!(self, Self::List(ListBy::State { state, .. }, _) if *state == active)
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Answer {
    text: String,
    next: Option<Cursor>,
}

/// What the answers of two engines to one tenant are compared by.
struct Compared {
    /// Whether both engines scan in the same order: one on servers may have an order for each.
    in_order: bool,
    /// Jobs of other tenants.
    foreign: Vec<JobId>,
}

impl Compared {
    fn check(&self, ask: &Ask, also: &Answer, alone: &Answer, of: &impl std::fmt::Debug) {
        let is_reported = |id: &&JobId| also.text.contains(&id.to_string());
        let reported: Vec<_> = self.foreign.iter().filter(is_reported).collect();
        assert_eq!(reported, Vec::<&JobId>::new(), "{ask:?} with {of:?}");
        if ask.is_scan() && !self.in_order {
            let is_refused = |answer: &Answer| answer.text.contains("invalid_input");
            assert_eq!(is_refused(also), is_refused(alone), "{ask:?} with {of:?}");
        } else if !ask.has_fences() || also.next.is_none() {
            assert_eq!(also, alone, "{ask:?} with {of:?}");
        }
    }
}

/// Every index, a scan, edits of both, and a purge.
fn asks() -> Vec<Ask> {
    let queue = || QUEUE.to_owned();
    let by_state = |state| ListBy::State {
        queue: queue(),
        state,
    };
    let of_queue = |state| Filter {
        queue: Some(queue()),
        state,
        ..Filter::default()
    };
    let all = JobState::ALL.into_iter();
    let mut asks: Vec<Ask> = all
        .map(|state| Ask::List(by_state(state), Filter::default()))
        .collect();
    let (unique, group) = (
        ListBy::Unique {
            queue: queue(),
            key: "u".into(),
        },
        ListBy::Group {
            queue: queue(),
            key: "g".into(),
        },
    );
    asks.extend([
        Ask::List(unique, Filter::default()),
        Ask::List(group, Filter::default()),
        Ask::List(ListBy::All, Filter::default()),
        Ask::List(ListBy::Limit { name: "api".into() }, Filter::default()),
        Ask::List(ListBy::All, of_queue(None)),
        Ask::Edit(of_queue(Some(JobState::Scheduled)), Action::Cancel),
        Ask::Edit(of_queue(None), Action::RunNow),
        Ask::Purge(queue()),
    ]);
    asks
}

/// Jobs in every state but the settled ones, of which some are ready to be claimed.
fn some_jobs() -> Vec<NewJob> {
    let waits = |delay| NewJob {
        due: Due::After(seconds(delay)),
        ..job()
    };
    let held = NewJob {
        wait_for: vec!["paid".into()],
        ..job()
    };
    let grouped = NewJob {
        group: Some(Group {
            key: "g".into(),
            on_retry: OnRetry::Hold,
        }),
        ..job()
    };
    let keyed = NewJob {
        unique: Some(Unique {
            key: "u".into(),
            policy: UniquePolicy::After,
            hold: Default::default(),
        }),
        ..job()
    };
    let first = NewJob {
        priority: 0,
        retention: hours(1),
        ..job()
    };
    let one = [held, grouped, keyed, waits(60), waits(60), waits(90), first];
    let again = |job: &NewJob| NewJob {
        id: JobId::new(),
        ..job.clone()
    };
    one.iter()
        .flat_map(|job| [again(job), again(job)])
        .collect()
}

/// Stores jobs, and lets three of them end and two run.
async fn fill(case: &Case, jobs: &[NewJob]) {
    case.send_all(jobs.to_vec()).await;
    for outcome in [Outcome::Completed, Outcome::Dead, Outcome::Cancelled] {
        let attempt = case.claim_one().await;
        case.end(&attempt, outcome).await;
    }
    case.claim(2).await;
}

/// Numbers that only look random, the same each time.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below.max(1) as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next(256) as u8).collect()
    }

    /// A cursor that no call was given: made up, or another one with some bytes changed.
    fn cursor(&mut self, known: &[Cursor]) -> Cursor {
        let mut bytes = known[self.next(known.len())].0.to_vec();
        let (at, count) = (self.next(bytes.len()), self.next(30));
        // Where positions begin, on every engine, or behind that.
        let head = [6, 8, 9, bytes.len()][self.next(4)].min(bytes.len());
        match self.next(7) {
            0 => bytes = self.bytes(count),
            1 => bytes[at] ^= 1 << self.next(8),
            2 => bytes.truncate(at),
            3 => bytes.extend(self.bytes(count)),
            4 => bytes.splice(head.., self.bytes(count)).for_each(drop),
            5 => bytes[head..].fill([0, 0xff, b'9', b'|'][self.next(4)]),
            _ => {
                let other = known[self.next(known.len())].0.clone();
                bytes.truncate(head);
                bytes.extend(other.iter().skip(head));
            }
        }
        Cursor(bytes.into())
    }
}

/// A cursor goes on with its own request only: not in another namespace, queue, state or verb.
pub(super) async fn a_cursor_of_another_request_is_refused(mut case: Case) {
    let other = case.namespace.clone();
    for queue in [QUEUE, "mail"] {
        let jobs = (0..4).map(|_| NewJob::new(queue, "{}"));
        case.enqueue_all(jobs.collect()).await;
    }
    case.namespace = crate::engine::Namespace::new("asks").expect("a good name");
    case.enqueue_all((0..4).map(|_| job()).collect()).await;
    let ready = |queue: &str| ListBy::State {
        queue: queue.into(),
        state: JobState::Ready,
    };
    let mine = Ask::List(ready(QUEUE), Filter::default());
    let next = mine.of(&case, None, 2).await.next;
    let next = next.expect("two more jobs");
    assert!(
        mine.of(&case, Some(next.clone()), 2)
            .await
            .text
            .contains("jobs")
    );
    let of_queue = Filter {
        queue: Some(QUEUE.into()),
        ..Filter::default()
    };
    let others = [
        Ask::List(ready("mail"), Filter::default()),
        Ask::List(ready(QUEUE), of_queue.clone()),
        Ask::List(ListBy::All, Filter::default()),
        Ask::Edit(of_queue, Action::Cancel),
        Ask::Purge(QUEUE.into()),
    ];
    for ask in others {
        let answer = ask.of(&case, Some(next.clone()), 2).await;
        assert!(
            answer.text.contains("cursor is not of this"),
            "{ask:?}: {answer:?}"
        );
    }
    case.namespace = other;
    let answer = mine.of(&case, Some(next), 2).await;
    assert!(answer.text.contains("cursor is not of this"), "{answer:?}");
}

/// With random, changed and foreign cursors a tenant is answered what an engine answers that no
/// other tenant ever used.
pub(super) async fn another_tenant_changes_no_answer(case: Case) {
    let mut alone = case.another().await;
    let mut both = case;
    alone.worker = both.worker;
    let mine = both.namespace.clone();
    let others = |name: &str| crate::engine::Namespace::new(name).expect("a good name");
    let (before, after) = (some_jobs(), some_jobs());
    let mut foreign = Vec::new();
    let jobs = some_jobs();
    // The others come first, in between and last: their numbers are on both sides.
    for (name, part) in [("before", None), ("mine", Some(&jobs)), ("after", None)] {
        both.namespace = others(name);
        if let Some(jobs) = part {
            both.namespace = mine.clone();
            fill(&alone, jobs).await;
            fill(&both, jobs).await;
        } else {
            fill(&both, if name == "before" { &before } else { &after }).await;
            for ask in asks() {
                foreign.extend(ask.of(&both, None, 1).await.next);
            }
        }
    }
    both.namespace = mine;
    let scan = Ask::List(ListBy::All, Filter::default());
    let compared = Compared {
        in_order: scan.of(&alone, None, 1_000).await == scan.of(&both, None, 1_000).await,
        foreign: ids(before.iter().chain(&after)),
    };
    let mut known = Vec::new();
    for ask in asks() {
        let (mut cursor, mut both_at, mut steps) = (None, None, 0);
        loop {
            let answer = ask.of(&alone, cursor, 1).await;
            let also = ask.of(&both, both_at, 1).await;
            compared.check(&ask, &also, &answer, &steps);
            steps += 1;
            if matches!(ask, Ask::Purge(_)) && steps > 3 {
                break;
            }
            (cursor, both_at) = (answer.next, also.next);
            known.extend(cursor.clone().filter(|_| !ask.has_fences()));
            if cursor.is_none() || both_at.is_none() {
                break;
            }
        }
    }
    assert!(!foreign.is_empty() && known.len() > asks().len());
    let all: Vec<Cursor> = known.iter().chain(&foreign).cloned().collect();
    let mut draw = Draw(16);
    for ask in asks() {
        for cursor in &foreign {
            let answer = ask.of(&alone, Some(cursor.clone()), 10).await;
            let also = ask.of(&both, Some(cursor.clone()), 10).await;
            compared.check(&ask, &also, &answer, &cursor);
        }
        for _ in 0..20 {
            let cursor = draw.cursor(&all);
            let limit = 1 + draw.next(40);
            let answer = ask.of(&alone, Some(cursor.clone()), limit).await;
            let also = ask.of(&both, Some(cursor.clone()), limit).await;
            compared.check(&ask, &also, &answer, &cursor);
        }
    }
    for name in ["before", "after"] {
        both.namespace = others(name);
        // Of two, the other tenant's own purge took one.
        assert_eq!(both.listed(JobState::Held).await.len(), 1, "{name}");
    }
}

/// The numbers of a feed count the changes of its namespace only, and an impossible one is a gap.
pub(super) async fn a_feed_counts_the_changes_of_its_namespace(case: Case) {
    let mut alone = case.another().await;
    let mut both = case;
    alone.worker = both.worker;
    let mine = both.namespace.clone();
    let other = crate::engine::Namespace::new("other").expect("a good name");
    let jobs = [job(), job(), job()];
    let mut numbers = Vec::new();
    let changes = |case: &Case, after| {
        let (engine, namespace) = (case.engine(), case.namespace.clone());
        let until = case.clock();
        async move {
            engine
                .wait(&namespace, WaitFor::Changes(after), until)
                .await
        }
    };
    both.namespace = other.clone();
    changes(&both, None).await.expect("changes");
    for case in [&mut both, &mut alone] {
        case.namespace = mine.clone();
        changes(case, None).await.expect("changes");
    }
    for sent in jobs {
        both.namespace = other.clone();
        both.enqueue_all(vec![job(), job()]).await;
        both.namespace = mine.clone();
        for case in [&both, &alone] {
            case.enqueue(sent.clone()).await;
        }
    }
    for case in [&both, &alone] {
        for after in [None, Some(0), Some(1), Some(u64::MAX)] {
            match changes(case, after).await {
                Ok(Waited::Changes { cursor, gap, .. }) => numbers.push((after, cursor, gap)),
                // An engine may have a bound for such numbers.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    numbers.push((after, 0, true));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let (both, alone) = numbers.split_at(4);
    let gaps = |of: &[(_, _, bool)]| of.iter().map(|(_, _, gap)| *gap).collect::<Vec<_>>();
    assert_eq!(gaps(both), gaps(alone));
    assert!(both[3].2, "no feed has come to the last number");
}
