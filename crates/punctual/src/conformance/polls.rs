//! What people do: get, list, edit, control, stats, wait.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::case::*;
use crate::engine::{
    Action, Control, Controlled, Counts, Edit, EditVerdict, Edited, Filter, Got, List, ListBy,
    Listing, QueueSettings, Reason, RecordValue, Select, Stats, StatsRequest, Target, WaitFor,
    Waited,
};
use crate::error::Result;
use crate::job::{JobId, JobRecord, JobState};
use crate::time::{hours, millis, seconds, within};

/// How long a law waits for what must come at once.
const AT_ONCE: Duration = seconds(10);

/// Get, list and explain.
impl Case {
    pub(super) async fn got(&self, target: impl Into<Target>) -> Option<Got> {
        self.got_all(vec![target.into()], false).await.remove(0)
    }

    pub(super) async fn got_all(&self, targets: Vec<Target>, explain: bool) -> Vec<Option<Got>> {
        let asked = targets.len();
        let answer = self.engine().get(&self.namespace, targets, explain).await;
        let got = answer.expect("get");
        assert_eq!(got.len(), asked, "one answer per target");
        got
    }

    /// The job of that id, which must be kept whole.
    pub(super) async fn get(&self, id: JobId) -> JobRecord {
        match self.got(id).await {
            Some(Got::Job(job, _)) => *job,
            other => panic!("job {id} is kept whole, got {other:?}"),
        }
    }

    /// The state of the job of that id, which must be known.
    pub(super) async fn state(&self, id: JobId) -> JobState {
        let got = self.got(id).await;
        got.unwrap_or_else(|| panic!("job {id} is known")).state()
    }

    /// Whether nothing is known of a job any more, not even a tombstone.
    pub(super) async fn is_unknown(&self, target: impl Into<Target>) -> bool {
        self.got(target).await.is_none()
    }

    /// The job that holds a unique key of [`QUEUE`].
    pub(super) async fn holder(&self, key: &str) -> Option<JobId> {
        let got = self.got(by_key(key)).await?;
        Some(got.job().expect("a holder is kept whole").id)
    }

    /// Every reason why a job stands where it stands.
    pub(super) async fn reasons(&self, id: JobId) -> Vec<Reason> {
        match self.got_all(vec![id.into()], true).await.remove(0) {
            Some(Got::Job(_, Some(explanation))) => explanation.reasons,
            other => panic!("job {id} is explained, got {other:?}"),
        }
    }

    pub(super) async fn list_as(&self, list: List) -> Result<Listing> {
        self.engine().list(&self.namespace, list).await
    }

    /// Every job that an index and a filter find, in steps of `limit`.
    pub(super) async fn list_by(&self, by: ListBy, filter: Filter, limit: usize) -> Vec<JobRecord> {
        let mut found = Vec::new();
        let mut cursor = None;
        loop {
            let list = List {
                by: by.clone(),
                filter: filter.clone(),
                cursor,
                limit,
                payloads: true,
            };
            let part = self.list_as(list).await.expect("list");
            assert!(part.examined <= limit, "{} examined", part.examined);
            assert!(part.jobs.len() <= part.examined, "found without a look");
            found.extend(part.jobs);
            cursor = part.cursor;
            if cursor.is_none() {
                return found;
            }
            assert!(part.examined > 0, "a list with a cursor goes on");
            assert!(found.len() <= 10_000, "a list goes on and on");
        }
    }

    /// The ids of the jobs of [`QUEUE`] in a state, in the order listed.
    pub(super) async fn listed(&self, state: JobState) -> Vec<JobId> {
        let by = ListBy::State {
            queue: QUEUE.into(),
            state,
        };
        let found = self.list_by(by, Filter::default(), 1_000).await;
        found.iter().map(|job| job.id).collect()
    }
}

/// Edit.
impl Case {
    pub(super) async fn edit_as(
        &self,
        select: Select,
        action: Action,
        dry_run: bool,
    ) -> Result<Edited> {
        let edit = Edit {
            select,
            action,
            dry_run,
        };
        self.engine().edit(&self.namespace, edit).await
    }

    pub(super) async fn edit_all(&self, targets: Vec<Target>, action: Action) -> Vec<EditVerdict> {
        let asked = targets.len();
        let answer = self.edit_as(Select::Targets(targets), action, false).await;
        let verdicts = answer.expect("edit").verdicts;
        assert_eq!(verdicts.len(), asked, "one verdict per target");
        verdicts.into_iter().map(|(_, verdict)| verdict).collect()
    }

    pub(super) async fn edit(&self, target: impl Into<Target>, action: Action) -> EditVerdict {
        self.edit_all(vec![target.into()], action).await.remove(0)
    }

    pub(super) async fn cancel(&self, target: impl Into<Target>) -> EditVerdict {
        self.edit(target, Action::Cancel).await
    }
}

/// Control, stats and wait.
impl Case {
    pub(super) async fn try_control(&self, control: Control) -> Result<Controlled> {
        self.engine().control(&self.namespace, control).await
    }

    pub(super) async fn control(&self, control: Control) -> Controlled {
        self.try_control(control).await.expect("control")
    }

    pub(super) async fn pause(&self) -> Controlled {
        let queue = QUEUE.into();
        self.control(Control::Pause { queue }).await
    }

    pub(super) async fn resume(&self) -> Controlled {
        let queue = QUEUE.into();
        self.control(Control::Resume { queue }).await
    }

    /// Writes the settings of [`QUEUE`]; answers the version.
    pub(super) async fn configure(&self, settings: QueueSettings, expected: u64) -> u64 {
        let write = Control::Write {
            name: format!("queue/{QUEUE}"),
            expected,
            value: Some(RecordValue::Queue(settings)),
        };
        match self.control(write).await {
            Controlled::Written(version) => version,
            other => panic!("settings are written, got {other:?}"),
        }
    }

    pub(super) async fn stats_of(&self, request: StatsRequest) -> Stats {
        let answer = self.engine().stats(&self.namespace, request).await;
        answer.expect("stats")
    }

    pub(super) async fn stats(&self) -> Stats {
        self.stats_of(StatsRequest::default()).await
    }

    /// The counts of [`QUEUE`].
    pub(super) async fn counts(&self) -> Counts {
        let stats = self.stats().await;
        let mut queues = stats.queues.iter();
        let found = queues.find(|stats| stats.queue == QUEUE);
        found.map(|stats| stats.counts).unwrap_or_default()
    }

    /// Waits for work of [`QUEUE`] in a task of its own, after it took every earlier wakeup.
    pub(super) async fn listens(&self) -> JoinHandle<Result<Waited>> {
        self.takes_every_wakeup().await;
        self.waits(WaitFor::Work(vec![QUEUE.into()]))
    }

    /// Takes the wakeups of [`QUEUE`] until none is left.
    pub(super) async fn takes_every_wakeup(&self) {
        self.takes_every_wakeup_of(QUEUE).await;
    }

    /// The same of another queue.
    pub(super) async fn takes_every_wakeup_of(&self, queue: &str) {
        let work = WaitFor::Work(vec![queue.into()]);
        let now = self.clock();
        for _ in 0..100 {
            let received = self.engine().wait(&self.namespace, work.clone(), now).await;
            if received.expect("wait") == Waited::TimedOut {
                return;
            }
        }
        panic!("wakeups go on without an enqueue");
    }

    /// Waits in a task of its own, at most an hour of engine time.
    pub(super) fn waits(&self, what: WaitFor) -> JoinHandle<Result<Waited>> {
        let (engine, namespace) = (self.engine(), self.namespace.clone());
        let until = self.clock() + hours(1);
        tokio::spawn(async move { engine.wait(&namespace, what, until).await })
    }

    pub(super) async fn wait(&self, what: WaitFor) -> Waited {
        at_once(self.waits(what)).await
    }

    /// The answer of a wait that must end while the clock goes on, a second at a time.
    pub(super) async fn wait_as_time_goes(&self, what: WaitFor) -> Waited {
        let mut wait = self.waits(what);
        for _ in 0..AT_ONCE.as_secs() * 10 {
            self.advance(seconds(1)).await;
            if let Some(ended) = within(millis(100), &mut wait).await {
                return ended.expect("the wait does not panic").expect("wait");
            }
        }
        panic!("the wait does not end, though the clock went on");
    }
}

/// The answer of a wait that must end without the clock being moved any more.
pub(super) async fn at_once(wait: JoinHandle<Result<Waited>>) -> Waited {
    let ended = within(AT_ONCE, wait).await.expect("the wait ends at once");
    ended.expect("the wait does not panic").expect("wait")
}
