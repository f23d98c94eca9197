//! What a call costs beside leases and queues of others: commands and what they read are counted,
//! never time.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use punctual::engine::{Action, Claim, Edit, Select, StatsRequest, Target, WorkerId};
use punctual::time::{hours, millis};
use punctual::{Engine, JobId, NewJob};
use punctual_redis::RedisEngine;
use punctual_redis::testing::TestServer;

use crate::client::{claim_as, connect, enqueue, here};

/// Commands that read as many entries as there are.
const READS: &[&str] = &[
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZRANGEBYLEX",
    "LRANGE",
    "HGETALL",
    "HKEYS",
];

/// What a server does for calls, by its MONITOR.
struct Watch {
    lines: BufReader<TcpStream>,
    asks: redis::Connection,
}

/// Commands within functions, and entries that the longest of them reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    commands: usize,
    longest: usize,
}

impl Cost {
    /// The less of both: maintenance may come in between.
    fn or_less(self, other: Self) -> Self {
        Self {
            commands: self.commands.min(other.commands),
            longest: self.longest.min(other.longest),
        }
    }
}

impl Watch {
    fn of(server: &TestServer) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
        (&stream).write_all(b"MONITOR\r\n").expect("it receives");
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).expect("it answers");
        let client = redis::Client::open(("127.0.0.1", server.port())).expect("an address");
        let asks = client.get_connection().expect("it listens");
        Self { lines, asks }
    }

    /// What is done for one thing.
    async fn cost<T>(&mut self, work: impl Future<Output = T>) -> (T, Cost) {
        self.until("begins");
        let done = work.await;
        let mut cost = Cost::default();
        for words in self.until("ends") {
            cost.commands += 1;
            if READS.contains(&words[0].as_str()) {
                let mut again = redis::cmd(&words[0]);
                again.arg(&words[1..]);
                let found: Vec<redis::Value> = again.query(&mut self.asks).expect("it answers");
                cost.longest = cost.longest.max(found.len());
            }
        }
        (done, cost)
    }

    /// The commands of functions before a word that this sends itself.
    fn until(&mut self, word: &str) -> Vec<Vec<String>> {
        let sent: String = redis::cmd("ECHO")
            .arg(word)
            .query(&mut self.asks)
            .expect("it answers");
        assert_eq!(sent, word);
        let mut commands = Vec::new();
        loop {
            let mut line = Vec::new();
            self.lines.read_until(b'\n', &mut line).expect("it reports");
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.contains(&format!("\"ECHO\" \"{word}\"")) {
                return commands;
            }
            if let Some((_, command)) = line.split_once(" lua] ") {
                let words = command.trim_end().trim_matches('"').split("\" \"");
                commands.push(words.map(str::to_owned).collect());
            }
        }
    }
}

/// Opens leases of one job each.
async fn lease(engine: &RedisEngine, queue: &str, count: usize) {
    for _ in 0..count {
        let job = NewJob::new(queue, "{}");
        engine.enqueue(&here(), vec![job]).await.expect("enqueue");
        let claim = Claim::new(WorkerId(7), queue, 1).lease_duration(hours(1));
        let claimed = claim_as(engine, claim).await.expect("claim");
        assert_eq!(claimed.len(), 1, "{queue}");
    }
}

async fn cancel(engine: &RedisEngine, id: JobId) {
    let edit = Edit::new(Select::Targets(vec![Target::Id(id)]), Action::Cancel);
    engine.edit(&here(), edit).await.expect("edit");
}

/// A claim of one job, one that finds nothing, and a cancel.
async fn costs(engine: &RedisEngine, watch: &mut Watch) -> [Cost; 3] {
    lease(engine, "mine", 2).await;
    enqueue_to(engine, "mine").await;
    let one = || Claim::new(WorkerId(7), "mine", 1).lease_duration(hours(1));
    let (claimed, claims) = watch.cost(claim_as(engine, one())).await;
    assert_eq!(claimed.expect("claim").len(), 1);
    let (claimed, short) = watch.cost(claim_as(engine, one())).await;
    assert_eq!(claimed.expect("claim").len(), 0);
    let id = enqueue_to(engine, "mine").await;
    let ((), cancels) = watch.cost(cancel(engine, id)).await;
    [claims, short, cancels]
}

/// The least of several times.
async fn least_costs(engine: &RedisEngine, watch: &mut Watch) -> [Cost; 3] {
    let mut least = costs(engine, watch).await;
    for _ in 0..4 {
        let again = costs(engine, watch).await;
        least = std::array::from_fn(|nth| least[nth].or_less(again[nth]));
    }
    least
}

async fn enqueue_to(engine: &RedisEngine, queue: &str) -> JobId {
    let job = NewJob::new(queue, "{}");
    let id = job.id;
    engine.enqueue(&here(), vec![job]).await.expect("enqueue");
    id
}

#[tokio::test]
async fn claims_and_cancels_read_no_lease_of_others() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    enqueue(&engine).await.expect("enqueue");
    let mut watch = Watch::of(&server);
    lease(&engine, "other", 1).await;
    let alone = least_costs(&engine, &mut watch).await;
    for queue in ["other", "another", "mine"] {
        lease(&engine, queue, 100).await;
    }
    let beside = least_costs(&engine, &mut watch).await;
    assert_eq!(alone, beside);
}

#[tokio::test]
async fn a_short_lease_makes_no_call_read_the_others() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    lease(&engine, "other", 100).await;
    let mut watch = Watch::of(&server);
    let id = enqueue_to(&engine, "short").await;
    let brief = Claim::new(WorkerId(8), "short", 1).lease_duration(millis(1));
    let claimed = claim_as(&engine, brief).await.expect("claim");
    assert_eq!(claimed.len(), 1);
    let mine = enqueue_to(&engine, "mine").await;
    let ((), cost) = watch.cost(cancel(&engine, mine)).await;
    assert!(cost.longest < 10, "{cost:?}");
    let found = Target::Id(id);
    engine.get(&here(), vec![found], false).await.expect("get");
}

#[tokio::test]
async fn stats_and_info_read_a_page_of_queues() {
    let server = TestServer::start();
    let engine = connect(&server.address()).await;
    let jobs: Vec<NewJob> = (0..250)
        .map(|nth| NewJob::new(format!("queue-{nth:03}"), "{}"))
        .collect();
    engine.enqueue(&here(), jobs).await.expect("enqueue");
    let mut watch = Watch::of(&server);
    let request = StatsRequest::default();
    let (stats, cost) = watch.cost(engine.stats(&here(), request)).await;
    let queues = stats.expect("stats").queues;
    let names: Vec<String> = queues.into_iter().map(|queue| queue.queue).collect();
    let expected: Vec<String> = (0..250).map(|nth| format!("queue-{nth:03}")).collect();
    assert_eq!(names, expected);
    assert!(cost.longest <= 101, "{cost:?}");
    let (info, cost) = watch.cost(engine.info()).await;
    info.expect("info");
    assert!(cost.commands < 40, "{cost:?}");
}
