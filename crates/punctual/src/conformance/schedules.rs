//! Laws of schedules: which of their instants fire, after outages, edits and changes too.

use std::time::Duration;

use super::case::*;
use crate::engine::{Action, Control, Filter, RecordValue, ScheduleAct, Select};
use crate::engine::{Controlled, EnqueueVerdict};
use crate::error::{ErrorKind, Result};
use crate::job::{JobId, JobState, NewJob};
use crate::schedule::{
    Every, Form, Missed, Occurrence, Overlap, PatternText, SCHEDULE_PREFIX, Schedule,
    ScheduleStatus, SpecBuilder, Template,
};
use crate::time::{Timestamp, days, hours, minutes, seconds};

/// A run of [`QUEUE`] in every span, that overlaps as it likes.
pub(super) fn every(span: Duration) -> Schedule {
    let phase = Duration::ZERO;
    schedule(SpecBuilder {
        every: vec![Every { span, phase }],
        ..SpecBuilder::default()
    })
}

/// A run of [`QUEUE`] by a pattern, that overlaps as it likes.
pub(super) fn cron(pattern: &str) -> Schedule {
    schedule(SpecBuilder {
        patterns: vec![PatternText::new(Form::Cron, pattern)],
        ..SpecBuilder::default()
    })
}

/// A schedule of [`QUEUE`] that overlaps as it likes.
pub(super) fn schedule(spec: SpecBuilder) -> Schedule {
    let template = NewJob {
        retention: hours(100),
        ..job()
    };
    let template = Template::of(template).expect("a plain job");
    Schedule {
        overlap: Overlap::Allow,
        ..Schedule::new(spec, template)
    }
}

/// Schedules, and their time.
impl Case {
    pub(super) async fn try_schedule(
        &self,
        name: &str,
        expected: u64,
        schedule: Option<Schedule>,
    ) -> Result<Controlled> {
        self.try_control(Control::Write {
            name: format!("{SCHEDULE_PREFIX}{name}"),
            expected,
            value: schedule.map(Box::new).map(RecordValue::Schedule),
        })
        .await
    }

    /// Writes a schedule at the version that it has.
    pub(super) async fn write(&self, name: &str, schedule: Schedule) -> u64 {
        let version = self.find(name).await.map_or(0, |status| status.version);
        match self.try_schedule(name, version, Some(schedule)).await {
            Ok(Controlled::Written(version)) => version,
            other => panic!("a schedule is written, got {other:?}"),
        }
    }

    pub(super) async fn find(&self, name: &str) -> Option<ScheduleStatus> {
        match self.act(name, ScheduleAct::Read).await {
            Ok(Controlled::Schedule(found)) => found.map(|found| *found),
            other => panic!("a schedule is read, got {other:?}"),
        }
    }

    /// How the schedule `beat` stands.
    pub(super) async fn beat(&self) -> ScheduleStatus {
        self.find("beat").await.expect("there is a schedule")
    }

    /// Changes the schedule `beat`.
    pub(super) async fn change(&self, change: impl FnOnce(&mut Schedule)) {
        let mut schedule = self.beat().await.schedule;
        change(&mut schedule);
        self.write("beat", schedule).await;
    }

    pub(super) async fn act(&self, name: &str, act: ScheduleAct) -> Result<Controlled> {
        let name = name.into();
        self.try_control(Control::Schedule { name, act }).await
    }

    /// Lets the engine do all that is due by now.
    pub(super) async fn do_all(&self) {
        for _ in 0..10_000 {
            let next = self.maintain().await.next;
            if next.is_none_or(|next| next > self.clock()) {
                return;
            }
        }
        panic!("maintenance never ends");
    }

    /// Moves the clock, and lets the engine do all that is due then.
    pub(super) async fn pass(&self, span: Duration) {
        self.advance(span).await;
        self.do_all().await;
    }

    /// Claims what is ready, completes it, and answers the instants that it stands for.
    pub(super) async fn fired(&self) -> Vec<Timestamp> {
        let claimed = self.claim(1_000).await;
        let mut fired = Vec::new();
        for attempt in claimed {
            self.complete(&attempt).await;
            let run = attempt.job.schedule.expect("a run names its schedule");
            fired.push(run.at);
        }
        fired
    }
}

/// The first minute after [`START`](super::START), and those after it.
pub(super) fn minute(n: u64) -> Timestamp {
    let first = super::START.as_micros().div_ceil(60_000_000);
    Timestamp::from_micros((first + n) * 60_000_000)
}

fn counts(status: &ScheduleStatus) -> [u64; 3] {
    [status.fired, status.skipped, status.missed]
}

/// Each instant is enqueued once, however many do maintenance at the same time.
pub(super) async fn an_occurrence_is_put_in_once_by_many_tickers(case: Case) {
    case.write("beat", every(minutes(1))).await;
    for n in 0..5 {
        case.set_time(minute(n)).await;
        let engine = case.engine();
        let four = [1; 4].map(|_| engine.maintain());
        for maintained in futures_util::future::join_all(four).await {
            maintained.expect("maintain");
        }
        let claimed = case.claim(10).await;
        assert_eq!(claimed.len(), 1, "one run at {:?}", minute(n));
        let (name, at) = ("beat".into(), minute(n));
        assert_eq!(
            claimed[0].job.schedule.as_deref(),
            Some(&Occurrence { name, at })
        );
        assert_eq!(claimed[0].id(), JobId::occurrence("beat", minute(n)));
        case.complete(&claimed[0]).await;
    }
    assert_eq!(counts(&case.beat().await), [5, 0, 0]);
}

/// The next run is a scheduled job as soon as the one before it moves.
pub(super) async fn the_next_is_there_when_one_moves(case: Case) {
    case.write("beat", every(minutes(1))).await;
    for n in 0..3 {
        let status = case.beat().await;
        assert_eq!(status.next[0], minute(n));
        let pending = case.get(status.pending.expect("a run to come")).await;
        assert_eq!(
            (pending.state, pending.due),
            (JobState::Scheduled, minute(n))
        );
        assert_eq!(case.listed(JobState::Scheduled).await, [pending.id]);
        case.set_time(minute(n)).await;
        // No maintenance: a claim alone moves it.
        assert_eq!(case.fired().await, [minute(n)]);
    }
}

/// A cancel of the next run skips one instant.
pub(super) async fn a_cancelled_occurrence_skips_one(case: Case) {
    case.write("beat", every(minutes(1))).await;
    let first = case.beat().await.pending.expect("a run to come");
    case.cancel(first).await;
    assert_eq!(case.state(first).await, JobState::Cancelled);
    let second = case.beat().await.pending.expect("a run to come");
    assert_eq!(second, JobId::occurrence("beat", minute(1)));
    case.set_time(minute(1)).await;
    assert_eq!(case.fired().await, [minute(1)]);
    assert_eq!(counts(&case.beat().await), [1, 1, 0]);
}

/// A purge of the queue cancels the next run, and only that one.
pub(super) async fn a_purged_queue_keeps_its_schedules(case: Case) {
    case.write("beat", every(minutes(1))).await;
    case.enqueue(job_in(hours(1))).await;
    let (mut cursor, mut cancelled) = (None, 0);
    for _ in 0..20 {
        let queue = QUEUE.into();
        let purge = Control::Purge {
            queue,
            cursor,
            limit: 1,
        };
        let Controlled::Purged {
            matched,
            cursor: next,
            ..
        } = case.control(purge).await
        else {
            panic!("a purge answers what it purged");
        };
        cancelled += matched;
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((cancelled, cursor), (2, None));
    let status = case.beat().await;
    assert_eq!((status.next[0], counts(&status)), (minute(1), [0, 1, 0]));
}

/// A run that is cancelled and deleted does not end the series.
pub(super) async fn a_deleted_occurrence_does_not_end_the_series(case: Case) {
    case.write("beat", every(minutes(1))).await;
    for n in 0..3 {
        let run = case.beat().await.pending.expect("a run to come");
        assert_eq!(run, JobId::occurrence("beat", minute(n)));
        case.cancel(run).await;
        case.edit(run, Action::Delete).await;
        assert!(case.is_unknown(run).await);
    }
    case.set_time(minute(3)).await;
    assert_eq!(case.fired().await, [minute(3)]);
}

/// An edit of all that match meets the next run of a schedule, and not those that follow it.
pub(super) async fn an_edit_of_all_meets_a_schedule_once(case: Case) {
    for (queue, action) in [
        (Some(QUEUE.to_owned()), Action::Cancel),
        (None, Action::Cancel),
        (Some(QUEUE.to_owned()), Action::RunNow),
    ] {
        let case = case.another().await;
        case.write("beat", every(minutes(1))).await;
        let mut filter = Filter::default();
        (filter.queue, filter.state) = (queue, Some(JobState::Scheduled));
        let (mut cursor, mut matched) = (None, 0);
        for page in 0.. {
            assert!(page < 20, "it never ends");
            let filter = filter.clone();
            let select = Select::Filter {
                filter,
                cursor,
                limit: 1,
            };
            let edited = case.edit_as(select, action.clone(), false).await;
            let edited = edited.expect("an edit");
            matched += edited.matched;
            cursor = edited.cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(matched, 1);
        case.do_all().await;
        assert_eq!(case.beat().await.next[0], minute(1));
    }
}

/// After two weeks without a worker the latest run starts, once; the others are counted.
pub(super) async fn two_weeks_off_fire_the_latest_once(case: Case) {
    for schedule in [every(minutes(5)), cron("*/5 * * * *")] {
        let case = case.another().await;
        case.write("beat", schedule).await;
        let first = case.beat().await.next[0];
        case.pass(days(14)).await;
        let latest = Timestamp::from_micros(case.clock().as_micros() / 300_000_000 * 300_000_000);
        assert_eq!(case.fired().await, [latest]);
        let status = case.beat().await;
        let all = (latest - first).as_secs() / 300 + 1;
        assert_eq!(counts(&status), [1, 0, all - 1]);
        assert_eq!(status.next[0], latest + minutes(5));
    }
}

/// With `all`, the last runs that are due start, as many as the bound allows.
pub(super) async fn all_missed_fire_up_to_the_bound(case: Case) {
    let missed = Missed::All { max: 3 };
    for schedule in [every(minutes(1)), cron("* * * * *")] {
        let case = case.another().await;
        case.write("beat", Schedule { missed, ..schedule }).await;
        case.set_time(minute(299)).await;
        case.do_all().await;
        let last = [minute(297), minute(298), minute(299)];
        assert_eq!(case.fired().await, last);
        assert_eq!(counts(&case.beat().await), [3, 0, 297]);
    }
}

/// A run that is late by no more than its grace starts; where missed runs are skipped, no other.
pub(super) async fn a_late_one_within_its_grace_fires(case: Case) {
    let grace = minutes(2);
    let late = minute(9) + seconds(30);
    for missed in [Missed::Latest { grace }, Missed::Skip { grace }] {
        let case = case.another().await;
        let schedule = every(minutes(1));
        case.write("beat", Schedule { missed, ..schedule }).await;
        case.set_time(late).await;
        case.do_all().await;
        assert_eq!(case.fired().await, [minute(8), minute(9)]);
        assert_eq!(counts(&case.beat().await), [2, 0, 8]);
    }
    let missed = Missed::Skip { grace: seconds(10) };
    let schedule = every(minutes(1));
    case.write("beat", Schedule { missed, ..schedule }).await;
    case.set_time(late).await;
    case.do_all().await;
    assert_eq!(case.fired().await, []);
    assert_eq!(counts(&case.beat().await), [0, 0, 10]);
}

/// A clock that is set back fires nothing twice.
pub(super) async fn a_step_back_fires_nothing_twice(case: Case) {
    case.write("beat", every(minutes(1))).await;
    case.set_time(minute(2)).await;
    case.do_all().await;
    assert_eq!(case.fired().await, [minute(1), minute(2)]);
    case.set_time(minute(0)).await;
    case.do_all().await;
    assert_eq!(case.fired().await, []);
    case.set_time(minute(3)).await;
    case.do_all().await;
    assert_eq!(case.fired().await, [minute(3)]);
}

/// A change of a schedule counts from its write: nothing before it fires because of it.
pub(super) async fn a_change_fires_nothing_of_before(case: Case) {
    case.write("beat", every(hours(1))).await;
    case.set_time(minute(5)).await;
    let at: Vec<_> = (0..8).map(minute).collect();
    case.change(|schedule| {
        schedule.spec = SpecBuilder {
            at,
            ..SpecBuilder::default()
        }
    })
    .await;
    assert_eq!(case.beat().await.next, [minute(6), minute(7)]);
    case.do_all().await;
    assert_eq!(case.fired().await, []);
    case.set_time(minute(6)).await;
    assert_eq!(case.fired().await, [minute(6)]);
    // The same again changes nothing.
    let before = case.beat().await;
    case.change(|_| {}).await;
    let after = case.beat().await;
    assert_eq!((after.next, after.pending), (before.next, before.pending));
}

/// A new template is that of the next run, which keeps its id and its instant.
pub(super) async fn a_new_template_is_that_of_the_next_one(case: Case) {
    case.write("beat", every(minutes(1))).await;
    let pending = case.beat().await.pending;
    case.change(|schedule| schedule.template.payload = bytes("new"))
        .await;
    let status = case.beat().await;
    assert_eq!((status.pending, status.next[0]), (pending, minute(0)));
    case.set_time(minute(0)).await;
    assert_eq!(case.claim_one().await.job.payload, bytes("new"));
    assert_eq!(counts(&case.beat().await), [1, 0, 0]);
}

/// A calendar that is behind after a long outage says so until it has caught up.
pub(super) async fn a_dry_schedule_says_so(case: Case) {
    case.write("beat", cron("* * * * *")).await;
    let lasts = case.beat().await.lasts_until.expect("a list that ends");
    assert!(lasts >= case.clock() + hours(1), "{lasts:?}");
    case.advance(days(10)).await;
    case.maintain().await;
    let status = case.beat().await;
    assert!(status.dry && status.pending.is_none(), "{status:?}");
    case.do_all().await;
    let status = case.beat().await;
    assert!(!status.dry && status.pending.is_some(), "{status:?}");
    assert_eq!(status.fired + status.missed, 14_400);
    let lasts = status.lasts_until.expect("a list that ends");
    assert!(lasts >= case.clock() + hours(1), "{lasts:?}");
}

/// Spans need no calendar, and so no client has to refill their list.
pub(super) async fn spans_never_run_dry(case: Case) {
    case.write("beat", every(seconds(1))).await;
    let status = case.beat().await;
    assert_eq!((status.lasts_until, status.dry), (None, false));
    case.pass(days(365)).await;
    let status = case.beat().await;
    assert!(!status.dry && status.pending.is_some(), "{status:?}");
    assert_eq!(status.fired + status.missed, 365 * 24 * 3_600);
    // One that has ended long ago.
    let mut ended = every(Duration::from_millis(1));
    ended.spec.end = Some(case.clock() + hours(1));
    case.write("short", ended).await;
    case.pass(days(365)).await;
    let status = case.find("short").await.expect("there is a schedule");
    assert!(status.ended, "{status:?}");
    assert_eq!((status.fired, status.missed), (1, 3_599_999));
}

/// Fired, skipped, missed and what is to come are all instants.
pub(super) async fn every_instant_is_accounted_for(case: Case) {
    let at: Vec<_> = (0..20).map(minute).collect();
    let spec = SpecBuilder {
        at,
        ..SpecBuilder::default()
    };
    let sent = Schedule {
        overlap: Overlap::Skip,
        ..schedule(spec)
    };
    case.write("beat", sent).await;
    let is_whole = |status: &ScheduleStatus| {
        let reported: u64 = counts(status).iter().sum();
        // A status shows sixteen at most.
        let to_come = status.next.len() as u64;
        assert!(to_come == 16 || reported + to_come == 20, "{status:?}");
    };
    for n in 0..20 {
        match n {
            // An outage over five of them.
            4..9 => continue,
            12 => case.change(|schedule| schedule.paused = true).await,
            14 => case.change(|schedule| schedule.paused = false).await,
            16 => {
                let pending = case.beat().await.pending.expect("a run to come");
                case.cancel(pending).await;
            }
            _ => {}
        }
        case.set_time(minute(n)).await;
        case.do_all().await;
        is_whole(&case.beat().await);
        // Every second one is still running when the next is due.
        if n % 2 == 1 {
            case.fired().await;
        }
    }
    let status = case.beat().await;
    assert_eq!(counts(&status).iter().sum::<u64>(), 20);
    assert!(counts(&status).iter().all(|count| *count > 0), "{status:?}");
    assert!(status.ended && !status.dry && status.pending.is_none());
}

/// A removed schedule leaves no run to come; written again, it begins anew.
pub(super) async fn a_removed_schedule_leaves_no_run(case: Case) {
    let version = case.write("beat", every(minutes(1))).await;
    case.try_schedule("beat", version, None)
        .await
        .expect("a remove");
    assert_eq!(case.find("beat").await, None);
    assert_eq!(case.listed(JobState::Scheduled).await, []);
    case.write("beat", every(minutes(1))).await;
    assert_eq!(case.beat().await.next[0], minute(0));
    case.set_time(minute(0)).await;
    assert_eq!(case.fired().await, [minute(0)]);
}

/// A schedule is a record: it is written at its version, and a write of another is refused.
pub(super) async fn a_schedule_is_written_at_its_version(case: Case) {
    let version = case.write("beat", every(minutes(1))).await;
    let wrong = case.try_schedule("beat", version + 1, Some(every(hours(1))));
    let wrong = wrong.await.expect_err("another version");
    assert_eq!(wrong.kind(), ErrorKind::VersionConflict, "{wrong}");
    let read = Control::Read {
        name: "schedule/beat".into(),
    };
    let Controlled::Record(Some(record)) = case.control(read).await else {
        panic!("a schedule is a record");
    };
    let sent = Box::new(every(minutes(1)));
    assert_eq!(
        (record.version, record.value),
        (version, RecordValue::Schedule(sent))
    );
}

/// A queue that a schedule enqueues into is deleted once the schedule is removed.
pub(super) async fn a_queue_outlives_its_schedules(case: Case) {
    let version = case.write("beat", every(minutes(1))).await;
    let queue = || QUEUE.to_owned();
    let delete = || Control::DeleteQueue { queue: queue() };
    let error = case.try_control(delete()).await.expect_err("it has a run");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("beat"), "{error}");
    case.try_schedule("beat", version, None)
        .await
        .expect("a remove");
    assert_eq!(case.control(delete()).await, Controlled::Done(true));
}

/// Schedules are listed by name, from any name on.
pub(super) async fn schedules_are_listed_by_name(case: Case) {
    for name in ["c", "a", "b"] {
        case.write(name, every(minutes(1))).await;
    }
    let list = |after: &str, limit| Control::Schedules {
        after: after.into(),
        limit,
    };
    for (after, limit, expected) in [
        ("", 10, vec!["a", "b", "c"]),
        ("", 2, vec!["a", "b"]),
        ("b", 2, vec!["c"]),
    ] {
        let Controlled::Schedules(found) = case.control(list(after, limit)).await else {
            panic!("schedules are listed");
        };
        let names: Vec<_> = found.iter().map(|found| &*found.name).collect();
        assert_eq!(names, expected);
    }
}

/// A namespace has a bounded number of schedules; those that it has can be changed.
pub(super) async fn a_namespace_has_so_many_schedules(case: Case) {
    let case = case.limited(|limits| limits.schedules = 2).await;
    case.write("a", every(minutes(1))).await;
    let version = case.write("b", every(minutes(1))).await;
    let third = case.try_schedule("c", 0, Some(every(minutes(1)))).await;
    let third = third.expect_err("one too many");
    assert_eq!(third.kind(), ErrorKind::Conflict, "{third}");
    assert!(third.to_string().contains("2 schedules"), "{third}");
    case.write("a", every(hours(1))).await;
    case.try_schedule("b", version, None)
        .await
        .expect("a remove");
    case.write("c", every(minutes(1))).await;
    let other = case.tenant("other");
    other.write("d", every(minutes(1))).await;
}

/// A schedule that cannot be is refused, and the error names the part.
pub(super) async fn a_wrong_schedule_is_refused(case: Case) {
    type Change = fn(&mut Schedule);
    let named: [(&str, Change); 6] = [
        ("every", |one| one.spec.every[0].span = Duration::ZERO),
        ("names no time", |one| one.spec.every.clear()),
        ("never runs", |one| {
            one.spec.patterns = vec![PatternText::new(Form::Cron, "0 0 30 2 *")];
        }),
        ("priority", |one| one.template.priority = 10),
        ("missed", |one| one.missed = Missed::All { max: 0 }),
        ("note", |one| one.note = "x".repeat(257)),
    ];
    for (named, change) in named {
        let mut schedule = every(minutes(1));
        change(&mut schedule);
        let error = case.try_schedule("beat", 0, Some(schedule)).await;
        let error = error.expect_err(named);
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(named), "{error}");
    }
    let name = "schedule/beat".into();
    let write = Control::Write {
        name,
        expected: 0,
        value: Some(RecordValue::Opaque(bytes("{}"))),
    };
    let error = case.try_control(write).await.expect_err("no schedule");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(case.find("beat").await, None);
}

/// No client puts a job in the place of a run that is to come.
pub(super) async fn the_id_of_a_run_is_reserved(case: Case) {
    let id = JobId::occurrence("beat", minute(0));
    let error = case.enqueue_error(NewJob { id, ..job() }).await;
    assert_eq!(error.kind(), ErrorKind::ReservedId, "{error}");
    let derived = JobId::derived("beat", "0");
    let verdict = case
        .verdict(NewJob {
            id: derived,
            ..job()
        })
        .await;
    assert_eq!(verdict, EnqueueVerdict::Created);
}
