//! Calls whose callers go while they are under way: what they are answered is dropped, and no
//! other call takes it for its own.

use punctual::engine::{
    Action, Claim, Edit, List, ListBy, Select, StatsRequest, Target, WaitFor, WorkerId,
};
use punctual::time::{minutes, seconds, within};
use punctual::{Engine, JobId, JobState, NewJob, Outcome};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{Claimed, claim_as, connect, enqueue, here, state};
use crate::cuts_together::notes_all;

/// A queue with a job that runs and two that wait, each with a payload of its own.
struct Scene<'a> {
    queue: &'a str,
    running: Claimed,
    waiting: [NewJob; 2],
}

impl<'a> Scene<'a> {
    async fn of(queue: &'a str, direct: &RedisEngine) -> Self {
        let jobs = ["1", "2", "3"].map(|payload| NewJob::new(queue, payload));
        let sent = direct.enqueue(&here(), vec![jobs[0].clone()]).await;
        sent.expect("enqueue");
        let wants = Claim::new(WorkerId::random(), queue, 1);
        let running = claim_as(direct, wants).await.expect("claim").remove(0);
        assert_eq!(running.jobs[0].id, jobs[0].id);
        let [_, first, second] = jobs;
        for job in [&first, &second] {
            let sent = direct.enqueue(&here(), vec![job.clone()]).await;
            sent.expect("enqueue");
        }
        Self {
            queue,
            running,
            waiting: [first, second],
        }
    }

    fn claim(&self) -> Claim {
        Claim::new(WorkerId::random(), self.queue, 1)
    }

    fn running(&self) -> JobId {
        self.running.jobs[0].id
    }

    /// The call of which its caller goes.
    async fn call(&self, engine: &RedisEngine) -> punctual::Result<()> {
        let (here, ids) = (here(), vec![Target::Id(self.running())]);
        match self.queue {
            "enqueue" => {
                let job = NewJob::new("elsewhere", "4");
                engine.enqueue(&here, vec![job]).await.map(drop)
            }
            "claim" => engine.claim(&here, self.claim()).await.map(drop),
            "extend" => {
                let extends = vec![self.running.extension()];
                engine.extend(&here, extends).await.map(drop)
            }
            "settle" => {
                let ends = self.running.ends(Outcome::Completed);
                engine.settle(&here, ends).await.map(drop)
            }
            "edit" => {
                let edit = Edit::new(
                    Select::Targets(vec![Target::Id(self.waiting[1].id)]),
                    Action::Cancel,
                );
                engine.edit(&here, edit).await.map(drop)
            }
            "get" => engine.get(&here, ids, true).await.map(drop),
            "list" => {
                let list = List::new(ListBy::State {
                    queue: self.queue.into(),
                    state: JobState::Ready,
                })
                .limit(10)
                .payloads(true);
                engine.list(&here, list).await.map(drop)
            }
            "stats" => engine.stats(&here, StatsRequest::default()).await.map(drop),
            wait => {
                let what = match wait {
                    "watch" => WaitFor::Settled(vec![self.running()]),
                    _ => WaitFor::Changes(None),
                };
                let until = punctual::time::Timestamp::ZERO;
                let until = until + minutes(60 * 24 * 365 * 100);
                engine.wait(&here, what, until).await.map(drop)
            }
        }
    }
}

/// How often a server that notes all of them has run a function.
pub(crate) fn times(server: &TestServer, function: &str) -> usize {
    let sent = server.cli(&["SLOWLOG", "GET", "-1"]);
    let name = format!("punctual_1_{function}");
    sent.lines().filter(|line| line.contains(&name)).count()
}

#[tokio::test]
async fn the_answer_of_a_dropped_call_goes_to_no_other_call() {
    let mut server = TestServer::start();
    let engine = connect(&server.address()).await;
    let direct = connect(&server.address()).await;
    notes_all(&server);
    // It has met its shard.
    enqueue(&engine).await.expect("enqueue");
    for verb in [
        "enqueue", "claim", "extend", "settle", "edit", "get", "list", "stats", "watch", "changes",
    ] {
        let scene = Scene::of(verb, &direct).await;
        server.cli(&["SLOWLOG", "RESET"]);
        server.stop();
        let dropped = within(seconds(1), scene.call(&engine)).await;
        assert!(dropped.is_none(), "{verb}: no server answers");
        // The next ones, on the same connection.
        let (here, another) = (here(), NewJob::new("another", "5"));
        let get = |id| engine.get(&here, vec![Target::Id(id)], false);
        let (known, unknown, sent, claimed, ()) = tokio::join!(
            get(scene.waiting[0].id),
            get(JobId::new()),
            engine.enqueue(&here, vec![another.clone()]),
            engine.claim(&here, scene.claim()),
            async { server.go_on() },
        );
        let known = known.expect("get").remove(0).expect("it waits");
        let payload = known.job().expect("not only a tombstone").payload.clone();
        assert_eq!(payload, scene.waiting[0].payload, "{verb}");
        assert!(unknown.expect("get")[0].is_none(), "{verb}");
        let sent = sent.expect("enqueue").receipts.remove(0);
        assert_eq!(sent.id, another.id, "{verb}");
        // A claim whose caller has gone holds the first.
        let next = &scene.waiting[usize::from(verb == "claim")];
        let mut claimed = claimed.expect("claim").leases.remove(0);
        let job = claimed.jobs.remove(0);
        assert_eq!((job.id, &job.payload), (next.id, &next.payload), "{verb}");
        // It was under way: the server has done it, beside those after it.
        let others = match verb {
            "get" => 2,
            "enqueue" | "claim" => 1,
            _ => 0,
        };
        assert!(times(&server, verb) > others, "{verb} was not sent");
        let is = match verb {
            "settle" => JobState::Completed,
            _ => JobState::Active,
        };
        assert_eq!(state(&engine, scene.running()).await, Some(is), "{verb}");
    }
}
